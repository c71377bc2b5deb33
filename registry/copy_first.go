package registry

import (
	"context"
	"io/fs"
)

// firstBlobs are looked for before any is sent. They are the largest, and the
// first that an earlier copy sent which was interrupted.
const firstBlobs = 32

// firstLook is what looking for the first blobs of a copy told.
type firstLook struct {
	there map[*copyNode]bool
	empty bool // the target holds nothing, as far as can be seen
}

// lookAtFirst finds out whether a registry is worth being asked for each of many
// blobs. When it has none of the first, and no tags, it is not asked for the
// others: to send one that was there does no harm.
func (r *copyRun) lookAtFirst(ctx context.Context) error {
	target, ok := r.dst.target.(*remotePlace)
	if !ok || len(r.plan.blobs) <= firstBlobs {
		return nil
	}
	first := r.plan.blobs[:firstBlobs]
	there := make([]bool, len(first))
	err := each(ctx, r.opts.Concurrency, len(first), func(ctx context.Context, i int) (err error) {
		if there[i], err = r.dst.Exists(ctx, first[i].desc); err != nil {
			return r.target(first[i], "looking for", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	r.first.there = map[*copyNode]bool{}
	r.first.empty = true
	for i, n := range first {
		r.first.there[n] = there[i]
		r.first.empty = r.first.empty && !there[i]
	}
	r.first.empty = r.first.empty && target.hasNoTags(ctx)
	return nil
}

// hasBlob asks the target for a blob unless it is known already.
func (r *copyRun) hasBlob(ctx context.Context, n *copyNode) (bool, error) {
	if there, known := r.first.there[n]; known {
		return there, nil
	}
	if target, ok := r.dst.target.(*remotePlace); ok && r.first.empty {
		target.absent.Store(n.desc.Digest, true)
		return false, nil
	}
	return r.dst.Exists(ctx, n.desc)
}

// hasNoTags says whether a repository is known to have no tags, or not to be
// there.
func (p *remotePlace) hasNoTags(ctx context.Context) bool {
	err := p.tags(ctx, func(page []string) error {
		if len(page) > 0 {
			return fs.ErrExist
		}
		return nil
	})
	return err == nil || as[*NotFoundError](err)
}
