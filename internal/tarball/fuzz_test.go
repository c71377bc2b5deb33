package tarball

import (
	"archive/tar"
	"bytes"
	"errors"
	"io/fs"
	"path/filepath"
	"testing"
)

// Whatever the bytes are: what is given back has names that stay inside, and
// can be written and read again.
func FuzzRead(f *testing.F) {
	var plain bytes.Buffer
	if err := Write(&plain, []File{{Name: "x/a", Data: []byte("a")}}); err != nil {
		f.Fatal(err)
	}
	f.Add(plain.Bytes())
	f.Add([]byte{})
	for _, h := range []tar.Header{reg("../x"), reg("x/./y"), {Typeflag: tar.TypeSymlink, Name: "l", Linkname: "/"}} {
		var buf bytes.Buffer
		tw := tar.NewWriter(&buf)
		if err := tw.WriteHeader(&h); err != nil {
			f.Fatal(err)
		}
		f.Add(buf.Bytes())
	}
	limits := Limits{Files: 100, FileBytes: 1 << 16, TotalBytes: 1 << 18}
	f.Fuzz(func(t *testing.T, data []byte) {
		files, err := Read(bytes.NewReader(data), limits)
		if err != nil {
			var hostile *HostileError
			var limit *LimitError
			if !errors.As(err, &hostile) && !errors.As(err, &limit) && !errors.Is(err, ErrCorrupt) {
				t.Errorf("error of no known kind: %v", err)
			}
			return
		}
		for _, file := range files {
			if !fs.ValidPath(file.Name) || file.Name == "." || !filepath.IsLocal(filepath.FromSlash(file.Name)) {
				t.Errorf("name %q is no local path", file.Name)
			}
		}
		var again bytes.Buffer
		if err := Write(&again, files); err != nil {
			t.Fatalf("writing what was read: %v", err)
		}
		back, err := Read(&again, limits)
		if err != nil || len(back) != len(files) {
			t.Errorf("read %d files again (%v), want %d", len(back), err, len(files))
		}
	})
}
