package registry_test

import (
	"bytes"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"waybill/internal/registrytest"
	"waybill/registry"
)

// manifestsRead is how many manifests were read by digest.
func manifestsRead(requests []registrytest.Request) int {
	n := 0
	for _, r := range requests {
		if r.Method == http.MethodGet && strings.Contains(r.Path, "/manifests/sha256:") && r.Status == http.StatusOK {
			n++
		}
	}
	return n
}

// What the target has already is not read at the source.
func TestCopyReadsAhead(t *testing.T) {
	c, cargo := client(t, quick()), newCargo(t, "one")
	source, target := registrytest.New(t, registrytest.Options{}), registrytest.New(t, registrytest.Options{})
	from, to := location(t, "oci://"+source.Host+"/shop:1.0.0"), location(t, "oci://"+target.Host+"/mirror")
	cargo.lay(t, c, "oci://"+source.Host+"/shop", "1.0.0")
	for _, want := range []bool{true, false} {
		source.Forget()
		if _, err := carry(t.Context(), c, from, to, "1.0.0", registry.CopyOptions{WithoutAttachments: true}); err != nil {
			t.Fatal(err)
		}
		if n := manifestsRead(source.Requests()); n > 0 != want {
			t.Errorf("%d manifests were read at the source", n)
		}
	}
}

