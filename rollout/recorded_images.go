package rollout

import (
	"slices"

	"github.com/opencontainers/go-digest"

	"waybill/bundle"
)

// A RecordedImage is a reference of a bundle's lock and what took its place.
type RecordedImage struct {
	Reference string        `json:"reference"`
	Target    string        `json:"target,omitempty"` // what was sent; empty: the reference as it is written
	Digest    digest.Digest `json:"digest"`           // locked
	Upstream  digest.Digest `json:"upstream,omitempty"`
	Replaced  bool          `json:"replaced,omitempty"` // Target is the site's image
	Bundle    digest.Digest `json:"bundle,omitempty"`
	// Manifests are those of the platforms of an index, by which a node may name
	// what it runs.
	Manifests []digest.Digest `json:"manifests,omitempty"`
}

// same is whether two are the same image for the same bundle.
func (i RecordedImage) same(other RecordedImage) bool {
	return i.Reference == other.Reference && i.Target == other.Target && i.Digest == other.Digest &&
		i.Upstream == other.Upstream && i.Replaced == other.Replaced && i.Bundle == other.Bundle
}

// imagesOf are the images of a lock as an attempt uses them.
func imagesOf(lock *bundle.Lock, m *imageMap, from digest.Digest) []RecordedImage {
	var all []RecordedImage
	for _, image := range lock.Images {
		for _, reference := range image.References {
			one := RecordedImage{Reference: reference, Digest: image.Digest, Upstream: image.Upstream, Bundle: from}
			for _, manifest := range image.Manifests {
				one.Manifests = append(one.Manifests, manifest.Digest)
			}
			if m != nil {
				one.Target = m.targets[reference]
				one.Replaced = slices.ContainsFunc(m.replacements, func(r Replacement) bool { return r.Name == reference && !r.Ended })
			}
			all = append(all, one)
		}
	}
	return all
}

// recordImages writes the images of the attempt into a record that has just
// begun, and keeps those of bundles that components still stand from.
func (a *analysis) recordImages(rec *Record) {
	rec.Images = imagesOf(a.req.Source.Lock, a.images, a.req.Source.Bundle)
	rec.AllowedImages = a.req.Images.Allow
	if a.images != nil {
		rec.Replaced = a.images.replacements
	}
	old := a.record()
	if old == nil {
		return
	}
	for _, image := range old.Images {
		stands := slices.ContainsFunc(old.Components, func(c ComponentRecord) bool { return c.touched() && c.Bundle == image.Bundle })
		if stands && !slices.ContainsFunc(rec.Images, image.same) {
			rec.Images = append(rec.Images, image)
		}
	}
}

// shrinkImages makes a record smaller that is too large for a Secret with its
// images: first by what is known of their platforms, then by all of them. It says
// whether there was anything to drop.
func (r *Record) shrinkImages() bool {
	detailed := func(i RecordedImage) bool { return len(i.Manifests) > 0 }
	switch {
	case slices.ContainsFunc(r.Images, detailed):
		r.Images = slices.Clone(r.Images)
		for i := range r.Images {
			r.Images[i].Manifests = nil
		}
	case len(r.Images) > 0:
		r.Images, r.ImagesLeftOut = nil, true
	default:
		return false
	}
	return true
}

// forgetImages drops the images of other bundles once no component stands from
// them.
func (r *Record) forgetImages() {
	for i := range r.Components {
		if c := &r.Components[i]; c.touched() && (c.Bundle != r.Bundle || c.Outcome != OutcomeDone && c.Outcome != OutcomeUnchanged) {
			return
		}
	}
	r.Images = slices.DeleteFunc(slices.Clone(r.Images), func(i RecordedImage) bool { return i.Bundle != r.Bundle })
}

// unrecordedImages says whether the record was made before images were kept in
// it.
func (a *analysis) unrecordedImages() bool {
	rec := a.record()
	return len(a.req.Source.Lock.Images) > 0 && len(rec.Images) == 0 && !rec.ImagesLeftOut
}
