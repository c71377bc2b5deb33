package registry

import (
	"context"
	"errors"
	"io"
)

// promise lets the target read a blob when it is committed. It counts as copied.
// Whether a layer is there that may be missing has to be known at once, since the
// positions of others depend on it.
func (r *copyRun) promise(ctx context.Context, n *copyNode, target promiser) error {
	if n.foreign && n.choice != ForeignInclude {
		there, err := n.src.Has(ctx, n.desc)
		switch {
		case err != nil && !isContentProblem(err):
			return r.source(n, "looking for", err)
		case (err != nil || !there) && n.mayLack():
			r.leftOut(n)
			return nil
		}
	}
	p := promise{
		desc: n.desc, src: n.src, open: n.openAt, onBytes: r.opts.OnBytes,
		failed: func(err error) error { return r.source(n, "reading", err) },
	}
	if r.opts.OnStart != nil {
		p.onStart = func() { r.opts.OnStart(n.desc, n.of()) }
	}
	if r.opts.OnDone != nil {
		p.onDone = func(read int64) { r.opts.OnDone(n.desc, n.of(), read) }
	}
	target.promise(p, r.opts.Concurrency)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.Copied.add(n.desc)
	return nil
}

// openAt is fetch from an offset on, unchecked. Other addresses are read from
// their beginning.
func (n *copyNode) openAt(ctx context.Context, offset int64) (io.ReadCloser, error) {
	rc, err := n.src.place.openAt(ctx, n.desc, offset)
	if err == nil || n.choice != ForeignInclude || !isContentProblem(err) {
		return rc, err
	}
	if rc, err = n.fetch(ctx); err != nil {
		return nil, err
	}
	if _, err := io.CopyN(io.Discard, rc, offset); err != nil {
		return nil, errors.Join(err, rc.Close())
	}
	return rc, nil
}
