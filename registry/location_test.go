package registry

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"waybill/internal/ref"
)

const someDigest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// inFolder runs a test in a folder with a folder "shop", a file "saved" and a
// file "odd#name".
func inFolder(t testing.TB) {
	t.Helper()
	switch t := t.(type) {
	case *testing.T:
		t.Chdir(t.TempDir())
	case *testing.F:
		t.Chdir(t.TempDir())
	}
	for _, name := range []string{"shop", "odd#folder"} {
		if err := os.Mkdir(name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"saved", "odd#name", "real.tgz"} {
		if err := os.WriteFile(name, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestParseLocation(t *testing.T) {
	inFolder(t)
	shop := ref.Reference{Host: "registry.example", Repository: "team/shop"}
	tagged := shop
	tagged.Tag = "1.0.0"
	for _, tc := range []struct {
		in    string
		want  Location
		print string // when it differs from in
	}{
		{in: "oci://registry.example/team/shop", want: Location{Ref: shop}},
		{in: "oci://registry.example/team/shop:1.0.0", want: Location{Ref: tagged}},
		{in: "oci://registry.example/team/shop:1.0.0@" + someDigest, want: Location{Ref: tagged, Digest: someDigest}},
		{in: "oci://localhost:5000/a", want: Location{Ref: ref.Reference{Host: "localhost:5000", Repository: "a"}}},
		{in: "./new", want: Location{Kind: Layout, Path: "./new"}},
		{in: "/srv/new", want: Location{Kind: Layout, Path: "/srv/new"}},
		{in: "../new.tar", want: Location{Kind: Archive, Path: "../new.tar"}},
		{in: "new.tar", want: Location{Kind: Archive, Path: "new.tar"}},
		{in: "a:b.tar", want: Location{Kind: Archive, Path: "a:b.tar"}},
		{in: "new.tar.001", want: Location{Kind: Archive, Path: "new.tar.001"}},
		{in: `C:\new`, want: Location{Kind: Layout, Path: `C:\new`}},
		{in: `D:/new.tar`, want: Location{Kind: Archive, Path: `D:/new.tar`}},
		{in: `\\server\share\new.tar`, want: Location{Kind: Archive, Path: `\\server\share\new.tar`}},
		{in: "shop", want: Location{Kind: Layout, Path: "shop"}, print: "oci-layout:shop"},
		{in: "saved", want: Location{Kind: Archive, Path: "saved"}, print: "oci-archive:saved"},
		{in: "./saved", want: Location{Kind: Archive, Path: "./saved"}, print: "oci-archive:./saved"},
		{in: "real.tgz", want: Location{Kind: Archive, Path: "real.tgz"}, print: "oci-archive:real.tgz"},
		{in: "odd#name", want: Location{Kind: Archive, Path: "odd#name"}, print: "oci-archive:odd#name"},
		{in: "odd#name#shop-1", want: Location{Kind: Archive, Path: "odd#name", Name: "shop-1"}, print: "oci-archive:odd#name#shop-1"},
		{in: "./odd#folder/new.tar", want: Location{Kind: Archive, Path: "./odd#folder/new.tar"}},
		{in: "./odd#folder/new#a", want: Location{Kind: Layout, Path: "./odd#folder/new", Name: "a"}},
		{in: "./new#quay.io/a:1", want: Location{Kind: Layout, Path: "./new", Name: "quay.io/a:1"}},
		{in: "./shop#shop-1.0.0", want: Location{Kind: Layout, Path: "./shop", Name: "shop-1.0.0"}},
		{in: "new.tar#shop-1.0.0", want: Location{Kind: Archive, Path: "new.tar", Name: "shop-1.0.0"}},
		{in: "new.tar@" + someDigest, want: Location{Kind: Archive, Path: "new.tar", Digest: someDigest}},
		{in: "new.tar#a@" + someDigest, want: Location{Kind: Archive, Path: "new.tar", Name: "a", Digest: someDigest}},
		{in: "oci-layout:new", want: Location{Kind: Layout, Path: "new"}},
		{in: "oci-layout:new.tar", want: Location{Kind: Layout, Path: "new.tar"}},
		{in: "oci-archive:new#a", want: Location{Kind: Archive, Path: "new", Name: "a"}},
		{in: "oci-layout:./new", want: Location{Kind: Layout, Path: "./new"}, print: "./new"},
	} {
		got, err := ParseLocation(tc.in)
		if err != nil {
			t.Errorf("%s: %v", tc.in, err)
			continue
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: %s", tc.in, diff)
		}
		want := tc.print
		if want == "" {
			want = tc.in
		}
		if got.String() != want {
			t.Errorf("%s is printed as %s, want %s", tc.in, got, want)
		}
		roundTrip(t, got)
	}
}

func roundTrip(t *testing.T, l Location) {
	t.Helper()
	for _, l := range []Location{l, l.WithDigest(someDigest)} {
		again, err := ParseLocation(l.String())
		if err != nil {
			t.Errorf("%s can't be read back: %v", l, err)
		} else if diff := cmp.Diff(l, again); diff != "" {
			t.Errorf("%s is read back differently: %s", l, diff)
		}
	}
}

func TestParseLocationSaysWhatWasMeant(t *testing.T) {
	inFolder(t)
	for in, meant := range map[string]string{
		"":                                       "oci://HOST/PATH:TAG",
		"registry.example/shop:1":                "oci://registry.example/shop:1",
		"registry.example:5000/shop:1":           "oci://registry.example:5000/shop:1",
		"localhost/shop":                         "oci://localhost/shop",
		"docker://registry.example/shop:1":       "oci://registry.example/shop:1",
		"https://registry.example/shop:1":        "oci://registry.example/shop:1",
		"http://registry.example/shop/":          "oci://registry.example/shop",
		"https://me:secret@registry.example/x":   "oci://registry.example/x",
		"OCI://registry.example/shop":            "oci://registry.example/shop",
		"oci:registry.example/shop":              "oci://registry.example/shop",
		"oci:/registry.example/shop":             "oci://registry.example/shop",
		"oci:shop:1":                             "oci-layout:shop#1",
		"ftp://registry.example/shop":            "oci://registry.example/shop",
		"oci-layuot:./new":                       "oci-layout:./new",
		"oci_layout:new":                         "oci-layout:new",
		"ocilayout:new":                          "oci-layout:new",
		"oci-layout://new":                       "oci-layout:new",
		"ocidir://new:1":                         "oci-layout:new#1",
		"oci-archve:new.tar":                     "oci-archive:new.tar",
		"oci-archive://new.tar":                  "oci-archive:new.tar",
		"docker-archive:new.tar:a":               "oci-archive:new.tar#a",
		"file:///srv/new.tar":                    "/srv/new.tar",
		"new":                                    "./new",
		"nginx:1":                                "oci://HOST/nginx:1",
		"./new.tgz":                              "./new.tar",
		"./new.tar.gz":                           "./new.tar",
		" new.tar":                               "new.tar", //nolint:gocritic // a space in front is what is tested
		"new.tar#":                               "new.tar#NAME",
		"oci-layout:":                            "oci-layout:PATH",
		"oci://registry.example":                 "oci://registry.example/PATH:TAG",
		"oci://registry.example/Shop:1":          "oci://registry.example/shop:1",
		"oci://registry.example/shop:1+2":        "oci://registry.example/shop:1_2",
		"oci://registry.example/shop/":           "oci://registry.example/shop",
		"oci://registry.example/shop#1":          "oci://registry.example/shop:1",
		"oci://me:secret@registry.example/shop":  "oci://registry.example/shop",
		"new.tar@sha256:abc":                     "",
		"oci://registry.example/shop@sha256:abc": "",
		"new\x00.tar":                            "",
	} {
		l, err := ParseLocation(in)
		var e *LocationError
		if !errors.As(err, &e) {
			t.Errorf("%q was read as %+v, %v", in, l, err)
			continue
		}
		if e.Meant != meant {
			t.Errorf("%q: meant %q, want %q (%v)", in, e.Meant, meant, err)
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("the error repeats a password: %v", err)
		}
	}
}

// What is printed is read, and read as the same.
func FuzzParseLocation(f *testing.F) {
	inFolder(f)
	for _, seed := range []string{
		"oci://registry.example:5000/team/shop:1.0.0@" + someDigest, "./shop#a", "odd#name#b", "oci-layout://shop", "a:b.tar", "x.tgz", `C:\x.tar`, "saved@" + someDigest,
		"oci-archive:shop.tar.001#x@" + someDigest, "docker://x", "//x", "https://u:p@h/x",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		l, err := ParseLocation(s)
		if err != nil {
			_ = err.Error()
			return
		}
		roundTrip(t, l)
	})
}
