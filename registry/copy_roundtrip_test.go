package registry_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"waybill/internal/registrytest"
	"waybill/registry"
)

// randomCargo is a graph of any shape: indexes in indexes, parts that several
// share, and attachments of both forms on anything, attachments too.
func randomCargo(t testing.TB, r *rand.Rand) cargo {
	c := cargo{tags: map[string]piece{}, hang: map[digest.Digest][]piece{}}
	text := func(what string) string { return fmt.Sprintf("%s %d", what, r.Uint64()) }
	config := blob(ocispec.MediaTypeImageConfig, text(`{}`))
	c.pieces = append(c.pieces, config)
	shared := blob(ocispec.MediaTypeImageLayer, text("shared"))
	c.pieces = append(c.pieces, shared)
	add := func(p piece) piece { c.pieces = append(c.pieces, p); return p }
	leaf := func() piece {
		layers := []piece{shared}
		for range r.IntN(3) {
			layers = append(layers, add(blob(ocispec.MediaTypeImageLayer, text("layer"))))
		}
		return add(image(t, config, "", nil, layers...))
	}
	var node func(depth int) piece
	node = func(depth int) piece {
		if depth == 0 || r.IntN(3) == 0 {
			return leaf()
		}
		var children []ocispec.Descriptor
		for range 1 + r.IntN(3) {
			children = append(children, node(depth-1).desc)
		}
		return add(manifest(t, ocispec.MediaTypeImageIndex, ocispec.Index{
			Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: children,
			Annotations: map[string]string{"salt": text("index")},
		}))
	}
	c.root = node(3)
	manifests := []piece{}
	for _, p := range c.pieces {
		if p.desc.MediaType == ocispec.MediaTypeImageManifest || p.desc.MediaType == ocispec.MediaTypeImageIndex {
			manifests = append(manifests, p)
		}
	}
	for range r.IntN(8) {
		subject := manifests[r.IntN(len(manifests))]
		if r.IntN(2) == 0 {
			m := add(image(t, config, "application/vnd.example.proof", &subject.desc, add(blob("application/vnd.example.proof", text("proof")))))
			c.hang[subject.desc.Digest] = append(c.hang[subject.desc.Digest], m)
			manifests = append(manifests, m)
			continue
		}
		tag := tagOf(subject, []string{".sig", ".att", ".sbom"}[r.IntN(3)])
		if _, taken := c.tags[tag]; taken {
			continue
		}
		m := add(image(t, config, "", nil, add(signedLayer(text("payload"), "by one"))))
		c.tags[tag] = m
		manifests = append(manifests, m)
	}
	return c
}

// Any graph comes back from any journey as it went: every digest is there, and
// everything hangs where it hung. Its root goes by its digest alone half of the
// time.
func TestCopyRoundTrips(t *testing.T) {
	const journeys, stops = 12, 4
	for seed := range uint64(journeys) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			c, cargo := client(t, quick()), randomCargo(t, r)
			at := filepath.Join(t.TempDir(), "begin.tar")
			cargo.lay(t, c, at, "begin")
			for stop := range stops {
				to := randomPlace(t, r, stop)
				src := open(t, c, at+"@"+cargo.root.desc.Digest.String())
				dst, err := c.Create(t.Context(), location(t, to))
				if err != nil {
					t.Fatal(err)
				}
				if _, err := registry.Copy(t.Context(), src, dst, []ocispec.Descriptor{src.Root}, registry.CopyOptions{}); err != nil {
					t.Fatal(err)
				}
				if r.IntN(2) == 0 {
					err = dst.Tag(t.Context(), src.Root, "v1")
				} else {
					err = dst.Keep(t.Context(), src.Root)
				}
				if err == nil {
					err = dst.Commit(t.Context())
				}
				if err != nil {
					t.Fatal(err)
				}
				cargo.holds(t, c, to+"@"+cargo.root.desc.Digest.String())
				at = to
			}
		})
	}
}

func randomPlace(t *testing.T, r *rand.Rand, stop int) string {
	switch dir := t.TempDir(); r.IntN(4) {
	case 0:
		return filepath.Join(dir, fmt.Sprintf("stop%d.tar", stop))
	case 1:
		return "oci-layout:" + filepath.Join(dir, fmt.Sprintf("stop%d", stop))
	default:
		reg := registrytest.New(t, registrytest.Options{NoReferrers: r.IntN(2) == 0})
		return "oci://" + reg.Host + "/stop"
	}
}