// A target that answers no question while a copy is planned is no obstacle then.
func TestCopyReadsAheadInVain(t *testing.T) {
	c, cargo := client(t, quick()), newCargo(t, "one")
	source := registrytest.New(t, registrytest.Options{})
	target := registrytest.New(t, registrytest.Options{Fault: func(r *http.Request) *registrytest.Fault {
		if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/manifests/") {
			return &registrytest.Fault{Status: http.StatusInternalServerError}
		}
		return nil
	}})
	from := location(t, "oci://"+source.Host+"/shop:1.0.0")
	cargo.lay(t, c, "oci://"+source.Host+"/shop", "1.0.0")
	ahead, err := c.Create(t.Context(), location(t, "oci://"+target.Host+"/mirror"))
	if err != nil {
		t.Fatal(err)
	}
	src := open(t, c, from.String())
	plan, err := registry.PlanCopy(t.Context(), src, []ocispec.Descriptor{src.Root}, registry.CopyOptions{Ahead: ahead})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(target.Requests()); n > 8 {
		t.Errorf("the target was asked %d times", n)
	}
	other := registrytest.New(t, registrytest.Options{})
	dst, err := c.Create(t.Context(), location(t, "oci://"+other.Host+"/mirror"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := plan.To(t.Context(), dst, registry.CopyOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := dst.Tag(t.Context(), src.Root, "1.0.0"); err != nil {
		t.Fatal(err)
	}
	cargo.holds(t, c, "oci://"+other.Host+"/mirror:1.0.0")
}

// A root that is taken for complete is not looked into, and what went missing
// below it stays missing; new signatures of it come along all the same.
func TestCopyAssumesComplete(t *testing.T) {
	c, cargo := client(t, quick()), newCargo(t, "one")
	source, target := registrytest.New(t, registrytest.Options{}), registrytest.New(t, registrytest.Options{})
	from, to := location(t, "oci://"+source.Host+"/shop:1.0.0"), location(t, "oci://"+target.Host+"/mirror")
	cargo.lay(t, c, "oci://"+source.Host+"/shop", "1.0.0")
	assume := registry.CopyOptions{AssumeComplete: true}
	result, err := carry(t.Context(), c, from, to, "1.0.0", assume)
	if err != nil || result.Assumed != 0 {
		t.Fatalf("%d manifests of an empty target were taken for complete, %v", result.Assumed, err)
	}
	cargo.holds(t, c, to.String()+":1.0.0")

	lost := newSample(t, "one").imageLayer.desc
	if err := target.RemoveBlob("mirror", lost.Digest); err != nil {
		t.Fatal(err)
	}
	target.Forget()
	result, err = carry(t.Context(), c, from, to, "1.0.0", assume)
	if err != nil || result.Assumed != 1 || result.Copied.Objects != 0 {
		t.Errorf("%d were taken for complete, %d copied, %v", result.Assumed, result.Copied.Objects, err)
	}
	for _, r := range target.Requests() {
		if strings.HasSuffix(r.Path, lost.Digest.String()) {
			t.Errorf("%s %s", r.Method, r.Path)
		}
	}
	signAgain(t, c, "oci://"+source.Host+"/shop", cargo.root)
	result, err = carry(t.Context(), c, from, to, "1.0.0", assume)
	if err != nil || result.Copied.Objects == 0 {
		t.Errorf("the new signature was not copied: %v", err)
	}
}

// signAgain puts another signature under a manifest's tag.
func signAgain(t *testing.T, c *registry.Client, at string, of piece) {
	t.Helper()
	dst, err := c.Create(t.Context(), location(t, at))
	if err != nil {
		t.Fatal(err)
	}
	config, layer := blob(ocispec.MediaTypeImageConfig, "{}"), signedLayer("the root, again", "by two")
	signature := image(t, config, "", nil, layer)
	for _, p := range []piece{config, layer, signature} {
		if err := dst.Push(t.Context(), p.desc, bytes.NewReader(p.data)); err != nil {
			t.Fatal(err)
		}
	}
	if err := dst.Tag(t.Context(), signature.desc, tagOf(of, ".sig")); err != nil {
		t.Fatal(err)
	}
}

// manyBlobs is an image of so many layers.
func manyBlobs(t testing.TB, n int) cargo {
	config := blob(ocispec.MediaTypeImageConfig, "{}")
	c := cargo{pieces: []piece{config}}
	var layers []piece
	for i := range n {
		layers = append(layers, blob(ocispec.MediaTypeImageLayer, strings.Repeat("layer ", i+1)))
	}
	c.root = image(t, config, "", nil, layers...)
	c.pieces = append(append(c.pieces, layers...), c.root)
	return c
}

// A registry that is empty is not asked for every blob. One that holds some, from
// a copy that was interrupted, is, and gets what is missing.
func TestCopyToAnEmptyRegistry(t *testing.T) {
	c, cargo := client(t, quick()), manyBlobs(t, 100)
	source := filepath.Join(t.TempDir(), "from.tar")
	cargo.lay(t, c, source, "1.0.0")
	for name, tc := range map[string]struct {
		before []piece
		tag    bool
		asked  bool
	}{
		"empty":                {},
		"interrupted":          {before: cargo.pieces[90:100], asked: true},
		"of another version":   {before: cargo.pieces[:30], tag: true, asked: true},
		"early interrupted":    {before: cargo.pieces[len(cargo.pieces)-2 : len(cargo.pieces)-1], asked: true},
		"with only small ones": {before: cargo.pieces[1:3]},
	} {
		t.Run(name, func(t *testing.T) {
			reg := registrytest.New(t, registrytest.Options{})
			at := "oci://" + reg.Host + "/mirror"
			laySome(t, c, at, tc.before, tc.tag)
			reg.Forget()
			result, err := carry(t.Context(), c, location(t, source), location(t, at), "1.0.0", registry.CopyOptions{})
			if err != nil {
				t.Fatal(err)
			}
			cargo.holds(t, c, at+":1.0.0")
			absent := 0
			for _, r := range reg.Requests() {
				if r.Method == http.MethodHead && strings.Contains(r.Path, "/blobs/") && r.Status == http.StatusNotFound {
					absent++
				}
			}
			if asked := absent > 32; asked != tc.asked {
				t.Errorf("the registry was asked for %d blobs that it had not got", absent)
			}
			if want := len(cargo.pieces) - len(tc.before); tc.asked && result.Copied.Objects != want {
				t.Errorf("%d objects were sent, want %d", result.Copied.Objects, want)
			}
		})
	}
}

// laySome puts pieces into a place, and a tag of something else.
func laySome(t *testing.T, c *registry.Client, at string, pieces []piece, tag bool) {
	t.Helper()
	dst, err := c.Create(t.Context(), location(t, at))
	if err != nil {
		t.Fatal(err)
	}
	if tag {
		other := image(t, pieces[0], "", nil, pieces[1])
		pieces = append(slices.Clone(pieces), other)
		defer func() {
			if err := dst.Tag(t.Context(), other.desc, "0.9.0"); err != nil {
				t.Fatal(err)
			}
		}()
	}
	for _, p := range pieces {
		if err := dst.Push(t.Context(), p.desc, bytes.NewReader(p.data)); err != nil {
			t.Fatal(err)
		}
	}
}
