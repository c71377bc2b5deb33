package registry

import (
	"context"
	"errors"

	"oras.land/oras-go/v2/content"
)

// besideTransfers is how many look at what was sent while more is sent: few, since
// the transfers use the same connections, and wait for the target's disk most of
// the time.
const besideTransfers = 2

// readingBack runs a step of a copy, and reads back what it sends while it goes
// on. What is left then is read back by the next step, or at the end.
func (r *copyRun) readingBack(ctx context.Context, step func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended, failed := make(chan struct{}), make(chan error, 1)
	go func() {
		err := r.readBackUntil(ctx, ended)
		if err != nil {
			stop()
		}
		failed <- err
	}()
	err := step(ctx)
	if err != nil {
		stop()
	}
	close(ended)
	other := <-failed
	if err == nil || errors.Is(err, context.Canceled) && other != nil {
		return other
	}
	return err
}

func (r *copyRun) readBackUntil(ctx context.Context, ended <-chan struct{}) error {
	for {
		select {
		case <-ended:
			return nil
		case <-r.news:
		}
		if err := r.readBackAll(ctx, besideTransfers); err != nil {
			return err
		}
	}
}

// readBackAll reads back what was sent until now.
func (r *copyRun) readBackAll(ctx context.Context, concurrency int) error {
	r.mu.Lock()
	sent := r.sent
	r.sent = nil
	r.mu.Unlock()
	return each(ctx, concurrency, len(sent), func(ctx context.Context, i int) error {
		return r.readBack(ctx, sent[i])
	})
}

// readBack reads what was sent: success is said of what is there.
func (r *copyRun) readBack(ctx context.Context, n *copyNode) error {
	var err error
	if isManifest(n.desc.MediaType) {
		_, err = content.FetchAll(ctx, r.dst, n.desc)
	} else {
		var there bool
		if there, err = r.dst.Exists(ctx, n.desc); err == nil && !there {
			err = missing(r.dst.target.name(), n.desc)
		}
	}
	if err != nil {
		return r.target(n, "reading back", err)
	}
	return nil
}

// copiedBelow counts a blob that is read back only when the target takes no
// manifest that names it.
func (r *copyRun) copiedBelow(n *copyNode) {
	r.mu.Lock()
	r.below = append(r.below, n)
	r.mu.Unlock()
	r.done(&r.result.Copied, n, false, n.desc.Size)
}

// took notes that the target took a manifest and what it names.
func (r *copyRun) took(n *copyNode) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, part := range n.parts {
		r.taken[part] = true
	}
}

// rest reads back the blobs that no manifest was taken for: those whose manifests
// were there already.
func (r *copyRun) rest(ctx context.Context) error {
	return each(ctx, r.opts.Concurrency, len(r.below), func(ctx context.Context, i int) error {
		if r.taken[r.below[i]] {
			return nil
		}
		return r.readBack(ctx, r.below[i])
	})
}
