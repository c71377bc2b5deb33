package bundle

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
)

// builtWithImages is a bundle of the test release that carries two images: one
// manifest, and a new index of two platforms.
func builtWithImages(t *testing.T) (*store, ocispec.Descriptor, *Lock) {
	t.Helper()
	u := newUpstream(t)
	amd, arm, win := u.image("linux/amd64", "x"), u.image("linux/arm64", "x"), u.image("windows/amd64", "x")
	list := u.index(ocispec.MediaTypeImageIndex, withPlatform(amd, "linux/amd64"), withPlatform(arm, "linux/arm64"), withPlatform(win, "windows/amd64"))
	spec := testSpec(t)
	spec.Lock.Packed = PackedImages
	spec.Indexes = map[digest.Digest][]byte{}
	s := newStore()
	for reference, wanted := range map[string][]string{"docker.io/shop/one:1": {"linux/amd64"}, "docker.io/shop/two:2": {"linux/arm64", "windows/amd64"}} {
		got, err := ResolveImage(t.Context(), u.store, reference, list, wanted, false)
		if err != nil {
			t.Fatal(err)
		}
		got.Images[0].References = []string{reference}
		spec.Lock.Images = append(spec.Lock.Images, got.Images...)
		if got.Index != nil {
			spec.Indexes[got.Images[0].Digest] = got.Index
		}
		for _, desc := range got.Carry {
			carry(t, u, s, desc)
		}
	}
	root, err := Build(t.Context(), s, spec, BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s, root, spec.Lock
}

func carry(t *testing.T, u upstream, s *store, desc ocispec.Descriptor) {
	t.Helper()
	data, err := content.FetchAll(t.Context(), u.store, desc)
	if err != nil {
		t.Fatal(err)
	}
	if isManifest(desc.MediaType) {
		parts, err := successors(data, node{desc: desc})
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range parts {
			carry(t, u, s, part)
		}
	}
	if err := s.Push(t.Context(), desc, bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
}

func TestBundleCarriesImages(t *testing.T) {
	s, root, lock := builtWithImages(t)
	b, err := Open(t.Context(), s, root)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Check(t.Context(), CheckOptions{}); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, entry := range b.Entries(RoleImage) {
		platform := "several"
		if entry.Platform != nil {
			platform = platformName(*entry.Platform)
		}
		got[entry.Annotations[ocispec.AnnotationRefName]] = platform
	}
	if diff := cmp.Diff(map[string]string{"docker.io/shop/one:1": "linux/amd64", "docker.io/shop/two:2": "several"}, got); diff != "" {
		t.Error(diff)
	}
	if b.Lock.Packed != PackedImages || len(b.Lock.Images) != len(lock.Images) {
		t.Errorf("the lock in it says %s, %d images", b.Lock.Packed, len(b.Lock.Images))
	}
	delete(s.blobs, lock.Images[0].Digest)
	if _, err := b.Check(t.Context(), CheckOptions{}); !strings.Contains(errText(err), lock.Images[0].Digest.String()) {
		t.Errorf("an image that is gone: %v", err)
	}
}

func TestImagesAndLockMustAgree(t *testing.T) {
	stranger := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromString("x"), Size: 1,
		Annotations: map[string]string{AnnotationRole: RoleImage}}
	s, root := forgery{index: func(i *ocispec.Index) { i.Manifests = append(i.Manifests, stranger) }}.make(t)
	if _, err := Open(t.Context(), s, root); !strings.Contains(errText(err), "the lock has no such image") {
		t.Errorf("an entry that is not locked: %v", err)
	}
	s, root, _ = builtWithImages(t)
	var index ocispec.Index
	unmarshal(t, s.blobs[root.Digest], &index)
	index.Manifests = index.Manifests[:len(index.Manifests)-1]
	if _, err := Open(t.Context(), s, s.addJSON(t, ocispec.MediaTypeImageIndex, index)); !strings.Contains(errText(err), "the bundle has no such entry") {
		t.Errorf("an image without an entry: %v", err)
	}
}
