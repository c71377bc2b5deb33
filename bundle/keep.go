package bundle

import (
	"strings"

	"github.com/Masterminds/semver/v3"
)

// Kept returns the lock's entry of a component when it may stay: the source is
// still the one that was locked, and the locked version is still allowed. Nil for
// none, and of a nil lock.
func (l *Lock) Kept(c Component) *LockedChart {
	if l == nil {
		return nil
	}
	if locked, ok := l.Chart(c.Name); ok && locked.keeps(c) {
		return &locked
	}
	return nil
}

// keeps says whether what is locked may stay. Of a folder, a file or
// manifests nothing but the dependencies can stay; their own content is what is
// there.
func (l LockedChart) keeps(c Component) bool {
	switch c.Chart.Kind() {
	case SourceRepository:
		return l.Source == c.Chart.String() && allowsVersion(c.Chart.Version, l.Version)
	case SourceGit:
		return strings.HasPrefix(l.Source, c.Chart.String()+"#") // and the commit
	}
	return l.Source == c.Chart.String()
}

// allowsVersion says whether an exact version or a range, as written in a
// release file, is met by a chart's version. What follows a + counts only when
// it is asked for, since two builds of a version are neither newer.
func allowsVersion(wanted, version string) bool {
	wanted, version = withPlus(wanted), withPlus(version)
	if wanted == version {
		return true
	}
	v, err := semver.NewVersion(version)
	if err != nil {
		return false
	}
	if exact, err := semver.StrictNewVersion(strings.TrimPrefix(wanted, "v")); err == nil {
		return exact.Equal(v) && (exact.Metadata() == "" || exact.Metadata() == v.Metadata())
	}
	constraint, err := semver.NewConstraint(wanted)
	return err == nil && constraint.Check(v)
}

// withPlus is a version as Chart.yaml has it, also from the spelling of tags,
// which know no plus sign (Helm, "OCI-based registries").
func withPlus(version string) string {
	if strings.Contains(version, "+") {
		return version
	}
	return strings.ReplaceAll(version, "_", "+")
}
