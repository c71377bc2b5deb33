package releasefile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"

	"waybill/bundle"
	"waybill/internal/ref"
	"waybill/registry"
)

// An ImageOrigin is where the content of a locked image is, and what of it to
// carry.
type ImageOrigin struct {
	Reference  string // normalised, for people
	Repository string // HOST/PATH
	Carry      []ocispec.Descriptor
	// Index is the lock's entry that what is carried belongs to, when it is a new
	// index; else each of Carry is an entry by itself.
	Index digest.Digest
	// Narrowed is upstream's index when only some of its platforms are carried.
	Narrowed *ocispec.Descriptor
}

// ResolvedImages are the images of a release, each by its digest.
type ResolvedImages struct {
	Locked  []bundle.LockedImage     // for the lock, by digest and upstream
	Indexes map[digest.Digest][]byte // those made for some of upstream's platforms
	Origins []ImageOrigin            // in the order of the references
	Moved   []string                 // references whose tag names other content than their digest
}

// ImageOptions are the options of [File.ResolveImages].
type ImageOptions struct {
	// Previous is the lock so far: what is in it keeps its digest, and its tag
	// is not asked for. Nil resolves everything anew.
	Previous *bundle.Lock
	// Locked takes digests from Previous alone: a reference that is not there is
	// an error.
	Locked     bool
	OnResolved func(reference string) // after each; may be called at the same time
}

// resolvedAtOnce is how many images are asked for at the same time.
const resolvedAtOnce = 4

// ResolveImages asks the registries for every image that is to be carried, each
// reference once, and decides what of it. All that does not fit is in the error,
// joined, in the order of the references; beside it is what did resolve.
func (f *File) ResolveImages(ctx context.Context, client *registry.Client, images []bundle.ListedImage, opts ImageOptions) (*ResolvedImages, error) {
	carried := slices.DeleteFunc(slices.Clone(images), func(i bundle.ListedImage) bool { return !i.Carried() })
	resolved, failed := make([]*resolvedImage, len(carried)), make([]error, len(carried))
	var group errgroup.Group
	group.SetLimit(resolvedAtOnce)
	for n, image := range carried {
		group.Go(func() error {
			resolved[n], failed[n] = f.resolveImage(ctx, client, image, opts)
			if failed[n] == nil && opts.OnResolved != nil {
				opts.OnResolved(image.Reference)
			}
			return nil
		})
	}
	_ = group.Wait() // the errors are in failed
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return unite(carried, resolved), errors.Join(failed...)
}

// A resolvedImage is one reference and where it led.
type resolvedImage struct {
	*bundle.ResolvedImage
	upstream   ocispec.Descriptor
	repository string
	moved      string
}

func (r *resolvedImage) origin(reference string) ImageOrigin {
	origin := ImageOrigin{Reference: reference, Repository: r.repository, Carry: r.Carry}
	if r.Index != nil {
		origin.Index = r.Images[0].Digest
	}
	if r.Images[0].Upstream != "" {
		origin.Narrowed = &r.upstream
	}
	return origin
}

func (f *File) resolveImage(ctx context.Context, client *registry.Client, image bundle.ListedImage, opts ImageOptions) (*resolvedImage, error) {
	r, err := ref.Parse(image.Reference)
	if err != nil {
		return nil, err
	}
	repository, err := client.Repository(ctx, r.Name())
	if err != nil {
		return nil, err
	}
	wanted := image.Platforms
	if wanted == nil {
		wanted = f.Release.Platforms
	}
	asked := lockedDigest(opts.Previous, image.Reference)
	switch {
	case r.Digest != "":
		asked = r.Digest.String()
	case asked == "" && opts.Locked:
		return nil, fmt.Errorf("image %s is not in the lock", image.Reference)
	case asked == "":
		asked = r.Tag
	}
	desc, err := repository.Resolve(ctx, asked)
	if err != nil {
		return nil, fmt.Errorf("image %s (%s): %w", image.Reference, whose(image), err)
	}
	found, err := bundle.ResolveImage(ctx, repository, image.Reference, desc, wanted, f.Release.Shape == bundle.ShapeFlat)
	if err != nil {
		return nil, fmt.Errorf("%w (%s)", err, whose(image))
	}
	return &resolvedImage{ResolvedImage: found, upstream: desc, repository: r.Name(), moved: moved(ctx, repository, r)}, nil
}

