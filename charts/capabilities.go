package charts

import (
	"fmt"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	"helm.sh/helm/v3/pkg/chartutil"
)

// newestMinor and oldestMinor bound the Kubernetes versions (1.x) that are
// known here: the newest is that of the client libraries, the oldest is the
// oldest a bundle may be installed on.
const (
	newestMinor = 37
	oldestMinor = 28
)

// NewestKubeVersion is the newest Kubernetes version known, and the one used
// when none is given. Helm's own default when used as a library is 1.20.
func NewestKubeVersion() string { return kubeVersion(newestMinor) }

// OldestKubeVersion is the oldest Kubernetes version a bundle may be installed on.
func OldestKubeVersion() string { return kubeVersion(oldestMinor) }

func kubeVersion(minor int) string { return fmt.Sprintf("1.%d.0", minor) }

// AllowsKube is whether a range of Kubernetes versions (">=1.28 <1.33")
// allows a version. What follows the patch number in the version is left out
// of the comparison, since clouds put their own marks there
// ("v1.31.4-eks-1234"). An empty range allows all.
func AllowsKube(kubeRange, version string) (bool, error) {
	v, err := plainVersion(version)
	if err != nil {
		return false, err
	}
	if strings.TrimSpace(kubeRange) == "" {
		return true, nil
	}
	constraint, err := semver.NewConstraint(kubeRange)
	if err != nil {
		return false, fmt.Errorf("range of Kubernetes versions %q: %w", kubeRange, err)
	}
	return constraint.Check(v), nil
}

func plainVersion(version string) (*semver.Version, error) {
	v, err := semver.NewVersion(strings.TrimPrefix(version, "v"))
	if err != nil {
		return nil, fmt.Errorf("Kubernetes version %q: %w", version, err) //nolint:staticcheck // a proper name
	}
	return semver.New(v.Major(), v.Minor(), v.Patch(), "", ""), nil
}

// RenderVersions are the Kubernetes versions to render a release for when it
// names none: the lowest minor its range allows and the newest known that it
// allows. Without a range the lowest is [OldestKubeVersion].
func RenderVersions(kubeRange string) ([]string, error) {
	lowest, newest := "", ""
	first := 0
	if strings.TrimSpace(kubeRange) == "" {
		first = oldestMinor
	}
	for minor := first; minor <= newestMinor; minor++ {
		version, err := allowedPatch(kubeRange, minor)
		if err != nil {
			return nil, err
		}
		if version == "" {
			continue
		}
		if lowest == "" {
			lowest = version
		}
		newest = version
	}
	switch {
	case lowest == "":
		return nil, fmt.Errorf("range of Kubernetes versions %q allows none up to %s, the newest known", kubeRange, NewestKubeVersion())
	case lowest == newest:
		return []string{lowest}, nil
	}
	return []string{lowest, newest}, nil
}

// allowedPatch is the lowest patch version of a minor that the range allows.
func allowedPatch(kubeRange string, minor int) (string, error) {
	const highestPatch = 40
	for patch := range highestPatch {
		version := fmt.Sprintf("1.%d.%d", minor, patch)
		ok, err := AllowsKube(kubeRange, version)
		if err != nil {
			return "", err
		}
		if ok {
			return version, nil
		}
	}
	return "", nil
}

// capabilities are what templates see as .Capabilities. They are always given,
// never Helm's defaults, and shared with nobody.
func (o RenderOptions) capabilities() (*chartutil.Capabilities, error) {
	version := o.KubeVersion
	if version == "" {
		version = NewestKubeVersion()
	}
	parsed, err := chartutil.ParseKubeVersion(version)
	if err != nil {
		return nil, fmt.Errorf("Kubernetes version %q: %w", version, err) //nolint:staticcheck // a proper name
	}
	if strings.HasPrefix(version, "v") {
		parsed.Version = version // with the marks of the cluster's maker, as Helm has it there
	}
	caps := chartutil.DefaultCapabilities.Copy()
	caps.KubeVersion = *parsed
	var known chartutil.VersionSet
	if !o.OnlyAPIVersions {
		known = caps.APIVersions
	}
	caps.APIVersions = slices.Concat(known, o.APIVersions)
	return caps, nil
}
