package bundle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
)

// Media types of Docker's first manifests, which have no digest of their own
// content that could be kept.
const (
	dockerSchema1       = "application/vnd.docker.distribution.manifest.v1+json"
	dockerSchema1Signed = "application/vnd.docker.distribution.manifest.v1+prettyjws"
)

// A ResolvedImage is what is carried of an image.
type ResolvedImage struct {
	// Images are the lock's entries, without references, spellings and
	// components: one, or with a flat shape one for each platform.
	Images []LockedImage
	// Index is a new index of some of upstream's platforms, which the one entry
	// names; nil when what is carried is upstream's own.
	Index []byte
	// Carry are upstream's manifests to copy, with all they name: one, or the
	// entries of Index.
	Carry []ocispec.Descriptor
}

// ResolveImage decides what to carry of the image at desc, read from src:
// everything, or what wanted names of it. Of one platform it is that manifest,
// of several a new index of upstream's descriptors in upstream's order; flat,
// the manifest of each platform by itself. An artifact that is no image has no
// platforms and is carried whole. reference is for messages.
//
// Errors: [*PlatformError], [*ContentError], those of src, and one for Docker's
// first manifests with the remedy.
func ResolveImage(ctx context.Context, src content.Fetcher, reference string, desc ocispec.Descriptor, wanted []string, flat bool) (*ResolvedImage, error) {
	whole := &ResolvedImage{
		Images: []LockedImage{lockedAs(desc, nil, "")},
		Carry:  []ocispec.Descriptor{plain(desc)},
	}
	names, err := platformNames(wanted)
	if err != nil {
		return nil, err
	}
	r := imageReader{src: src, reference: reference}
	switch {
	case isSchema1(desc.MediaType):
		return nil, schema1Error(reference)
	case isIndex(desc.MediaType):
		return r.index(ctx, whole, desc, names, flat)
	}
	platform, err := r.platform(ctx, desc)
	if err != nil || platform == "" {
		return whole, err
	}
	whole.Images[0].Platforms = []string{platform}
	if missing := lacking(names, whole.Images[0].Platforms); len(missing) > 0 {
		return nil, &PlatformError{Reference: reference, Wanted: missing, Offered: whole.Images[0].Platforms}
	}
	return whole, nil
}

func isSchema1(mediaType string) bool {
	return mediaType == dockerSchema1 || mediaType == dockerSchema1Signed
}

func schema1Error(reference string) error {
	return fmt.Errorf("image %s is in Docker's first format, which no registry keeps by digest any more; push it again with a current tool", reference)
}

func platformNames(wanted []string) ([]string, error) {
	var names []string
	for _, text := range wanted {
		name, err := platformNamed(text)
		if err != nil {
			return nil, err
		}
		names = insert(names, name)
	}
	return names, nil
}

type imageReader struct {
	src       content.Fetcher
	reference string
}

// rawIndex keeps the entries of an index as they are written.
type rawIndex struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType,omitempty"`
	Manifests     []json.RawMessage `json:"manifests"`
}

// An indexEntry is one entry of an index, as written and as read.
type indexEntry struct {
	raw       json.RawMessage
	desc      ocispec.Descriptor
	manifests []LockedManifest // several for a nested index, none for an attestation
}

func (e indexEntry) nested() bool { return isIndex(e.desc.MediaType) }

// platforms are those of the manifests, sorted.
func platformsOf(manifests []LockedManifest) []string {
	var names []string
	for _, m := range manifests {
		names = insert(names, m.Platform)
	}
	return names
}

func manifestsOf(entries []indexEntry) []LockedManifest {
	var all []LockedManifest
	for _, e := range entries {
		all = append(all, e.manifests...)
	}
	return slices.Compact(sortedManifests(all))
}

func (r imageReader) fetch(ctx context.Context, desc ocispec.Descriptor) ([]byte, error) {
	data, err := fetch(ctx, r.src, desc, maxManifestBytes, owner{})
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", r.reference, err)
	}
	return data, nil
}

