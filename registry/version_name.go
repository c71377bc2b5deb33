package registry

import (
	"strings"

	"github.com/Masterminds/semver/v3"
)

// A versionName is a tag VERSION, or a name NAME-VERSION as archives and folders
// have it.
type versionName struct {
	name    string          // empty for a tag that is a version
	version *semver.Version // nil for what has none
}

// parseVersionName takes the longest version that the tag ends in.
func parseVersionName(tag string) versionName {
	rest := strings.TrimPrefix(tag, "v")
	for {
		if v, err := semver.StrictNewVersion(strings.ReplaceAll(rest, "_", "+")); err == nil {
			return versionName{name: strings.TrimSuffix(strings.TrimSuffix(tag, rest), "v"), version: v}
		}
		_, after, more := strings.Cut(rest, "-")
		if !more {
			return versionName{}
		}
		rest = after
	}
}

// compare orders by name, the newest version first; what has no version is last.
func (v versionName) compare(other versionName) int {
	switch {
	case v.version == nil && other.version == nil:
		return 0
	case v.version == nil:
		return 1
	case other.version == nil:
		return -1
	case v.name != other.name:
		return strings.Compare(v.name, other.name)
	}
	return other.version.Compare(v.version)
}
