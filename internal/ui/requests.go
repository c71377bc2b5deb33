package ui

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"
)

// requests are the requests of a program that are without an answer, or whose
// answer is not read to its end.
type requests struct {
	mu      sync.Mutex
	running []*running
	trouble map[string]running // by host: the answer after which it is asked again later
}

// WatchRequests returns a wrapper for HTTP transports, to be used below the
// place where requests are tried again, that lets progress name the request
// which is waited for.
func (t *Talk) WatchRequests() func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			done := t.requests.begin(req.Method+" "+place(req.URL), t.now())
			resp, err := next.RoundTrip(req)
			t.requests.answered(req.URL.Host, resp, err, t.now())
			if err != nil || resp.Body == nil {
				done()
				return resp, err
			}
			resp.Body = &watchedBody{ReadCloser: resp.Body, done: done}
			return resp, nil
		})
	}
}

// place is an address without what may be secret.
func place(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

type watchedBody struct {
	io.ReadCloser
	done func()
}

func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.done()
	}
	return n, err
}

func (b *watchedBody) Close() error {
	b.done()
	return b.ReadCloser.Close()
}

func (r *requests) begin(what string, now time.Time) (done func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	it := &running{clean(what), now}
	r.running = append(r.running, it)
	return sync.OnceFunc(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.running = slices.DeleteFunc(r.running, func(other *running) bool { return other == it })
	})
}

// answered keeps what was wrong with a host's last answer.
func (r *requests) answered(host string, resp *http.Response, err error, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var why string
	switch {
	case err != nil:
		why = "failed to answer"
	case resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= http.StatusInternalServerError:
		why = fmt.Sprintf("answered %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	default:
		delete(r.trouble, host)
		return
	}
	if r.trouble == nil {
		r.trouble = map[string]running{}
	}
	r.trouble[host] = running{clean(host) + ", which " + why, now}
}

// oldest names the request that is waited for longest, or, while none is on its
// way, a host that is asked again later; empty for none.
func (r *requests) oldest(now time.Time) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.running) > 0 {
		return r.running[0].text(now)
	}
	var first *running
	for _, t := range r.trouble {
		if first == nil || t.since.Before(first.since) || t.since.Equal(first.since) && t.what < first.what {
			first = &t
		}
	}
	if first == nil {
		return ""
	}
	return first.text(now)
}