func (r imageReader) entries(ctx context.Context, desc ocispec.Descriptor, depth int) ([]indexEntry, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("image %s: %w", r.reference, owner{}.wrong(desc.Digest, "an index nested more than %d deep", maxDepth))
	}
	data, err := r.fetch(ctx, desc)
	if err != nil {
		return nil, err
	}
	var index rawIndex
	if err := json.Unmarshal(data, &index); err != nil {
		return nil, fmt.Errorf("image %s: %w", r.reference, owner{}.wrong(desc.Digest, "no index: %s", err))
	}
	var entries []indexEntry
	for _, raw := range index.Manifests {
		e := indexEntry{raw: raw}
		if err := json.Unmarshal(raw, &e.desc); err != nil {
			return nil, fmt.Errorf("image %s: %w", r.reference, owner{}.wrong(desc.Digest, "no index: %s", err))
		}
		if e.manifests, err = r.offered(ctx, e.desc, depth); err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// offered are the platforms' manifests below one entry, none for an attestation.
func (r imageReader) offered(ctx context.Context, desc ocispec.Descriptor, depth int) ([]LockedManifest, error) {
	if isSchema1(desc.MediaType) {
		return nil, schema1Error(r.reference)
	}
	if isIndex(desc.MediaType) {
		below, err := r.entries(ctx, desc, depth+1)
		return manifestsOf(below), err
	}
	if desc.Platform != nil {
		if !isPlatform(desc.Platform) {
			return nil, nil
		}
		return []LockedManifest{{platformName(*desc.Platform), desc.Digest}}, nil
	}
	platform, err := r.platform(ctx, desc)
	if err != nil || platform == "" {
		return nil, err
	}
	return []LockedManifest{{platform, desc.Digest}}, nil
}

// platform reads a single manifest's platform from its config; empty for what
// is no image.
func (r imageReader) platform(ctx context.Context, desc ocispec.Descriptor) (string, error) {
	data, err := r.fetch(ctx, desc)
	if err != nil {
		return "", err
	}
	var manifest ocispec.Manifest
	if err := json.Unmarshal(data, &manifest); err != nil {
		return "", fmt.Errorf("image %s: %w", r.reference, owner{}.wrong(desc.Digest, "no manifest: %s", err))
	}
	// Docker 1.10 wrote no better type; of artifacts it may be anything.
	unclear := manifest.Config.MediaType == "application/octet-stream" && manifest.MediaType == dockerManifest && manifest.Config.Size <= maxManifestBytes
	switch manifest.Config.MediaType {
	case ocispec.MediaTypeImageConfig, "application/vnd.docker.container.image.v1+json":
	default:
		if !unclear {
			return "", nil
		}
	}
	data, err = r.fetch(ctx, manifest.Config)
	if err != nil {
		return "", err
	}
	var config ocispec.Image
	if err := json.Unmarshal(data, &config); err != nil {
		if unclear {
			return "", nil
		}
		return "", fmt.Errorf("image %s: %w", r.reference, owner{}.wrong(manifest.Config.Digest, "no image configuration: %s", err))
	}
	if !isPlatform(&config.Platform) {
		return "", nil
	}
	return platformName(config.Platform), nil
}

func (r imageReader) index(ctx context.Context, whole *ResolvedImage, desc ocispec.Descriptor, wanted []string, flat bool) (*ResolvedImage, error) {
	entries, err := r.entries(ctx, desc, 0)
	if err != nil {
		return nil, err
	}
	whole.Images[0].Manifests = manifestsOf(entries)
	offered := platformsOf(whole.Images[0].Manifests)
	whole.Images[0].Platforms = offered
	if len(offered) == 0 || len(wanted) == 0 && !flat {
		return whole, nil
	}
	if missing := lacking(wanted, offered); len(missing) > 0 {
		return nil, &PlatformError{Reference: r.reference, Wanted: missing, Offered: offered}
	}
	if len(wanted) == 0 {
		wanted = offered
	}
	kept := keep(entries, wanted)
	switch {
	case flat:
		return r.flattened(desc, kept)
	case len(kept) == len(entries):
		return whole, nil
	}
	return narrowed(desc, kept)
}

// attests is the digest of the manifest that an attestation entry is about.
func (e indexEntry) attests() string { return e.desc.Annotations["vnd.docker.reference.digest"] }

// keep are the entries of the wanted platforms, with the attestations about
// them, in upstream's order.
func keep(entries []indexEntry, wanted []string) []indexEntry {
	digests := map[string]bool{}
	for _, e := range entries {
		if slices.ContainsFunc(e.manifests, func(m LockedManifest) bool { return slices.Contains(wanted, m.Platform) }) {
			digests[e.desc.Digest.String()] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(entries), func(e indexEntry) bool {
		return !digests[e.desc.Digest.String()] && !digests[e.attests()]
	})
}

// narrowed is the manifest that is left, or a new index of those that are.
func narrowed(upstream ocispec.Descriptor, kept []indexEntry) (*ResolvedImage, error) {
	runnable := slices.DeleteFunc(slices.Clone(kept), func(e indexEntry) bool { return len(e.manifests) == 0 })
	if len(runnable) == 1 {
		return &ResolvedImage{
			Images: []LockedImage{runnable[0].locked(upstream.Digest)},
			Carry:  []ocispec.Descriptor{plain(runnable[0].desc)},
		}, nil
	}
	index := rawIndex{SchemaVersion: 2, MediaType: upstream.MediaType}
	var carry []ocispec.Descriptor
	for _, e := range kept {
		index.Manifests = append(index.Manifests, e.raw)
		carry = append(carry, plain(e.desc))
	}
	data, err := json.Marshal(index)
	if err != nil {
		return nil, errors.Join(errors.New("writing an index of some platforms"), err)
	}
	desc := content.NewDescriptorFromBytes(upstream.MediaType, data)
	locked := lockedAs(desc, nil, upstream.Digest)
	locked.Manifests = manifestsOf(kept)
	locked.Platforms = platformsOf(locked.Manifests)
	return &ResolvedImage{Images: []LockedImage{locked}, Index: data, Carry: carry}, nil
}

// locked is the lock's entry of one entry of an index, by itself.
func (e indexEntry) locked(upstream digest.Digest) LockedImage {
	locked := lockedAs(e.desc, platformsOf(e.manifests), upstream)
	if e.nested() {
		locked.Manifests = e.manifests
	}
	return locked
}

// flattened is each platform's manifest by itself.
func (r imageReader) flattened(upstream ocispec.Descriptor, kept []indexEntry) (*ResolvedImage, error) {
	flat := &ResolvedImage{}
	for _, e := range kept {
		switch {
		case len(e.manifests) == 0:
			continue // an attestation has no place of its own
		case e.nested():
			return nil, fmt.Errorf("image %s: an index within its index cannot be carried flat; list its platforms' images by digest, or leave out shape: flat", r.reference)
		}
		flat.Images = append(flat.Images, e.locked(upstream.Digest))
		flat.Carry = append(flat.Carry, plain(e.desc))
	}
	return flat, nil
}

func lockedAs(desc ocispec.Descriptor, platforms []string, upstream digest.Digest) LockedImage {
	return LockedImage{Digest: desc.Digest, MediaType: desc.MediaType, Size: desc.Size, Platforms: platforms, Upstream: upstream}
}
