package registry

import (
	"context"
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
		if !worthRetry(req.Context(), resp, err) || try >= min(t.tries, triesFor(err)) || !rewind(req) {
			return resp, err
		}
		wait := t.wait(try, resp)
		if resp != nil {
			if resp.StatusCode == http.StatusTooManyRequests || resp.Header.Get("Retry-After") != "" {
				t.pause(req.URL.Host, wait)
			}
			drain(resp.Body)
		}
		if err := sleep(req.Context(), wait); err != nil {
			return nil, err
		}
	}
}

// worthRetry says whether the same request may get a better answer later.
func worthRetry(ctx context.Context, resp *http.Response, err error) bool {
	if ctx.Err() != nil {
		return false
	}
	if err != nil {
		return transient(err)
	}
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// triesFor is how often a request is sent at most. A host that doesn't answer at
// all is given up soon: somebody waits in front of a screen.
func triesFor(err error) int {
	var netErr net.Error
	var idle *idleError
	switch {
	case errors.As(err, &idle), errors.As(err, &netErr) && netErr.Timeout():
		return 2
	case errors.Is(err, syscall.ECONNREFUSED):
		return 3
	}
	return math.MaxInt
}

// transient says whether a connection failed in a way that passes.
func transient(err error) bool {
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
func (t *retryTransport) wait(try int, resp *http.Response) time.Duration {
	wait := firstWait << min(try-1, 10)
	wait = wait/2 + rand.N(wait)
	if resp != nil {
		if asked, ok := retryAfter(resp.Header.Get("Retry-After"), time.Now()); ok {
			wait = asked + rand.N(firstWait)
		}
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

func (t *retryTransport) pause(host string, wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if until := time.Now().Add(wait); until.After(t.pauses[host]) {
		t.pauses[host] = until
	}
}

func (t *retryTransport) waitFor(ctx context.Context, host string) error {
	t.mu.Lock()
	until := t.pauses[host]
	t.mu.Unlock()
	return sleep(ctx, time.Until(until))
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
