package bundle

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestListImages(t *testing.T) {
	rel := &Release{
		Images: []ImageRef{{Ref: "ghcr.io/shop/tool:1", Platforms: []string{"linux/amd64"}}},
		Components: []Component{
			{Name: "a", Images: []ImageRef{{Ref: "redis:7", Reason: "the cache"}}, IgnoreImages: []string{"*/debug:*", "nginx"}},
			{Name: "b"},
		},
	}
	found := []ImageUse{
		{Component: "b", Reference: "nginx", Normalized: "docker.io/library/nginx:latest", Confidence: ImageCertain},
		{Component: "a", Reference: "docker.io/nginx:latest", Normalized: "docker.io/library/nginx:latest", Confidence: ImageRecognised},
		{Component: "a", Reference: "redis:7", Normalized: "docker.io/library/redis:7", Confidence: ImageCandidate},
		{Component: "a", Reference: "level/debug:x", Normalized: "docker.io/level/debug:x", Confidence: ImageCandidate},
		{Component: "b", Reference: "level/debug:x", Normalized: "docker.io/level/debug:x", Confidence: ImageCandidate},
		{Component: "a", Reference: "nginx", Normalized: "docker.io/library/nginx:latest", Confidence: ImageCandidate},
	}
	images, err := rel.ListImages(found)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, i := range images {
		got = append(got, fmt.Sprint(i.Reference, " ", i.Confidence, " ", i.Spellings, i.Components, i.Platforms))
	}
	want := []string{
		"docker.io/level/debug:x candidate [level/debug:x] [b] []",
		"docker.io/library/nginx:latest certain [docker.io/nginx:latest nginx] [a b] []",
		"docker.io/library/redis:7 certain [redis:7] [a] []",
		"ghcr.io/shop/tool:1 certain [ghcr.io/shop/tool:1] [] [linux/amd64]",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestListedImageThatIsNone(t *testing.T) {
	rel := &Release{Components: []Component{{Name: "a", Images: []ImageRef{{Ref: "NOT AN IMAGE"}}}}}
	if _, err := rel.ListImages(nil); err == nil {
		t.Error("it was taken")
	}
}
