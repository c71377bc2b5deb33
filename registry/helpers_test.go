package registry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"

	"waybill/internal/registrytest"
	"waybill/registry"
)

// piece is content with its descriptor.
type piece struct {
	desc ocispec.Descriptor
	data []byte
}

func blob(mediaType, data string) piece {
	return piece{ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromString(data), Size: int64(len(data))}, []byte(data)}
}

func manifest(t testing.TB, mediaType string, value any) piece {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return piece{ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}, data}
}

func image(t testing.TB, config piece, artifactType string, subject *ocispec.Descriptor, layers ...piece) piece {
	m := ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, Config: config.desc, ArtifactType: artifactType, Subject: subject}
	for _, layer := range layers {
		m.Layers = append(m.Layers, layer.desc)
	}
	return manifest(t, ocispec.MediaTypeImageManifest, m)
}

// sample is a small graph of the shape that bundles have: an index of a typed
// manifest, a chart and an image; a signature by tag, and one by subject.
type sample struct {
	root, release, chart, image, signature, referrer piece

	releaseFile, chartLayer, imageLayer, signed, proof piece

	all []piece // in the order to push
}

func newSample(t testing.TB, salt string) sample {
	empty := blob(ocispec.MediaTypeEmptyJSON, "{}")
	helm := blob("application/vnd.cncf.helm.config.v1+json", `{"name":"podinfo"}`)
	config := blob(ocispec.MediaTypeImageConfig, `{"os":"linux"}`)
	s := sample{
		releaseFile: blob("application/vnd.example.release-file", "name: "+salt),
		chartLayer:  blob("application/vnd.cncf.helm.chart.content.v1.tar+gzip", "chart of "+salt),
		imageLayer:  blob(ocispec.MediaTypeImageLayerGzip, strings.Repeat("layer of "+salt, 4000)),
		signed:      blob("application/vnd.dev.cosign.simplesigning.v1+json", "signed "+salt),
		proof:       blob("application/vnd.example.proof", "proof of "+salt),
	}
	s.release = image(t, empty, "application/vnd.example.release", nil, s.releaseFile)
	s.chart = image(t, helm, "", nil, s.chartLayer)
	s.image = image(t, config, "", nil, s.imageLayer)
	s.root = manifest(t, ocispec.MediaTypeImageIndex, ocispec.Index{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, ArtifactType: "application/vnd.example.bundle",
		Manifests: []ocispec.Descriptor{s.release.desc, s.chart.desc, s.image.desc},
	})
	s.signature = image(t, config, "", nil, s.signed)
	s.referrer = image(t, empty, "application/vnd.example.proof", &s.root.desc, s.proof)
	s.all = []piece{empty, helm, config, s.releaseFile, s.chartLayer, s.imageLayer, s.release, s.chart, s.image, s.root, s.signed, s.signature, s.proof, s.referrer}
	return s
}

func (s sample) signatureTag() string {
	return strings.Replace(s.root.desc.Digest.String(), ":", "-", 1) + ".sig"
}

// write pushes a sample and tags it last.
func (s sample) write(t testing.TB, dst *registry.Destination, name string) {
	t.Helper()
	ctx := t.Context()
	for _, p := range s.all {
		if err := dst.Push(ctx, p.desc, bytes.NewReader(p.data)); err != nil {
			t.Fatalf("pushing %s: %v", p.desc.Digest, err)
		}
	}
	if err := dst.Tag(ctx, s.signature.desc, s.signatureTag()); err != nil {
		t.Fatal(err)
	}
	if err := dst.Tag(ctx, s.root.desc, name); err != nil {
		t.Fatal(err)
	}
}

// store writes a sample to a location, all the way.
func store(t testing.TB, c *registry.Client, at, name string, s sample) registry.Location {
	t.Helper()
	l := location(t, at)
	dst, err := c.Create(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	s.write(t, dst, name)
	if err := dst.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	return l
}

func location(t testing.TB, s string) registry.Location {
	t.Helper()
	l, err := registry.ParseLocation(s)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func client(t testing.TB, s registry.Settings) *registry.Client {
	t.Helper()
	c, err := registry.NewClient(s)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func open(t testing.TB, c *registry.Client, at string) *registry.Source {
	t.Helper()
	src, err := c.Open(t.Context(), location(t, at))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := src.Close(); err != nil {
			t.Error(err)
		}
	})
	return src
}

func fetch(ctx context.Context, src content.Fetcher, p piece) error {
	_, err := content.FetchAll(ctx, src, p.desc)
	return err
}

// place is one of the three kinds of places, empty.
type place struct {
	name string
	at   string // location without a choice
	tag  string // what stands between it and a name
	reg  *registrytest.Server
}

func places(t *testing.T, opts registrytest.Options) []place {
	t.Helper()
	reg := registrytest.New(t, opts)
	dir := t.TempDir()
	return []place{
		{"registry", "oci://" + reg.Host + "/team/shop", ":", reg},
		{"layout", filepath.Join(dir, "layout"), "#", nil},
		{"archive", filepath.Join(dir, "saved.tar"), "#", nil},
	}
}

func digestsOf(all []ocispec.Descriptor) []string {
	var out []string
	for _, desc := range all {
		out = append(out, desc.Digest.String())
	}
	slices.Sort(out)
	return out
}

// quick are settings that don't make a failing test wait long.
func quick() registry.Settings {
	return registry.Settings{Retry: 2, IdleTimeout: 300 * time.Millisecond}
}
