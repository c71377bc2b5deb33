package tarball

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
)

// entries makes a gzip-compressed tar as a stranger would.
func entries(t testing.TB, headers ...tar.Header) []byte {
	t.Helper()
	var buf bytes.Buffer
	zw := gzip.NewWriter(&buf)
	tw := tar.NewWriter(zw)
	for _, h := range headers {
		body := []byte{}
		if h.Typeflag == tar.TypeReg && h.Size == 0 {
			body = []byte("content of " + h.Name)
			h.Size = int64(len(body))
		}
		if err := tw.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := tw.Write(body); err != nil {
			t.Fatal(err)
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func reg(name string) tar.Header { return tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644} }

func dir(name string) tar.Header { return tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755} }

func TestHostileEntriesAreRefusedAndNamed(t *testing.T) {
	tests := map[string]struct {
		entry  tar.Header
		before []tar.Header
	}{
		"climbs from within":        {entry: reg("x/../../outside")},
		"climbs at once":            {entry: reg("../outside")},
		"climbs at the end":         {entry: reg("x/..")},
		"absolute":                  {entry: reg("/etc/passwd")},
		"current folder":            {entry: dir("./")},
		"in the current folder":     {entry: reg("./Chart.yaml")},
		"dot within":                {entry: reg("x/./y")},
		"empty part":                {entry: reg("x//y")},
		"drive":                     {entry: reg("C:/x")},
		"drive below a folder":      {entry: reg("x/c:/y")},
		"backslash drive":           {entry: reg(`C:\x`)},
		"backslash":                 {entry: reg(`x\..\..\y`)},
		"line break in the name":    {entry: reg("x/a\nb")},
		"not UTF-8":                 {entry: reg("x/\xff")},
		"symbolic link":             {entry: tar.Header{Typeflag: tar.TypeSymlink, Name: "x/link", Linkname: "/etc"}},
		"hard link":                 {entry: tar.Header{Typeflag: tar.TypeLink, Name: "x/link", Linkname: "x/file"}, before: []tar.Header{reg("x/file")}},
		"character device":          {entry: tar.Header{Typeflag: tar.TypeChar, Name: "x/null", Devmajor: 1, Devminor: 3}},
		"block device":              {entry: tar.Header{Typeflag: tar.TypeBlock, Name: "x/disk"}},
		"pipe":                      {entry: tar.Header{Typeflag: tar.TypeFifo, Name: "x/pipe"}},
		"unknown type":              {entry: tar.Header{Typeflag: 'Z', Name: "x/what"}},
		"twice":                     {entry: reg("x/a"), before: []tar.Header{reg("x/a")}},
		"a file below a file":       {entry: reg("x/a/b"), before: []tar.Header{reg("x/a")}},
		"a file where a folder is":  {entry: reg("x/a"), before: []tar.Header{dir("x/a/")}},
		"a folder where a file is":  {entry: dir("x/a/"), before: []tar.Header{reg("x/a")}},
		"a climbing folder":         {entry: dir("x/../..")},
		"a file where files are in": {entry: reg("x/a"), before: []tar.Header{reg("x/a/b")}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			before := tree(t)
			files, err := ReadGzip(bytes.NewReader(entries(t, append(test.before, test.entry)...)), Limits{})
			var hostile *HostileError
			if !errors.As(err, &hostile) {
				t.Fatalf("got %v and %d files, want a HostileError", err, len(files))
			}
			if hostile.Entry != test.entry.Name {
				t.Errorf("named %q, want %q", hostile.Entry, test.entry.Name)
			}
			if files != nil {
				t.Errorf("%d files were given all the same", len(files))
			}
			if diff := cmp.Diff(before, tree(t)); diff != "" {
				t.Errorf("the file system changed:\n%s", diff)
			}
		})
	}
}

