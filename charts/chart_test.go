package charts

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/google/go-cmp/cmp"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/rogpeppe/go-internal/txtar"
	"oras.land/oras-go/v2/errdef"

	"waybill/internal/registrytest"
	"waybill/internal/tarball"
)

// shop is a small chart that most tests begin with.
const shop = `
-- Chart.yaml --
apiVersion: v2
name: shop
version: 1.2.3+build.5
appVersion: "4.5"
description: sells things
home: https://shop.example
sources: [https://git.example/shop]
maintainers: [{name: Ann, email: ann@shop.example}, {name: Bob}]
annotations: {org.opencontainers.image.title: other, category: trade}
-- values.yaml --
replicas: 2
id: 356136738
image: {repository: registry.example/shop, tag: "1"}
-- templates/config.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}}
data:
  replicas: {{ .Values.replicas | quote }}
  id: {{ .Values.id | quote }}
`

// writeFolder writes a txtar to a folder of its own and names it.
func writeFolder(t testing.TB, text string) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range txtar.Parse([]byte(text)).Files {
		name := filepath.Join(dir, filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// fromText resolves the chart of a txtar.
func fromText(t testing.TB, text string) *Chart {
	t.Helper()
	c, err := Resolve(context.Background(), writeFolder(t, text), Source{Path: "."}, ResolveOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestFolderIsPackedTheSameEverywhere(t *testing.T) {
	one := fromText(t, shop)
	dir := writeFolder(t, shop)
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o600)
		if d.IsDir() {
			mode = 0o700
		}
		if err := os.Chmod(name, mode); err != nil {
			return err
		}
		return os.Chtimes(name, time.Time{}, time.Unix(1e9, 0))
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, ".git", "refs"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".git", "index"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	two, err := Resolve(context.Background(), filepath.Dir(dir), Source{Path: filepath.Base(dir)}, ResolveOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if one.Content != two.Content || one.Manifest != two.Manifest || one.Files != two.Files {
		t.Errorf("same files, other digests:\n%s %s %s\n%s %s %s", one.Content, one.Manifest, one.Files, two.Content, two.Manifest, two.Files)
	}
	if one.Inputs == two.Inputs {
		t.Error("the inputs do not tell two sources apart")
	}
	// Locks and bundles hold these digests: a change here makes them all stale.
	const want = "content sha256:216c605f16373d69af175084ad90d70d508c1f2a536698f62ef924ff825c179f\nmanifest sha256:4f62912b327004294a0812ee6f5f96bb629ecb4d1e6a1ba93565e640f07d7a7c\nfiles sha256:ad0a5954971ff5cdbdf3f0b621ba85c9201c569274921981254965c8edf00f9f\ninputs sha256:b45e9f009915e9d02ad325d52638f77419681cedcefa2518c4a4792cc7d9e7c0"
	got := fmt.Sprintf("content %s\nmanifest %s\nfiles %s\ninputs %s", one.Content, one.Manifest, one.Files, one.Inputs)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestFolderAndItsArchiveAreOneChart(t *testing.T) {
	folder := fromText(t, shop)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "shop.tgz"), folder.Archive(), 0o600); err != nil {
		t.Fatal(err)
	}
	archive, err := Resolve(context.Background(), dir, Source{Path: "shop.tgz"}, ResolveOptions{})
	if err != nil {
		t.Fatal(err)
	}
	opened, err := Open(folder.Archive())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*Chart{archive, opened} {
		if c.Content != folder.Content || c.Manifest != folder.Manifest {
			t.Errorf("got %s %s, want %s %s", c.Content, c.Manifest, folder.Content, folder.Manifest)
		}
		if c.Files != "" {
			t.Error("an archive has no digest of files")
		}
		if c.Version() != "1.2.3+build.5" {
			t.Errorf("version became %s", c.Version())
		}
	}
}

func TestManifestIsHelmsWithoutTheTime(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "shop.tgz"), fromText(t, shop).Archive(), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "shop.tgz.prov"), []byte("signed"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Resolve(context.Background(), dir, Source{Path: "shop.tgz"}, ResolveOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var manifest ocispec.Manifest
	if err := json.Unmarshal(fetch(t, c, c.Descriptor()), &manifest); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"org.opencontainers.image.title":       "shop",
		"org.opencontainers.image.version":     "1.2.3+build.5",
		"org.opencontainers.image.description": "sells things",
		"org.opencontainers.image.url":         "https://shop.example",
		"org.opencontainers.image.source":      "https://git.example/shop",
		"org.opencontainers.image.authors":     "Ann (ann@shop.example), Bob",
		"category":                             "trade",
	}
	if diff := cmp.Diff(want, manifest.Annotations); diff != "" {
		t.Errorf("annotations:\n%s", diff)
	}
	types := map[string]string{}
	for _, d := range append(manifest.Layers, manifest.Config) {
		types[d.MediaType] = string(fetch(t, c, d)[:6])
	}
	wantTypes := map[string]string{
		"application/vnd.cncf.helm.config.v1+json":            `{"name`,
		"application/vnd.cncf.helm.chart.content.v1.tar+gzip": string(c.Archive()[:6]),
		"application/vnd.cncf.helm.chart.provenance.v1.prov":  "signed",
	}
	if diff := cmp.Diff(wantTypes, types); diff != "" {
		t.Errorf("blobs:\n%s", diff)
	}
	_, err = c.Fetch(context.Background(), ocispec.Descriptor{Digest: "sha256:0000000000000000000000000000000000000000000000000000000000000000"})
	if !errors.Is(err, errdef.ErrNotFound) {
		t.Errorf("a stranger's digest: got %v, want ErrNotFound", err)
	}
}

func fetch(t *testing.T, c *Chart, desc ocispec.Descriptor) []byte {
	t.Helper()
	r, err := c.Fetch(context.Background(), desc)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if int64(len(data)) != desc.Size || desc.Digest.Algorithm().FromBytes(data) != desc.Digest {
		t.Errorf("%s is not what its descriptor says", desc.Digest)
	}
	return data
}

func names(c *Chart) []string {
	var list []string
	for _, f := range c.files {
		list = append(list, f.Name)
	}
	return list
}

func TestHelmignoreAndVendoredArchives(t *testing.T) {
	sub := fromText(t, "-- Chart.yaml --\napiVersion: v2\nname: sub\nversion: 1.0.0\n")
	dir := writeFolder(t, shop+"-- .helmignore --\n*.bak\nsecret/\n-- a.bak --\nx\n-- secret/key --\nx\n-- templates/.hidden --\nx\n")
	if err := os.Mkdir(filepath.Join(dir, "charts"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "charts", "sub-1.0.0.tgz"), sub.Archive(), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Resolve(context.Background(), dir, Source{Path: "."}, ResolveOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{".helmignore", "Chart.yaml", "charts/sub-1.0.0.tgz", "templates/config.yaml", "values.yaml"}
	if diff := cmp.Diff(want, names(c)); diff != "" {
		t.Error(diff)
	}
	for _, f := range c.files {
		if f.Name == "charts/sub-1.0.0.tgz" && !bytes.Equal(f.Data, sub.Archive()) {
			t.Error("the vendored archive is not kept byte for byte")
		}
	}
}

func TestLinks(t *testing.T) {
	outside := writeFolder(t, "-- key --\nsecret\n")
	tests := map[string]struct {
		link, target, reason string
	}{
		"to a file inside":        {link: "copy.yaml", target: "values.yaml"},
		"to a folder inside":      {link: "more", target: "templates"},
		"out, relative":           {link: "key", target: "../no-such-file", reason: "leads nowhere"},
		"out, to a file":          {link: "key", target: filepath.Join(outside, "key"), reason: "leads out of the chart's folder"},
		"out, to a folder":        {link: "folder", target: outside, reason: "leads out of the chart's folder"},
		"to nothing":              {link: "gone", target: "nothing", reason: "leads nowhere"},
		"in a circle":             {link: "templates/up", target: "..", reason: "leads in a circle"},
		"out, but on the ignored": {link: "ignored", target: outside},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dir := writeFolder(t, shop+"-- .helmignore --\nignored\n")
			if err := os.Symlink(test.target, filepath.Join(dir, filepath.FromSlash(test.link))); err != nil {
				t.Fatal(err)
			}
			c, err := Resolve(context.Background(), dir, Source{Path: "."}, ResolveOptions{})
			if test.reason == "" {
				if err != nil {
					t.Fatal(err)
				}
				if test.link == "copy.yaml" && !strings.Contains(strings.Join(names(c), " "), "copy.yaml") {
					t.Error("the link was left out")
				}
				if test.link == "more" && !strings.Contains(strings.Join(names(c), " "), "more/config.yaml") {
					t.Error("the link was left out")
				}
				return
			}
			var link *LinkError
			if !errors.As(err, &link) {
				t.Fatalf("got %v, want a LinkError", err)
			}
			if link.Path != test.link || link.Reason != test.reason {
				t.Errorf("got %q %q, want %q %q", link.Path, link.Reason, test.link, test.reason)
			}
		})
	}
}

func TestPathsWithoutAChart(t *testing.T) {
	dir := writeFolder(t, "-- all/one/Chart.yaml --\n-- all/two/Chart.yaml --\n-- page.tgz --\n<html>\n-- one/values.yaml --\nx: 1\n-- one/Chart.yaml --\nx: 1\n")
	tests := map[string]struct{ path, want string }{
		"nothing there":        {"charts/shop", `chart path "charts/shop": no such file or folder (looked at DIR/charts/shop); name a folder that holds Chart.yaml, or a .tgz that helm package made; paths are relative to the release file`},
		"the folder above":     {"all", `chart path "all": is a folder without Chart.yaml (looked at DIR/all); charts below it: one, two`},
		"a page, not a chart":  {"page.tgz", `chart path "page.tgz": is no chart archive (not compressed with gzip) (looked at DIR/page.tgz); name a folder that holds Chart.yaml, or a .tgz that helm package made; paths are relative to the release file`},
		"a file of the folder": {"one/Chart.yaml", `chart path "one/Chart.yaml": is no chart archive (not compressed with gzip) (looked at DIR/one/Chart.yaml); name the folder it lies in: "one"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Resolve(context.Background(), dir, Source{Path: test.path}, ResolveOptions{})
			var source *SourceError
			if !errors.As(err, &source) {
				t.Fatalf("got %v, want a SourceError", err)
			}
			if diff := cmp.Diff(test.want, strings.ReplaceAll(err.Error(), dir, "DIR")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A hostileArchive is one that no honest program packs.
type hostileArchive struct {
	tgz   []byte
	entry string // of the HostileError, empty when another error is right
}

// packEntries packs files as a stranger would, and entries of other kinds.
func packEntries(t testing.TB, headers ...tar.Header) []byte {
	t.Helper()
	var buf bytes.Buffer
	zw := gzip.NewWriter(&buf)
	tw := tar.NewWriter(zw)
	for _, h := range headers {
		content := h.Linkname // of files, which have no such thing
		if h.Typeflag == tar.TypeReg {
			h.Size, h.Linkname = int64(len(content)), ""
		}
		if err := tw.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := io.WriteString(tw, content); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(tw.Close(), zw.Close()); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func hostileArchives(t testing.TB) map[string]hostileArchive {
	t.Helper()
	chartFile := "apiVersion: v2\nname: NAME\nversion: 1.0.0\n"
	pack := func(files ...string) []byte { // name, content, …
		var headers []tar.Header
		for i := 0; i < len(files); i += 2 {
			headers = append(headers, tar.Header{Typeflag: tar.TypeReg, Name: files[i], Linkname: files[i+1]})
		}
		return packEntries(t, headers...)
	}
	good := strings.Replace(chartFile, "NAME", "shop", 1)
	with := func(more ...tar.Header) []byte {
		return packEntries(t, append([]tar.Header{{Typeflag: tar.TypeReg, Name: "shop/Chart.yaml", Linkname: good}}, more...)...)
	}
	inner := string(pack("sub/Chart.yaml", strings.Replace(chartFile, "NAME", "sub", 1), "sub/../../x", "x"))
	return map[string]hostileArchive{
		"climbing":                     {pack("shop/Chart.yaml", good, "shop/../../x", "x"), "shop/../../x"},
		"absolute":                     {pack("shop/Chart.yaml", good, "/tmp/x", "x"), "/tmp/x"},
		"a drive":                      {pack("shop/Chart.yaml", good, `shop/c:\x`, "x"), `shop/c:\x`},
		"a drive alone":                {pack("shop/Chart.yaml", good, `c:x`, "x"), `c:x`},
		"a backslash":                  {pack("shop/Chart.yaml", good, `shop/..\..\x`, "x"), `shop/..\..\x`},
		"a link":                       {with(tar.Header{Typeflag: tar.TypeSymlink, Name: "shop/out", Linkname: "/tmp"}), "shop/out"},
		"a link and a file below it":   {with(tar.Header{Typeflag: tar.TypeSymlink, Name: "shop/out", Linkname: "../.."}, tar.Header{Typeflag: tar.TypeReg, Name: "shop/out/x", Linkname: "x"}), "shop/out"},
		"a hard link":                  {with(tar.Header{Typeflag: tar.TypeLink, Name: "shop/out", Linkname: "/etc/passwd"}), "shop/out"},
		"a device":                     {with(tar.Header{Typeflag: tar.TypeChar, Name: "shop/out"}), "shop/out"},
		"a chart called dot":           {pack("./Chart.yaml", strings.Replace(chartFile, "NAME", ".", 1)), "./Chart.yaml"},
		"climbing in a vendored chart": {pack("shop/Chart.yaml", good, "shop/charts/sub-1.0.0.tgz", inner), "sub/../../x"},
		"two top folders":              {pack("shop/Chart.yaml", good, "other/values.yaml", "a: 1"), "other/values.yaml"},
		"a file beside the folder":     {pack("shop/Chart.yaml", good, "values.yaml", "a: 1"), "values.yaml"},
		"named dot in Chart.yaml":      {pack("shop/Chart.yaml", strings.Replace(chartFile, "NAME", `"."`, 1)), ""},
		"named with a slash":           {pack("shop/Chart.yaml", strings.Replace(chartFile, "NAME", "../shop", 1)), ""},
		"no Chart.yaml":                {pack("shop/values.yaml", "a: 1"), ""},
		"empty":                        {pack(), ""},
	}
}

// check wants the refusal that names the entry.
func (h hostileArchive) check(t testing.TB, err error) {
	t.Helper()
	var invalid *InvalidError
	if !errors.As(err, &invalid) {
		t.Fatalf("got %v, want an InvalidError", err)
	}
	var hostile *tarball.HostileError
	if errors.As(err, &hostile) != (h.entry != "") {
		t.Fatalf("got %v, entry %q wanted", err, h.entry)
	}
	if hostile != nil && hostile.Entry != h.entry {
		t.Errorf("named %q, want %q", hostile.Entry, h.entry)
	}
}

func TestHostileChartsAreRefused(t *testing.T) {
	tests := hostileArchives(t)
	tests["not an archive"] = hostileArchive{[]byte("hello"), ""}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Open(test.tgz)
			test.check(t, err)
		})
	}
}

// From wherever a hostile archive comes, it is refused, and nothing is written.
func TestHostileChartsOfEverySource(t *testing.T) {
	for name, test := range hostileArchives(t) {
		t.Run(name, func(t *testing.T) {
			server := newFileServer(t)
			server.files["/shop.tgz"] = test.tgz
			server.files["/index.yaml"] = []byte("entries:\n  shop:\n  - {version: 1.0.0, urls: [shop.tgz]}\n")
			reg := registrytest.New(t, registrytest.Options{})
			pushArchive(t, reg, "charts/shop", "1.0.0", test.tgz)
			g := newGitRepo(t)
			g.commitTree(map[string]gitFile{"shop.tgz": {filemode.Regular, string(test.tgz)}})
			// TempDir is two folders deep, so that what climbs out of it is seen.
			outer := t.TempDir()
			work := filepath.Join(outer, "a", "b")
			if err := os.MkdirAll(work, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(work, "shop.tgz"), test.tgz, 0o600); err != nil {
				t.Fatal(err)
			}
			before := snapshot(t, outer)
			for source, src := range map[string]Source{
				"path":             {Path: "shop.tgz"},
				"chart repository": {Repository: server.URL, Name: "shop", Version: "1.0.0"},
				"registry":         {Repository: "oci://" + reg.Host + "/charts", Name: "shop", Version: "1.0.0"},
				"git":              {Git: g.dir, Path: "shop.tgz"},
			} {
				t.Run(source, func(t *testing.T) {
					_, err := Resolve(context.Background(), work, src, ResolveOptions{Network: network(t), TempDir: work})
					test.check(t, err)
				})
			}
			if diff := cmp.Diff(before, snapshot(t, outer)); diff != "" {
				t.Errorf("files changed:\n%s", diff)
			}
		})
	}
}