// whose names the components of an image for messages.
func whose(image bundle.ListedImage) string {
	if len(image.Components) == 0 {
		return "listed by the release"
	}
	return "used by " + strings.Join(image.Components, ", ")
}

// moved says that the tag beside a digest names other content now. A tag that
// cannot be asked for is no fault: the digest decides.
func moved(ctx context.Context, repository *registry.Repository, r ref.Reference) string {
	if r.Digest == "" || r.Tag == "" {
		return ""
	}
	desc, err := repository.Resolve(ctx, r.Tag)
	if err != nil || desc.Digest == r.Digest {
		return ""
	}
	return fmt.Sprintf("%s: the tag names %s now; the digest decides", r, desc.Digest)
}

// lockedDigest is what a lock says of a reference: upstream's digest. Locks of
// earlier programs had one entry for each digest, so one of the platforms of an
// index may lack upstream, which the others have.
func lockedDigest(lock *bundle.Lock, reference string) string {
	if lock == nil {
		return ""
	}
	var locked string
	for _, image := range lock.Images {
		switch {
		case !slices.Contains(image.References, reference):
		case image.Upstream != "":
			return image.Upstream.String()
		case locked == "":
			locked = image.Digest.String()
		}
	}
	return locked
}

// unite makes one entry of all references that led to one digest by the same
// way: through the same index of upstream, or through none.
func unite(images []bundle.ListedImage, resolved []*resolvedImage) *ResolvedImages {
	all := &ResolvedImages{Indexes: map[digest.Digest][]byte{}}
	type way struct{ digest, upstream digest.Digest }
	at := map[way]int{}
	for n, one := range resolved {
		if one == nil { // it failed
			continue
		}
		all.Origins = append(all.Origins, one.origin(images[n].Reference))
		if one.moved != "" {
			all.Moved = append(all.Moved, one.moved)
		}
		for _, entry := range one.Images {
			i, there := at[way{entry.Digest, entry.Upstream}]
			if !there {
				i = len(all.Locked)
				at[way{entry.Digest, entry.Upstream}] = i
				all.Locked = append(all.Locked, entry)
			}
			locked := &all.Locked[i]
			locked.References = union(locked.References, images[n].Reference)
			locked.Spellings = union(locked.Spellings, images[n].Spellings...)
			locked.Components = union(locked.Components, images[n].Components...)
		}
		if one.Index != nil {
			all.Indexes[one.Images[0].Digest] = one.Index
		}
	}
	slices.SortFunc(all.Locked, bundle.CompareLockedImages)
	return all
}

func union(sorted []string, more ...string) []string {
	all := slices.Concat(sorted, more)
	slices.Sort(all)
	return slices.Compact(all)
}

// Probe says of each candidate whether its registry has it. It answers for those
// it could ask.
func Probe(ctx context.Context, client *registry.Client, images []bundle.ListedImage) map[string]bool {
	var mu sync.Mutex
	there := map[string]bool{}
	var group errgroup.Group
	group.SetLimit(resolvedAtOnce)
	for _, image := range images {
		r, err := ref.Parse(image.Reference)
		if err != nil || image.Carried() {
			continue
		}
		group.Go(func() error {
			repository, err := client.Repository(ctx, r.Name())
			if err != nil {
				return nil
			}
			asked := r.Tag
			if r.Digest != "" {
				asked = r.Digest.String()
			}
			_, err = repository.Resolve(ctx, asked)
			var absent *registry.NotFoundError
			if err != nil && !errors.As(err, &absent) {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			there[image.Reference] = err == nil
			return nil
		})
	}
	_ = group.Wait() // none of them fails
	return there
}
