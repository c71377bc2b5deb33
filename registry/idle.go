package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"
)

// idleTransport gives up a request that makes no progress: no bytes taken from
// its body, no answer, no bytes of the answer for the timeout, or so few that it
// never ends. How long a transfer takes as a whole does not matter. Time that the
// caller takes to produce or to consume bytes does not count.
type idleTransport struct {
	base    http.RoundTripper
	timeout time.Duration
	rate    int64 // bytes a second that are progress, over the timeout
}

// idleError is a transfer that stood still, or nearly.
type idleError struct {
	host    string
	did     string // sent, took
	moved   int64  // bytes in the time
	timeout time.Duration
}

func (e *idleError) Error() string { return e.host + " " + e.reason() }

func (e *idleError) reason() string {
	if e.moved == 0 {
		return fmt.Sprintf("%s nothing for %s", e.did, e.timeout)
	}
	return fmt.Sprintf("%s only %d bytes in %s", e.did, e.moved, e.timeout)
}

func (t *idleTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	watch := &idleWatch{
		host: req.URL.Host, timeout: t.timeout, least: int64(float64(t.rate) * t.timeout.Seconds()),
		answer: t.timeout + patienceOf(ctx), cancel: cancel, did: "sent",
	}
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { watch.connected.Store(true) }}
	out := req.Clone(httptrace.WithClientTrace(context.WithValue(ctx, watchKey{}, watch), trace))
	if req.Body != nil && req.Body != http.NoBody {
		out.Body = &idleRequestBody{ReadCloser: req.Body, watch: watch, left: req.ContentLength}
		watch.did = "took"
		watch.start(t.timeout)
	} else {
		watch.start(watch.answer)
	}
	resp, err := t.base.RoundTrip(out)
	watch.answered()
	if err != nil {
		err = watch.explain(err)
		cancel(nil)
		return nil, err
	}
	resp.Request = req
	resp.Body = &idleResponseBody{resp.Body, watch}
	return resp, nil
}

type patienceKey struct{}

// withPatience lets a host take its time over an answer that needs size bytes to
// be read again, at so many bytes a second, beyond the timeout.
func withPatience(ctx context.Context, size, rate int64) context.Context {
	return context.WithValue(ctx, patienceKey{}, time.Duration(size/rate)*time.Second)
}

func patienceOf(ctx context.Context) time.Duration {
	patience, _ := ctx.Value(patienceKey{}).(time.Duration)
	return patience
}

type watchKey struct{}

// leaveWith says what is to be left when a request stands still: the connections
// it was sent on, which may all be dead.
func leaveWith(ctx context.Context, leave func()) {
	watch, ok := ctx.Value(watchKey{}).(*idleWatch)
	if !ok {
		return
	}
	watch.mu.Lock()
	defer watch.mu.Unlock()
	watch.leave = leave
}

// idleWatch cancels its request when it is not told of progress in time.
type idleWatch struct {
	host    string
	timeout time.Duration
	answer  time.Duration // the timeout for an answer to all of the request
	least   int64         // bytes in timeout
	cancel  context.CancelCauseFunc

	connected atomic.Bool

	mu       sync.Mutex
	leave    func()
	timer    *time.Timer
	turn     int           // of waiting; a timer counts in its own
	began    time.Time     // of this waiting
	waited   time.Duration // in this window, before
	moved    int64         // in this window
	did      string
	fired    *idleError // the request was cancelled by this watch
	answerIn bool       // what the transport still does with the request's body doesn't matter any more
}

// start begins to wait.
func (w *idleWatch) start(timeout time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.halt()
	w.began = time.Now()
	turn := w.turn
	w.timer = time.AfterFunc(timeout, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if turn == w.turn { // else something moved at the last moment
			w.fire(0, timeout)
		}
	})
}

// fire is called with the lock held.
func (w *idleWatch) fire(moved int64, timeout time.Duration) {
	if w.fired != nil {
		return
	}
	w.fired = &idleError{host: w.host, did: w.did, moved: moved, timeout: timeout}
	if w.leave != nil {
		w.leave()
	}
	w.cancel(w.fired)
}

