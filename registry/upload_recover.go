package registry

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"oras.land/oras-go/v2/registry/remote/errcode"
)

// smallestChunk and largestChunk bound what a chunk may become, whatever a registry wants
// or refuses.
const (
	smallestChunk = 256 << 10
	largestChunk  = 64 << 20
	// Blobs up to this size go up at once: little is lost with a connection. It is
	// also the size of chunks of content that can be read only once, since they are
	// held, and the first that is tried where larger ones fail.
	wholeBelow = 16 << 20
	// CNCF Distribution brings a chunk to its disk when it ends, which takes as long as
	// sending it: in chunks of this size, those of other blobs are sent meanwhile.
	distributionChunk = 128 << 20
)

// recover decides what a failed step means. No error: the upload goes on from
// where it now is, or the blob is there already.
func (u *blobUpload) recover(ctx context.Context, cause error) (there bool, err error) {
	if ctx.Err() != nil || as[*sourceError](cause) {
		return false, cause
	}
	var answer *answerError
	if !errors.As(cause, &answer) {
		return u.afterLoss(ctx, cause)
	}
	sending := answer.method == http.MethodPatch || answer.method == http.MethodPut
	switch {
	case answer.passes():
		return u.afterLoss(ctx, cause)
	case !sending:
		return false, cause
	case answer.method == http.MethodPatch && u.inDistributionChunks() && answer.isRefusal():
		return false, u.startOver(ctx, cause)
	case answer.refusesContent() && u.body.doubt():
		return false, u.startOver(ctx, cause)
	case answer.status == http.StatusRequestEntityTooLarge:
		return false, u.sendLess(ctx, cause)
	case answer.status == http.StatusUnauthorized && answer.took > outlived && !u.hurried:
		return u.hurry(ctx, cause)
	case answer.status == http.StatusRequestedRangeNotSatisfiable:
		return false, u.afterWrongRange(ctx, cause)
	case answer.method == http.MethodPatch && u.sent == 0 && answer.refusesChunks():
		return false, u.withoutChunks(ctx, cause)
	case answer.status == http.StatusNotFound:
		return false, u.startOver(ctx, cause) // the session is gone
	case u.sent > 0 && (answer.method == http.MethodPatch && answer.refusesChunks() || answer.has(errcode.ErrorCodeDigestInvalid) || answer.has(errcode.ErrorCodeSizeInvalid)):
		// It took chunks and can't put them together. What was sent is right.
		return false, u.withoutChunks(ctx, cause)
	}
	return false, cause
}

// afterLoss waits after a lost connection, a stall or a busy host, as long as
// patience lasts, and then finds out how far the upload is.
func (u *blobUpload) afterLoss(ctx context.Context, cause error) (there bool, err error) {
	if u.at == nil {
		return false, cause // the transport was patient already
	}
	u.failures++
	again, err := u.place.client.retry.again(ctx, u.at.Host, u.failures, outcomeOf(cause))
	switch {
	case err != nil:
		return false, err
	case !again:
		return false, cause
	}
	if outcome := outcomeOf(cause); outcome.err != nil && (u.failures > 1 || as[*idleError](outcome.err)) {
		u.maxChunk = max(min(u.chunkSize()/4, wholeBelow), smallestChunk) // maybe it is the size that breaks the connection
	}
	return u.findOut(ctx, cause)
}

// findOut asks the registry how far the upload is, and whether it is done.
func (u *blobUpload) findOut(ctx context.Context, cause error) (there bool, err error) {
	if u.sent == u.desc.Size || !u.inChunks() {
		if there, err := u.place.has(ctx, u.desc); err == nil && there {
			return true, nil // only the answer was lost
		}
	}
	if !u.inChunks() {
		return false, u.startOver(ctx, cause) // how much of a lost PUT was taken is nobody's knowledge
	}
	size, err := u.status(ctx)
	switch {
	case err != nil && outcomeOf(err).passes():
		return false, cause // nobody is there any more, or has time, also after waiting
	case err == nil && u.body.holds(size):
		if size-u.sent > wholeBelow {
			u.failures = 0 // a part of a large chunk is progress too
		}
		u.sent = size
		return false, nil
	}
	return false, u.startOver(ctx, cause)
}

// afterWrongRange goes on from where the registry is. One that is where the
// chunk begins refuses it for another reason: GitHub's says so of its size.
func (u *blobUpload) afterWrongRange(ctx context.Context, cause error) error {
	u.failures++
	if u.failures > maxStarts {
		return cause
	}
	size, err := u.status(ctx)
	switch {
	case err != nil && u.sent > 0:
		return u.startOver(ctx, cause)
	case err != nil || size == u.sent:
		return u.sendLess(ctx, cause)
	case u.body.holds(size):
		if size > u.sent {
			u.failures = 0
		}
		u.sent = size
		return nil
	}
	return u.startOver(ctx, cause)
}

