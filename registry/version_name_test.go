package registry

import (
	"cmp"
	"slices"
	"strings"
	"testing"
)

// Versions are in order whether a name stands before them or not.
func TestNewestFirst(t *testing.T) {
	for name, want := range map[string][]string{
		"tags":                  {"v10.0.0", "1.10.0", "1.9.0", "1.9.0-rc.2", "1.9.0-rc.1", "latest"},
		"names in an archive":   {"shop-1.10.0", "shop-1.9.0", "shop-1.9.0-rc.1"},
		"several releases":      {"db-1.0.0", "shop-2.0.0", "shop-1.0.0", "notes"},
		"a name with a number":  {"k8s-2-1.1.0", "k8s-2-1.0.0"},
		"versions before names": {"0.1.0", "shop-9.0.0"},
		"what builds are":       {"shop-1.1.0_b2", "shop-1.0.0_b1"},
	} {
		got := slices.Clone(want)
		slices.Reverse(got)
		slices.SortFunc(got, func(a, b string) int {
			return cmp.Or(parseVersionName(a).compare(parseVersionName(b)), strings.Compare(a, b))
		})
		if !slices.Equal(got, want) {
			t.Errorf("%s: order is %v, want %v", name, got, want)
		}
	}
}
