package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"

	"waybill/internal/tarball"
)

// A tarPlan is a tar of this package before it is written: its files in order,
// where each of them will be, and where their bytes come from. The positions
// follow from names and sizes alone, and sizes from descriptors, so a plan is
// complete before the first byte is read.
//
// A whole archive is one plan, made by planArchive. A volume of one is a plan of
// its own: its waybill-volume.json as data, then the blobs it holds, in the same
// order, each whole where it fits into a volume and else a part of it under a
// name that says so (a tarPart whose from is not 0 or whose size is not the
// blob's). A delta is a plan of the same order with the blobs left out that the
// receiver has; what is left out is no part of it and moves what is behind.
// Whatever it is, writing it, checking the space for it and going on with it
// need nothing but the plan.
type tarPlan struct {
	tar   tarball.Plan
	parts []tarPart
}

// A tarPart is one file of a planned tar.
type tarPart struct {
	tarball.Planned
	data []byte             // what is in it when that is known; nil for a blob
	blob ocispec.Descriptor // the blob that is in it,
	from int64              // from this byte on
	sum  digest.Digest      // of a piece of a blob; empty for a whole one
	supply
}

// whole says whether a part is all of a blob.
func (p tarPart) whole() bool { return p.data == nil && p.from == 0 && p.Size == p.blob.Size }

// content is the digest of what is in a part of a blob, which all that is written
// of it is held against.
func (p tarPart) content() digest.Digest { return cmp.Or(p.sum, p.blob.Digest) }

// addData plans a file whose bytes are known.
func (p *tarPlan) addData(name string, data []byte) error {
	return p.add(tarPart{data: data, Planned: tarball.Planned{Name: name, Size: int64(len(data))}})
}

// addBlob plans a blob under its name in an OCI image layout.
func (p *tarPlan) addBlob(desc ocispec.Descriptor, o supply) error {
	return p.add(tarPart{blob: desc, supply: o, Planned: tarball.Planned{Name: blobName(desc.Digest), Size: desc.Size}})
}

func (p *tarPlan) add(part tarPart) error {
	at, err := p.tar.Add(part.Name, part.Size)
	part.Planned = at
	p.parts = append(p.parts, part)
	return err
}

// amount is the blobs of a plan.
func (p *tarPlan) amount() Amount {
	var a Amount
	for _, part := range p.parts {
		if part.data == nil {
			a.Objects, a.Bytes = a.Objects+1, a.Bytes+part.Size
		}
	}
	return a
}

// skip tells who waits for the blobs that they are there.
func (p *tarPlan) skip() {
	for _, part := range p.parts {
		if part.data == nil {
			part.started()
			part.done(0)
		}
	}
}

// digest names a plan: the same files with the same bytes in them, at the same
// places.
func (p *tarPlan) digest() digest.Digest {
	sum := digest.SHA256.Digester()
	for _, part := range p.parts {
		content := part.content()
		if part.data != nil {
			content = digest.FromBytes(part.data)
		}
		// Names are ours and have no line ends.
		_, _ = fmt.Fprintf(sum.Hash(), "%s %d %s %d\n", part.Name, part.Size, content, part.from) // hashes don't fail
	}
	return sum.Digest()
}

// planArchive plans the archive of everything that an index leads to. find gives
// the supply of a blob, false where there is none; every blob without one is in
// the error, but for layers that may be missing.
func planArchive(ctx context.Context, index ocispec.Index, fetcher content.Fetcher, place string, find func(ocispec.Descriptor) (supply, bool)) (*tarPlan, error) {
	order, foreign, err := archiveOrder(ctx, index, fetcher, place)
	if err != nil {
		return nil, err
	}
	indexData, err := writeIndex(index)
	if err != nil {
		return nil, err
	}
	plan := &tarPlan{}
	if err := errors.Join(plan.addData(layoutFile, layoutFileBytes()), plan.addData(indexFile, indexData)); err != nil {
		return nil, err
	}
	var absent []error
	for _, desc := range order {
		o, ok := find(desc)
		switch {
		case ok:
			if err := plan.addBlob(desc, o); err != nil {
				return nil, err
			}
		case !foreign[desc.Digest]:
			absent = append(absent, missing(place, desc))
		}
	}
	return plan, errors.Join(absent...)
}
