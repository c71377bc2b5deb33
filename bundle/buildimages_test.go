package bundle

import (
	"bytes"
	"context"
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

// A bundle that was built without some layers is whole, and says which are not
// there; one that lost them is not.
func TestCheckOfLeftOutLayers(t *testing.T) {
	u := newUpstream(t)
	foreign := u.push("application/vnd.docker.image.rootfs.foreign.diff.tar.gzip", []byte("base of windows"))
	foreign.URLs = []string{"https://mcr.example/base"}
	other := u.push(ocispec.MediaTypeImageLayer, []byte("other"))
	config := u.push(ocispec.MediaTypeImageConfig, ocispec.Image{Platform: ocispec.Platform{OS: "windows", Architecture: "amd64"}})
	image := func(layers ...ocispec.Descriptor) ocispec.Descriptor {
		return u.push(ocispec.MediaTypeImageManifest, ocispec.Manifest{MediaType: ocispec.MediaTypeImageManifest, Config: config, Layers: layers})
	}
	plainly := u.push(ocispec.MediaTypeImageLayerGzip, []byte("base of windows"))
	with := image(foreign, other)
	list := u.index(ocispec.MediaTypeImageIndex, withPlatform(with, "windows/amd64"))
	for name, tc := range map[string]struct {
		image   ocispec.Descriptor
		beside  *ocispec.Descriptor
		leftOut []digest.Digest
		lose    ocispec.Descriptor
		want    string // part of the error, empty for none
	}{
		"left out of a manifest":                   {with, nil, []digest.Digest{foreign.Digest}, foreign, ""},
		"left out of an index":                     {list, nil, []digest.Digest{foreign.Digest}, foreign, ""},
		"not said to be left out":                  {with, nil, nil, foreign, "missing"},
		"said of another layer":                    {with, nil, []digest.Digest{other.Digest}, foreign, "missing"},
		"said of an ordinary layer":                {with, nil, []digest.Digest{other.Digest}, other, "missing"},
		"an ordinary layer of the image beside it": {with, new(ocispec.Descriptor), []digest.Digest{foreign.Digest}, foreign, "missing"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := testSpec(t)
			spec.Lock.Packed = PackedImages
			spec.LeftOut = map[digest.Digest][]digest.Digest{tc.image.Digest: tc.leftOut}
			all := []ocispec.Descriptor{tc.image}
			if tc.beside != nil {
				all = append(all, image(plainly))
			}
			s := newStore()
			for i, desc := range all {
				spec.Lock.Images = append(spec.Lock.Images, LockedImage{Digest: desc.Digest, MediaType: desc.MediaType, Size: desc.Size, References: []string{"docker.io/shop/app:" + string(rune('1'+i))}})
				carry(t, u, s, desc)
			}
			delete(s.blobs, tc.lose.Digest)
			root, err := Build(t.Context(), s, spec, BuildOptions{})
			if err != nil {
				t.Fatal(err)
			}
			b, err := Open(t.Context(), s, root)
			if err != nil {
				t.Fatal(err)
			}
			exists := func(ctx context.Context, desc ocispec.Descriptor) (bool, error) { return s.Exists(ctx, desc) }
			for _, opts := range []CheckOptions{{}, {Exists: exists}} {
				result, err := b.Check(t.Context(), opts)
				switch {
				case tc.want == "" && (err != nil || len(result.LeftOut) != 1 || result.LeftOut[0].Digest != foreign.Digest):
					t.Errorf("left out %v, %v", result.LeftOut, err)
				case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
					t.Errorf("got %v, want %s", err, tc.want)
				}
			}
			if got := b.LeftOut(); len(got) != min(1, len(tc.leftOut)) {
				t.Errorf("says %v", got)
			}
		})
	}
}

// What a root says is left out must be digests: it is printed.
func TestLeftOutMustBeDigests(t *testing.T) {
	s, root, _ := builtWithImages(t)
	data, err := content.FetchAll(t.Context(), s, root)
	if err != nil {
		t.Fatal(err)
	}
	odd := bytes.Replace(data, []byte(`"waybill.role":"image"`), []byte(`"waybill.left-out":"\u001b[2J","waybill.role":"image"`), 1)
	_, err = Open(t.Context(), s, s.add(root.MediaType, odd))
	if err == nil || !strings.Contains(err.Error(), "waybill.left-out is no list of digests") {
		t.Errorf("got %v", err)
	}
}
