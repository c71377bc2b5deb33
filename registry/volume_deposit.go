package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"sync"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
)

// A Deposit is what [Source.Deposit] did.
type Deposit struct {
	Copied  Amount // pieces of blobs among it, each as an object
	Skipped Amount // there already
	// Missing are the volumes of which something is neither at hand nor at the
	// target.
	Missing []int
}

// Deposit brings the content of the volumes at hand to a registry without a tag to
// what they are volumes of, and finds out which other volumes are still missing.
// When none is, [Source.CompleteFrom] makes the source whole.
//
// Errors: *CopyError.
func (s *Source) Deposit(ctx context.Context, dst *Destination, opts CopyOptions) (Deposit, error) {
	set, err := s.volumeSet()
	if err != nil {
		return Deposit{}, err
	}
	d := &depositing{set: set, dst: dst, opts: opts, lacks: map[int]bool{}}
	all := slices.Sorted(maps.Keys(set.where))
	if opts.OnPlanned != nil {
		objects, size := 0, int64(0)
		for _, blob := range all {
			if set.atHand(blob) {
				objects, size = objects+1, size+set.where[blob].size
				continue
			}
			for _, p := range set.piecesAtHand(blob) {
				objects, size = objects+1, size+p.Length
			}
		}
		opts.OnPlanned(objects, size)
	}
	err = each(ctx, opts.Concurrency, len(all), func(ctx context.Context, i int) error { return d.blob(ctx, all[i]) })
	d.result.Missing = slices.Sorted(maps.Keys(d.lacks))
	return d.result, err
}

type depositing struct {
	set  *volumeSet
	dst  *Destination
	opts CopyOptions

	mu     sync.Mutex
	result Deposit
	lacks  map[int]bool
}

func (d *depositing) desc(blob digest.Digest) ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: octetStream, Digest: blob, Size: d.set.where[blob].size}
}

// blob sees to it that a blob is at the target when it is at hand, and else finds
// out whether it is.
func (d *depositing) blob(ctx context.Context, blob digest.Digest) error {
	desc := d.desc(blob)
	there, err := d.dst.Exists(ctx, desc)
	switch {
	case err != nil:
		return d.failed("looking for", desc, err)
	case there && !d.set.atHand(blob) && len(d.set.piecesAtHand(blob)) > 0:
		for _, p := range d.set.piecesAtHand(blob) {
			d.done(describePiece(p, blob), &d.result.Skipped, 0, true)
		}
		return nil
	case there:
		d.done(desc, &d.result.Skipped, 0, d.set.atHand(blob))
		return nil
	case d.set.atHand(blob):
		return d.push(ctx, desc)
	}
	for _, p := range d.set.cut[blob] {
		if err := d.piece(ctx, p); err != nil {
			return err
		}
	}
	if len(d.set.cut[blob]) == 0 {
		d.missing(d.set.volumesOf(blob)...)
	}
	return nil
}

func (d *depositing) missing(volumes ...int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, n := range volumes {
		d.lacks[n] = true
	}
}

func (d *depositing) push(ctx context.Context, desc ocispec.Descriptor) error {
	if d.opts.OnStart != nil {
		d.opts.OnStart(desc, "")
	}
	file, _, err := d.set.open(desc.Digest)
	if err != nil {
		return d.set.damaged(desc.Digest, err)
	}
	if err := d.send(ctx, desc, file, 0); err != nil {
		return d.set.damaged(desc.Digest, err)
	}
	d.done(desc, &d.result.Copied, desc.Size, true)
	return nil
}

// send pushes what is read at some place.
func (d *depositing) send(ctx context.Context, desc ocispec.Descriptor, from io.ReaderAt, at int64) error {
	open := func(offset int64) (io.ReadCloser, error) {
		return io.NopCloser(io.NewSectionReader(from, at+offset, desc.Size-offset)), nil
	}
	rc, err := open(0)
	if err != nil {
		return err
	}
	checking, err := newCheckedReader(rc, desc, d.set.archive)
	if err != nil {
		return err
	}
	source := &sourceReader{checkedReader: checking, open: open, onBytes: d.opts.OnBytes}
	if err := d.dst.Push(ctx, desc, source); err != nil {
		if source.err != nil {
			return source.err
		}
		return d.failed("writing", desc, err)
	}
	return nil
}

// piece sees to it that one piece of a blob is at the target when its volume is
// at hand.
func (d *depositing) piece(ctx context.Context, p volumePart) error {
	v := d.set.volumes[p.Volume-1]
	if v == nil {
		_, err := readPiece(ctx, d.dst, p)
		if errors.Is(err, errdef.ErrNotFound) {
			d.missing(p.Volume)
			return nil
		}
		return err
	}
	at, sum, err := v.findPiece(p)
	if err != nil {
		return err
	}
	desc := describePiece(p, sum)
	there, err := d.dst.Exists(ctx, desc)
	if err != nil {
		return d.failed("looking for", desc, err)
	}
	if !there {
		if err := d.send(ctx, desc, v.blobs.file, at.offset); err != nil {
			return d.set.damaged(p.Digest, err)
		}
	}
	if err := d.name(ctx, p, desc); err != nil {
		return d.failed("writing", desc, err)
	}
	if there {
		d.done(desc, &d.result.Skipped, 0, true)
	} else {
		d.done(desc, &d.result.Copied, desc.Size, true)
	}
	return nil
}

// name tags a manifest that leads to a piece, so that it is found and not
// collected as garbage.
func (d *depositing) name(ctx context.Context, p volumePart, piece ocispec.Descriptor) error {
	empty := ocispec.DescriptorEmptyJSON
	if there, err := d.dst.Exists(ctx, empty); err != nil {
		return err
	} else if !there {
		if err := d.dst.Push(ctx, empty, bytes.NewReader(empty.Data)); err != nil {
			return err
		}
	}
	data, err := json.Marshal(ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, ArtifactType: pieceType,
		Config: ocispec.Descriptor{MediaType: empty.MediaType, Digest: empty.Digest, Size: empty.Size}, Layers: []ocispec.Descriptor{piece},
	})
	if err != nil {
		return err
	}
	desc := content.NewDescriptorFromBytes(ocispec.MediaTypeImageManifest, data)
	if err := d.dst.Push(ctx, desc, bytes.NewReader(data)); err != nil {
		return err
	}
	return d.dst.Tag(ctx, desc, pieceTag(p))
}

func (d *depositing) failed(step string, desc ocispec.Descriptor, err error) error {
	return &CopyError{Side: "target", Ref: d.dst.target.name(), Digest: desc.Digest, Step: step, Err: err}
}

// done counts what is at the target; planned says that it was at hand.
func (d *depositing) done(desc ocispec.Descriptor, amount *Amount, sent int64, planned bool) {
	d.mu.Lock()
	amount.add(desc)
	d.mu.Unlock()
	if d.opts.OnDone != nil && planned {
		d.opts.OnDone(desc, "", sent)
	}
}
