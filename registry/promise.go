package registry

import (
	"context"
	"io"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// A promise is a blob that a place has not got yet and knows where to get: it is
// read when the place is written and the blob's position in it is known. So the
// bulk of an archive goes from its source to its position, once, and nothing is
// staged.
type promise struct {
	desc ocispec.Descriptor
	src  *Source                                                        // to be held open
	open func(ctx context.Context, offset int64) (io.ReadCloser, error) // as a supply's

	// What the copy that promised it wants to know; nil for nothing.
	onStart func()
	onBytes func(n int)
	onDone  func(read int64)
	// failed says of an error in reading which side it is from.
	failed func(err error) error
}

// A promiser is a target that takes promises of blobs in place of the blobs
// themselves, and keeps them when it is committed. It holds their sources open
// until then.
type promiser interface {
	promise(p promise, concurrency int)
}

// A supply is where the bytes of a planned file come from.
type supply struct {
	place string // printed
	// open gives the bytes from an offset on. They were not checked, since who goes
	// on in the middle of a blob has to know what the digest was up to there.
	open func(ctx context.Context, offset int64) (io.ReadCloser, error)

	started func()
	read    func(n int)      // less than 0 takes back
	done    func(read int64) // read is how much read was told of
	failed  func(err error) error
}

// supply is where a promised blob is read.
func (p promise) supply() supply {
	o := plainSupply(p.src.place.name(), p.open)
	if p.onStart != nil {
		o.started = p.onStart
	}
	if p.onBytes != nil {
		o.read = p.onBytes
	}
	if p.onDone != nil {
		o.done = p.onDone
	}
	if p.failed != nil {
		o.failed = p.failed
	}
	return o
}

// plainSupply is one that nobody wants to hear of.
func plainSupply(place string, open func(ctx context.Context, offset int64) (io.ReadCloser, error)) supply {
	return supply{
		place: place, open: open, started: func() {}, read: func(int) {}, done: func(int64) {},
		failed: func(err error) error { return err },
	}
}
