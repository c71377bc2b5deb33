package bundle

import (
	"context"
	"encoding/json"
	"fmt"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
)

// What is signed besides the root.
const (
	SignNone   = "none"
	SignCharts = "charts" // every chart
	SignImages = "images" // and every image entry of the root
	SignAll    = "all"    // and every manifest that an image index lists
)

// SignSubjects returns what a signature of the bundle at root covers one by
// one: the root, and below it what recursive names (one of the constants), in
// the root's order, each digest once. Errors are [ErrNotBundle], a
// [*ContentError], and src's own.
func SignSubjects(ctx context.Context, src content.Fetcher, root ocispec.Descriptor, recursive string) ([]ocispec.Descriptor, error) {
	b, err := Open(ctx, src, root)
	if err != nil {
		return nil, err
	}
	subjects := []ocispec.Descriptor{root}
	if recursive == SignNone {
		return subjects, nil
	}
	subjects = append(subjects, b.Entries(RoleChart)...)
	if recursive == SignCharts {
		return unique(subjects), nil
	}
	for _, image := range b.Entries(RoleImage) {
		subjects = append(subjects, image)
		if recursive != SignAll || !isIndex(image.MediaType) {
			continue
		}
		data, err := content.FetchAll(ctx, src, image)
		if err != nil {
			return nil, fmt.Errorf("reading image index %s: %w", image.Digest, err)
		}
		var index ocispec.Index
		if err := json.Unmarshal(data, &index); err != nil {
			return nil, &ContentError{Digest: image.Digest, Reason: "is no index: " + err.Error()}
		}
		subjects = append(subjects, index.Manifests...)
	}
	return unique(subjects), nil
}

func unique(descs []ocispec.Descriptor) []ocispec.Descriptor {
	seen := map[string]bool{}
	out := descs[:0]
	for _, desc := range descs {
		if !seen[desc.Digest.String()] {
			seen[desc.Digest.String()] = true
			out = append(out, ocispec.Descriptor{MediaType: desc.MediaType, Digest: desc.Digest, Size: desc.Size})
		}
	}
	return out
}
