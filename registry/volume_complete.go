package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
)

// CompleteFrom lets a source that some volumes are missing of read what is at a
// destination in their place. ctx is for all that will be read there.
func (s *Source) CompleteFrom(ctx context.Context, dst *Destination) error {
	set, err := s.volumeSet()
	if err != nil {
		return err
	}
	p := s.place.(*localPlace)
	p.blobs = layered{p.blobs, depositedBlobs{ctx, set, dst}}
	return p.readDelta()
}

// depositedBlobs are what earlier volumes have brought to a destination.
type depositedBlobs struct {
	ctx context.Context // of all that is read here
	set *volumeSet
	dst *Destination
}

func (b depositedBlobs) desc(d digest.Digest) (ocispec.Descriptor, error) {
	at, ok := b.set.where[d]
	if !ok {
		return ocispec.Descriptor{}, fs.ErrNotExist
	}
	return ocispec.Descriptor{MediaType: octetStream, Digest: d, Size: at.size}, nil
}

func (b depositedBlobs) size(d digest.Digest) (int64, error) {
	desc, err := b.desc(d)
	if err != nil {
		return 0, err
	}
	there, err := b.dst.Exists(b.ctx, desc)
	if err == nil && !there && len(b.set.cut[d]) == 0 {
		err = fs.ErrNotExist
	}
	return desc.Size, err
}

// open reads a small blob into memory: manifests, documents and signatures. A
// large one is there already, or in pieces that are joined.
func (b depositedBlobs) open(d digest.Digest) (blobFile, int64, error) {
	desc, err := b.desc(d)
	if err != nil {
		return nil, 0, err
	}
	there, err := b.dst.Exists(b.ctx, desc)
	switch {
	case err != nil:
		return nil, 0, err
	case !there:
		return b.join(desc)
	case desc.Size > maxRemembered:
		return nil, 0, fmt.Errorf("%s is at %s already", d, b.dst.target.name())
	}
	data, err := content.FetchAll(b.ctx, b.dst, desc)
	if err != nil {
		return nil, 0, err
	}
	return memoryBlob{bytes.NewReader(data)}, desc.Size, nil
}

// maxRemembered bounds what is read back of a destination: documents have 4 MiB.
const maxRemembered = 16 << 20

// join reads a blob in pieces, some of them at hand and some at the destination.
func (b depositedBlobs) join(desc ocispec.Descriptor) (blobFile, int64, error) {
	joined := &joinedPieces{set: b.set, size: desc.Size}
	for _, p := range b.set.cut[desc.Digest] {
		part := joinedPiece{volumePart: p}
		if b.set.volumes[p.Volume-1] == nil {
			at, err := readPiece(b.ctx, b.dst, p)
			if errors.Is(err, errdef.ErrNotFound) {
				return nil, 0, fs.ErrNotExist
			}
			if err != nil {
				return nil, 0, err
			}
			part.open = func(offset int64) (io.ReadCloser, error) { return b.dst.openAt(b.ctx, at, offset) }
		}
		joined.parts = append(joined.parts, part)
	}
	if len(joined.parts) == 0 {
		return nil, 0, fs.ErrNotExist
	}
	return joined, desc.Size, nil
}

// openAt reads from an offset on, unchecked.
func (d *Destination) openAt(ctx context.Context, desc ocispec.Descriptor, offset int64) (io.ReadCloser, error) {
	if p, ok := d.target.(place); ok {
		return p.openAt(ctx, desc, offset)
	}
	return nil, errors.ErrUnsupported
}

func (depositedBlobs) Close() error { return nil }
