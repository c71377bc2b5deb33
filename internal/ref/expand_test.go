package ref

import (
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
)

func TestExpand(t *testing.T) {
	d := digest.FromString("image")
	other := digest.FromString("upstream's index")
	anchor := "waybill-" + d.Encoded()[:16]
	for name, tc := range map[string]struct{ prefix, reference, want string }{
		"a tag":                     {"site.example/m", "docker.io/library/nginx:1.27", "site.example/m/docker.io/library/nginx:1.27"},
		"a port":                    {"site.example:5000/m", "quay.io:5000/shop/db:2", "site.example:5000/m/quay.io_5000/shop/db:2"},
		"a host alone as prefix":    {"site.example", "quay.io/a/b:1", "site.example/quay.io/a/b:1"},
		"a slash at its end":        {"site.example/m/", "quay.io/a/b:1", "site.example/m/quay.io/a/b:1"},
		"a digest alone":            {"site.example/m", "quay.io/a/b@" + d.String(), "site.example/m/quay.io/a/b:" + anchor},
		"a digest of something":     {"site.example/m", "quay.io/a/b@" + other.String(), "site.example/m/quay.io/a/b:" + anchor},
		"tag and digest":            {"site.example/m", "quay.io/a/b:1@" + other.String(), "site.example/m/quay.io/a/b:1"},
		"a host with capitals":      {"site.example/m", "Quay.Example/a/b:1", "site.example/m/quay.example/a/b:1"},
		"one registry of two":       {"site.example/m", "reg-a.example/team/app:1", "site.example/m/reg-a.example/team/app:1"},
		"the other registry":        {"site.example/m", "reg-b.example/team/app:1", "site.example/m/reg-b.example/team/app:1"},
		"a host of one word":        {"site.example/m", "localhost/a:1", "site.example/m/localhost/a:1"},
		"dashes within a host name": {"site.example/m", "a--b.example/x:1", "site.example/m/a--b.example/x:1"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Expand(tc.prefix, tc.reference, d)
			if err != nil {
				t.Fatal(err)
			}
			if want := tc.want + "@" + d.String(); got.String() != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
	for name, tc := range map[string]struct{ prefix, reference, says string }{
		"no prefix":             {"", "quay.io/a:1", "HOST/PATH"},
		"slashes alone":         {"//", "quay.io/a:1", "HOST/PATH"},
		"a scheme":              {"oci://site.example/m", "quay.io/a:1", "without oci://"},
		"a prefix with a tag":   {"site.example/m:1", "quay.io/a:1", "HOST/PATH"},
		"capitals in the path":  {"site.example/M", "quay.io/a:1", "HOST/PATH"},
		"nothing between":       {"site.example//m", "quay.io/a:1", "HOST/PATH"},
		"an IPv6 address":       {"site.example/m", "[2001:db8::1]:5000/a:1", "its host [2001:db8::1]:5000"},
		"longer than names are": {"site.example/" + strings.Repeat("m", 200), "quay.io/" + strings.Repeat("a", 60) + ":1", "longer than 255"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := Expand(tc.prefix, tc.reference, d); err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %s, %v; want an error with %q", got, err, tc.says)
			}
		})
	}
}

// What is expanded is a name that registries take, the same each time, and with
// a slash at the prefix's end; another reference has another name.
func FuzzExpand(f *testing.F) {
	f.Add("site.example/m", "nginx", "quay.io:5000/shop/db:2")
	f.Add("localhost:5000", "docker.io/library/nginx:latest", "nginx@"+digest.FromString("x").String())
	f.Add("a.b/c/d", "Reg.Example/a__b/c:1", "reg.example/a__b/c:1")
	f.Fuzz(func(t *testing.T, prefix, image, second string) {
		d := digest.FromString("image")
		a, err := Normalize(image)
		if err != nil {
			return
		}
		got, err := Expand(prefix, a, d)
		if err != nil {
			return
		}
		again, err := Parse(got.String())
		if err != nil || again != got {
			t.Fatalf("%s is read as %s, %v", got, again, err)
		}
		if err := CheckRepository(got.Repository); err != nil {
			t.Fatal(err)
		}
		if slash, err := Expand(prefix+"/", a, d); err != nil || slash != got {
			t.Fatalf("with a slash it is %s, %v, without %s", slash, err, got)
		}
		b, err := Normalize(second)
		if err != nil {
			return
		}
		theirs, err := Expand(prefix, b, d)
		if err == nil && theirs == got && nameAndTag(t, a) != nameAndTag(t, b) {
			t.Fatalf("%s and %s are both %s", a, b, got)
		}
	})
}

// nameAndTag is what tells references apart, digests aside.
func nameAndTag(t *testing.T, s string) string {
	t.Helper()
	r, err := Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	tag := r.Tag
	if strings.HasPrefix(tag, "waybill-") { // it may be somebody's anchor
		tag = ""
	}
	return strings.ToLower(r.Host) + "/" + r.Repository + ":" + tag
}
