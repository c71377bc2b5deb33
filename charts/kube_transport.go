package charts

import (
	"context"
	"io"
	"net/http"
	"sync"

	"k8s.io/client-go/rest"
)

// bind returns a copy of config whose every request, watches included, ends
// when ctx ends. Helm passes no context to most of its requests, so this is
// how a cancelled action stops: nothing of it goes on writing.
func bind(ctx context.Context, config *rest.Config, last *lastRequest) *rest.Config {
	bound := rest.CopyConfig(config)
	bound.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &boundTransport{ctx: ctx, next: next, last: last}
	})
	return bound
}

// boundTransport holds a context in a struct since the requests it serves are
// made by a library that was given none.
type boundTransport struct {
	ctx  context.Context
	next http.RoundTripper
	last *lastRequest
}

func (t *boundTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if t.ctx.Err() != nil {
		return nil, context.Cause(t.ctx)
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	unhook := context.AfterFunc(t.ctx, func() { cancel(context.Cause(t.ctx)) })
	release := func() { unhook(); cancel(nil) }
	resp, err := t.next.RoundTrip(req.WithContext(ctx))
	if err != nil {
		release()
		if t.ctx.Err() != nil {
			return nil, context.Cause(t.ctx)
		}
		t.last.set(err)
		return nil, err
	}
	t.last.set(nil)
	resp.Body = &boundBody{ReadCloser: resp.Body, release: release}
	return resp, nil
}

// WrappedRoundTripper lets client-go see through to the transport below.
func (t *boundTransport) WrappedRoundTripper() http.RoundTripper { return t.next }

type boundBody struct {
	io.ReadCloser
	release func()
}

func (b *boundBody) Close() error {
	err := b.ReadCloser.Close()
	b.release()
	return err
}

// lastRequest remembers how the last request ended. Helm turns errors into
// text, so it is the only way to tell that the network was the cause. A nil
// *lastRequest remembers nothing.
type lastRequest struct {
	mu  sync.Mutex
	err error
}

func (l *lastRequest) set(err error) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
}

func (l *lastRequest) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}
