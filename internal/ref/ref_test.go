package ref_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"waybill/internal/ref"
)

const someDigest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

func ExampleParse() {
	r, err := ref.Parse("registry.example:5000/team/shop:1.0.0")
	fmt.Println(r.Host, r.Repository, r.Tag, err)
	// Output: registry.example:5000 team/shop 1.0.0 <nil>
}

func TestParse(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want ref.Reference
	}{
		{"registry.example/shop", ref.Reference{Host: "registry.example", Repository: "shop"}},
		{"localhost:5000/a/b:v1", ref.Reference{Host: "localhost:5000", Repository: "a/b", Tag: "v1"}},
		{"[::1]:5000/a:v1", ref.Reference{Host: "[::1]:5000", Repository: "a", Tag: "v1"}},
		{"host/a@" + someDigest, ref.Reference{Host: "host", Repository: "a", Digest: someDigest}},
		{"host/a:1@" + someDigest, ref.Reference{Host: "host", Repository: "a", Tag: "1", Digest: someDigest}},
		{"host/a__b/c--d", ref.Reference{Host: "host", Repository: "a__b/c--d"}},
	} {
		got, err := ref.Parse(tc.in)
		if err != nil {
			t.Errorf("%s: %v", tc.in, err)
			continue
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: %s", tc.in, diff)
		}
		if got.String() != tc.in {
			t.Errorf("%s is printed as %s", tc.in, got)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for name, in := range map[string]string{
		"empty":           "",
		"no path":         "host",
		"empty path":      "host/",
		"empty host":      "/shop",
		"upper case":      "host/Shop",
		"empty tag":       "host/shop:",
		"plus in tag":     "host/shop:1+2",
		"short digest":    "host/shop@sha256:abc",
		"unknown digest":  "host/shop@md5:d41d8cd98f00b204e9800998ecf8427e",
		"space":           "host/shop :1",
		"user":            "me@host/shop",
		"dot dot":         "host/../shop",
		"double slash":    "host//shop",
		"trailing slash":  "host/shop/",
		"scheme":          "oci://host/shop",
		"long tag":        "host/shop:" + strings.Repeat("a", 129),
		"long repository": "host/" + strings.Repeat("a", 260),
	} {
		if r, err := ref.Parse(in); err == nil {
			t.Errorf("%s: %q was read as %+v", name, in, r)
		}
	}
}

func TestTag(t *testing.T) {
	for in, want := range map[string]string{
		"1.0.0":            "1.0.0",
		"1.0.0-rc.1+build": "1.0.0-rc.1_build",
	} {
		if got, err := ref.Tag(in); err != nil || got != want {
			t.Errorf("Tag(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
	for _, in := range []string{"", "1.0 0", "1.0/0", "-1", strings.Repeat("1", 129)} {
		if got, err := ref.Tag(in); err == nil {
			t.Errorf("Tag(%q) = %q, want an error", in, got)
		}
	}
}

func TestNormalize(t *testing.T) {
	for in, want := range map[string]string{
		"nginx":                            "docker.io/library/nginx:latest",
		"nginx:1.27":                       "docker.io/library/nginx:1.27",
		"grafana/grafana:11":               "docker.io/grafana/grafana:11",
		"index.docker.io/library/nginx":    "docker.io/library/nginx:latest",
		"quay.io/a/b":                      "quay.io/a/b:latest",
		"localhost/a":                      "localhost/a:latest",
		"registry:5000/a":                  "registry:5000/a:latest",
		"nginx@" + someDigest:              "docker.io/library/nginx@" + someDigest,
		"quay.io/a/b:1@" + someDigest:      "quay.io/a/b:1@" + someDigest,
		"docker.io/library/nginx:latest":   "docker.io/library/nginx:latest",
		"public.ecr.aws/x/y:v1.2.3-alpine": "public.ecr.aws/x/y:v1.2.3-alpine",
	} {
		if got, err := ref.Normalize(in); err != nil || got != want {
			t.Errorf("Normalize(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
	for _, in := range []string{"", "Nginx", "nginx:", "a b", "https://quay.io/a", "nginx@sha256:abc"} {
		if got, err := ref.Normalize(in); err == nil {
			t.Errorf("Normalize(%q) = %q, want an error", in, got)
		}
	}
}

// What is parsed prints as what was read.
func FuzzParse(f *testing.F) {
	f.Add("registry.example:5000/team/shop:1.0.0@" + someDigest)
	f.Add("[::1]:5000/a")
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ref.Parse(s)
		if err != nil {
			return
		}
		if r.String() != s {
			t.Fatalf("%q is printed as %q", s, r)
		}
	})
}

// Normalizing twice is normalizing once.
func FuzzNormalize(f *testing.F) {
	f.Add("nginx")
	f.Add("docker.io/library/nginx:1@" + someDigest)
	f.Add("index.docker.io/nginx")
	f.Fuzz(func(t *testing.T, s string) {
		once, err := ref.Normalize(s)
		if err != nil {
			return
		}
		twice, err := ref.Normalize(once)
		if err != nil || twice != once {
			t.Fatalf("%q becomes %q and then %q, %v", s, once, twice, err)
		}
	})
}
