package registry

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// retryTransport tries again what may work later: lost connections, and the
// answers 429, 502, 503 and 504. A host that asks for a pause gets it from all
// requests, not only from the one that was answered.
type retryTransport struct {
	base    http.RoundTripper
	tries   int
	maxWait time.Duration
	onPause func(host string, wait time.Duration) // may be nil

	mu     sync.Mutex
	pauses map[string]time.Time // by host: not before
}

// firstWait doubles with every try.
const firstWait = 250 * time.Millisecond

func (t *retryTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	for try := 1; ; try++ {
		if err := t.waitFor(req.Context(), req.URL.Host); err != nil {
			return nil, err
		}
		resp, err := t.base.RoundTrip(req)
		if err == nil {
			resp, err = whole(req, resp)
		}
		got := outcome{err: err}
		if err == nil {
			got = outcome{status: resp.StatusCode, retryAfter: resp.Header.Get("Retry-After")}
		}
		if isOnce(req) || !got.passes() || !rewind(req) {
			return resp, err
		}
		again, waitErr := t.again(req.Context(), req.URL.Host, try, got)
		if waitErr == nil && !again {
			return resp, err
		}
		if resp != nil {
			drain(resp.Body)
		}
		if waitErr != nil {
			return nil, waitErr
		}
	}
}

// wholeKey marks the contexts of requests whose answers are small and of use only
// when all of them is there.
type wholeKey struct{}

func wantWhole(ctx context.Context) context.Context {
	return context.WithValue(ctx, wholeKey{}, true)
}

// whole reads such an answer, so that one that is cut off is one that did not come.
// Of what is larger than any of them the rest is left to be read.
func whole(req *http.Request, resp *http.Response) (*http.Response, error) {
	if req.Context().Value(wholeKey{}) == nil || req.Method != http.MethodGet || resp.StatusCode != http.StatusOK {
		return resp, nil
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxManifest+1))
	if err != nil {
		_ = resp.Body.Close()
		return nil, err
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(data), resp.Body), resp.Body}
	return resp, nil
}

// onceKey marks the contexts of requests that write and are not sent again by
// the transport: how far a lost one came is asked first.
type onceKey struct{}

func once(ctx context.Context) context.Context { return context.WithValue(ctx, onceKey{}, true) }

// isOnce leaves out what only reads or opens, a token's request for one.
func isOnce(req *http.Request) bool {
	switch req.Method {
	case http.MethodPatch, http.MethodPut, http.MethodDelete:
		return req.Context().Value(onceKey{}) != nil
	}
	return false
}

// closedKey marks the contexts of requests for which a connection that is closed
// may be the host's answer, and not a fault of the way.
type closedKey struct{}

func withClosedAnswer(ctx context.Context) context.Context {
	return context.WithValue(ctx, closedKey{}, true)
}

// outcome is what came of one try.
type outcome struct {
	status     int // 0: no answer, but err
	retryAfter string
	err        error
}

// passes says whether the same request may get a better answer later.
func (o outcome) passes() bool {
	if o.status == 0 {
		return transient(o.err)
	}
	return busy(o.status)
}

// busy says whether an answer speaks of the moment and not of the request.
func busy(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// again waits before the next try, and says whether there is one. A host that
// asks for a pause gets it from everybody.
func (t *retryTransport) again(ctx context.Context, host string, try int, got outcome) (bool, error) {
	if ctx.Err() != nil || !got.passes() || try >= min(t.tries, triesFor(ctx, got.err)) {
		return false, ctx.Err()
	}
	wait := t.wait(try, got.retryAfter)
	if got.status == http.StatusTooManyRequests || got.retryAfter != "" {
		t.pause(host, wait)
		return true, t.waitFor(ctx, host)
	}
	return true, sleep(ctx, wait)
}

// triesFor is how often a request is sent at most. A host that doesn't answer at
// all is given up soon: somebody waits in front of a screen.
func triesFor(ctx context.Context, err error) int {
	var netErr net.Error
	var idle *idleError
	switch {
	case isClosed(err) && ctx.Value(closedKey{}) != nil:
		return 2
	case errors.As(err, &idle), errors.As(err, &netErr) && netErr.Timeout():
		return 2
	case errors.Is(err, syscall.ECONNREFUSED):
		return 3
	case as[*lostError](err) && !isClosed(err):
		return 3 // maybe it speaks another protocol
	}
	return math.MaxInt
}

// lostError is a connection that was there and failed. What net/http says of it
// has no type of its own, in most cases.
type lostError struct{ err error }

func (e *lostError) Error() string { return e.err.Error() }
func (e *lostError) Unwrap() error { return e.err }

// transient says whether a connection failed in a way that passes.
func transient(err error) bool {
	if as[*sourceError](err) || as[tls.AlertError](err) {
		return false // what should be sent failed; the host knows what it refuses
	}
	if as[*lostError](err) {
		return true
	}
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return dns.IsTimeout || dns.IsTemporary
	}
	var idle *idleError
	if errors.As(err, &idle) {
		return true
	}
	for _, e := range []error{syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.EPIPE, io.EOF, io.ErrUnexpectedEOF} {
		if errors.Is(err, e) {
			return true
		}
	}
	var netErr net.Error
	return errors.As(err, &netErr) && netErr.Timeout()
}

// rewind makes the body of a request ready to be sent again.
func rewind(req *http.Request) bool {
	if req.Body == nil || req.Body == http.NoBody {
		return true
	}
	if req.GetBody == nil {
		return false
	}
	body, err := req.GetBody()
	if err != nil {
		return false
	}
	req.Body = body
	return true
}

// wait is the time before the next try: what the host asks for, else longer
// each time, with jitter so that many clients don't come back at once.
func (t *retryTransport) wait(try int, asked string) time.Duration {
	wait := firstWait << min(try-1, 10)
	wait = wait/2 + rand.N(wait)
	if asked, ok := retryAfter(asked, time.Now()); ok {
		wait = asked + rand.N(firstWait)
	}
	return min(wait, t.maxWait)
}

// retryAfter reads both forms of the header: seconds and a date (RFC 9110, 10.2.3).
func retryAfter(value string, now time.Time) (time.Duration, bool) {
	if seconds, err := strconv.ParseUint(value, 10, 32); err == nil {
		return time.Duration(seconds) * time.Second, true
	}
	if date, err := http.ParseTime(value); err == nil {
		return max(date.Sub(now), 0), true
	}
	return 0, false
}

// pause holds all requests to a host. It is said once, by the first that is
// told to wait, until somebody is told to wait for longer.
func (t *retryTransport) pause(host string, wait time.Duration) {
	t.mu.Lock()
	begin, until := time.Now(), time.Now().Add(wait)
	news := begin.After(t.pauses[host])
	if until.After(t.pauses[host]) {
		t.pauses[host] = until
	}
	t.mu.Unlock()
	if news && t.onPause != nil {
		t.onPause(host, wait)
	}
}

// waitFor waits until nobody is told to wait for a host any more.
func (t *retryTransport) waitFor(ctx context.Context, host string) error {
	for {
		t.mu.Lock()
		left := time.Until(t.pauses[host])
		t.mu.Unlock()
		if err := sleep(ctx, left); err != nil || left <= 0 {
			return err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// drain reads what little is left, so that the connection can be used again.
func drain(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, 16<<10)
	_ = body.Close()
}
