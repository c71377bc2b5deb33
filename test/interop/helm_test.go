package interop_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Helm pulls every chart out of the bundle by digest, byte for byte, and
// renders the one whose version has build metadata
func (b *bench) testPull(t *testing.T) {
	b.need(t, "helm")
	for _, r := range b.registries {
		for _, chart := range slices.Sorted(maps.Keys(b.release.charts)) {
			t.Run(r.name+"/"+chart, func(t *testing.T) {
				digest := b.release.charts[chart]
				dir := filepath.Join("pulled", r.name, chart)
				b.write(t, filepath.Join(dir, "readme"), "a place for one chart\n")
				b.must(t, "helm", "pull", "--plain-http", "-d", dir, "oci://"+r.at("tag", digest))
				got := b.onlyChart(t, dir)
				var manifest ocispec.Manifest
				_, data := r.manifest(t, "tag", digest)
				decode(t, data, &manifest)
				if want := manifest.Layers[0].Digest.String(); want != fmt.Sprintf("sha256:%x", sha256.Sum256(got)) {
					t.Errorf("the chart is not the layer %s", want)
				}
				if chart == "db" && !bytes.Equal(got, b.release.given) {
					t.Error("the chart is not the .tgz that was given")
				}
				if out := b.must(t, "helm", "template", "--plain-http", chart, "oci://"+r.at("tag", digest)); !strings.Contains(out, "name: "+chart) {
					t.Errorf("helm rendered %s", out)
				}
			})
		}
	}
}

func (b *bench) onlyChart(t *testing.T, dir string) []byte {
	t.Helper()
	found, err := filepath.Glob(b.path(dir, "*.tgz"))
	if err != nil || len(found) != 1 {
		t.Fatalf("helm left %v in %s, %v", found, dir, err)
	}
	return b.read(t, filepath.Join(dir, filepath.Base(found[0])))
}
