package bundle

import (
	"fmt"
	"slices"
	"strings"

	"github.com/containerd/platforms"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// A PlatformError reports an image that does not offer what is to be carried.
type PlatformError struct {
	Reference string
	Wanted    []string // what is wanted and not there
	Offered   []string
}

func (e *PlatformError) Error() string {
	offered := "offers none"
	if len(e.Offered) > 0 {
		offered = "offers " + strings.Join(e.Offered, ", ")
	}
	return fmt.Sprintf("image %s: wanted %s, it %s", e.Reference, strings.Join(e.Wanted, ", "), offered)
}

// platformName is a platform in its shortest form: linux/arm64/v8 is linux/arm64.
func platformName(p ocispec.Platform) string {
	n := platforms.Normalize(p)
	name := n.OS + "/" + n.Architecture
	if n.Variant != "" {
		name += "/" + n.Variant
	}
	return name
}

// platformNamed is platformName of a platform as people write it.
func platformNamed(text string) (string, error) {
	p, err := platforms.Parse(text)
	if err != nil {
		return "", fmt.Errorf("platform %q: %w", text, err)
	}
	return platformName(p), nil
}

// isPlatform is whether an entry of an index is for a platform: attestations
// call theirs unknown/unknown.
func isPlatform(p *ocispec.Platform) bool {
	return p != nil && p.OS != "" && p.Architecture != "" && p.OS != "unknown" && p.Architecture != "unknown"
}

// lacking are the wanted platforms that are not offered.
func lacking(wanted, offered []string) []string {
	return slices.DeleteFunc(slices.Clone(wanted), func(p string) bool { return slices.Contains(offered, p) })
}
