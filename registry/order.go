package registry

import (
	"context"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
)

// The groups of an archive's blobs, in their order: what is needed to verify and
// to look around stands in front, the bulk behind. They are told by position and
// media type alone.
const (
	groupManifests = iota // every manifest, and all that attachments consist of: signatures
	groupTyped            // blobs of manifests with an artifactType
	groupArtifacts        // blobs of manifests whose config is no image's: charts
	groupRest             // blobs of images
)

// archiveOrder lists every blob that an index leads to: by group, in a group by
// digest. The same digests always come in the same order. A blob that two
// groups need stands in the first. Layers that all who name them call foreign are
// told too: they may be missing.
func archiveOrder(ctx context.Context, index ocispec.Index, fetcher content.Fetcher, place string) (order []ocispec.Descriptor, foreign map[digest.Digest]bool, err error) {
	w, err := walkArchive(ctx, index, fetcher, place)
	if err != nil {
		return nil, nil, err
	}
	return w.found, w.foreign, nil
}

// walkArchive finds the order with what it was made of.
func walkArchive(ctx context.Context, index ocispec.Index, fetcher content.Fetcher, place string) (*orderWalk, error) {
	w := &orderWalk{fetcher: fetcher, place: place, group: map[digest.Digest]int{}, foreign: map[digest.Digest]bool{}, seen: map[visit]bool{}}
	for _, desc := range index.Manifests {
		if err := w.walk(ctx, entry(desc, ""), isAttachment(nameOf(desc))); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(w.found, func(a, b ocispec.Descriptor) int {
		if c := w.group[a.Digest] - w.group[b.Digest]; c != 0 {
			return c
		}
		return strings.Compare(a.Digest.String(), b.Digest.String())
	})
	return w, nil
}

// visit is a manifest and whether it was reached as an attachment.
type visit struct {
	digest   digest.Digest
	attached bool
}

type orderWalk struct {
	fetcher content.Fetcher
	place   string
	group   map[digest.Digest]int
	foreign map[digest.Digest]bool
	found   []ocispec.Descriptor
	seen    map[visit]bool
}

func (w *orderWalk) add(desc ocispec.Descriptor, group int) error {
	before, known := w.group[desc.Digest]
	if known {
		w.group[desc.Digest] = min(before, group)
		w.foreign[desc.Digest] = w.foreign[desc.Digest] && isForeign(desc)
		return nil
	}
	if err := checkDescriptor(desc, w.place); err != nil {
		return err
	}
	w.group[desc.Digest], w.foreign[desc.Digest] = group, isForeign(desc)
	w.found = append(w.found, ocispec.Descriptor{MediaType: desc.MediaType, Digest: desc.Digest, Size: desc.Size})
	return nil
}

// walk notes a manifest and all below it. Its subject is not below it.
func (w *orderWalk) walk(ctx context.Context, desc ocispec.Descriptor, attached bool) error {
	if w.seen[visit{desc.Digest, attached}] {
		return nil
	}
	w.seen[visit{desc.Digest, attached}] = true
	if err := w.add(desc, groupManifests); err != nil {
		return err
	}
	if !isManifest(desc.MediaType) {
		return nil
	}
	data, err := content.FetchAll(ctx, w.fetcher, desc)
	if err != nil {
		return err
	}
	l, err := readLinks(data)
	if err != nil {
		return &ContentError{Ref: w.place, Digest: desc.Digest, Reason: "is no manifest", Err: err}
	}
	group := groupOf(l, attached)
	for _, blob := range l.blobs() {
		if err := w.add(blob, group); err != nil {
			return err
		}
	}
	for _, child := range l.Manifests {
		if !isManifest(child.MediaType) {
			if err := w.add(child, group); err != nil {
				return err
			}
			continue
		}
		if err := w.walk(ctx, child, attached); err != nil {
			return err
		}
	}
	return nil
}

func groupOf(l links, attached bool) int {
	switch {
	case attached || l.Subject != nil:
		return groupManifests
	case l.ArtifactType != "":
		return groupTyped
	case l.Config != nil && l.Config.MediaType != ocispec.MediaTypeImageConfig && l.Config.MediaType != dockerImageConfig:
		return groupArtifacts
	}
	return groupRest
}
