package interop_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// A release is the bundle that is carried about. It lies in every registry,
// archive and layout once for each form of signature, in the repository, file
// and folder that is named after the form.
type release struct {
	root   string
	charts map[string]string // manifest digests by name
	given  []byte            // the .tgz of the chart db, as it was given
}

const (
	version = "1.4.0"
	tag     = version
	name    = "shop-" + version // in an archive or a layout
)

// releaseFile has a chart from a folder, one with build metadata in its
// version, and one from a .tgz.
const releaseFile = `apiVersion: waybill/v1
kind: Release
name: shop
version: 1.4.0
components:
  - name: db
    chart: {path: given/db-2.0.1.tgz}
    namespace: shop
  - name: web
    chart: {path: charts/web}
    namespace: shop
    needs: [db]
    values: {replicas: 2}
  - name: cache
    chart: {path: charts/cache}
    namespace: shop
`

// forms are what --signature-format takes.
func forms() []string { return []string{"tag", "referrer", "both"} }

// makeRelease writes the release, its charts and a key, and builds it into all
// registries, an archive and a layout.
func (b *bench) makeRelease(t *testing.T) {
	t.Helper()
	b.write(t, "release.yaml", releaseFile)
	for name, text := range chartFiles("web", "1.2.3+build.5") {
		b.write(t, "charts/"+name, text)
	}
	for name, text := range chartFiles("cache", "0.4.0") {
		b.write(t, "charts/"+name, text)
	}
	b.release.given = packChart(t, chartFiles("db", "2.0.1"))
	b.write(t, "given/db-2.0.1.tgz", string(b.release.given))
	for _, key := range []string{"ours", "other", "theirs"} {
		b.must(t, "bundle", "keygen", "--prefix", key)
	}
	for _, form := range forms() {
		args := []string{"build", "--no-images", "--signing-key", "ours.key", "--signature-format", form, "-t", "./" + form + ".tar", "-t", "./" + form + ".layout"}
		for _, r := range b.registries {
			args = append(args, "-t", "oci://"+r.host+"/"+form)
		}
		for line := range strings.Lines(b.must(t, "bundle", args...)) {
			b.sameRoot(t, line[strings.LastIndex(line, "@")+1:])
		}
	}
	b.readCharts(t)
}

// sameRoot wants one digest for all places and forms.
func (b *bench) sameRoot(t *testing.T, digest string) {
	t.Helper()
	digest = strings.TrimSpace(digest)
	if b.release.root == "" {
		b.release.root = digest
	}
	if digest != b.release.root {
		t.Fatalf("root digest is %s here and %s elsewhere", digest, b.release.root)
	}
}

// readCharts takes the charts' digests from the index itself.
func (b *bench) readCharts(t *testing.T) {
	t.Helper()
	digest, data := b.registries[0].manifest(t, "tag", tag)
	b.sameRoot(t, digest)
	var index ocispec.Index
	decode(t, data, &index)
	b.release.charts = map[string]string{}
	for _, desc := range index.Manifests {
		if chart := desc.Annotations["waybill.component"]; chart != "" {
			b.release.charts[chart] = desc.Digest.String()
		}
	}
	if len(b.release.charts) != 3 {
		t.Fatalf("the index lists the charts %v", b.release.charts)
	}
}

// chartFiles are a small chart, by path.
func chartFiles(name, version string) map[string]string {
	return map[string]string{
		name + "/Chart.yaml":         fmt.Sprintf("apiVersion: v2\nname: %s\nversion: %s\n", name, version),
		name + "/values.yaml":        "replicas: 1\n",
		name + "/templates/map.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\ndata: {replicas: {{ .Values.replicas | quote }}}\n",
	}
}

// packChart packs a chart as a stranger would: in another order, with other
// modes and another compressor than ours.
func packChart(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	tape := tar.NewWriter(zip)
	for _, name := range []string{"db/values.yaml", "db/Chart.yaml", "db/templates/map.yaml"} {
		if err := tape.WriteHeader(&tar.Header{Name: name, Mode: 0o640, Size: int64(len(files[name])), Uname: "stranger"}); err != nil {
			t.Fatal(err)
		}
		if _, err := tape.Write([]byte(files[name])); err != nil {
			t.Fatal(err)
		}
	}
	if err := tape.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
