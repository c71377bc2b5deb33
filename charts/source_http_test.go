package charts

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"waybill/registry"
)

func TestChartRepositoryVersions(t *testing.T) {
	server := newFileServer(t)
	var all []*Chart
	for _, v := range []string{"1.0.0", "1.2.0", "1.10.0", "2.0.0-rc.1", "1.3.0+build.5", "1.3.0+build.10", "1.4.0+only"} {
		all = append(all, versionOf(t, "shop", v))
	}
	all = append(all, versionOf(t, "vault", "v1.14.4"), versionOf(t, "vault", "v1.15.0"))
	server.serveIndex(all...)
	tests := map[string]struct{ name, version, want, err string }{
		"exact":                                {"shop", "1.2.0", "1.2.0", ""},
		"exact with build metadata":            {"shop", "1.3.0+build.10", "1.3.0+build.10", ""},
		"exact, spelled as a tag":              {"shop", "1.3.0_build.5", "1.3.0+build.5", ""},
		"exact, one build of it":               {"shop", "1.4.0", "1.4.0+only", ""},
		"exact, several builds of it":          {"shop", "1.3.0", "", `chart shop of URL: several builds fit version "1.3.0" and none is newer: 1.3.0+build.10, 1.3.0+build.5; name one of them exactly`},
		"range, several builds of the newest":  {"shop", "~1.3", "", `chart shop of URL: several builds fit version "~1.3" and none is newer: 1.3.0+build.10, 1.3.0+build.5; name one of them exactly`},
		"range by number, not by letter":       {"shop", ">=1.0.0 <2", "1.10.0", ""},
		"no version":                           {"shop", "", "1.10.0", ""},
		"minor":                                {"shop", "1.2", "1.2.0", ""},
		"pre-release not asked for":            {"shop", ">1.10.0", "", `URL has no chart shop >1.10.0; there is 2.0.0-rc.1, 1.10.0, 1.4.0+only, 1.3.0+build.10, 1.3.0+build.5, and 2 older; only pre-releases fit, and those are taken when the range names one (>=1.2.3-0)`},
		"pre-release asked for":                {"shop", ">=2.0.0-0", "2.0.0-rc.1", ""},
		"pre-release to the letter":            {"shop", "2.0.0-rc.1", "2.0.0-rc.1", ""},
		"with v in the index, asked without":   {"vault", "1.14.4", "v1.14.4", ""},
		"with v in the index, asked with":      {"vault", "v1.14.4", "v1.14.4", ""},
		"with v in the index, range":           {"vault", "~1.14.0", "v1.14.4", ""},
		"version that is not there":            {"vault", "1.16.0", "", `URL has no chart vault 1.16.0; there is v1.15.0, v1.14.4`},
		"no version at all":                    {"shop", "newest", "", `chart shop: version "newest" is neither a version (1.2.3) nor a range (~1.2, >=1.2 <2)`},
		"name that is not there":               {"shpo", "1.0.0", "", `URL has no chart shpo; did you mean "shop"?`},
		"not to be had, with its build number": {"shop", "1.2.0+build.7", "", `URL has no chart shop 1.2.0+build.7; there is 2.0.0-rc.1, 1.10.0, 1.4.0+only, 1.3.0+build.10, 1.3.0+build.5, and 2 older`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			src := Source{Repository: server.URL, Name: test.name, Version: test.version}
			c, err := Resolve(context.Background(), "", src, ResolveOptions{Network: network(t)})
			if test.err != "" {
				if err == nil {
					t.Fatalf("got %s", c.Version())
				}
				if diff := cmp.Diff(test.err, strings.ReplaceAll(err.Error(), server.URL, "URL")); diff != "" {
					t.Error(diff)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if c.Version() != test.want {
				t.Errorf("got %s, want %s", c.Version(), test.want)
			}
			if c.Source != server.URL+"/"+test.name {
				t.Errorf("source is %q", c.Source)
			}
			inputs, err := Inputs(context.Background(), "", src)
			if err != nil || inputs != c.Inputs {
				t.Errorf("inputs are %s (%v), resolving says %s", inputs, err, c.Inputs)
			}
		})
	}
}

func TestArchiveOfARepositoryIsTakenByteForByte(t *testing.T) {
	server := newFileServer(t)
	// As another program packs it: not the bytes that we would write.
	c, err := Open(repacked(t, fromText(t, shop)))
	if err != nil {
		t.Fatal(err)
	}
	server.serveIndex(c)
	got, err := Resolve(context.Background(), "", Source{Repository: server.URL + "/", Name: "shop", Version: "1.2.3+build.5"}, ResolveOptions{Network: network(t)})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Archive(), c.Archive()) || got.Manifest != c.Manifest {
		t.Error("the archive was changed")
	}
	if got.Source != server.URL+"/shop" {
		t.Errorf("source is %q", got.Source)
	}
}

