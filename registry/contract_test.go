package registry_test

import (
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
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"

	"waybill/internal/registrytest"
	"waybill/registry"
)

// One contract for a registry with the referrers API, one without, a layout and
// an archive.
func TestContract(t *testing.T) {
	for _, p := range append(places(t, registrytest.Options{}), places(t, registrytest.Options{NoReferrers: true})[0]) {
		t.Run(p.name, func(t *testing.T) { contract(t, p) })
	}
}

func contract(t *testing.T, p place) {
	c, s := client(t, quick()), newSample(t, "one")
	store(t, c, p.at, "shop-1.0.0", s)

	src := open(t, c, p.at+p.tag+"shop-1.0.0")
	if src.Root.Digest != s.root.desc.Digest || src.Location.Digest != s.root.desc.Digest {
		t.Errorf("opened %s at %s, want %s", src.Root.Digest, src.Location, s.root.desc.Digest)
	}
	again := open(t, c, src.Location.String())
	if again.Root.Digest != src.Root.Digest {
		t.Errorf("%s opens as %s", src.Location, again.Root.Digest)
	}
	if src.Local() == (p.reg != nil) {
		t.Errorf("Local() = %v", src.Local())
	}
	t.Run("content", func(t *testing.T) { contractContent(t, src, s) })
	t.Run("attachments", func(t *testing.T) { contractAttachments(t, src, s) })
	t.Run("absent", func(t *testing.T) { contractAbsent(t, c, src, p) })
	t.Run("tags", func(t *testing.T) { contractTags(t, c, p, s) })
	t.Run("destination", func(t *testing.T) { contractDestination(t, c, p, s) })
}

func contractContent(t *testing.T, src *registry.Source, s sample) {
	for _, want := range s.all {
		rc, err := src.Fetch(t.Context(), want.desc)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(rc)
		if err != nil || !bytes.Equal(got, want.data) {
			t.Errorf("%s came back as %d bytes, %v", want.desc.Digest, len(got), err)
		}
		if err := rc.Close(); err != nil {
			t.Error(err)
		}
		if ok, err := src.Has(t.Context(), want.desc); !ok || err != nil {
			t.Errorf("Has(%s) = %v, %v", want.desc.Digest, ok, err)
		}
	}
}

func contractAttachments(t *testing.T, src *registry.Source, s sample) {
	desc, err := src.Resolve(t.Context(), s.signatureTag())
	if err != nil || desc.Digest != s.signature.desc.Digest || desc.MediaType != s.signature.desc.MediaType {
		t.Errorf("the signature's tag gives %+v, %v", desc, err)
	}
	found, err := src.Predecessors(t.Context(), s.root.desc)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{s.referrer.desc.Digest.String()}, digestsOf(found)); diff != "" {
		t.Error(diff)
	}
	if len(found) == 1 && found[0].ArtifactType != "application/vnd.example.proof" {
		t.Errorf("the referrer has artifact type %q", found[0].ArtifactType)
	}
	if found, err := src.Predecessors(t.Context(), s.chart.desc); err != nil || len(found) != 0 {
		t.Errorf("the chart has referrers %v, %v", found, err)
	}
}

func contractAbsent(t *testing.T, c *registry.Client, src *registry.Source, p place) {
	var notFound *registry.NotFoundError
	if _, err := src.Resolve(t.Context(), "2.0.0"); !errors.As(err, &notFound) || !errors.Is(err, errdef.ErrNotFound) {
		t.Errorf("resolving an absent tag: %v", err)
	}
	if _, err := src.Resolve(t.Context(), digest.FromString("absent").String()); !errors.As(err, &notFound) {
		t.Errorf("resolving an absent digest: %v", err)
	}
	_, err := c.Open(t.Context(), location(t, p.at+p.tag+"2.0.0"))
	if !errors.As(err, &notFound) || !strings.Contains(err.Error(), "shop-1.0.0") {
		t.Errorf("opening an absent tag does not say what is there: %v", err)
	}
	absent := blob("application/octet-stream", "absent")
	if ok, err := src.Has(t.Context(), absent.desc); ok || err != nil {
		t.Errorf("Has(absent) = %v, %v", ok, err)
	}
	var content *registry.ContentError
	if err := fetch(t.Context(), src, absent); !errors.As(err, &content) || !errors.Is(err, errdef.ErrNotFound) || content.Digest != absent.desc.Digest {
		t.Errorf("fetching absent content: %v", err)
	}
	big := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: absent.desc.Digest, Size: 5 << 20}
	if _, err := src.Fetch(t.Context(), big); !errors.As(err, &content) {
		t.Errorf("fetching a manifest of 5 MiB: %v", err)
	}
	if _, err := src.Fetch(t.Context(), ocispec.Descriptor{Digest: "sha256:../../x", Size: 1}); !errors.As(err, &content) {
		t.Errorf("fetching by a digest that is none: %v", err)
	}
}

func contractTags(t *testing.T, c *registry.Client, p place, s sample) {
	names, err := c.List(t.Context(), location(t, p.at))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"shop-1.0.0"}, names); diff != "" {
		t.Errorf("signatures are no versions: %s", diff)
	}
	var raw []string
	err = open(t, c, p.at+"@"+s.root.desc.Digest.String()).Tags(t.Context(), func(tags []string) error {
		raw = append(raw, tags...)
		return nil
	})
	if err != nil || !slices.Contains(raw, s.signatureTag()) {
		t.Errorf("Tags() = %v, %v", raw, err)
	}
}

