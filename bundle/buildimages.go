package bundle

import (
	"fmt"
	"slices"

	"github.com/containerd/platforms"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
)

// images makes the entries of the locked images, one for each digest and sorted
// by it, and takes in the indexes that were made for them.
func (p *packing) images(spec Spec) ([]ocispec.Descriptor, error) {
	var entries []ocispec.Descriptor
	named := map[digest.Digest]int{}
	for _, image := range slices.SortedFunc(slices.Values(spec.Lock.Images), CompareLockedImages) {
		if at, there := named[image.Digest]; there {
			names := entries[at].Annotations
			names[ocispec.AnnotationRefName] = min(names[ocispec.AnnotationRefName], image.References[0])
			continue
		}
		named[image.Digest] = len(entries)
		entry := ocispec.Descriptor{
			MediaType: image.MediaType, Digest: image.Digest, Size: image.Size,
			Annotations: map[string]string{AnnotationRole: RoleImage, ocispec.AnnotationRefName: image.References[0]},
		}
		if len(image.Platforms) == 1 && !isIndex(image.MediaType) {
			platform, err := platforms.Parse(image.Platforms[0])
			if err != nil {
				return nil, fmt.Errorf("image %s: platform %q: %w", image.References[0], image.Platforms[0], err)
			}
			entry.Platform = &platform
		}
		if layers := spec.LeftOut[image.Digest]; len(layers) > 0 {
			entry.Annotations[AnnotationLeftOut] = joinDigests(layers)
		}
		entries = append(entries, entry)
		data, ours := spec.Indexes[image.Digest]
		if !ours {
			continue
		}
		if got := content.NewDescriptorFromBytes(image.MediaType, data); got.Digest != image.Digest || got.Size != image.Size {
			return nil, owner{}.wrong(image.Digest, "the index made for %s is %s", image.References[0], got.Digest)
		}
		p.manifests[image.Digest] = item{desc: plain(entry), data: data}
	}
	return entries, nil
}
