package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// idleTransport gives up a request that makes no progress: no bytes taken from
// its body, no answer, no bytes of the answer for the timeout. How long a
// transfer takes as a whole does not matter. Time that the caller takes to
// produce or to consume bytes does not count.
type idleTransport struct {
	base    http.RoundTripper
	timeout time.Duration
}

// idleError is a transfer that stood still.
type idleError struct {
	host    string
	timeout time.Duration
}

func (e *idleError) Error() string {
	return fmt.Sprintf("%s sent nothing for %s", e.host, e.timeout)
}

func (t *idleTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	watch := &idleWatch{cause: &idleError{req.URL.Host, t.timeout}, cancel: cancel}
	out := req.Clone(ctx)
	if req.Body != nil && req.Body != http.NoBody {
		out.Body = &idleRequestBody{req.Body, watch}
	}
	watch.start()
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

// idleWatch cancels its request when it is not told of progress in time.
type idleWatch struct {
	cause  *idleError
	cancel context.CancelCauseFunc

	mu       sync.Mutex
	timer    *time.Timer
	fired    bool // the request was cancelled by this watch
	answerIn bool // what the transport still does with the request's body doesn't matter any more
}

func (w *idleWatch) start() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.halt()
	w.timer = time.AfterFunc(w.cause.timeout, func() {
		w.mu.Lock()
		w.fired = true
		w.mu.Unlock()
		w.cancel(w.cause)
	})
}

func (w *idleWatch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.halt()
}

func (w *idleWatch) halt() {
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
}

func (w *idleWatch) answered() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answerIn = true
	w.halt()
}

func (w *idleWatch) isAnswered() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.answerIn
}

// explain puts the cause where Go says only "context canceled".
func (w *idleWatch) explain(err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fired {
		return w.cause
	}
	return err
}

// idleRequestBody counts the time between reads, not in them.
type idleRequestBody struct {
	io.ReadCloser
	watch *idleWatch
}

func (b *idleRequestBody) Read(p []byte) (int, error) {
	if b.watch.isAnswered() {
		return b.ReadCloser.Read(p)
	}
	b.watch.stop()
	n, err := b.ReadCloser.Read(p)
	if !b.watch.isAnswered() {
		b.watch.start()
	}
	return n, err
}

// idleResponseBody counts the time in reads, not between them.
type idleResponseBody struct {
	io.ReadCloser
	watch *idleWatch
}

func (b *idleResponseBody) Read(p []byte) (int, error) {
	b.watch.start()
	defer b.watch.stop()
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = b.watch.explain(err)
	}
	return n, err
}

func (b *idleResponseBody) Close() error {
	b.watch.stop()
	err := b.ReadCloser.Close()
	b.watch.cancel(nil)
	return err
}
