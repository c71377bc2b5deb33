package bundle

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
)

func lockedImage(word string, references ...string) LockedImage {
	return LockedImage{
		Digest: digest.FromString(word), MediaType: dockerManifest, Size: 7, References: references, Spellings: references,
		Components: []string{"web"}, Platforms: []string{"linux/amd64"},
	}
}

func TestCompareImages(t *testing.T) {
	lock := &Lock{Images: []LockedImage{lockedImage("a", "docker.io/shop/a:1", "docker.io/shop/a:2"), lockedImage("b", "docker.io/shop/b:1")}}
	images := []ListedImage{
		{Reference: "docker.io/shop/a:1", Confidence: ImageCertain, Components: []string{"web"}},
		{Reference: "docker.io/shop/c:1", Confidence: ImageRecognised, Components: []string{"db", "web"}},
		{Reference: "docker.io/shop/d:1", Confidence: ImageCertain},
		{Reference: "docker.io/shop/maybe:1", Confidence: ImageCandidate, Components: []string{"web"}},
	}
	want := []string{
		"image docker.io/shop/c:1 (used by db, web) is not in the lock",
		"image docker.io/shop/d:1 (listed by the release) is not in the lock",
		"image docker.io/shop/a:2 is locked and no chart uses it",
		"image docker.io/shop/b:1 is locked and no chart uses it",
	}
	if diff := cmp.Diff(want, CompareImages(images, lock)); diff != "" {
		t.Error(diff)
	}
}

// A lock that says of an image what is not so, written by hand or by an older
// program, is found out.
func TestCompareResolved(t *testing.T) {
	with := func(change func(*LockedImage)) LockedImage {
		image := lockedImage("a", "docker.io/shop/a:1")
		image.Manifests = []LockedManifest{{"linux/amd64", digest.FromString("m")}}
		change(&image)
		return image
	}
	now := with(func(*LockedImage) {})
	for name, tc := range map[string]struct {
		locked LockedImage
		want   []string
	}{
		"the same":              {now, nil},
		"without its manifests": {with(func(i *LockedImage) { i.Manifests = nil }), nil},
		"other manifests":       {with(func(i *LockedImage) { i.Manifests[0].Platform = "linux/arm64" }), []string{"image docker.io/shop/a:1: the manifests of its platforms are not those that are locked"}},
		"other platforms":       {with(func(i *LockedImage) { i.Platforms = []string{"linux/arm64"} }), []string{"image docker.io/shop/a:1: its platforms are linux/amd64, locked are linux/arm64"}},
		"another spelling":      {with(func(i *LockedImage) { i.Spellings = []string{"a:1"} }), []string{"image docker.io/shop/a:1: the charts use it otherwise than was locked"}},
		"another size":          {with(func(i *LockedImage) { i.Size = 8 }), []string{"image docker.io/shop/a:1: it is " + dockerManifest + " of 7 bytes, locked is " + dockerManifest + " of 8"}},
		"another upstream":      {with(func(i *LockedImage) { i.Upstream = "sha256:x" }), []string{"image docker.io/shop/a:1: upstream's index is none, locked is sha256:x"}},
		"another digest": {with(func(i *LockedImage) { i.Digest = "sha256:x" }), []string{
			"image docker.io/shop/a:1: locked is sha256:x, which is not what would be carried",
			"image docker.io/shop/a:1: " + now.Digest.String() + " would be carried, which is not locked",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			lock := &Lock{Images: []LockedImage{tc.locked}}
			if diff := cmp.Diff(tc.want, lock.CompareResolved([]LockedImage{now})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A manifest by itself and the same one through an index are told apart, in
// whatever order they are.
func TestCompareResolvedTwins(t *testing.T) {
	alone, one, other := lockedImage("a", "docker.io/shop/z:1"), lockedImage("a", "docker.io/shop/b:1"), lockedImage("a", "docker.io/shop/c:1")
	one.Upstream, other.Upstream = digest.FromString("one"), digest.FromString("other")
	resolved := []LockedImage{other, alone, one}
	for name, tc := range map[string]struct {
		locked []LockedImage
		want   []string
	}{
		"the same":  {[]LockedImage{alone, one, other}, nil},
		"one lacks": {[]LockedImage{alone, one}, []string{"image docker.io/shop/c:1: " + other.Digest.String() + " would be carried, which is not locked"}},
		"one more":  {[]LockedImage{alone, one, other, one}, []string{"image docker.io/shop/b:1: locked is " + one.Digest.String() + ", which is not what would be carried"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, (&Lock{Images: tc.locked}).CompareResolved(resolved)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestImageChanges(t *testing.T) {
	before := &Lock{Images: []LockedImage{lockedImage("a", "docker.io/shop/a:1"), lockedImage("b", "docker.io/shop/b:1"), lockedImage("c", "docker.io/shop/c:1")}}
	now := &Lock{Images: []LockedImage{lockedImage("a", "docker.io/shop/a:1"), lockedImage("b2", "docker.io/shop/b:1"), lockedImage("b3", "docker.io/shop/b:1"), lockedImage("d", "docker.io/shop/d:1")}}
	var got []string
	for _, change := range now.ImageChanges(before) {
		got = append(got, change.Reference+": "+change.String())
	}
	d := func(word string) string { return digest.FromString(word).String() }
	two := d("b2") + ", " + d("b3")
	if d("b3") < d("b2") {
		two = d("b3") + ", " + d("b2")
	}
	want := []string{"docker.io/shop/b:1: " + d("b") + " → " + two, "docker.io/shop/c:1: dropped, was " + d("c"), "docker.io/shop/d:1: added, " + d("d")}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if changes := now.ImageChanges(nil); len(changes) != 3 {
		t.Errorf("from nothing: %v", changes)
	}
}