// tree lists the working directory and the one above it.
func tree(t *testing.T) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir("..", func(name string, _ os.DirEntry, err error) error {
		names = append(names, name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestReadTakesWhatHonestToolsWrite(t *testing.T) {
	var buf bytes.Buffer
	tw := tar.NewWriter(&buf)
	long := "chart/" + strings.Repeat("long/", 40) + "näme.txt"
	for _, h := range []tar.Header{
		{Typeflag: tar.TypeXGlobalHeader, Name: "pax_global_header", PAXRecords: map[string]string{"comment": "git"}},
		dir("chart/"), reg("chart/b"), reg("chart/a"), reg(long),
	} {
		h.Size = 0
		if err := tw.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := Read(&buf, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		names = append(names, f.Name)
	}
	if diff := cmp.Diff([]string{"chart/b", "chart/a", long}, names); diff != "" {
		t.Error(diff)
	}
}

func TestLastWins(t *testing.T) {
	var buf bytes.Buffer
	tw := tar.NewWriter(&buf)
	for _, text := range []string{"first", "last"} {
		h := reg("x/a")
		h.Size = int64(len(text))
		if err := tw.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(tw, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := Read(&buf, Limits{LastWins: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 1 || string(files[0].Data) != "last" {
		t.Errorf("got %v, want one file with the last content", files)
	}
}

func TestLimits(t *testing.T) {
	big := strings.Repeat("a", 100)
	data := packed(t, []File{{Name: "x/a", Data: []byte(big)}, {Name: "x/b", Data: []byte(big)}})
	tests := map[string]struct {
		limits Limits
		entry  string
	}{
		"one file":  {Limits{FileBytes: 99}, "x/a"},
		"all files": {Limits{TotalBytes: 150}, "x/b"},
		"entries":   {Limits{Files: 1}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := ReadGzip(bytes.NewReader(data), test.limits)
			var limit *LimitError
			if !errors.As(err, &limit) || limit.Entry != test.entry {
				t.Fatalf("got %v, want a LimitError about %q", err, test.entry)
			}
		})
	}
	if _, err := ReadGzip(bytes.NewReader(data), Limits{FileBytes: 100, TotalBytes: 200, Files: 2}); err != nil {
		t.Errorf("exactly at the limits: %v", err)
	}
}

// A bomb hides behind the end of the tar, where no entry announces its size.
func TestBytesBehindTheTarAreBounded(t *testing.T) {
	var buf bytes.Buffer
	zw := gzip.NewWriter(&buf)
	if err := Write(zw, []File{{Name: "x/a"}}); err != nil {
		t.Fatal(err)
	}
	zeros := make([]byte, 1<<20)
	for range 64 {
		if _, err := zw.Write(zeros); err != nil {
			t.Fatal(err)
		}
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := ReadGzip(&buf, Limits{Files: 10, TotalBytes: 1 << 20})
	var limit *LimitError
	if !errors.As(err, &limit) {
		t.Errorf("got %v, want a LimitError", err)
	}
}

func TestTruncatedAndForeignBytesAreCorrupt(t *testing.T) {
	whole := packed(t, []File{{Name: "x/a", Data: []byte("hello")}})
	for n := range len(whole) {
		if _, err := ReadGzip(bytes.NewReader(whole[:n]), Limits{}); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("cut after %d of %d bytes: got %v, want ErrCorrupt", n, len(whole), err)
		}
	}
	if _, err := ReadGzip(strings.NewReader("<html>404</html>"), Limits{}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("got %v, want ErrCorrupt", err)
	}
}

func packed(t testing.TB, files []File) []byte {
	t.Helper()
	var buf bytes.Buffer
	if err := WriteGzip(&buf, files); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestWriteDependsOnNamesAndDataAlone(t *testing.T) {
	a := File{Name: "chart/templates/a.yaml", Mode: 0o600, Data: []byte("a: 1\n")}
	b := File{Name: "chart/" + strings.Repeat("b", 120) + "/ü.yaml", Mode: 0o755, Data: []byte("b: 2\n")}
	one := packed(t, []File{a, b})
	a.Mode, b.Mode = 0, 0
	if two := packed(t, []File{b, a}); !bytes.Equal(one, two) {
		t.Error("order and mode change the bytes")
	}
	// Bundles are named by digests made of these bytes: a change here changes
	// them all.
	const want = "sha256:180af31a39d696074072a2e3ffd7e3ebed0cf3f1971180cd3acf3d11d9124362"
	if got := digest.FromBytes(one).String(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	tr := tar.NewReader(ungzip(t, one))
	h, err := tr.Next()
	if err != nil {
		t.Fatal(err)
	}
	if h.Mode != 0o644 || h.Uid != 0 || h.Gid != 0 || h.Uname != "" || !h.ModTime.Equal(time.Unix(0, 0)) {
		t.Errorf("header %+v says more than name and size", h)
	}
	got, err := ReadGzip(bytes.NewReader(one), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	a.Mode, b.Mode = 0o644, 0o644
	if diff := cmp.Diff([]File{b, a}, got); diff != "" {
		t.Errorf("what was read is not what was written:\n%s", diff)
	}
}

func ungzip(t *testing.T, data []byte) io.Reader {
	t.Helper()
	zr, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if !zr.ModTime.IsZero() || zr.Name != "" || zr.Comment != "" || len(zr.Extra) != 0 {
		t.Errorf("gzip header %+v says something", zr.Header)
	}
	return zr
}

func TestWriteRefusesWhatReadRefuses(t *testing.T) {
	var hostile *HostileError
	if err := Write(io.Discard, []File{{Name: "../x"}}); !errors.As(err, &hostile) {
		t.Errorf("got %v, want a HostileError", err)
	}
	if err := Write(io.Discard, []File{{Name: "x"}, {Name: "x"}}); !errors.As(err, &hostile) {
		t.Errorf("got %v, want a HostileError", err)
	}
}
