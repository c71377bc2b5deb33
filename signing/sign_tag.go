package signing

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/sigstore/sigstore/pkg/signature/options"
	"github.com/sigstore/sigstore/pkg/signature/payload"
	"oras.land/oras-go/v2/errdef"
)

// A tagManifest is the manifest of the tag form. What others wrote into it is
// kept as they wrote it.
type tagManifest struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`
	ArtifactType  string            `json:"artifactType,omitempty"`
	Config        json.RawMessage   `json:"config"`
	Layers        []json.RawMessage `json:"layers"`
	Subject       json.RawMessage   `json:"subject,omitempty"`
	Annotations   json.RawMessage   `json:"annotations,omitempty"`
}

// signTag adds a signature of the tag form; nil when there is one by this key.
func (s *Signer) signTag(ctx context.Context, dst Target, desc ocispec.Descriptor, opts SignOptions) (*ocispec.Descriptor, error) {
	c := &collector{src: dst, subject: desc, blobs: map[digest.Digest][]byte{}}
	if err := c.tagForm(ctx); err != nil {
		return nil, err
	}
	if len(c.denied) > 0 {
		return nil, fmt.Errorf("looking for signatures to add to: %w", c.denied[0])
	}
	if s.made(c.signatures, desc.Digest) {
		return nil, nil
	}
	layer, err := s.tagLayer(ctx, dst, desc, opts)
	if err != nil {
		return nil, err
	}
	// Registries have no way to replace a tag only if it still names what we
	// read. Somebody who signs at the same moment is found by reading back.
	const attempts = 5
	for range attempts {
		written, err := uniteTag(ctx, dst, desc.Digest, layer)
		if err != nil {
			return nil, err
		}
		now, err := dst.Resolve(ctx, SignatureTag(desc.Digest))
		if err != nil {
			return nil, fmt.Errorf("reading back tag %s: %w", SignatureTag(desc.Digest), err)
		}
		if now.Digest == written.Digest {
			return &written, nil
		}
	}
	return nil, fmt.Errorf("tag %s is changed by others over and over", SignatureTag(desc.Digest))
}

// tagLayer makes and stores the payload and returns the layer, signature and
// all.
func (s *Signer) tagLayer(ctx context.Context, dst Target, desc ocispec.Descriptor, opts SignOptions) (json.RawMessage, error) {
	repository := opts.Repository
	if parsed, err := name.NewRepository(repository); err == nil {
		repository = parsed.Name() // docker.io is index.docker.io to cosign
	}
	message, err := json.Marshal(payload.SimpleContainerImage{Critical: payload.Critical{
		Identity: payload.Identity{DockerReference: repository},
		Image:    payload.Image{DockerManifestDigest: desc.Digest.String()},
		Type:     payload.CosignSignatureType,
	}})
	if err != nil {
		return nil, err
	}
	sig, err := s.sign.SignMessage(bytes.NewReader(message), options.WithContext(ctx))
	if err != nil {
		return nil, fmt.Errorf("with %s: %w", s.key, err)
	}
	layer, err := pushBytes(ctx, dst, ocispec.Descriptor{MediaType: MediaTypeSimpleSigning}, message)
	if err != nil {
		return nil, err
	}
	layer.Annotations = map[string]string{annotationSignature: base64.StdEncoding.EncodeToString(sig)}
	return encode(layer)
}

// uniteTag writes the signature manifest that is at the tag now, or a new one,
// with one more layer, and moves the tag to it.
func uniteTag(ctx context.Context, dst Target, signed digest.Digest, layer json.RawMessage) (ocispec.Descriptor, error) {
	tag := SignatureTag(signed)
	manifest, was, err := readTagManifest(ctx, dst, tag)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	if was != nil && manifest.has(layer) {
		return *was, nil // somebody else's manifest took ours up
	}
	if len(manifest.Layers) >= maxLayers {
		return ocispec.Descriptor{}, fmt.Errorf("tag %s has %d signatures, and nobody reads more", tag, len(manifest.Layers))
	}
	config, err := nextConfig(ctx, dst, manifest, layer)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	manifest.Config = config
	manifest.Layers = append(manifest.Layers, layer)
	data, err := encode(manifest)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	desc, err := pushBytes(ctx, dst, ocispec.Descriptor{MediaType: manifest.MediaType}, data)
	if err != nil {
		return desc, err
	}
	return desc, dst.Tag(ctx, desc, tag)
}

// has says whether the signature in layer is one of the manifest's.
func (m *tagManifest) has(layer json.RawMessage) bool {
	return slices.ContainsFunc(m.Layers, func(other json.RawMessage) bool {
		sig := signatureIn(layer)
		return sig != "" && sig == signatureIn(other)
	})
}

func signatureIn(layer json.RawMessage) string {
	var desc ocispec.Descriptor
	if err := json.Unmarshal(layer, &desc); err != nil {
		return ""
	}
	return desc.Annotations[annotationSignature]
}

// readTagManifest reads what the tag names; an empty manifest and no
// descriptor when it is free. Something else at the tag is not overwritten.
func readTagManifest(ctx context.Context, dst Target, tag string) (*tagManifest, *ocispec.Descriptor, error) {
	desc, err := dst.Resolve(ctx, tag)
	if errors.Is(err, errdef.ErrNotFound) {
		return &tagManifest{SchemaVersion: 2, MediaType: ocispec.MediaTypeImageManifest}, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("tag %s: %w", tag, err)
	}
	data, err := read(ctx, dst, desc, maxManifest)
	if err != nil {
		return nil, nil, fmt.Errorf("tag %s: %w", tag, err)
	}
	var manifest tagManifest
	if err := json.Unmarshal(data, &manifest); err != nil || manifest.SchemaVersion != 2 || len(manifest.Config) == 0 {
		return nil, nil, fmt.Errorf("tag %s names something that is no signature manifest; it was not changed", tag)
	}
	if manifest.MediaType == "" {
		manifest.MediaType = desc.MediaType
	}
	return &manifest, &desc, nil
}

// imageConfig is the config that cosign writes: an empty image with the
// payloads as its layers.
type imageConfig struct {
	Architecture string          `json:"architecture"`
	Created      string          `json:"created"`
	History      []imageHistory  `json:"history"`
	OS           string          `json:"os"`
	RootFS       imageRootFS     `json:"rootfs"`
	Config       json.RawMessage `json:"config"`
}

type imageHistory struct {
	Created string `json:"created"`
}

type imageRootFS struct {
	Type    string          `json:"type"`
	DiffIDs []digest.Digest `json:"diff_ids"`
}

// nextConfig stores the config for a manifest with one more layer. It is made
// from the layers: payloads are not compressed, so that each is its own diff ID.
func nextConfig(ctx context.Context, dst Target, manifest *tagManifest, layer json.RawMessage) (json.RawMessage, error) {
	const noTime = "0001-01-01T00:00:00Z"
	config := imageConfig{Created: noTime, RootFS: imageRootFS{Type: "layers"}, Config: json.RawMessage("{}")}
	for _, raw := range append(manifest.Layers[:len(manifest.Layers):len(manifest.Layers)], layer) {
		var desc ocispec.Descriptor
		if err := json.Unmarshal(raw, &desc); err != nil {
			return nil, fmt.Errorf("a layer of the signature manifest cannot be read: %w", err)
		}
		config.History = append(config.History, imageHistory{Created: noTime})
		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, desc.Digest)
	}
	data, err := encode(config)
	if err != nil {
		return nil, err
	}
	mediaType := ocispec.MediaTypeImageConfig
	var was ocispec.Descriptor
	if json.Unmarshal(manifest.Config, &was) == nil && was.MediaType != "" {
		mediaType = was.MediaType
	}
	desc, err := pushBytes(ctx, dst, ocispec.Descriptor{MediaType: mediaType}, data)
	if err != nil {
		return nil, err
	}
	return encode(desc)
}
