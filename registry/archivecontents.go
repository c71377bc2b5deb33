package registry

import (
	"context"
	"errors"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// contents is what an archive will hold, in order.
type contents struct {
	index     ocispec.Index
	indexData []byte
	blobs     []groupedBlob
	data      map[digest.Digest][]byte
	supplies  map[digest.Digest]supply
}

// contents finds everything that was tagged, and where each blob of it comes
// from. What a delta leaves out is not in it, and what it says of itself is.
func (t *archiveTarget) contents(ctx context.Context) (contents, error) {
	c := contents{index: t.index(), data: map[digest.Digest][]byte{}, supplies: map[digest.Digest]supply{}}
	w, err := walkArchive(ctx, c.index, t, t.place)
	if err != nil {
		return c, err
	}
	if t.delta != nil {
		desc, data, err := t.delta.encode()
		if err != nil {
			return c, err
		}
		c.index = t.delta.mark(c.index, desc)
		c.data[desc.Digest] = data
		c.blobs = append(c.blobs, groupedBlob{desc, groupManifests})
	}
	if c.indexData, err = writeIndex(c.index); err != nil {
		return c, err
	}
	var absent []error
	for _, desc := range w.found {
		o, ok := t.findSupply(desc)
		switch {
		case t.delta.leaves(desc.Digest):
		case ok:
			c.supplies[desc.Digest] = o
			c.blobs = append(c.blobs, groupedBlob{desc, w.group[desc.Digest]})
		case !w.foreign[desc.Digest]:
			absent = append(absent, missing(t.place, desc))
		}
	}
	return c, errors.Join(absent...)
}
