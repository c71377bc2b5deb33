package registry

import (
	"context"
	"errors"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"waybill/internal/tarball"
)

// plannedSet is a set of volumes before it is written.
type plannedSet struct {
	plan     volumePlan
	set      string // as volumeTable.set
	index    []byte
	data     map[digest.Digest][]byte // blobs that are at hand
	supplies map[digest.Digest]supply
	sums     map[string]digest.Digest // of pieces, by entry, as far as they are known
}

// planSet plans the volumes of everything that was tagged.
func (t *volumeTarget) planSet(ctx context.Context) (*plannedSet, error) {
	c, err := t.contents(ctx)
	if err != nil {
		return nil, err
	}
	root, err := rootOf(c.index, t.place)
	if err != nil {
		return nil, err
	}
	s := &plannedSet{index: c.indexData, data: c.data, supplies: c.supplies, sums: map[string]digest.Digest{}}
	base := volumeTable{Split: t.opts.Split, Root: root.Digest, Name: nameOf(root), Index: digest.FromBytes(c.indexData)}
	if s.plan, err = assignVolumes(c.blobs, base, int64(len(c.indexData))); err != nil {
		return nil, err
	}
	s.set = s.plan.table(1).set()
	return s, nil
}

// rootOf is the one root of what is written.
func rootOf(index ocispec.Index, place string) (ocispec.Descriptor, error) {
	var all []ocispec.Descriptor
	for _, desc := range index.Manifests {
		if name := nameOf(desc); name != "" && !isAttachment(name) {
			all = append(all, desc)
		}
	}
	if len(all) == 0 { // kept by its digest
		for _, desc := range index.Manifests {
			if nameOf(desc) == "" {
				all = append(all, desc)
			}
		}
	}
	if len(all) == 0 {
		return ocispec.Descriptor{}, &ContentError{Ref: place, Reason: "nothing was tagged, so there is nothing to write"}
	}
	return all[0], nil
}

// tarPlan is the tar of one volume.
func (s *plannedSet) tarPlan(number int) (*tarPlan, error) {
	table := s.plan.table(number)
	tableData, err := marshalVolume(table)
	if err != nil {
		return nil, err
	}
	p := &tarPlan{}
	if err := errors.Join(p.addData(layoutFile, layoutFileBytes()), p.addData(indexFile, s.index), p.addData(volumeFile, tableData)); err != nil {
		return nil, err
	}
	cut := false
	for _, part := range table.Contents {
		planned := tarPart{Planned: tarball.Planned{Name: part.entry(), Size: part.bytes()}}
		if data, ok := s.data[part.Digest]; ok {
			planned.data = data[part.Offset : part.Offset+part.bytes()]
		} else {
			planned.blob = ocispec.Descriptor{Digest: part.Digest, Size: part.Size}
			planned.from, planned.sum, planned.supply = part.Offset, s.sums[part.entry()], s.supplyOf(part)
		}
		if err := p.add(planned); err != nil {
			return nil, err
		}
		cut = cut || part.Piece != 0
	}
	if !cut {
		return p, nil
	}
	sums, err := listPieces(table.Contents, s.sums)
	if err != nil {
		return nil, err
	}
	return p, p.addData(piecesFile, sums)
}

// supplyOf is where a part is read; a blob is done when its last piece is.
func (s *plannedSet) supplyOf(p volumePart) supply {
	o := s.supplies[p.Digest]
	if p.Piece > 1 {
		o.started = func() {}
	}
	switch done := o.done; {
	case p.Offset+p.bytes() < p.Size:
		o.done = func(int64) {}
	case p.Piece > 0:
		o.done = func(int64) { done(p.Size) } // the other pieces were told of before
	}
	return o
}

// isWhole says whether a volume of this set lies at a path, every byte as it
// should be.
func (s *plannedSet) isWhole(ctx context.Context, path string, number int) bool {
	v, err := openVolume(path)
	if err != nil {
		return false
	}
	defer v.blobs.Close() // it was only read from
	return v.set == s.set && v.table.Number == number && s.hasPieces(v) && v.check(ctx, func(int) {}) == nil
}

// skip tells who waits for the parts of a volume that nothing is to be done.
func (s *plannedSet) skip(number int) {
	for _, p := range s.plan.parts[number-1] {
		o, ok := s.supplies[p.Digest]
		if !ok {
			continue
		}
		o = s.supplyOf(p)
		o.read(int(p.bytes()))
		o.done(p.bytes())
	}
}
