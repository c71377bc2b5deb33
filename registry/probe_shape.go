package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
)

// A Shape is what of an index some registries refuse.
type Shape struct {
	ArtifactType string   // of the index; empty: it has none
	ManifestType string   // the artifactType of an image manifest in it, with an empty config; empty: there is none
	Nested       []string // media types of the indexes in it
}

// ShapeOf reads the shape of an index. manifestType is that of a manifest in it,
// which an index does not tell. What is no index has no shape.
func ShapeOf(index []byte, manifestType string) Shape {
	l, err := readLinks(index)
	if err != nil || l.Manifests == nil {
		return Shape{}
	}
	s := Shape{ArtifactType: l.ArtifactType, ManifestType: manifestType}
	for _, desc := range l.Manifests {
		if isIndex(desc.MediaType) && !slices.Contains(s.Nested, desc.MediaType) {
			s.Nested = append(s.Nested, desc.MediaType)
		}
	}
	slices.Sort(s.Nested)
	return s
}

// Shape is that of a root that was planned.
func (p *CopyPlan) Shape(root ocispec.Descriptor) Shape {
	if n := p.nodes[keyOf(root)]; n != nil {
		return ShapeOf(n.data, "")
	}
	return Shape{}
}

func isIndex(mediaType string) bool {
	return mediaType == ocispec.MediaTypeImageIndex || mediaType == dockerManifestList
}

// plain shapes are those that every registry takes.
func (s Shape) plain() bool {
	return s.ArtifactType == "" && s.ManifestType == "" && len(s.Nested) == 0
}

// A ShapeError reports a registry that refuses manifests of a shape, found before
// the bulk was sent.
type ShapeError struct {
	Host, Repository string
	Field            string // what it refuses
	Nested           bool   // it is an index inside an index
	Err              error  // the registry's answer
}

func (e *ShapeError) Error() string {
	return fmt.Sprintf("%s/%s refuses %s: %v; nothing was uploaded but the trial", e.Host, e.Repository, e.Field, e.Err)
}

func (e *ShapeError) Unwrap() error { return e.Err }

// ProbeShape finds out whether registries take manifests of a shape, by pushing
// some of it that are a few bytes long: without a tag, always the same, so that
// the second time one look is enough. A place that holds root is not asked, nor
// are archives and layouts.
//
// Errors: *ShapeError, and those of a push.
func (c *Client) ProbeShape(ctx context.Context, shape Shape, root ocispec.Descriptor, locations ...Location) error {
	for _, err := range c.ProbeShapeEach(ctx, shape, root, locations...) {
		if err != nil {
			return err
		}
	}
	return nil
}

// ProbeShapeEach is [Client.ProbeShape] for who goes on with those that take it:
// it returns the error of each location, nil for one that does.
func (c *Client) ProbeShapeEach(ctx context.Context, shape Shape, root ocispec.Descriptor, locations ...Location) []error {
	if shape.plain() {
		return make([]error, len(locations))
	}
	untold := func(Location) error { return nil }
	return c.eachPlace(locations, untold, func(l Location) error {
		t := shapeTrial{place: c.remote(l.Ref), shape: shape}
		return t.run(ctx, root)
	})
}

// A shapeTrial pushes small manifests of a shape to one place.
type shapeTrial struct {
	place *remotePlace
	shape Shape
}

// A trialPiece is one of them.
type trialPiece struct {
	desc  ocispec.Descriptor
	data  []byte
	field string // what a registry refuses that refuses it
}

func (t shapeTrial) run(ctx context.Context, root ocispec.Descriptor) error {
	pieces, err := t.pieces(t.shape)
	if err != nil {
		return err
	}
	whole := pieces[len(pieces)-1]
	for _, there := range []ocispec.Descriptor{root, whole.desc} {
		if there, err := t.place.has(ctx, there); err == nil && there {
			return nil
		}
	}
	if err := t.blob(ctx, []byte("{}")); err != nil {
		return err
	}
	for _, p := range pieces[:len(pieces)-1] {
		err := t.push(ctx, p)
		if isRefusal(err) {
			return t.refused(p.field, false, err)
		}
		if err != nil {
			return err
		}
	}
	err = t.push(ctx, whole)
	if isRefusal(err) || mayBeRefusal(err) {
		return t.narrowDown(ctx, whole, err)
	}
	return err
}