func contractDestination(t *testing.T, c *registry.Client, p place, s sample) {
	dst, err := c.Update(t.Context(), location(t, p.at))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := dst.Abort(); err != nil {
			t.Error(err)
		}
	}()
	if desc, err := dst.Resolve(t.Context(), "shop-1.0.0"); err != nil || desc.Digest != s.root.desc.Digest {
		t.Errorf("Resolve() = %v, %v", desc, err)
	}
	if _, err := dst.Resolve(t.Context(), "2.0.0"); !errors.Is(err, errdef.ErrNotFound) {
		t.Errorf("resolving an absent tag: %v", err)
	}
	if ok, err := dst.Exists(t.Context(), s.chart.desc); !ok || err != nil {
		t.Errorf("Exists() = %v, %v", ok, err)
	}
	if found, err := dst.Predecessors(t.Context(), s.root.desc); err != nil || len(found) != 1 {
		t.Errorf("Predecessors() = %v, %v", found, err)
	}
	wrong := blob("application/octet-stream", "right")
	var content *registry.ContentError
	if err := dst.Push(t.Context(), wrong.desc, strings.NewReader("wrong")); !errors.As(err, &content) {
		t.Errorf("pushing the wrong bytes: %v", err)
	}
	if ok, _ := dst.Exists(t.Context(), wrong.desc); ok {
		t.Error("the wrong bytes are there")
	}
	if err := dst.Tag(t.Context(), s.chart.desc, "no tag"); err == nil {
		t.Error("a name with a space was taken")
	}
	next := newSample(t, "two")
	next.write(t, dst, "shop-1.1.0")
	if err := dst.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	names, err := c.List(t.Context(), location(t, p.at))
	if err != nil || !cmp.Equal([]string{"shop-1.1.0", "shop-1.0.0"}, names) {
		t.Errorf("after another one was added there is %v, %v", names, err)
	}
	var choice *registry.ChoiceError
	if _, err := c.Open(t.Context(), location(t, p.at)); !errors.As(err, &choice) || len(choice.Choices) != 2 {
		t.Errorf("two and no choice: %v", err)
		return
	}
	for _, at := range choice.Choices {
		open(t, c, at)
	}
}

// Spoiled content is a *ContentError with its digest, wherever it is.
func TestSpoiledContent(t *testing.T) {
	s := newSample(t, "one")
	spoil := map[string]func([]byte) []byte{
		"another digest": func(b []byte) []byte { return append([]byte("x"), b[1:]...) },
		"truncated":      func(b []byte) []byte { return b[:len(b)-1] },
		"too long":       func(b []byte) []byte { return append(slices.Clone(b), 'x') },
	}
	for what, edit := range spoil {
		for _, p := range []piece{s.imageLayer, s.chart} {
			t.Run("registry "+what, func(t *testing.T) {
				reg := registrytest.New(t, registrytest.Options{Fault: faultAt(p.desc.Digest.String(), &registrytest.Fault{Edit: edit})})
				c := client(t, quick())
				store(t, c, "oci://"+reg.Host+"/shop", "1.0.0", s)
				wantContentError(t, fetch(t.Context(), open(t, c, "oci://"+reg.Host+"/shop:1.0.0"), p), p)
			})
			t.Run("layout "+what, func(t *testing.T) {
				c, at := client(t, quick()), filepath.Join(t.TempDir(), "layout")
				store(t, c, at, "shop", s)
				file := filepath.Join(at, "blobs", "sha256", p.desc.Digest.Encoded())
				if err := os.WriteFile(file, edit(p.data), 0o644); err != nil {
					t.Fatal(err)
				}
				wantContentError(t, fetch(t.Context(), open(t, c, at), p), p)
			})
			t.Run("archive "+what, func(t *testing.T) {
				c, at := client(t, quick()), filepath.Join(t.TempDir(), "saved.tar")
				store(t, c, at, "shop", s)
				editTar(t, at, "blobs/sha256/"+p.desc.Digest.Encoded(), edit)
				wantContentError(t, fetch(t.Context(), open(t, c, at), p), p)
			})
		}
	}
}

// A root that isn't what its digest says is never opened.
func TestSpoiledRoot(t *testing.T) {
	s := newSample(t, "one")
	reg := registrytest.New(t, registrytest.Options{Fault: faultAt("/manifests/1.0.0", &registrytest.Fault{Edit: bytes.ToUpper})})
	c := client(t, quick())
	store(t, c, "oci://"+reg.Host+"/shop", "1.0.0", s)
	_, err := c.Open(t.Context(), location(t, "oci://"+reg.Host+"/shop:1.0.0"))
	wantContentError(t, err, s.root)
}

func wantContentError(t *testing.T, err error, p piece) {
	t.Helper()
	var content *registry.ContentError
	if !errors.As(err, &content) || content.Digest != p.desc.Digest {
		t.Errorf("got %v, want a ContentError for %s", err, p.desc.Digest)
	}
}
