package script

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// packChart packs a chart's folder, less what helm package would leave out.
func packChart(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: pack DIR FILE.tgz")
	}
	dir := ts.MkAbs(args[0])
	var tgz bytes.Buffer
	zip := gzip.NewWriter(&tgz)
	archive := tar.NewWriter(zip)
	ts.Check(filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(filepath.Join("chart", strings.TrimPrefix(file, dir)))
		if err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(data))}); err != nil {
			return err
		}
		_, err = archive.Write(data)
		return err
	}))
	ts.Check(archive.Close())
	ts.Check(zip.Close())
	path := ts.MkAbs(args[1])
	ts.Check(os.MkdirAll(filepath.Dir(path), 0o755))
	ts.Check(os.WriteFile(path, tgz.Bytes(), 0o644))
}
