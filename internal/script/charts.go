package script

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/rogpeppe/go-internal/testscript"

	"waybill/registry"
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

// pushChart pushes a packed chart as helm push does: one image manifest with
// Helm's media types.
func pushChart(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: push FILE.tgz HOST/PATH:TAG")
	}
	ctx := context.Background()
	loc, err := registry.ParseLocation("oci://" + args[1])
	ts.Check(err)
	client, err := registry.NewClient(registry.Settings{})
	ts.Check(err)
	dst, err := client.Create(ctx, loc)
	ts.Check(err)
	tgz, err := os.ReadFile(ts.MkAbs(args[0]))
	ts.Check(err)
	p := pusher{ts, dst}
	manifest := p.json(ocispec.MediaTypeImageManifest, ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2},
		Config:    p.push("application/vnd.cncf.helm.config.v1+json", []byte("{}")),
		Layers:    []ocispec.Descriptor{p.push("application/vnd.cncf.helm.chart.content.v1.tar+gzip", tgz)},
	})
	ts.Check(dst.Tag(ctx, manifest, loc.Ref.Tag))
	ts.Check(dst.Commit(ctx))
}
