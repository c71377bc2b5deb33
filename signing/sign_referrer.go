package signing

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	cosignbundle "github.com/sigstore/cosign/v2/pkg/cosign/bundle"
	"github.com/sigstore/cosign/v2/pkg/types"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature/dsse"
	"github.com/sigstore/sigstore/pkg/signature/options"
)

// A statement is the in-toto statement of a signature, see in-toto's
// attestation specification "Statement v1".
type statement struct {
	Type          string    `json:"_type"`
	Subject       []subject `json:"subject"`
	PredicateType string    `json:"predicateType"`
}

const statementType = "https://in-toto.io/Statement/v1"

type subject struct {
	Digest map[string]string `json:"digest"`
}

// signReferrer attaches a sigstore bundle; nil when there is one by this key.
func (s *Signer) signReferrer(ctx context.Context, dst Target, desc ocispec.Descriptor, _ SignOptions) (*ocispec.Descriptor, error) {
	c := &collector{src: dst, subject: desc, blobs: map[digest.Digest][]byte{}}
	if err := c.referrers(ctx); err != nil {
		return nil, err
	}
	if len(c.denied) > 0 {
		return nil, fmt.Errorf("looking for signatures that are there already: %w", c.denied[0])
	}
	if s.made(c.signatures, desc.Digest) {
		return nil, nil
	}
	proof, err := s.prove(ctx, statement{
		Type:          statementType,
		Subject:       []subject{{Digest: map[string]string{desc.Digest.Algorithm().String(): desc.Digest.Encoded()}}},
		PredicateType: PredicateTypeSignature,
	})
	if err != nil {
		return nil, err
	}
	written, err := pushReferrer(ctx, dst, desc, proof)
	if err != nil {
		return nil, err
	}
	listed, err := dst.Predecessors(ctx, desc)
	if err != nil {
		return nil, fmt.Errorf("reading back what refers to it: %w", err)
	}
	if !slices.ContainsFunc(listed, func(d ocispec.Descriptor) bool { return d.Digest == written.Digest }) {
		return nil, fmt.Errorf("signature %s was written, but is not listed as a referrer", written.Digest)
	}
	return &written, nil
}

// prove makes a sigstore bundle of a statement.
func (s *Signer) prove(ctx context.Context, words statement) ([]byte, error) {
	message, err := encode(words)
	if err != nil {
		return nil, err
	}
	envelope, err := dsse.WrapSigner(s.sign, types.IntotoPayloadType).SignMessage(bytes.NewReader(message), options.WithContext(ctx))
	if err != nil {
		return nil, fmt.Errorf("with %s: %w", s.key, err)
	}
	public, err := s.key.verifiers[0].PublicKey()
	if err != nil {
		return nil, err
	}
	signer, err := cryptoutils.MarshalPublicKeyToPEM(public)
	if err != nil {
		return nil, err
	}
	return cosignbundle.MakeNewBundle(public, nil, message, envelope, signer, nil)
}

// pushReferrer writes the manifest that cosign 3 writes, but without the time
// of writing.
func pushReferrer(ctx context.Context, dst Target, signed ocispec.Descriptor, proof []byte) (ocispec.Descriptor, error) {
	config, err := pushBytes(ctx, dst, ocispec.Descriptor{MediaType: ocispec.MediaTypeEmptyJSON}, []byte("{}"))
	if err != nil {
		return config, err
	}
	layer, err := pushBytes(ctx, dst, ocispec.Descriptor{MediaType: MediaTypeSigstoreBundle}, proof)
	if err != nil {
		return layer, err
	}
	manifest := ocispec.Manifest{
		Versioned:    specs.Versioned{SchemaVersion: 2},
		MediaType:    ocispec.MediaTypeImageManifest,
		ArtifactType: MediaTypeSigstoreBundle,
		Config:       config,
		Layers:       []ocispec.Descriptor{layer},
		Subject:      &ocispec.Descriptor{MediaType: signed.MediaType, Digest: signed.Digest, Size: signed.Size},
		Annotations: map[string]string{
			annotationBundleContent:   "dsse-envelope",
			annotationBundlePredicate: PredicateTypeSignature,
		},
	}
	data, err := encode(manifest)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	desc := ocispec.Descriptor{MediaType: manifest.MediaType, ArtifactType: manifest.ArtifactType, Annotations: manifest.Annotations}
	if desc, err = pushBytes(ctx, dst, desc, data); err != nil {
		return desc, fmt.Errorf("writing the referrer: %w", err)
	}
	return desc, nil
}
