package bundle

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	"oras.land/oras-go/v2/content"
)

// Push pushes the bundle to dst: blobs, then the manifests, then the root;
// nothing is tagged. What is there already is not pushed again. At the end what
// was pushed is read back, and a [ContentError] says what is not as it should
// be. Other errors are dst's, each with the digest.
func (b *Packed) Push(ctx context.Context, dst content.Storage, opts BuildOptions) error {
	p, root := b.packing, b.Root
	var children []item
	for _, i := range sortedItems(p.manifests) {
		if i.desc.Digest != root.Digest {
			children = append(children, i)
		}
	}
	for _, step := range [][]item{sortedItems(p.blobs), children, {p.manifests[root.Digest]}} {
		err := each(ctx, opts.Concurrency, step, func(ctx context.Context, i item) error {
			return pushItem(ctx, dst, i, opts)
		})
		if err != nil {
			return err
		}
	}
	return p.readBack(ctx, dst, opts)
}

func sortedItems(items map[digest.Digest]item) []item {
	sorted := make([]item, 0, len(items))
	for _, i := range items {
		sorted = append(sorted, i)
	}
	slices.SortFunc(sorted, func(a, b item) int { return strings.Compare(a.desc.Digest.String(), b.desc.Digest.String()) })
	return sorted
}

func pushItem(ctx context.Context, dst content.Storage, i item, opts BuildOptions) error {
	tell(opts.OnPush, i.desc)
	there, err := dst.Exists(ctx, i.desc)
	if err != nil {
		return fmt.Errorf("asking for %s: %w", i.name(), err)
	}
	if there {
		tell(opts.OnSkipped, i.desc)
		return nil
	}
	data := i.data
	if i.from != nil {
		if data, err = fetch(ctx, i.from, i.desc, maxBlobBytes, owner{}); err != nil {
			return err
		}
	}
	if err := dst.Push(ctx, i.desc, bytes.NewReader(data)); err != nil && !alreadyThere(err) {
		return fmt.Errorf("pushing %s: %w", i.name(), err)
	}
	tell(opts.OnPushed, i.desc)
	return nil
}

// readBack fetches every manifest again and asks for every blob: success is said
// of what is there, not of what was sent.
func (p *packing) readBack(ctx context.Context, dst content.Storage, opts BuildOptions) error {
	err := each(ctx, opts.Concurrency, sortedItems(p.manifests), func(ctx context.Context, i item) error {
		tell(opts.OnReadBack, i.desc)
		_, err := fetch(ctx, dst, i.desc, maxManifestBytes, owner{})
		return err
	})
	if err == nil {
		err = each(ctx, opts.Concurrency, sortedItems(p.blobs), func(ctx context.Context, i item) error {
			tell(opts.OnReadBack, i.desc)
			there, err := dst.Exists(ctx, i.desc)
			if err == nil && !there {
				err = owner{}.wrong(i.desc.Digest, "incomplete: it is missing")
			}
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("reading back what was pushed: %w", err)
	}
	return nil
}