// repacked is the same chart under another compression.
func repacked(t testing.TB, c *Chart) []byte {
	t.Helper()
	zr, err := gzip.NewReader(bytes.NewReader(c.Archive()))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	zw, err := gzip.NewWriterLevel(&out, gzip.NoCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := out.ReadFrom(bytes.NewReader(nil)); err != nil {
		t.Fatal(err)
	}
	plain := new(bytes.Buffer)
	if _, err := plain.ReadFrom(zr); err != nil {
		t.Fatal(err)
	}
	if _, err := zw.Write(plain.Bytes()); err != nil {
		t.Fatal(err)
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestProvenanceOfARepository(t *testing.T) {
	const signed = "-----BEGIN PGP SIGNED MESSAGE-----\n…"
	tests := map[string]struct {
		file    string
		code    int
		kept    bool
		warning string
	}{
		"there":                {file: signed, kept: true},
		"not there":            {},
		"forbidden":            {code: http.StatusForbidden},
		"cannot be told":       {code: http.StatusInternalServerError, warning: "chart shop 1.2.3+build.5 is taken without a signature: whether URL has one could not be determined: "},
		"a page for all paths": {file: "<html>", warning: "chart shop 1.2.3+build.5 is taken without a signature: URL/shop-1.2.3+build.5.tgz.prov is a web page (HTML or XML), not the file"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			server := newFileServer(t)
			chart := fromText(t, shop)
			server.serveIndex(chart)
			const prov = "/shop-1.2.3+build.5.tgz.prov"
			if test.file != "" {
				server.files[prov] = []byte(test.file)
			}
			server.codes[prov] = test.code
			c, err := Resolve(context.Background(), "", Source{Repository: server.URL, Name: "shop"}, ResolveOptions{Network: network(t)})
			if err != nil {
				t.Fatal(err)
			}
			if kept := c.Manifest != chart.Manifest; kept != test.kept {
				t.Errorf("signature kept: %v", kept)
			}
			warnings := strings.ReplaceAll(strings.Join(c.Warnings, "\n"), server.URL, "URL")
			if !strings.HasPrefix(warnings, test.warning) || (test.warning == "") != (warnings == "") {
				t.Errorf("warnings %q, want %q", warnings, test.warning)
			}
		})
	}
}

func TestURLsOfAnIndex(t *testing.T) {
	chart := versionOf(t, "shop", "1.0.0")
	elsewhere := newFileServer(t)
	elsewhere.files["/far/shop.tgz"] = chart.Archive()
	tests := map[string]struct {
		base, urls string
		asked      string // at the repository
		err        string
	}{
		"relative":                        {base: "", urls: "[shop.tgz]", asked: "/shop.tgz"},
		"relative to a folder":            {base: "/charts", urls: "[shop.tgz]", asked: "/charts/shop.tgz"},
		"relative, in a folder below":     {base: "/charts/", urls: "[a/shop.tgz]", asked: "/charts/a/shop.tgz"},
		"relative to the host":            {base: "/charts", urls: "[/shop.tgz]", asked: "/shop.tgz"},
		"relative, up":                    {base: "/charts/stable", urls: "[../shop.tgz]", asked: "/charts/shop.tgz"},
		"absolute":                        {urls: "[ELSEWHERE/far/shop.tgz]"},
		"first gone, second there":        {urls: "[gone.tgz, shop.tgz]", asked: "/shop.tgz"},
		"first another archive":           {urls: "[other.tgz, shop.tgz]", asked: "/shop.tgz"},
		"with escapes":                    {urls: `["sh%2Bop.tgz"]`, asked: "/sh%2Bop.tgz"},
		"none":                            {urls: "[]", err: "chart shop 1.0.0 of URL: its entry in index.yaml has no URL"},
		"of a file":                       {urls: "[file:///etc/passwd]", err: `chart shop 1.0.0 of URL: the URL in its index entry: "file:///etc/passwd" is neither http nor https`},
		"of a page":                       {urls: "[page.html]", err: "chart shop 1.0.0 of URL: URL/page.html is a web page (HTML or XML), not the file"},
		"of another archive":              {urls: "[other.tgz]", err: "chart shop 1.0.0 of URL: URL/other.tgz is OTHER, its entry in index.yaml says SHOP"},
		"a token in the repository's URL": {base: "/charts?token=secret", urls: "[shop.tgz]", asked: "/charts/shop.tgz?token=secret"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			server := newFileServer(t)
			other := versionOf(t, "shop", "1.0.1")
			for _, dir := range []string{"/", "/charts/", "/charts/a/"} {
				server.files[dir+"shop.tgz"] = chart.Archive()
				server.files[dir+"index.yaml"] = fmt.Appendf(nil, "apiVersion: v1\nentries:\n  shop:\n  - version: 1.0.0\n    digest: %s\n    urls: %s\n",
					chart.Content.Encoded(), strings.ReplaceAll(test.urls, "ELSEWHERE", elsewhere.URL))
			}
			server.files["/charts/stable/index.yaml"] = server.files["/index.yaml"]
			server.files["/sh+op.tgz"] = chart.Archive()
			server.files["/other.tgz"] = other.Archive()
			server.files["/page.html"] = []byte("<!doctype html>")
			c, err := Resolve(context.Background(), "", Source{Repository: server.URL + test.base, Name: "shop", Version: "1.0.0"}, ResolveOptions{Network: network(t)})
			if test.err != "" {
				if err == nil {
					t.Fatal("no error")
				}
				text := strings.NewReplacer(server.URL, "URL", other.Content.String(), "OTHER", chart.Content.String(), "SHOP").Replace(err.Error())
				if diff := cmp.Diff(test.err, text); diff != "" {
					t.Error(diff)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if c.Content != chart.Content {
				t.Errorf("got %s", c.Content)
			}
			if test.asked != "" && server.asked(test.asked) != 1 {
				t.Errorf("%s was not asked for: %v", test.asked, server.log)
			}
			if strings.Contains(c.Source, "secret") {
				t.Errorf("source tells the token: %s", c.Source)
			}
		})
	}
}

func TestBrokenIndexes(t *testing.T) {
	good := versionOf(t, "shop", "1.0.0")
	entry := func(extra string) string {
		return "apiVersion: v1\nentries:\n" + extra + "  shop:\n  - version: 1.0.0\n    urls: [shop-1.0.0.tgz]\n"
	}
	tests := map[string]struct{ index, err string }{
		"nothing":                       {"", "URL: its index.yaml is empty"},
		"a web page":                    {"<html><body>Sign in</body>", "URL: its index.yaml is a web page (HTML or XML), not YAML: a login page, or the address of something else"},
		"other YAML":                    {"kind: List\nitems: []\n", "URL: its index.yaml has no entries: it is no index of charts"},
		"other JSON":                    {`{"kind": "List"}`, "URL: its index.yaml has no entries: it is no index of charts"},
		"no YAML":                       {"entries: [\n", "URL: its index.yaml is no YAML: "},
		"cut off":                       {"apiVersion: v1\nentries:\n  shop:\n  - version: \"1.0", "chart shop of URL: index.yaml: an entry cannot be read: "},
		"no entries yet":                {"apiVersion: v1\nentries: {}\n", "URL has no chart shop"},
		"null entries":                  {"apiVersion: v1\nentries:\n", "URL has no chart shop"},
		"no versions":                   {"entries:\n  shop: []\n", "URL has no chart shop"},
		"no list":                       {"entries:\n  shop:\n    version: 1.0.0\n", "chart shop of URL: index.yaml: its entry is no list of versions"},
		"no list, in JSON":              {`{"entries": {"shop": "1.0.0"}}`, "chart shop of URL: index.yaml: its entry is no list of versions"},
		"entry without version":         {"entries:\n  shop:\n  - urls: [x]\n", "chart shop of URL: index.yaml: an entry has no version"},
		"null entry":                    {"entries:\n  shop:\n  -\n  - ~\n", "chart shop of URL: index.yaml: an entry cannot be read: it is empty"},
		"URLs of another form":          {"entries:\n  shop:\n  - version: 1.0.0\n    urls: {a: b}\n", "chart shop of URL: index.yaml: an entry cannot be read: cannot unmarshal !!map into []string"},
		"digest of another kind":        {"entries:\n  shop:\n  - version: 1.0.0\n    urls: [shop-1.0.0.tgz]\n    digest: abc\n", `chart shop 1.0.0 of URL: its digest in index.yaml ("abc") is no SHA-256`},
		"another chart is broken":       {entry("  bad:\n  - version: [\n    \"x\n"), ""},
		"another chart is no list":      {entry("  bad: {}\n"), ""},
		"another version is broken":     {"entries:\n  shop:\n  - version: 0.9.0\n    urls: \"\n  - version: 1.0.0\n    urls: [shop-1.0.0.tgz]\n", ""},
		"keys of later Helms":           {entry("  bad:\n  - {version: 1, later: [1]}\n") + "later: {}\n", ""},
		"lists at the level of names":   {"entries:\n  other:\n  - version: 1.0.0\n  shop:\n  - version: 1.0.0\n    urls:\n    - shop-1.0.0.tgz\n", ""},
		"deep indentation":              {"entries:\n      shop:\n        - version: 1.0.0\n          urls:\n              - shop-1.0.0.tgz\n", ""},
		"comments and empty lines":      {"# an index\nentries:\n\n  # ours\n  shop:\n\n  # one\n  - version: 1.0.0\n\n# odd\n    urls: [shop-1.0.0.tgz]\n", ""},
		"Windows lines":                 {strings.ReplaceAll(entry(""), "\n", "\r\n"), ""},
		"quoted names":                  {"entries:\n  \"shop\":\n  - version: 1.0.0\n    urls: [shop-1.0.0.tgz]\n", ""},
		"text that looks like entries":  {"entries:\n  other:\n  - description: |\n      entries:\n        shop:\n        - version: 9.0.0\n    version: 1.0.0\n  shop:\n  - version: 1.0.0\n    urls: [shop-1.0.0.tgz]\n", ""},
		"braces":                        {"{entries: {shop: [{version: 1.0.0, urls: [shop-1.0.0.tgz]}]}}", ""},
		"inline":                        {"apiVersion: v1\nentries: {shop: [{version: 1.0.0, urls: [shop-1.0.0.tgz]}]}\n", ""},
		"inline chart":                  {"apiVersion: v1\nentries:\n  other:\n  - version: 1.0.0\n  shop: [{version: 1.0.0, urls: [shop-1.0.0.tgz]}]\n", ""},
		"anchors":                       {"entries:\n  other: &it\n  - {version: 1.0.0, urls: [shop-1.0.0.tgz]}\n  shop: *it\n", ""},
		"JSON":                          {`{"apiVersion":"v1","entries":{"bad":7,"shop":[{"version":"1.0.0","urls":["shop-1.0.0.tgz"]}]}}`, ""},
		"compressed":                    {gzipped(t, entry("")), ""},
		"byte order mark":               {"\uFEFF" + entry(""), ""},
		"a document's beginning":        {"---\n" + entry(""), ""},
		"a version twice":               {"entries:\n  shop:\n  - {version: 1.0.0, urls: [shop-1.0.0.tgz]}\n  - {version: 1.0.0, urls: [gone.tgz]}\n", ""},
		"numbers that are no text":      {"entries:\n  shop:\n  - {version: 1.10, urls: [x]}\n  - {version: 1.0.0, urls: [shop-1.0.0.tgz]}\n", ""},
		"versions that are none":        {"entries:\n  shop:\n  - {version: latest, urls: [x]}\n  - {version: 1.0.0, urls: [shop-1.0.0.tgz]}\n", ""},
		"a chart twice":                 {"entries:\n  shop:\n  - {version: 0.9.0}\n  shop:\n  - {version: 1.0.0, urls: [shop-1.0.0.tgz]}\n", ""},
		"a list where a map is wanted":  {"- entries\n", "URL: its index.yaml is no YAML: "},
		"tabs":                          {"entries:\n\tshop:\n", "URL: its index.yaml is no YAML: "},
		"no indentation under a name":   {"entries:\n  shop:\n  - version: 1.0.0\n    urls:\n    - shop-1.0.0.tgz\n  zebra:\n  - version: 1.0.0\n", ""},
		"nothing but one web page line": {"<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code></Error>", "URL: its index.yaml is a web page"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			server := newFileServer(t)
			server.addChart(good)
			server.files["/index.yaml"] = []byte(test.index)
			version := "1.0.0"
			c, err := Resolve(context.Background(), "", Source{Repository: server.URL, Name: "shop", Version: version}, ResolveOptions{Network: network(t)})
			if test.err == "" {
				if err != nil {
					t.Fatal(err)
				}
				if c.Content != good.Content {
					t.Errorf("got %s", c.Content)
				}
				return
			}
			if err == nil {
				t.Fatal("no error")
			}
			if text := strings.ReplaceAll(err.Error(), server.URL, "URL"); !strings.HasPrefix(text, test.err) {
				t.Errorf("got  %s\nwant %s", text, test.err)
			}
		})
	}
}

func gzipped(t testing.TB, text string) string {
	t.Helper()
	var out bytes.Buffer
	zw := gzip.NewWriter(&out)
	if _, err := zw.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestHugeIndexIsNotReadToItsEnd(t *testing.T) {
	server := newFileServer(t)
	line := bytes.Repeat([]byte("# nothing\n"), 1<<20)
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for {
			if _, err := w.Write(line); err != nil {
				return
			}
		}
	})
	_, err := Resolve(context.Background(), "", Source{Repository: server.URL, Name: "shop"}, ResolveOptions{Network: network(t)})
	want := server.URL + ": its index.yaml is larger than an index may be (134217728 bytes)"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestArchiveSaysItIsAnotherChart(t *testing.T) {
	for name, entry := range map[string]string{
		"another name":    "  shop:\n  - {version: 1.0.0, urls: [other-1.0.0.tgz]}\n",
		"another version": "  other:\n  - {version: 1.0.1, urls: [other-1.0.0.tgz]}\n",
		"another build":   "  other:\n  - {version: 1.0.0+b, urls: [other-1.0.0.tgz]}\n",
	} {
		t.Run(name, func(t *testing.T) {
			server := newFileServer(t)
			server.addChart(versionOf(t, "other", "1.0.0"))
			server.files["/index.yaml"] = []byte("entries:\n" + entry)
			chart, _, _ := strings.Cut(strings.TrimSpace(entry), ":")
			_, err := Resolve(context.Background(), "", Source{Repository: server.URL, Name: chart}, ResolveOptions{Network: network(t)})
			var repository *RepositoryError
			if !errors.As(err, &repository) || !strings.Contains(err.Error(), "the archive it serves says in Chart.yaml that it is other 1.0.0") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestHostileArchiveOfARepository(t *testing.T) {
	server := newFileServer(t)
	server.files["/shop.tgz"] = []byte(gzipped(t, "no tar"))
	server.files["/index.yaml"] = []byte("entries:\n  shop:\n  - {version: 1.0.0, urls: [shop.tgz]}\n")
	_, err := Resolve(context.Background(), "", Source{Repository: server.URL, Name: "shop"}, ResolveOptions{Network: network(t)})
	var invalid *InvalidError
	if !errors.As(err, &invalid) || invalid.Chart != "shop 1.0.0 of "+server.URL {
		t.Errorf("got %v", err)
	}
}

func TestPinnedChartOfARepository(t *testing.T) {
	old, other := versionOf(t, "shop", "1.0.0"), fromText(t, "-- Chart.yaml --\napiVersion: v2\nname: shop\nversion: 1.0.0\n")
	newer := versionOf(t, "shop", "1.1.0")
	server := newFileServer(t)
	server.serveIndex(newer, old)
	src := Source{Repository: server.URL, Name: "shop", Version: "^1"}
	pinned := &Pinned{Version: "1.0.0", Source: server.URL + "/shop", Content: old.Content, Manifest: old.Manifest}
	resolve := func(src Source) (*Chart, error) {
		return Resolve(context.Background(), "", src, ResolveOptions{Network: network(t), Pinned: pinned})
	}
	c, err := resolve(src)
	if err != nil || c.Manifest != old.Manifest {
		t.Fatalf("what is pinned and allowed is not kept: %v", err)
	}
	if server.asked("/shop-1.0.0.tgz.prov") != 0 {
		t.Error("a chart that was locked without a signature was asked for one")
	}
	outside := src
	outside.Version = ">=1.1"
	if c, err = resolve(outside); err != nil || c.Version() != "1.1.0" {
		t.Errorf("what is no longer allowed is kept: %v", err)
	}
	server.serveIndex(newer, other)
	for _, index := range []string{"with digests", "without digests"} {
		t.Run("moved, index "+index, func(t *testing.T) {
			if index == "without digests" {
				server.files["/index.yaml"] = bytes.ReplaceAll(server.files["/index.yaml"], []byte("digest:"), []byte("checksum:"))
			}
			_, err = resolve(src)
			want := fmt.Sprintf("%s now serves another archive as shop 1.0.0: locked is %s, served is %s", server.URL, old.Content, other.Content)
			var moved *MovedError
			if !errors.As(err, &moved) || err.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
	t.Run("a signature that came later", func(t *testing.T) {
		server.serveIndex(newer, old)
		server.files["/shop-1.0.0.tgz.prov"] = []byte("-----BEGIN PGP SIGNED MESSAGE-----")
		if c, err := resolve(src); err != nil || c.Manifest != old.Manifest {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a signature that has gone", func(t *testing.T) {
		signed, err := openArchive(old.Archive(), []byte("-----BEGIN PGP SIGNED MESSAGE-----"))
		if err != nil {
			t.Fatal(err)
		}
		delete(server.files, "/shop-1.0.0.tgz.prov")
		pinned.Manifest = signed.Manifest
		_, err = resolve(src)
		var moved *MovedError
		if !errors.As(err, &moved) || moved.Locked != signed.Manifest || moved.Served != old.Manifest {
			t.Errorf("got %v", err)
		}
	})
}

func TestOneRunAsksOnce(t *testing.T) {
	server := newFileServer(t)
	server.serveIndex(versionOf(t, "shop", "1.0.0"), versionOf(t, "store", "1.0.0"))
	shared := NewCache()
	opts := ResolveOptions{Network: network(t), Cache: shared}
	var told []string
	opts.OnFetch = func(what string) { told = append(told, strings.ReplaceAll(what, server.URL, "URL")) }
	for _, name := range []string{"shop", "store", "shop"} {
		if _, err := Resolve(context.Background(), "", Source{Repository: server.URL, Name: name}, opts); err != nil {
			t.Fatal(err)
		}
	}
	if err := shared.Close(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/index.yaml", "/shop-1.0.0.tgz", "/store-1.0.0.tgz"} {
		if n := server.asked(path); n != 1 {
			t.Errorf("%s was asked for %d times", path, n)
		}
	}
	want := []string{"index of URL", "chart shop 1.0.0 from URL/shop-1.0.0.tgz", "chart store 1.0.0 from URL/store-1.0.0.tgz"}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Error(diff)
	}
}

func TestSourcesThatNeedANetworkSaySo(t *testing.T) {
	for name, src := range map[string]Source{
		"chart repository": {Repository: "https://charts.example", Name: "shop"},
		"registry":         {Repository: "oci://registry.example/charts", Name: "shop"},
		"git":              {Git: "https://git.example/shop"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Resolve(context.Background(), "", src, ResolveOptions{})
			var offline *OfflineError
			if !errors.As(err, &offline) {
				t.Errorf("got %v", err)
			}
			if _, err := Inputs(context.Background(), "", src); err != nil {
				t.Errorf("the inputs need one: %v", err)
			}
		})
	}
}

func TestUnreachableRepositoryNamesIt(t *testing.T) {
	server := newFileServer(t)
	server.Close()
	_, err := Resolve(context.Background(), "", Source{Repository: server.URL, Name: "shop"}, ResolveOptions{Network: network(t)})
	var unreachable *registry.UnreachableError
	if !errors.As(err, &unreachable) || !strings.HasPrefix(err.Error(), "reading the index of chart repository "+server.URL) {
		t.Errorf("got %v", err)
	}
}
