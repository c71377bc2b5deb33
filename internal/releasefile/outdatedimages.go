package releasefile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sync/errgroup"

	"waybill/bundle"
	"waybill/internal/ref"
	"waybill/registry"
)

// An OutdatedImage is a locked reference whose tag names something else by now.
type OutdatedImage struct {
	Reference  string        `json:"reference"` // normalised
	Components []string      `json:"components,omitempty"`
	Locked     digest.Digest `json:"locked"`        // upstream's
	Now        digest.Digest `json:"now,omitempty"` // empty when the tag is gone
	Gone       bool          `json:"gone,omitempty"`
	// Pinned says that the reference has a digest, which decides: the lock would
	// stay as it is.
	Pinned bool `json:"pinned,omitempty"`
}

// Behind says whether the lock would change when it is updated.
func (o OutdatedImage) Behind() bool { return !o.Pinned }

// String says in one line what moved, without the reference.
func (o OutdatedImage) String() string {
	text := fmt.Sprintf("the tag moved from %s to %s", o.Locked, o.Now)
	if o.Gone {
		text = fmt.Sprintf("the tag is gone; locked is %s", o.Locked)
	}
	if o.Pinned {
		text += "; the digest beside it decides"
	}
	return text
}

// OutdatedImages asks the registries what the tags of all locked references name
// now, and returns those that name something else, by reference. What has no tag
// is not asked for.
//
// Errors are the registry's, joined, each with the reference.
func (f *File) OutdatedImages(ctx context.Context, client *registry.Client, lock *bundle.Lock) ([]OutdatedImage, error) {
	asked := lockedReferences(lock)
	found, failed := make([]*OutdatedImage, len(asked)), make([]error, len(asked))
	var group errgroup.Group
	group.SetLimit(resolvedAtOnce)
	for i, image := range asked {
		group.Go(func() error {
			found[i], failed[i] = outdatedImage(ctx, client, image)
			return nil
		})
	}
	_ = group.Wait() // the errors are in failed
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var all []OutdatedImage
	for _, o := range found {
		if o != nil {
			all = append(all, *o)
		}
	}
	return all, errors.Join(failed...)
}

// lockedReferences are the references of a lock, each once, as if all were
// outdated.
func lockedReferences(lock *bundle.Lock) []OutdatedImage {
	var all []OutdatedImage
	for _, image := range lock.Images {
		for _, reference := range image.References {
			locked := digest.Digest(lockedDigest(lock, reference))
			all = append(all, OutdatedImage{Reference: reference, Components: image.Components, Locked: locked})
		}
	}
	slices.SortStableFunc(all, func(a, b OutdatedImage) int { return strings.Compare(a.Reference, b.Reference) })
	return slices.CompactFunc(all, func(a, b OutdatedImage) bool { return a.Reference == b.Reference })
}

// outdatedImage asks for one of them; nil when nothing moved.
func outdatedImage(ctx context.Context, client *registry.Client, image OutdatedImage) (*OutdatedImage, error) {
	r, err := ref.Parse(image.Reference)
	if err != nil || r.Tag == "" {
		return nil, err
	}
	image.Pinned = r.Digest != ""
	repository, err := client.Repository(ctx, r.Name())
	if err != nil {
		return nil, err
	}
	desc, err := repository.Resolve(ctx, r.Tag)
	var absent *registry.NotFoundError
	switch {
	case errors.As(err, &absent):
		image.Gone = true
		return &image, nil
	case err != nil:
		return nil, fmt.Errorf("image %s: %w", image.Reference, err)
	case desc.Digest == image.Locked:
		return nil, nil
	}
	image.Now = desc.Digest
	return &image, nil
}
