package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"

	"waybill/internal/disk"
	"waybill/internal/files"
)

// blobStore is where the blobs of a layout are: files in a folder, or places in
// a tar. A blob that isn't there is fs.ErrNotExist.
type blobStore interface {
	open(d digest.Digest) (blobFile, int64, error)
	size(d digest.Digest) (int64, error)
	Close() error
}

// blobFile is one blob, opened. It can be read from any place in it.
type blobFile interface {
	io.ReadSeekCloser
	io.ReaderAt
}

// octetStream is the type of a blob of which a store knows no other.
const octetStream = "application/octet-stream"

// localPlace is an OCI image layout that is read, from whatever store.
type localPlace struct {
	place string // printed
	index ocispec.Index
	blobs blobStore
	delta *Delta // nil for a place that is none
}

func (p *localPlace) name() string { return p.place }

func (p *localPlace) Fetch(_ context.Context, desc ocispec.Descriptor) (io.ReadCloser, error) {
	rc, err := fetchFrom(p.blobs, desc, p.place)
	return p.blame(rc, desc, err)
}

func fetchFrom(blobs blobStore, desc ocispec.Descriptor, place string) (io.ReadCloser, error) {
	if err := checkDescriptor(desc, place); err != nil {
		return nil, err
	}
	rc, size, err := blobs.open(desc.Digest)
	if err != nil {
		return nil, storeError(err, desc, place)
	}
	if err := checkSize(blobs, size, desc, place); err != nil {
		_ = rc.Close()
		return nil, err
	}
	return checked(readOnce(rc, 0, size), desc, place)
}

func (p *localPlace) openAt(_ context.Context, desc ocispec.Descriptor, offset int64) (io.ReadCloser, error) {
	if err := checkDescriptor(desc, p.place); err != nil {
		return nil, err
	}
	rc, size, err := p.blobs.open(desc.Digest)
	if err != nil {
		return p.blame(nil, desc, storeError(err, desc, p.place))
	}
	if err = checkSize(p.blobs, size, desc, p.place); err == nil {
		_, err = rc.Seek(offset, io.SeekStart)
	}
	if err != nil {
		_ = rc.Close() // it was only read from
		return nil, err
	}
	return readOnce(rc, offset, size-offset), nil
}

// readOnce goes on at an offset of a blob that is read to its end. Nobody will
// read it again so soon that the system should keep a large one in its cache.
func readOnce(blob blobFile, offset, size int64) io.ReadCloser {
	if size < largeBlob {
		return blob
	}
	switch b := blob.(type) {
	case section:
		if file, ok := b.in.(*os.File); ok {
			return disk.ReadOnce(file, b.at+offset, size)
		}
	case *os.File:
		return closeBoth{disk.ReadOnce(b, offset, size), b}
	}
	return blob
}

// closeBoth closes what is read and what it is read from.
type closeBoth struct {
	io.ReadCloser
	file io.Closer
}

func (c closeBoth) Close() error { return errors.Join(c.ReadCloser.Close(), c.file.Close()) }

func storeError(err error, desc ocispec.Descriptor, place string) error {
	if errors.Is(err, fs.ErrNotExist) {
		return missing(place, desc)
	}
	if isOurs(err) {
		return err
	}
	return fmt.Errorf("%s: %s: %w", place, describe(desc), files.PlainError(err))
}

// checkSize tells a file that was cut from one that is wrong: a tar that has its
// end has the files it was made of.
func checkSize(blobs blobStore, size int64, desc ocispec.Descriptor, place string) error {
	_, inFolder := blobs.(folder)
	switch {
	case size < desc.Size && !inFolder:
		return &ContentError{Ref: place, Digest: desc.Digest, Reason: fmt.Sprintf("corrupt: it has %d bytes, its descriptor says %d", size, desc.Size)}
	case size < desc.Size:
		return &ContentError{Ref: place, Digest: desc.Digest, Reason: fmt.Sprintf("truncated: %d of %d bytes", size, desc.Size)}
	case size > desc.Size:
		return &ContentError{Ref: place, Digest: desc.Digest, Reason: fmt.Sprintf("corrupt: longer than the %d bytes its descriptor says", desc.Size)}
	}
	return nil
}

func (p *localPlace) Exists(ctx context.Context, desc ocispec.Descriptor) (bool, error) {
	return p.has(ctx, desc)
}

func (p *localPlace) has(_ context.Context, desc ocispec.Descriptor) (bool, error) {
	return hasIn(p.blobs, desc, p.place)
}

func hasIn(blobs blobStore, desc ocispec.Descriptor, place string) (bool, error) {
	if err := checkDescriptor(desc, place); err != nil {
		return false, err
	}
	size, err := blobs.size(desc.Digest)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, storeError(err, desc, place)
	}
	if err := checkSize(blobs, size, desc, place); err != nil {
		return false, err
	}
	return true, nil
}

func (p *localPlace) Resolve(_ context.Context, reference string) (ocispec.Descriptor, error) {
	if named := allNamed(p.index, reference); len(named) > 1 {
		return ocispec.Descriptor{}, &ContentError{Ref: p.place, Reason: fmt.Sprintf("refused: %q names %s and %s", reference, named[0].Digest, named[1].Digest)}
	}
	desc, err := resolveIn(p.index, p.blobs, reference, p.place)
	if errors.Is(err, errUnlisted) {
		return desc, &NotFoundError{Ref: p.place, What: whatFor(reference), Err: errdef.ErrNotFound}
	}
	return desc, err
}

// resolveIn finds a name or digest of an index, or a manifest that is only
// among the blobs.
func resolveIn(index ocispec.Index, blobs blobStore, reference, place string) (ocispec.Descriptor, error) {
	if desc, ok := findNamed(index, reference); ok {
		return desc, nil
	}
	d, err := digest.Parse(reference)
	if err != nil {
		return ocispec.Descriptor{}, errUnlisted
	}
	for _, desc := range index.Manifests {
		if desc.Digest == d {
			return entry(desc, ""), nil
		}
	}
	return manifestIn(blobs, d, place)
}

// manifestIn describes a manifest that nothing is known of but its digest.
func manifestIn(blobs blobStore, d digest.Digest, place string) (ocispec.Descriptor, error) {
	file, size, err := blobs.open(d)
	if errors.Is(err, fs.ErrNotExist) {
		return ocispec.Descriptor{}, errUnlisted
	}
	desc := ocispec.Descriptor{Digest: d, Size: size}
	if err != nil {
		return desc, storeError(err, desc, place)
	}
	defer file.Close()
	if size > maxManifest {
		return desc, &ContentError{Ref: place, Digest: d, Reason: "is no manifest: more than 4 MiB"}
	}
	rc, err := checked(file, desc, place)
	if err != nil {
		return desc, err
	}
	data, err := io.ReadAll(rc)
	if err != nil {
		return desc, err
	}
	l, err := readLinks(data)
	if desc.MediaType = l.kind(); err != nil || desc.MediaType == "" {
		return desc, &ContentError{Ref: place, Digest: d, Reason: "is no manifest", Err: err}
	}
	return desc, nil
}

func (p *localPlace) Predecessors(ctx context.Context, desc ocispec.Descriptor) ([]ocispec.Descriptor, error) {
	return referrersIn(ctx, p.index, p, desc)
}

func (p *localPlace) tags(_ context.Context, fn func([]string) error) error {
	return fn(namesIn(p.index))
}

func namesIn(index ocispec.Index) []string {
	var names []string
	for _, desc := range index.Manifests {
		if name := nameOf(desc); name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (p *localPlace) local() bool  { return true }
func (p *localPlace) Close() error { return p.blobs.Close() }