// sendLess makes the chunks for this host smaller, and gives them up when they
// are as small as makes sense.
func (u *blobUpload) sendLess(ctx context.Context, cause error) error {
	hosts, host := u.place.client.uploads, u.place.ref.Host
	tried := min(u.body.last(), u.desc.Size)
	switch {
	case u.chunkSize() == 0:
		return cause // neither in pieces nor whole
	case tried <= max(smallestChunk, u.minChunk):
		return u.withoutChunks(ctx, cause)
	}
	hosts.limit(host, max(min(tried/4, wholeBelow), smallestChunk, u.minChunk))
	if u.sent > 0 {
		return nil // the session goes on
	}
	u.starts-- // it is not the session that is lost, and chunks only get smaller
	return u.startOver(ctx, cause)
}

// outlived is how long a request took at least whose token may have been good at
// its beginning and run out at its end.
const outlived = time.Second

// hurry sends the rest in pieces that are through sooner. Some registries look at
// the token when they have the body.
func (u *blobUpload) hurry(ctx context.Context, cause error) (there bool, err error) {
	if u.chunkSize() == 0 {
		return false, cause
	}
	u.hurried = true
	u.maxChunk = max(min(u.body.last()/8, wholeBelow), shortestChunk, u.minChunk)
	if u.sent > 0 {
		return u.findOut(ctx, cause)
	}
	return false, u.startOver(ctx, cause)
}

// shortestChunk is worth a request of its own even on a slow line.
const shortestChunk = 64 << 10

// withoutChunks sends the blob whole, and every later one to this host.
func (u *blobUpload) withoutChunks(ctx context.Context, cause error) error {
	if u.chunkSize() == 0 {
		return cause
	}
	u.place.client.uploads.limit(u.place.ref.Host, noChunks)
	return u.startOver(ctx, cause)
}

// startOver leaves the session and begins with another one.
func (u *blobUpload) startOver(ctx context.Context, cause error) error {
	if u.inDistributionChunks() {
		u.place.client.uploads.inOne(u.place.ref.Host)
	}
	u.cancel(ctx)
	if u.starts >= maxStarts {
		return cause
	}
	if err := u.body.restart(); err != nil {
		return errors.Join(cause, err)
	}
	u.sent = 0
	return ctx.Err()
}

// inChunks says whether what comes next is a chunk.
func (u *blobUpload) inChunks() bool {
	size := u.chunkSize()
	return size > 0 && (u.sent > 0 || u.desc.Size > min(size, max(wholeBelow, u.minChunk)))
}

// chunkSize is what is sent at once; 0: everything.
func (u *blobUpload) chunkSize() int64 {
	size := u.place.client.settings.ChunkSize
	if size == 0 {
		size = u.body.largest()
		if u.isToDistribution() && !u.place.client.uploads.isInOne(u.place.ref.Host) {
			size = min(size, u.place.client.uploads.ours)
		}
	}
	switch limit := u.place.client.uploads.of(u.place.ref.Host); {
	case limit == noChunks || u.minChunk > largestChunk:
		return 0
	case limit > 0:
		size = min(size, limit)
	}
	if u.maxChunk > 0 {
		size = min(size, u.maxChunk)
	}
	return max(size, u.minChunk)
}

// isToDistribution says whether the session is of CNCF Distribution, or of a registry
// made of it, which put their state into its address and are known to take chunks.
func (u *blobUpload) isToDistribution() bool { return u.at != nil && u.at.Query().Has("_state") }

// inDistributionChunks says whether what was sent is a part of the blob that we chose
// to send by itself. Whatever comes of the next then, that choice may be to blame.
func (u *blobUpload) inDistributionChunks() bool {
	return u.sent > 0 && u.chunkSize() == u.place.client.uploads.ours && u.place.client.settings.ChunkSize == 0
}

// uploadLimits is what was learnt in this run of how hosts take blobs.
type uploadLimits struct {
	mu     sync.Mutex
	byHost map[string]int64
	ours   int64           // the chunks that Distribution gets
	whole  map[string]bool // hosts that don't take Distribution's chunks as it does
	spare  sync.Pool       // of buffers, a *[smallPiece]byte each

	trials map[string]func() bool // by what is tried where
}

// noChunks is the limit of a host that takes blobs only whole.
const noChunks = -1

func (l *uploadLimits) of(host string) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byHost[host]
}

func (l *uploadLimits) limit(host string, size int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if old := l.byHost[host]; old == 0 || size < old {
		l.byHost[host] = size
	}
}

func (l *uploadLimits) inOne(host string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.whole[host] = true
}

func (l *uploadLimits) isInOne(host string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.whole[host]
}
