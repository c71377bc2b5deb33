package bundle

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/content/memory"
)

// An upstream holds images made for a test.
type upstream struct {
	t     *testing.T
	store *memory.Store
}

func newUpstream(t *testing.T) upstream { return upstream{t, memory.New()} }

func (u upstream) push(mediaType string, v any) ocispec.Descriptor {
	u.t.Helper()
	data, ok := v.([]byte)
	if !ok {
		var err error
		if data, err = json.Marshal(v); err != nil {
			u.t.Fatal(err)
		}
	}
	desc := content.NewDescriptorFromBytes(mediaType, data)
	if there, _ := u.store.Exists(u.t.Context(), desc); !there {
		if err := u.store.Push(u.t.Context(), desc, bytes.NewReader(data)); err != nil {
			u.t.Fatal(err)
		}
	}
	return desc
}

// image makes a manifest for a platform; the platform is in its config.
func (u upstream) image(platform, word string) ocispec.Descriptor {
	part := append(strings.Split(platform, "/"), "")
	config := u.push(ocispec.MediaTypeImageConfig, ocispec.Image{Platform: ocispec.Platform{OS: part[0], Architecture: part[1], Variant: part[2]}, Author: word})
	return u.push(ocispec.MediaTypeImageManifest, ocispec.Manifest{MediaType: ocispec.MediaTypeImageManifest, Config: config,
		Layers: []ocispec.Descriptor{u.push(ocispec.MediaTypeImageLayer, []byte(platform+word))}})
}

func withPlatform(desc ocispec.Descriptor, platform string) ocispec.Descriptor {
	part := append(strings.Split(platform, "/"), "")
	desc.Platform = &ocispec.Platform{OS: part[0], Architecture: part[1], Variant: part[2]}
	return desc
}

func (u upstream) index(mediaType string, entries ...ocispec.Descriptor) ocispec.Descriptor {
	index := map[string]any{"schemaVersion": 2, "mediaType": mediaType, "manifests": entries}
	return u.push(mediaType, index)
}

func TestResolveImage(t *testing.T) {
	u := newUpstream(t)
	amd, arm, win := u.image("linux/amd64", "a"), u.image("linux/arm64", "a"), u.image("windows/amd64", "a")
	attestation := u.push(ocispec.MediaTypeImageManifest, ocispec.Manifest{MediaType: ocispec.MediaTypeImageManifest,
		Config: u.push(ocispec.MediaTypeImageConfig, ocispec.Image{Platform: ocispec.Platform{OS: "unknown", Architecture: "unknown"}})})
	attested := withPlatform(attestation, "unknown/unknown")
	attested.Annotations = map[string]string{"vnd.docker.reference.digest": amd.Digest.String(), "vnd.docker.reference.type": "attestation-manifest"}
	three := u.index(ocispec.MediaTypeImageIndex, withPlatform(amd, "linux/amd64"), withPlatform(arm, "linux/arm64/v8"), withPlatform(win, "windows/amd64"), attested)
	docker := u.index(dockerManifestList, withPlatform(amd, "linux/amd64"), withPlatform(arm, "linux/arm64"), withPlatform(win, "windows/amd64"))
	nested := u.index(ocispec.MediaTypeImageIndex, u.index(ocispec.MediaTypeImageIndex, withPlatform(amd, "linux/amd64")), withPlatform(arm, "linux/arm64"))
	chart := u.push(ocispec.MediaTypeImageManifest, ocispec.Manifest{MediaType: ocispec.MediaTypeImageManifest, Config: u.push(MediaTypeHelmConfig, []byte("{}"))})

	for name, tc := range map[string]struct {
		desc      ocispec.Descriptor
		wanted    []string
		same      bool // carried as upstream has it
		platforms []string
		carry     int
	}{
		"everything":                            {three, nil, true, []string{"linux/amd64", "linux/arm64", "windows/amd64"}, 1},
		"one platform is its manifest":          {three, []string{"linux/amd64"}, false, []string{"linux/amd64"}, 1},
		"arm64 is arm64/v8":                     {three, []string{"linux/arm64"}, false, []string{"linux/arm64"}, 1},
		"two, with the attestation about one":   {three, []string{"linux/amd64", "linux/arm64/v8"}, false, []string{"linux/amd64", "linux/arm64"}, 3},
		"all of them by name are upstream's":    {docker, []string{"linux/amd64", "linux/arm64", "windows/amd64"}, true, []string{"linux/amd64", "linux/arm64", "windows/amd64"}, 1},
		"some of a Docker list":                 {docker, []string{"linux/amd64", "linux/arm64"}, false, []string{"linux/amd64", "linux/arm64"}, 2},
		"a nested index whole":                  {nested, nil, true, []string{"linux/amd64", "linux/arm64"}, 1},
		"a single manifest, told by its config": {amd, []string{"linux/amd64"}, true, []string{"linux/amd64"}, 1},
		"an artifact has no platforms":          {chart, []string{"linux/amd64"}, true, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ResolveImage(t.Context(), u.store, "shop/app:1", tc.desc, tc.wanted, false)
			if err != nil {
				t.Fatal(err)
			}
			if same := got.Images[0].Digest == tc.desc.Digest; same != tc.same || same != (got.Images[0].Upstream == "") {
				t.Errorf("carried is %s, upstream %s", got.Images[0].Digest, got.Images[0].Upstream)
			}
			if diff := cmp.Diff(tc.platforms, got.Images[0].Platforms); diff != "" {
				t.Error(diff)
			}
			if len(got.Carry) != tc.carry {
				t.Errorf("carries %d manifests, want %d", len(got.Carry), tc.carry)
			}
		})
	}
}

