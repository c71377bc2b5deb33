package registry

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// A piece of a blob has no digest that anybody promised. So a blob that is cut is
// read once to its end before a piece of it is written, or believed where it lies:
// what has the blob's digest tells what each piece has to be. Volumes that are
// there are read for it, when the whole blob is in them, and else its source.

// sumCut learns the checksums of all pieces in the volumes that are to be written,
// of a dry run as far as what lies there tells them.
func (t *volumeTarget) sumCut(ctx context.Context, s *plannedSet) error {
	var problems []error
	there := s.atHand(t.path)
	if there != nil {
		defer there.Close() // they were only read from
	}
	for _, pieces := range s.cutIn(t.opts.Volume) {
		if s.sumThere(ctx, there, pieces) || t.opts.DryRun {
			continue
		}
		if t.opts.OnCut != nil {
			t.opts.OnCut(ocispec.Descriptor{Digest: pieces[0].Digest, Size: pieces[0].Size})
		}
		err := s.sumSource(ctx, pieces)
		switch {
		case isContentProblem(err):
			problems = append(problems, err)
		case err != nil:
			return err
		}
	}
	return joinProblems(problems)
}

// cutIn are the blobs of which a piece is in a volume, 0 for any, each with all of
// its pieces in order.
func (s *plannedSet) cutIn(number int) [][]volumePart {
	var order []digest.Digest
	pieces, wanted := map[digest.Digest][]volumePart{}, map[digest.Digest]bool{}
	for i, parts := range s.plan.parts {
		for _, p := range parts {
			if p.Piece == 0 {
				continue
			}
			if len(pieces[p.Digest]) == 0 {
				order = append(order, p.Digest)
			}
			pieces[p.Digest] = append(pieces[p.Digest], p)
			wanted[p.Digest] = wanted[p.Digest] || number == 0 || number == i+1
		}
	}
	var cut [][]volumePart
	for _, d := range order {
		if wanted[d] {
			cut = append(cut, pieces[d])
		}
	}
	return cut
}

// atHand are the volumes of this set that have their names; nil for none.
func (s *plannedSet) atHand(archive string) *volumeSet {
	var set *volumeSet
	for i := range s.plan.parts {
		v, err := openVolume(volumePath(archive, i+1))
		if err != nil {
			continue
		}
		if v.set != s.set || v.table.Number != i+1 {
			_ = v.blobs.Close() // it was only read from
			continue
		}
		if set == nil {
			set = newVolumeSet(archive, v)
		}
		v.table.Elsewhere = nil // the set has it
		set.volumes[i] = v
	}
	return set
}

// sumThere takes the checksums of a blob's pieces from volumes, if these join to it.
func (s *plannedSet) sumThere(ctx context.Context, there *volumeSet, pieces []volumePart) bool {
	if there == nil {
		return false
	}
	blob, _, err := there.open(pieces[0].Digest)
	return err == nil && s.sumPieces(ctx, blob, there.archive, pieces) == nil
}

// sumSource takes them from where the blob comes from.
func (s *plannedSet) sumSource(ctx context.Context, pieces []volumePart) error {
	d := pieces[0].Digest
	if data, ok := s.data[d]; ok {
		return s.sumPieces(ctx, io.NopCloser(bytes.NewReader(data)), "memory", pieces)
	}
	from := s.supplies[d]
	rc, err := from.open(ctx, 0)
	if err == nil {
		err = s.sumPieces(ctx, rc, from.place, pieces)
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return from.failed(err)
}

// sumPieces notes the checksum of each piece of a blob that is read from its
// beginning, if it is what its digest says.
func (s *plannedSet) sumPieces(ctx context.Context, rc io.ReadCloser, place string, pieces []volumePart) error {
	blob, err := checked(rc, ocispec.Descriptor{Digest: pieces[0].Digest, Size: pieces[0].Size}, place)
	if err != nil {
		return err
	}
	defer blob.Close() // it was only read from
	buffer := largeBuffers.Get().(*partBuffer)
	defer largeBuffers.Put(buffer)
	r := tellingReader{ctx, blob, func(int) {}}
	sums := map[string]digest.Digest{}
	for _, p := range pieces {
		h := digest.SHA256.Hash()
		if _, err := io.CopyBuffer(struct{ io.Writer }{h}, io.LimitReader(r, p.Length), buffer.data); err != nil {
			return err
		}
		sums[p.entry()] = digest.NewDigest(digest.SHA256, h)
	}
	if _, err := io.ReadFull(r, buffer.data[:1]); !errors.Is(err, io.EOF) { // which says that it is no longer, too
		return err
	}
	maps.Copy(s.sums, sums)
	return nil
}

// hasPieces says whether a volume holds the pieces that are known, by what it says
// of them.
func (s *plannedSet) hasPieces(v *volume) bool {
	sums, err := v.pieceSums()
	for name, sum := range sums {
		if want, ok := s.sums[name]; ok && sum != want {
			return false
		}
	}
	return err == nil
}
