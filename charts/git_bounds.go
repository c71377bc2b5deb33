package charts

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
)

// boundedPack fails, rather than ends, when a pack is too large.
type boundedPack struct {
	r     io.Reader
	ctx   context.Context //nolint:containedctx // a reader of one request
	alive *idleTimer
	n     int64
	head  []byte
}

var errPackTooLarge = fmt.Errorf("holds more than is taken of a git repository (%d bytes, %d objects)", int64(maxPackBytes), maxPackObjects)

// packHead is how long the head of a pack is: PACK, version, number of objects.
const packHead = 12

func (b *boundedPack) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := b.r.Read(p)
	b.alive.touch()
	if missing := packHead - len(b.head); missing > 0 {
		b.head = append(b.head, p[:min(n, missing)]...)
		if len(b.head) == packHead && binary.BigEndian.Uint32(b.head[8:]) > maxPackObjects {
			return 0, errPackTooLarge
		}
	}
	if b.n += int64(n); b.n > maxPackBytes {
		return 0, errPackTooLarge
	}
	return n, err
}

// A gitTransport carries go-git's requests. It bounds what a server lists, and
// remembers what went wrong, since go-git keeps no error's type.
type gitTransport struct {
	next  http.RoundTripper
	login *gitLogin // nil when next sees to it
	mu    sync.Mutex
	err   error
}

// A gitLogin is for one scheme, host and port. net/http would take it along to
// another port.
type gitLogin struct {
	origin             *url.URL
	username, password string
}

func (t *gitTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(t.login.on(req))
	if err != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.err = err
		return nil, err
	}
	if strings.HasSuffix(req.URL.Path, "/info/refs") {
		resp.Body = &struct {
			io.Reader
			io.Closer
		}{io.LimitReader(resp.Body, maxRefsBytes), resp.Body}
	}
	return resp, nil
}

// failure is what went wrong on the way, nil when the server answered.
func (t *gitTransport) failure() error {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// on puts the login on a request that goes where it is for, and no other.
func (l *gitLogin) on(req *http.Request) *http.Request {
	if l == nil {
		return req
	}
	out := req.Clone(req.Context())
	out.Header.Del("Authorization")
	if (l.username != "" || l.password != "") && req.URL.Scheme == l.origin.Scheme && req.URL.Host == l.origin.Host {
		out.SetBasicAuth(l.username, l.password)
	}
	return out
}