// stop ends waiting. After a window of the length of the timeout, so many bytes
// must have moved.
func (w *idleWatch) stop(moved int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer == nil {
		return
	}
	w.halt()
	w.moved += int64(moved)
	if w.waited += time.Since(w.began); w.waited < w.timeout {
		return
	}
	if w.moved < w.least {
		w.fire(w.moved, w.waited.Round(time.Second/10))
	}
	w.waited, w.moved = 0, 0
}

func (w *idleWatch) halt() {
	w.turn++
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
}

func (w *idleWatch) answered() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.halt()
	w.answerIn = true
	w.waited, w.moved, w.did = 0, 0, "sent"
}

func (w *idleWatch) isAnswered() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.answerIn
}

// explain puts the cause where Go says only "context canceled", and says of other
// failures whether there was a connection.
func (w *idleWatch) explain(err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.fired != nil:
		return w.fired
	case w.connected.Load() && !errors.Is(err, context.Canceled):
		return &lostError{err}
	}
	return err
}

// bodyPiece bounds one read of a request's body. A slow line must be able to take
// a piece within the timeout. One that has taken fastAfter bytes at fastRate gets
// largePiece at a time: each costs a call of the system, here and there.
const (
	bodyPiece  = 16 << 10
	largePiece = 128 << 10
	fastAfter  = 256 << 10
	fastRate   = 1 << 20 // bytes a second
)

// idleRequestBody counts the time between reads, not in them.
type idleRequestBody struct {
	io.ReadCloser
	watch *idleWatch
	left  int64 // until all was read; negative: not known
	taken int64
	began time.Time // the first read
	last  time.Time // the end of the last one
}

func (b *idleRequestBody) Read(p []byte) (int, error) {
	p = p[:min(len(p), b.piece())]
	if b.watch.isAnswered() {
		return b.ReadCloser.Read(p)
	}
	b.watch.stop(0)
	n, err := b.ReadCloser.Read(p)
	b.left, b.taken, b.last = b.left-int64(n), b.taken+int64(n), time.Now()
	if b.watch.isAnswered() {
		return n, err
	}
	b.watch.count(n)
	if err != nil || b.left == 0 {
		b.watch.start(b.watch.answer)
	} else {
		b.watch.start(b.watch.timeout)
	}
	return n, err
}

// piece is how much the line may be given at once.
func (b *idleRequestBody) piece() int {
	if b.began.IsZero() {
		b.began = time.Now()
		return bodyPiece
	}
	fast := b.taken >= fastAfter && float64(b.taken) >= fastRate*time.Since(b.began).Seconds()
	if !fast || time.Since(b.last) > time.Second {
		return bodyPiece
	}
	return largePiece
}

func (w *idleWatch) count(moved int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.moved += int64(moved)
}

// idleResponseBody counts the time in reads, not between them.
type idleResponseBody struct {
	io.ReadCloser
	watch *idleWatch
}

func (b *idleResponseBody) Read(p []byte) (int, error) {
	b.watch.start(b.watch.timeout)
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.watch.answered() // the end may come slowly
		return n, err
	}
	b.watch.stop(n)
	if err != nil {
		err = b.watch.explain(err)
	}
	return n, err
}

func (b *idleResponseBody) Close() error {
	b.watch.stop(0)
	err := b.ReadCloser.Close()
	b.watch.cancel(nil)
	return err
}

// connections are a transport's that can be left: those in use go on, and none
// of them is used again.
type connections struct {
	certificates *certificateWatch

	mu      sync.Mutex
	current *http.Transport
}

func (c *connections) RoundTrip(req *http.Request) (*http.Response, error) {
	c.mu.Lock()
	current := c.current
	c.mu.Unlock()
	leaveWith(req.Context(), func() { c.leave(current) })
	resp, err := current.RoundTrip(req)
	return resp, c.certificates.explain(req, err)
}

func (c *connections) leave(old *http.Transport) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current != old {
		return // somebody did already
	}
	c.current = old.Clone()
	old.CloseIdleConnections()
}
