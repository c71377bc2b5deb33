package bundle

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"waybill/internal/ref"
)

// expandable is a bundle of these images and charts; only what Expand looks at is
// in it.
func expandable(images []LockedImage, charts ...Component) *Bundle {
	b := &Bundle{Release: &Release{Name: "shop", Components: charts}, Lock: &Lock{Release: LockedRelease{Name: "shop", Version: "1.0.0"}, Images: images}}
	for _, image := range images {
		b.Index.Manifests = append(b.Index.Manifests, ocispec.Descriptor{
			MediaType: ocispec.MediaTypeImageManifest, Digest: image.Digest, Size: 7, Annotations: map[string]string{AnnotationRole: RoleImage},
		})
	}
	for _, c := range charts {
		manifest := digest.FromString("chart " + c.Chart.Name + c.Chart.Path)
		source := c.Chart.Path
		if c.Chart.Repository != "" {
			source = c.Chart.Repository + "/" + c.Chart.Name
		}
		b.Lock.Charts = append(b.Lock.Charts, LockedChart{Component: c.Name, Name: c.Chart.Name, Version: "1.2.3+b.4", Source: source, Manifest: manifest})
		b.Index.Manifests = append(b.Index.Manifests, ocispec.Descriptor{
			MediaType: ocispec.MediaTypeImageManifest, Digest: manifest, Size: 9,
			Annotations: map[string]string{AnnotationRole: RoleChart, AnnotationComponent: c.Name},
		})
	}
	return b
}

func expandedNames(t *testing.T, b *Bundle, prefix string) []string {
	t.Helper()
	all, err := b.Expand(prefix)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range all {
		if e.Reference.Digest != e.Descriptor.Digest || e.Descriptor.Annotations != nil {
			t.Errorf("%s is for %v", e.Reference, e.Descriptor)
		}
		name := e.Reference
		name.Digest = ""
		line := name.String()
		if e.Wanted != "" {
			line += " wanted " + e.Wanted
		}
		names = append(names, line)
	}
	return names
}