func (t shapeTrial) push(ctx context.Context, p trialPiece) error {
	return t.place.putManifest(ctx, p.desc, p.data)
}

// narrowDown finds out which part of the shape an index is refused for, and
// whether it is.
func (t shapeTrial) narrowDown(ctx context.Context, whole trialPiece, refusal error) error {
	flat := t.shape
	flat.Nested = nil
	pieces, err := t.pieces(flat)
	if err != nil {
		return err
	}
	if len(t.shape.Nested) > 0 {
		err = t.push(ctx, pieces[len(pieces)-1])
		if err == nil {
			err = t.push(ctx, whole) // what was no refusal may have been a passing failure
			if err == nil {
				return nil
			}
			return t.refused("an index inside an index", true, err)
		}
		refusal = err
	}
	if isRefusal(refusal) {
		return t.refused(whole.field, false, refusal)
	}
	return refusal
}

func (t shapeTrial) refused(field string, nested bool, err error) error {
	return &ShapeError{Host: t.place.ref.Host, Repository: t.place.ref.Repository, Field: field, Nested: nested, Err: err}
}

func (t shapeTrial) blob(ctx context.Context, data []byte) error {
	desc := content.NewDescriptorFromBytes(ocispec.MediaTypeEmptyJSON, data)
	there, err := t.place.Exists(ctx, desc)
	if err != nil || there {
		return err
	}
	return t.place.Push(ctx, desc, bytes.NewReader(data))
}

// pieces are the manifests of a shape, each after what it names.
func (t shapeTrial) pieces(s Shape) ([]trialPiece, error) {
	var all []trialPiece
	var failed []error
	add := func(mediaType, field string, manifest any) ocispec.Descriptor {
		data, err := json.Marshal(manifest)
		failed = append(failed, err)
		desc := content.NewDescriptorFromBytes(mediaType, data)
		all = append(all, trialPiece{desc, data, field})
		return desc
	}
	empty := content.NewDescriptorFromBytes(ocispec.MediaTypeEmptyJSON, []byte("{}"))
	field := "an image manifest with an empty config (" + ocispec.MediaTypeEmptyJSON + ")"
	if s.ManifestType != "" {
		field = fmt.Sprintf("an image manifest with artifactType %q and an empty config", s.ManifestType)
	}
	m := add(ocispec.MediaTypeImageManifest, field, ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, ArtifactType: s.ManifestType,
		Config: empty, Layers: []ocispec.Descriptor{empty},
	})
	entries := []ocispec.Descriptor{m}
	of := m
	of.Platform = &ocispec.Platform{OS: "linux", Architecture: "amd64"}
	for _, mediaType := range s.Nested {
		entries = append(entries, add(mediaType, "an index of type "+mediaType, ocispec.Index{
			Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: mediaType, Manifests: []ocispec.Descriptor{of},
		}))
	}
	add(ocispec.MediaTypeImageIndex, fieldOf(s), ocispec.Index{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, ArtifactType: s.ArtifactType, Manifests: entries,
	})
	return all, errors.Join(failed...)
}

// fieldOf names an index that has nothing nested.
func fieldOf(s Shape) string {
	if s.ArtifactType == "" {
		return "an index"
	}
	return fmt.Sprintf("an index with artifactType %q", s.ArtifactType)
}

// isRefusal tells an answer about what was pushed from one about who pushed it
// and from none at all.
func isRefusal(err error) bool {
	var answer *ResponseError
	return errors.As(err, &answer) && answer.Status != http.StatusRequestEntityTooLarge
}

// mayBeRefusal is an answer that some registries give to what they don't know,
// and others to who may not push, or when they are not well.
func mayBeRefusal(err error) bool {
	var denied *DeniedError
	var failing *UnreachableError
	return errors.As(err, &denied) && denied.Status == http.StatusForbidden ||
		errors.As(err, &failing) && failing.Status >= http.StatusInternalServerError || as[*NotFoundError](err)
}
