package registry

import (
	"context"
	"sync/atomic"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
)

// ahead reads manifests at the target while a copy is planned. One that is there
// need not be read at the source, and is known to be there: manifests that were
// copied before cost one request and not two.
type ahead struct {
	place *remotePlace
	all   bool        // what is there is all there
	off   atomic.Bool // it doesn't answer as it should; the copy will say so
}

// A presence is what is known of a manifest at one place.
type presence struct {
	at    string // the place; empty: nothing is known
	there bool
}

// newAhead is nil where there is nothing to gain.
func newAhead(src *Source, opts CopyOptions) *ahead {
	if opts.Ahead == nil {
		return nil
	}
	to, ok := opts.Ahead.target.(*remotePlace)
	if !ok {
		return nil
	}
	from, remote := src.place.(*remotePlace)
	if !opts.AssumeComplete && (!remote || from.ref.Name() == to.ref.Name()) {
		return nil
	}
	return &ahead{place: to, all: opts.AssumeComplete}
}

// read is nil for what the target has not got. Nothing that goes wrong there is
// an error here.
func (a *ahead) read(ctx context.Context, desc ocispec.Descriptor) ([]byte, presence) {
	if a == nil || a.off.Load() {
		return nil, presence{}
	}
	data, err := content.FetchAll(ctx, a.place, desc)
	return data, a.found(err == nil, err)
}

// assume looks for a manifest that may stand for all below it.
func (a *ahead) assume(ctx context.Context, n *copyNode) presence {
	if a == nil || !a.all || a.off.Load() || n.data != nil {
		return presence{}
	}
	there, err := a.place.has(ctx, n.desc)
	return a.found(there, err)
}

func (a *ahead) found(there bool, err error) presence {
	if err != nil && !isContentProblem(err) {
		a.off.Store(true)
		return presence{}
	}
	return presence{a.place.name(), there && err == nil}
}
