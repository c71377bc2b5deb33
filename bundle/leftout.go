package bundle

import (
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// IsForeign says whether a layer may be missing from where its image is: it is of
// a type that may not be given on, or its manifest gives other addresses (image
// specification, "Non-Distributable Layers" and "Descriptors").
func IsForeign(layer ocispec.Descriptor) bool {
	return !isManifest(layer.MediaType) && (len(layer.URLs) > 0 ||
		strings.HasPrefix(layer.MediaType, "application/vnd.oci.image.layer.nondistributable.") ||
		strings.HasPrefix(layer.MediaType, "application/vnd.docker.image.rootfs.foreign."))
}

// A LeftOutImage is an image that a bundle holds without some of its layers, by
// the choice of who built it.
type LeftOutImage struct {
	Digest    digest.Digest   `json:"digest"`
	Reference string          `json:"reference"`
	Layers    []digest.Digest `json:"layers"` // sorted
}

// String says it in one line, and what it means to nodes.
func (i LeftOutImage) String() string {
	layers := "layer"
	for n, layer := range i.Layers {
		if n > 0 {
			layers += ","
		}
		layers += " " + layer.String()
	}
	return "image " + i.Reference + " is held without " + layers + ", which may not be given on: nodes fetch it from the addresses in the image's manifest"
}

// LeftOut returns the images that are held without some of their layers, in the
// root's order.
func (b *Bundle) LeftOut() []LeftOutImage {
	images := leftOut(b.Index.Manifests)
	for i, image := range images {
		var references []string // an annotation may say anything
		for _, locked := range b.Lock.Images {
			if locked.Digest == image.Digest {
				references = append(references, locked.References...)
			}
		}
		if len(references) > 0 {
			images[i].Reference = slices.Min(references)
		}
	}
	return images
}

// LeftOut is [Bundle.LeftOut] of a bundle that is about to be pushed.
func (b *Packed) LeftOut() []LeftOutImage { return leftOut(b.packing.entries) }

func leftOut(entries []ocispec.Descriptor) []LeftOutImage {
	var images []LeftOutImage
	for _, entry := range entries {
		if layers := leftOutOf(entry); len(layers) > 0 {
			images = append(images, LeftOutImage{Digest: entry.Digest, Reference: entry.Annotations[ocispec.AnnotationRefName], Layers: layers})
		}
	}
	return images
}

// leftOutOf are the layers that an entry says are left out.
func leftOutOf(entry ocispec.Descriptor) []digest.Digest {
	if entry.Annotations[AnnotationRole] != RoleImage || entry.Annotations[AnnotationLeftOut] == "" {
		return nil
	}
	var layers []digest.Digest
	for _, text := range strings.Split(entry.Annotations[AnnotationLeftOut], ",") {
		layers = append(layers, digest.Digest(text))
	}
	return layers
}

func joinDigests(digests []digest.Digest) string {
	var texts []string
	for _, d := range digests {
		texts = insert(texts, d.String())
	}
	return strings.Join(texts, ",")
}

// wrongLeftOut says of an entry whose list is none; empty when all is well.
func wrongLeftOut(entry ocispec.Descriptor) string {
	for _, layer := range leftOutOf(entry) {
		if layer.Validate() != nil {
			return AnnotationLeftOut + " is no list of digests"
		}
	}
	return ""
}

// mayLack says whether a blob of a node may be missing.
func (n node) mayLack(blob ocispec.Descriptor) bool {
	return IsForeign(blob) && (n.plain || slices.Contains(n.leftOut, blob.Digest))
}
