package registry

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"sync"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
)

// staged is the writing half of layouts and archives: blobs go into a folder at
// once, or into memory, entries of index.json are kept until they are committed.
type staged struct {
	place string
	into  blobTaker
	// before is what was in the place when it was opened; nil for nothing.
	before *localPlace

	mu      sync.Mutex
	entries []ocispec.Descriptor
}

// blobTaker is where pushed blobs go.
type blobTaker interface {
	blobStore
	write(desc ocispec.Descriptor, r io.Reader, place string) error
}

func (s *staged) name() string { return s.place }

// Push writes a blob. A manifest that hangs on another by its subject is listed
// without a name, or nobody would find it.
func (s *staged) Push(_ context.Context, desc ocispec.Descriptor, r io.Reader) error {
	if err := checkDescriptor(desc, "content for "+s.place); err != nil {
		return err
	}
	if isManifest(desc.MediaType) {
		rc, err := checked(io.NopCloser(r), desc, "content for "+s.place)
		if err != nil {
			return err
		}
		data, err := io.ReadAll(rc)
		if err != nil {
			return err
		}
		if l, err := readLinks(data); err == nil && l.Subject != nil {
			s.list(entry(desc, ""))
		}
		r = bytes.NewReader(data)
	}
	return s.into.write(desc, r, s.place)
}

func (s *staged) list(e ocispec.Descriptor) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries = merge(ocispec.Index{Manifests: s.entries}, []ocispec.Descriptor{e}).Manifests
}

// index is what index.json would be now.
func (s *staged) index() ocispec.Index {
	s.mu.Lock()
	defer s.mu.Unlock()
	var base ocispec.Index
	if s.before != nil {
		base = s.before.index
	}
	return merge(base, slices.Clone(s.entries))
}

// blobs is what was pushed, and what was there before behind it.
func (s *staged) blobs() blobStore {
	if s.before == nil {
		return s.into
	}
	return layered{s.into, s.before.blobs}
}

func (s *staged) Fetch(_ context.Context, desc ocispec.Descriptor) (io.ReadCloser, error) {
	return fetchFrom(s.blobs(), desc, s.place)
}

func (s *staged) Exists(_ context.Context, desc ocispec.Descriptor) (bool, error) {
	return hasIn(s.blobs(), desc, s.place)
}

func (s *staged) Resolve(_ context.Context, reference string) (ocispec.Descriptor, error) {
	desc, err := resolveIn(s.index(), s.blobs(), reference, s.place)
	if errors.Is(err, errUnlisted) {
		return desc, &NotFoundError{Ref: s.place, What: whatFor(reference), Err: errdef.ErrNotFound}
	}
	return desc, err
}

func (s *staged) Predecessors(ctx context.Context, desc ocispec.Descriptor) ([]ocispec.Descriptor, error) {
	return referrersIn(ctx, s.index(), s, desc)
}

// Tag lists a manifest under a name. It must have been pushed.
func (s *staged) Tag(ctx context.Context, desc ocispec.Descriptor, name string) error {
	if _, err := content.FetchAll(ctx, s, desc); err != nil {
		return err
	}
	s.list(entry(desc, name))
	return nil
}
