package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"

	"waybill/bundle"
	"waybill/internal/ref"
	"waybill/internal/ui"
	"waybill/registry"
)

// archiveName is the name a bundle has in an archive or a layout.
func archiveName(release bundle.LockedRelease) string { return release.Name + "-" + release.Version }

// nameDestination fills in the tag or name under which a bundle is published
// where the person named none: the version in a registry, name and version in
// an archive or a layout.
func nameDestination(loc registry.Location, release bundle.LockedRelease) (registry.Location, string, error) {
	if loc.Kind == registry.Registry {
		if loc.Ref.Tag == "" {
			tag, err := ref.Tag(release.Version)
			if err != nil {
				return loc, "", err
			}
			loc.Ref.Tag = tag
		}
		return loc, loc.Ref.Tag, nil
	}
	if loc.Name == "" {
		loc.Name = archiveName(release)
	}
	return loc, loc.Name, registry.CheckTag(loc.Kind, loc.Name)
}

// A tagGuard keeps a version's tag on its content.
type tagGuard struct {
	at        registry.Location // where the tag is
	release   bundle.LockedRelease
	overwrite bool
	replaces  bool // what is there is written anew, without what it held
}

// A movedTagError reports a version's tag that names other content.
type movedTagError struct {
	at       string
	tag      string
	old, new ocispec.Descriptor
}

func (e *movedTagError) Error() string {
	return fmt.Sprintf("tag %q already names %s, not %s, in %s", e.tag, e.old.Digest, e.new.Digest, e.at)
}

// Hint says what to type next.
func (e *movedTagError) Hint() string {
	return "give the release another version, or move the tag with --overwrite"
}

type tagResolver interface {
	Resolve(ctx context.Context, reference string) (ocispec.Descriptor, error)
}

// heldNames are the names that an archive or layout holds.
type heldNames []ocispec.Descriptor

// Resolve returns the entry of that name, or a [*registry.NotFoundError].
func (h heldNames) Resolve(_ context.Context, name string) (ocispec.Descriptor, error) {
	for _, desc := range h {
		if desc.Annotations[ocispec.AnnotationRefName] == name {
			return desc, nil
		}
	}
	return ocispec.Descriptor{}, &registry.NotFoundError{What: name}
}

// check refuses to move the tag of a version to other content; other tags
// move, and both digests are said.
func (g tagGuard) check(ctx context.Context, dst tagResolver, tag string, root ocispec.Descriptor, talk *ui.Talk) error {
	old, err := g.moves(ctx, dst, tag, root)
	if err == nil && old != "" {
		stays := ""
		if g.at.Kind != registry.Registry && !g.replaces {
			stays = "; what it named stays there, by its digest"
		}
		talk.Sayf("tag %q moves from %s to %s%s", tag, old, root.Digest, stays)
	}
	return err
}

// moves returns the digest that the tag names now, empty when it names nothing
// or root, and a [*movedTagError] when it may not move.
func (g tagGuard) moves(ctx context.Context, dst tagResolver, tag string, root ocispec.Descriptor) (digest.Digest, error) {
	old, err := dst.Resolve(ctx, tag)
	var notFound *registry.NotFoundError
	switch {
	case errors.As(err, &notFound):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("looking up tag %q: %w", tag, err)
	case old.Digest == root.Digest:
		return "", nil
	}
	if !g.overwrite && (isVersionTag(tag, g.release.Version) || tag == archiveName(g.release) || isVersionTag(tag, versionOf(ctx, dst, old))) {
		return "", &movedTagError{at: withTag(g.at, "").String(), tag: tag, old: old, new: root}
	}
	return old.Digest, nil
}

// isVersionTag says whether the tag is the one of that version.
func isVersionTag(tag, version string) bool {
	versionTag, err := ref.Tag(version)
	return err == nil && tag == versionTag
}

// versionOf returns the version of the bundle at desc, empty when it is none
// or cannot be read: then its tag is nobody's version.
func versionOf(ctx context.Context, dst tagResolver, desc ocispec.Descriptor) string {
	fetcher, ok := dst.(content.Fetcher)
	if !ok || desc.Size > maxRoot {
		return ""
	}
	data, err := content.FetchAll(ctx, fetcher, desc)
	if err != nil {
		return ""
	}
	var index ocispec.Index
	if json.Unmarshal(data, &index) != nil || index.ArtifactType != bundle.ArtifactType {
		return ""
	}
	return index.Annotations[ocispec.AnnotationVersion]
}

// maxRoot bounds the root that is read, in bytes, as registries do.
const maxRoot = 4 << 20

// repositoryOf is the repository of a registry location, and empty elsewhere.
func repositoryOf(loc registry.Location) string {
	if loc.Kind != registry.Registry {
		return ""
	}
	return loc.Ref.Host + "/" + loc.Ref.Repository
}

// withTag is the location under another tag or name.
func withTag(loc registry.Location, tag string) registry.Location {
	if loc.Kind == registry.Registry {
		loc.Ref.Tag = tag
	} else {
		loc.Name = tag
	}
	return loc
}