func TestExpandImages(t *testing.T) {
	a, b := digest.FromString("a"), digest.FromString("b")
	anchorA, anchorB := "waybill-"+a.Encoded()[:16], "waybill-"+b.Encoded()[:16]
	for name, tc := range map[string]struct {
		images []LockedImage
		want   []string
	}{
		"each by all its references": {
			[]LockedImage{{Digest: a, References: []string{"docker.io/library/nginx:1.27", "docker.io/library/nginx:latest"}}, {Digest: b, References: []string{"quay.io:5000/shop/db:2"}}},
			[]string{"m.example/x/docker.io/library/nginx:1.27", "m.example/x/docker.io/library/nginx:latest", "m.example/x/quay.io_5000/shop/db:2"},
		},
		"one name of two registries": {
			[]LockedImage{{Digest: a, References: []string{"reg-a.example/team/app:1"}}, {Digest: b, References: []string{"reg-b.example/team/app:1"}}},
			[]string{"m.example/x/reg-a.example/team/app:1", "m.example/x/reg-b.example/team/app:1"},
		},
		"by tag, and by tag and digest": {
			[]LockedImage{{Digest: a, References: []string{"docker.io/library/nginx:1.27", "docker.io/library/nginx:1.27@" + a.String()}}},
			[]string{"m.example/x/docker.io/library/nginx:1.27"},
		},
		"the tag has moved from the digest that a chart pins": {
			[]LockedImage{{Digest: a, References: []string{"docker.io/library/nginx:1.27"}}, {Digest: b, References: []string{"docker.io/library/nginx:1.27@" + b.String()}}},
			[]string{"m.example/x/docker.io/library/nginx:1.27", "m.example/x/docker.io/library/nginx:" + anchorB + " wanted 1.27"},
		},
		"two digests are pinned under one tag": {
			[]LockedImage{{Digest: a, References: []string{"docker.io/library/nginx:1.27@" + a.String()}}, {Digest: b, References: []string{"docker.io/library/nginx:1.27@" + b.String()}}},
			sortedStrings("m.example/x/docker.io/library/nginx:"+anchorA+" wanted 1.27", "m.example/x/docker.io/library/nginx:"+anchorB+" wanted 1.27"),
		},
		"the platforms of a flat bundle": {
			[]LockedImage{{Digest: a, Platforms: []string{"linux/amd64"}, References: []string{"docker.io/library/nginx:1.27"}}, {Digest: b, Platforms: []string{"linux/arm64"}, References: []string{"docker.io/library/nginx:1.27"}}},
			sortedStrings("m.example/x/docker.io/library/nginx:"+anchorA+" wanted 1.27", "m.example/x/docker.io/library/nginx:"+anchorB+" wanted 1.27"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, prefix := range []string{"m.example/x", "m.example/x/"} {
				if diff := cmp.Diff(tc.want, expandedNames(t, expandable(tc.images), prefix)); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

func sortedStrings(all ...string) []string {
	slices.Sort(all)
	return all
}

func TestExpandCharts(t *testing.T) {
	for name, tc := range map[string]struct {
		source ChartSource
		want   string
	}{
		"of a registry":             {ChartSource{Repository: "oci://ghcr.io/stefanprodan/charts", Name: "podinfo"}, "m.example/ghcr.io/stefanprodan/charts/podinfo:1.2.3_b.4"},
		"of a registry with a port": {ChartSource{Repository: "oci://localhost:5000", Name: "podinfo"}, "m.example/localhost_5000/podinfo:1.2.3_b.4"},
		"of a chart repository":     {ChartSource{Repository: "https://charts.jetstack.io", Name: "cert-manager"}, "m.example/charts.jetstack.io/cert-manager:1.2.3_b.4"},
		"below a path":              {ChartSource{Repository: "https://raw.example:8443/Azure/~me/charts%20x/", Name: "Web_.App"}, "m.example/raw.example_8443/azure/me/charts-x/web-app:1.2.3_b.4"},
		"of a folder":               {ChartSource{Path: "charts/web", Name: "web"}, "m.example/shop/front:1.2.3_b.4"},
		"of git over https":         {ChartSource{Git: "https://git.example/shop.git", Path: "charts/web", Name: "web"}, "m.example/shop/front:1.2.3_b.4"},
	} {
		t.Run(name, func(t *testing.T) {
			got := expandedNames(t, expandable(nil, Component{Name: "front", Chart: tc.source}), "m.example")
			if diff := cmp.Diff([]string{tc.want}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// All that stands in the way is said at once.
func TestExpandNamesAllProblems(t *testing.T) {
	a, b := digest.FromString("a"), digest.FromString("b")
	long := "quay.io/" + strings.Repeat("x", 250) + ":1"
	bundle := expandable([]LockedImage{
		{Digest: a, References: []string{"charts.example/web:1.2.3_b.4", "Reg.example/app:1", long}},
		{Digest: b, References: []string{"reg.example/app:1", "[2001:db8::1]:5000/y:1"}},
	}, Component{Name: "web", Chart: ChartSource{Repository: "https://charts.example", Name: "web"}})
	_, err := bundle.Expand("m.example/team")
	var failed *ExpandError
	if !errors.As(err, &failed) || len(failed.Problems) != 4 {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{
		"m.example/team/charts.example/web:1.2.3_b.4 would be the name of 2 things: chart charts.example/web:1.2.3_b.4 (" + digest.FromString("chart web").String() + "), image charts.example/web:1.2.3_b.4 (" + a.String() + ")",
		"m.example/team/reg.example/app:1 would be the name of 2 things: image Reg.example/app:1 (" + a.String() + "), image reg.example/app:1 (" + b.String() + ")",
		"longer than 255", "[2001:db8::1]:5000",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v\ndoes not say %q", err, want)
		}
	}
}

// Whatever a chart repository's address is, its charts have a name that
// registries take, or none; making it fit twice changes nothing.
func FuzzRepositoryPath(f *testing.F) {
	f.Add("/stable//Web_.App/")
	f.Add("/~me/charts x/..")
	f.Fuzz(func(t *testing.T, path string) {
		got := repositoryPath(path)
		if again := repositoryPath(got); again != got {
			t.Errorf("%q becomes %q, and that %q", path, got, again)
		}
		if got == "" {
			return
		}
		if err := ref.CheckRepository(strings.TrimPrefix(got, "/")); err != nil && len(got) < 255 {
			t.Error(err)
		}
	})
}
