package signing_test

import (
	"context"
	"errors"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content/memory"

	"waybill/signing"
)

// A listing is a place that lists one referrer more than it has, as a registry
// does after its garbage collection took the referrer and left the list.
type listing struct {
	*memory.Store
	lost ocispec.Descriptor
}

func (l listing) Predecessors(context.Context, ocispec.Descriptor) ([]ocispec.Descriptor, error) {
	return []ocispec.Descriptor{l.lost}, nil
}

// A signature that is listed and gone is incomplete content, never "unsigned".
func TestVerifyLostReferrer(t *testing.T) {
	desc := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageIndex, Digest: digest.FromString("subject"), Size: 7}
	lost := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromString("lost"), Size: 4}
	allow := signing.Policy{AllowUnsigned: true}

	lost.ArtifactType = signing.MediaTypeSigstoreBundle
	_, err := signing.Verify(t.Context(), listing{memory.New(), lost}, desc, allow)
	var content *signing.ContentError
	if !errors.As(err, &content) || content.Digest != lost.Digest {
		t.Errorf("got %v, want a content error for %s", err, lost.Digest)
	}

	lost.ArtifactType = "application/vnd.example.sbom"
	result, err := signing.Verify(t.Context(), listing{memory.New(), lost}, desc, allow)
	if err != nil || !result.Unsigned || len(result.Warnings) != 1 {
		t.Errorf("something else that is lost: got %+v, %v", result, err)
	}
}