// The lock knows the manifest of each platform of an index: what a node runs.
func TestResolvedImageNamesTheManifestsOfAnIndex(t *testing.T) {
	u := newUpstream(t)
	amd, arm := u.image("linux/amd64", "m"), u.image("linux/arm64", "m")
	attestation := withPlatform(u.image("unknown/unknown", "m"), "unknown/unknown")
	flat := u.index(ocispec.MediaTypeImageIndex, withPlatform(arm, "linux/arm64/v8"), withPlatform(amd, "linux/amd64"), attestation)
	nested := u.index(ocispec.MediaTypeImageIndex, u.index(dockerManifestList, withPlatform(amd, "linux/amd64")), withPlatform(arm, "linux/arm64"))
	both := []LockedManifest{{"linux/amd64", amd.Digest}, {"linux/arm64", arm.Digest}}
	for name, tc := range map[string]struct {
		desc   ocispec.Descriptor
		wanted []string
		want   []LockedManifest
	}{
		"of an index":                {flat, nil, both},
		"of an index in an index":    {nested, nil, both},
		"of some of its platforms":   {flat, []string{"linux/amd64", "linux/arm64"}, both},
		"of one platform it is that": {flat, []string{"linux/amd64"}, nil},
		"of a single manifest":       {amd, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ResolveImage(t.Context(), u.store, "shop/app:1", tc.desc, tc.wanted, false)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got.Images[0].Manifests); diff != "" {
				t.Error(diff)
			}
			lock := Lock{APIVersion: APIVersion, Kind: KindLock, Packed: PackedImages, Release: LockedRelease{Name: "shop", Version: "1.0.0"}, Charts: []LockedChart{}, Images: got.Images}
			lock.Images[0].References = []string{"shop/app:1"}
			text, err := lock.Encode()
			if err != nil {
				t.Fatal(err)
			}
			again, err := ParseLock("lock", text)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(lock.Images, again.Images); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A narrowed index has upstream's media type, descriptors and order, and the
// same digest each time.
func TestNarrowedIndexKeepsUpstreamsDescriptors(t *testing.T) {
	u := newUpstream(t)
	amd, arm, win := u.image("linux/amd64", "b"), u.image("linux/arm64", "b"), u.image("windows/amd64", "b")
	armEntry := withPlatform(arm, "linux/arm64/v8")
	armEntry.Annotations = map[string]string{"x": "y"}
	list := u.index(dockerManifestList, armEntry, withPlatform(win, "windows/amd64"), withPlatform(amd, "linux/amd64"))
	got, err := ResolveImage(t.Context(), u.store, "shop/app:1", list, []string{"linux/amd64", "linux/arm64"}, false)
	if err != nil {
		t.Fatal(err)
	}
	var index ocispec.Index
	if err := json.Unmarshal(got.Index, &index); err != nil {
		t.Fatal(err)
	}
	want := []ocispec.Descriptor{armEntry, withPlatform(amd, "linux/amd64")}
	if diff := cmp.Diff(want, index.Manifests); diff != "" || index.MediaType != dockerManifestList {
		t.Errorf("%s is %s", diff, index.MediaType)
	}
	again, err := ResolveImage(t.Context(), u.store, "shop/app:1", list, []string{"linux/arm64/v8", "linux/amd64"}, false)
	if err != nil || again.Images[0].Digest != got.Images[0].Digest {
		t.Errorf("the second time it is %v, %v", again, err)
	}
}

func TestImagesThatLackAPlatform(t *testing.T) {
	u := newUpstream(t)
	amd := u.image("linux/amd64", "c")
	for name, desc := range map[string]ocispec.Descriptor{
		"an index":          u.index(ocispec.MediaTypeImageIndex, withPlatform(amd, "linux/amd64")),
		"a single manifest": amd,
	} {
		_, err := ResolveImage(t.Context(), u.store, "shop/app:1", desc, []string{"linux/amd64", "linux/s390x"}, false)
		var wrong *PlatformError
		if !errors.As(err, &wrong) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := wrong.Error(); got != "image shop/app:1: wanted linux/s390x, it offers linux/amd64" {
			t.Errorf("%s: %s", name, got)
		}
	}
	if _, err := ResolveImage(t.Context(), u.store, "shop/old:1", ocispec.Descriptor{MediaType: dockerSchema1Signed}, nil, false); err == nil || !strings.Contains(err.Error(), "push it again") {
		t.Errorf("Docker's first format: %v", err)
	}
}

func TestFlatImagesAreEachPlatformsManifest(t *testing.T) {
	u := newUpstream(t)
	amd, arm := u.image("linux/amd64", "d"), u.image("linux/arm64", "d")
	list := u.index(ocispec.MediaTypeImageIndex, withPlatform(amd, "linux/amd64"), withPlatform(arm, "linux/arm64"))
	got, err := ResolveImage(t.Context(), u.store, "shop/app:1", list, nil, true)
	if err != nil {
		t.Fatal(err)
	}
	want := []LockedImage{
		{Digest: amd.Digest, MediaType: amd.MediaType, Size: amd.Size, Platforms: []string{"linux/amd64"}, Upstream: list.Digest},
		{Digest: arm.Digest, MediaType: arm.MediaType, Size: arm.Size, Platforms: []string{"linux/arm64"}, Upstream: list.Digest},
	}
	if diff := cmp.Diff(want, got.Images); diff != "" {
		t.Error(diff)
	}
	nested := u.index(ocispec.MediaTypeImageIndex, list)
	if _, err := ResolveImage(t.Context(), u.store, "shop/app:1", nested, nil, true); err == nil {
		t.Error("a nested index was flattened")
	}
}
