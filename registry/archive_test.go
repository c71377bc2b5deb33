package registry_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content/memory"
	"oras.land/oras-go/v2/content/oci"

	"waybill/registry"
)

type tarFile struct {
	header tar.Header
	data   []byte
}

func readTar(t testing.TB, path string) []tarFile {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []tarFile
	r := tar.NewReader(bytes.NewReader(data))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, tarFile{*h, body})
	}
}

func writeTar(t testing.TB, path string, files []tarFile) {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, f := range files {
		f.header.Size = int64(len(f.data))
		if err := w.WriteHeader(&f.header); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(f.data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, buf.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

func editTar(t testing.TB, path, name string, edit func([]byte) []byte) {
	t.Helper()
	files := readTar(t, path)
	for i := range files {
		if files[i].header.Name == name {
			files[i].data = edit(files[i].data)
		}
	}
	writeTar(t, path, files)
}

// The order of an archive: layout, index, manifests and signatures, blobs of
// typed manifests, charts, the rest; in each by digest.
func TestArchiveOrder(t *testing.T) {
	at, s := filepath.Join(t.TempDir(), "saved.tar"), newSample(t, "one")
	store(t, client(t, quick()), at, "shop-1.0.0", s)
	byDigest := func(pieces ...piece) []string {
		var names []string
		for _, p := range pieces {
			names = append(names, "blobs/sha256/"+p.desc.Digest.Encoded())
		}
		slices.Sort(names)
		return names
	}
	empty, helm, config := s.all[0], s.all[1], s.all[2]
	want := slices.Concat([]string{"oci-layout", "index.json"},
		byDigest(s.root, s.release, s.chart, s.image, s.signature, s.referrer, s.signed, config, s.proof, empty),
		byDigest(s.releaseFile), byDigest(helm, s.chartLayer), byDigest(s.imageLayer))
	var got []string
	for _, f := range readTar(t, at) {
		got = append(got, f.header.Name)
		if h := f.header; h.Mode != 0o644 || h.Uid != 0 || h.Gid != 0 || h.Uname != "" || h.ModTime.Unix() != 0 || h.Format != tar.FormatUSTAR {
			t.Errorf("%s tells of the machine that made it: %+v", h.Name, h)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The same content makes the same file, whatever the order it came in, and
// makes it next year too.
func TestArchiveIsDeterministic(t *testing.T) {
	dir, s := t.TempDir(), newSample(t, "one")
	c := client(t, quick())
	store(t, c, filepath.Join(dir, "a.tar"), "shop-1.0.0", s)
	turned := s
	turned.all = slices.Clone(s.all)
	slices.Reverse(turned.all)
	store(t, c, filepath.Join(dir, "b.tar"), "shop-1.0.0", turned)
	a, err := os.ReadFile(filepath.Join(dir, "a.tar"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "b.tar"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a, b) {
		t.Error("two archives of the same content differ")
	}
	const pinned = "sha256:d0da59d2532d309c7cbb19506db38a92a43e45e5b5fccf6b932fb6dcf73fbdf2"
	if got := digest.FromBytes(a).String(); got != pinned {
		t.Errorf("the archive is %s, want %s", got, pinned)
	}
}

// Nothing but the archive is left after Commit, and nothing at all after Abort.
func TestArchiveLeavesNothing(t *testing.T) {
	dir, s := t.TempDir(), newSample(t, "one")
	c := client(t, quick())
	list := func() []string {
		found, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, f := range found {
			names = append(names, f.Name())
		}
		return names
	}
	dst, err := c.Create(t.Context(), location(t, filepath.Join(dir, "saved.tar")))
	if err != nil {
		t.Fatal(err)
	}
	s.write(t, dst, "shop")
	if err := dst.Abort(); err != nil {
		t.Fatal(err)
	}
	if names := list(); len(names) != 0 {
		t.Errorf("after Abort there is %v", names)
	}
	store(t, c, filepath.Join(dir, "saved.tar"), "shop", s)
	before, err := os.ReadFile(filepath.Join(dir, "saved.tar"))
	if err != nil {
		t.Fatal(err)
	}
	// A root with a hole in it is not written, and what was there stays.
	dst, err = c.Create(t.Context(), location(t, filepath.Join(dir, "saved.tar")))
	if err != nil {
		t.Fatal(err)
	}
	if err := dst.Push(t.Context(), s.root.desc, bytes.NewReader(s.root.data)); err != nil {
		t.Fatal(err)
	}
	if err := dst.Tag(t.Context(), s.root.desc, "shop"); err != nil {
		t.Fatal(err)
	}
	var content *registry.ContentError
	if err := dst.Commit(t.Context()); !errors.As(err, &content) {
		t.Errorf("an incomplete archive: %v", err)
	}
	after, err := os.ReadFile(filepath.Join(dir, "saved.tar"))
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("the archive that was there has changed, %v", err)
	}
	if names := list(); !cmp.Equal(names, []string{"saved.tar"}) {
		t.Errorf("there is %v", names)
	}
}

// Two writers of one archive don't meet in one file.
func TestArchiveBusy(t *testing.T) {
	c, l := client(t, quick()), location(t, filepath.Join(t.TempDir(), "saved.tar"))
	first, err := c.Create(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	var busy *registry.BusyError
	if _, err := c.Create(t.Context(), l); !errors.As(err, &busy) {
		t.Errorf("a second writer: %v", err)
	}
	if err := first.Abort(); err != nil {
		t.Fatal(err)
	}
	// What a killed writer left is no obstacle.
	if err := os.WriteFile(l.Path+".partial", []byte("half"), 0o644); err != nil {
		t.Fatal(err)
	}
	s := newSample(t, "one")
	store(t, c, l.Path, "shop", s)
	contractContent(t, open(t, c, l.Path), s)
}

// However an archive is cut, opening or reading it says that it is truncated or
// that something is missing.
func TestArchiveTruncated(t *testing.T) {
	dir, s := t.TempDir(), newSample(t, "one")
	c, whole := client(t, quick()), filepath.Join(dir, "saved.tar")
	store(t, c, whole, "shop", s)
	data, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 1, 511, 512, 1000, 1024, 5000, len(data) / 2, len(data) - 1025, len(data) - 1024} {
		at := filepath.Join(dir, "cut.tar")
		if err := os.WriteFile(at, data[:n], 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := c.Open(t.Context(), location(t, at))
		var content *registry.ContentError
		if !errors.As(err, &content) || !strings.Contains(err.Error(), "truncated") {
			t.Errorf("cut to %d of %d bytes: %v", n, len(data), err)
		}
	}
}

// A file that is cut, bytes that are others and a blob that is not there are told
// apart.
func TestArchiveWordsOfDamage(t *testing.T) {
	dir, s := t.TempDir(), newSample(t, "one")
	c, whole, at := client(t, quick()), filepath.Join(dir, "saved.tar"), filepath.Join(dir, "damaged.tar")
	store(t, c, whole, "shop", s)
	name := "blobs/sha256/" + s.imageLayer.desc.Digest.Encoded()
	edit := func(data func([]byte) []byte) func() {
		return func() {
			files := readTar(t, whole)
			files = slices.DeleteFunc(files, func(f tarFile) bool { return data == nil && f.header.Name == name })
			writeTar(t, at, files)
			if data != nil {
				editTar(t, at, name, data)
			}
		}
	}
	for word, damage := range map[string]func(){
		"truncated": func() {
			data, err := os.ReadFile(whole)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(at, data[:len(data)/2], 0o644); err != nil {
				t.Fatal(err)
			}
		},
		"corrupt: the content is not": edit(func(data []byte) []byte { data[len(data)/2] ^= 1; return data }),
		"corrupt: it has 5 bytes":     edit(func(data []byte) []byte { return data[:5] }),
		"corrupt: longer":             edit(func(data []byte) []byte { return append(data, 0) }),
		"incomplete: it is missing":   edit(nil),
	} {
		damage()
		src, err := c.Open(t.Context(), location(t, at))
		if err == nil {
			err = errors.Join(fetch(t.Context(), src, s.imageLayer), src.Close())
		}
		var content *registry.ContentError
		if !errors.As(err, &content) || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v", word, err)
		}
	}
}

// Archives that no tool writes for a good reason are refused, and nothing of
// them is ever used as a path.
func TestArchiveHostile(t *testing.T) {
	dir, s := t.TempDir(), newSample(t, "one")
	c, whole := client(t, quick()), filepath.Join(dir, "saved.tar")
	store(t, c, whole, "shop", s)
	good := readTar(t, whole)
	file := func(name, data string) tarFile {
		return tarFile{tar.Header{Name: name, Mode: 0o644, Typeflag: tar.TypeReg}, []byte(data)}
	}
	link := func(name string, kind byte) tarFile {
		return tarFile{tar.Header{Name: name, Linkname: "/etc/passwd", Typeflag: kind}, nil}
	}
	for name, tc := range map[string]struct {
		files []tarFile
		words string
	}{
		"dot dot":       {append(slices.Clone(good), file("../../etc/x", "")), "leads elsewhere"},
		"absolute":      {append(slices.Clone(good), file("/etc/x", "")), "leads elsewhere"},
		"backslash":     {append(slices.Clone(good), file(`..\x`, "")), "leads elsewhere"},
		"symbolic link": {append(slices.Clone(good), link("blobs/sha256/x", tar.TypeSymlink)), "no plain file"},
		"hard link":     {append(slices.Clone(good), link("x", tar.TypeLink)), "no plain file"},
		"device":        {append(slices.Clone(good), link("x", tar.TypeChar)), "no plain file"},
		"twice":         {append(slices.Clone(good), file("index.json", "{}")), "twice"},
		"no layout":     {[]tarFile{file("manifest.json", "[]")}, "no oci-layout"},
		"no index":      {good[:1], "no index.json"},
		"bad layout":    {append([]tarFile{file("oci-layout", "{")}, good[1:]...), "not JSON"},
		"new layout":    {append([]tarFile{file("oci-layout", `{"imageLayoutVersion":"2.0.0"}`)}, good[1:]...), "2.0.0"},
		"bad index":     {[]tarFile{good[0], file("index.json", "[")}, "not JSON"},
		"bad digest":    {[]tarFile{good[0], file("index.json", `{"manifests":[{"digest":"sha256:../x","size":1}]}`)}, "digest"},
		"huge":          {[]tarFile{good[0], file("index.json", `{"manifests":[{"mediaType":"application/vnd.oci.image.index.v1+json","digest":"`+s.root.desc.Digest.String()+`","size":4611686018427387904}]}`)}, "4 MiB"},
		"negative":      {[]tarFile{good[0], file("index.json", `{"manifests":[{"digest":"`+s.root.desc.Digest.String()+`","size":-1}]}`)}, "-1 bytes"},
		"empty":         {[]tarFile{good[0], file("index.json", `{"manifests":[]}`)}, "nothing in it"},
		"missing root":  {good[:2], "missing"},
	} {
		at := filepath.Join(dir, "hostile.tar")
		writeTar(t, at, tc.files)
		src, err := c.Open(t.Context(), location(t, at))
		if err == nil {
			err = fetch(t.Context(), src, s.root)
		}
		var content *registry.ContentError
		if !errors.As(err, &content) || !strings.Contains(err.Error(), tc.words) {
			t.Errorf("%s: %v, want %q", name, err, tc.words)
		}
	}
	for words, data := range map[string]string{"gzip": "\x1f\x8b\x08", "zstd": "\x28\xb5\x2f\xfd", "no tar archive": strings.Repeat("text ", 400)} {
		at := filepath.Join(dir, "other.tar")
		if err := os.WriteFile(at, []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Open(t.Context(), location(t, at)); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v", words, err)
		}
	}
}

// Other tools' tars: folders as entries, ./ before names, tables beside.
func TestArchiveOfOtherTools(t *testing.T) {
	dir, s := t.TempDir(), newSample(t, "one")
	c, at := client(t, quick()), filepath.Join(dir, "saved.tar")
	store(t, c, at, "shop", s)
	files := []tarFile{{tar.Header{Name: "./blobs/", Mode: 0o755, Typeflag: tar.TypeDir}, nil}, {tar.Header{Name: "manifest.json", Mode: 0o644, Typeflag: tar.TypeReg}, []byte("[]")}}
	for _, f := range readTar(t, at) {
		f.header.Name = "./" + f.header.Name
		files = append(files, f)
	}
	slices.Reverse(files)
	writeTar(t, at, files)
	contractContent(t, open(t, c, at), s)
}

func FuzzOpenArchive(f *testing.F) {
	dir := f.TempDir()
	at := filepath.Join(dir, "saved.tar")
	s := newSample(f, "one")
	c := client(f, quick())
	l := location(f, at)
	writeTar(f, at, []tarFile{
		{tar.Header{Name: "oci-layout", Mode: 0o644}, []byte(`{"imageLayoutVersion":"1.0.0"}`)},
		{tar.Header{Name: "index.json", Mode: 0o644}, []byte(`{"manifests":[{"mediaType":"application/vnd.oci.image.index.v1+json","digest":"` + s.root.desc.Digest.String() + `","size":500}]}`)},
	})
	seed, err := os.ReadFile(at)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(at, data, 0o644); err != nil {
			t.Fatal(err)
		}
		src, err := c.Open(t.Context(), l)
		if err != nil {
			return
		}
		_ = fetch(t.Context(), src, piece{desc: src.Root})
		if err := src.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// What is written here, oras-go reads: a tar and a folder.
func TestOthersRead(t *testing.T) {
	dir, s, c := t.TempDir(), newSample(t, "one"), client(t, quick())
	store(t, c, filepath.Join(dir, "saved.tar"), "shop-1.0.0", s)
	store(t, c, filepath.Join(dir, "layout"), "shop-1.0.0", s)
	fromTar, err := oci.NewFromTar(t.Context(), filepath.Join(dir, "saved.tar"))
	if err != nil {
		t.Fatal(err)
	}
	fromFolder, err := oci.NewFromFS(t.Context(), os.DirFS(filepath.Join(dir, "layout")))
	if err != nil {
		t.Fatal(err)
	}
	for _, from := range []*oci.ReadOnlyStore{fromTar, fromFolder} {
		desc, err := oras.Copy(t.Context(), from, "shop-1.0.0", memory.New(), "", oras.DefaultCopyOptions)
		if err != nil || desc.Digest != s.root.desc.Digest {
			t.Errorf("copied %s, %v", desc.Digest, err)
		}
	}
}
