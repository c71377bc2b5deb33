package registry

import (
	"context"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/registry/remote/auth"
)

// mounts takes blobs over from another repository of the same registry instead
// of sending them (distribution specification, "Mounting a blob from another
// repository"). A registry that refuses once is not asked again.
type mounts struct {
	from, to *remotePlace
	refused  atomic.Bool
}

// mountsTo are the mounts to one target, by where they come from.
type mountsTo struct {
	dst *Destination
	mu  sync.Mutex
	all map[*Source]*mounts
}

func (m *mountsTo) from(src *Source) *mounts {
	m.mu.Lock()
	defer m.mu.Unlock()
	found, known := m.all[src]
	if !known {
		if m.all == nil {
			m.all = map[*Source]*mounts{}
		}
		found = newMounts(src, m.dst)
		m.all[src] = found
	}
	return found
}

// newMounts is nil when nothing can be mounted.
func newMounts(src *Source, dst *Destination) *mounts {
	from, ok := src.place.(*remotePlace)
	if !ok {
		return nil
	}
	to, ok := dst.target.(*remotePlace)
	if !ok || from.ref.Host != to.ref.Host || from.ref.Repository == to.ref.Repository {
		return nil
	}
	return &mounts{from: from, to: to}
}

// try says whether the blob is at the target now. Whatever stood in the way, it
// can still be sent.
func (m *mounts) try(ctx context.Context, desc ocispec.Descriptor) bool {
	if m == nil || m.refused.Load() {
		return false
	}
	done := m.ask(ctx, desc)
	if !done {
		m.refused.Store(true)
	}
	return done
}

func (m *mounts) ask(ctx context.Context, desc ocispec.Descriptor) bool {
	at := m.to.uploads()
	at.RawQuery = url.Values{"mount": {desc.Digest.String()}, "from": {m.from.ref.Repository}}.Encode()
	own, from := m.to.repo.Reference, m.from.repo.Reference
	ctx = auth.AppendRepositoryScope(once(ctx), own, auth.ActionPull, auth.ActionPush)
	ctx = auth.AppendRepositoryScope(ctx, from, auth.ActionPull)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at.String(), nil)
	if err != nil {
		return false
	}
	resp, err := m.to.do(req) //nolint:bodyclose // drained below
	if err != nil {
		return false
	}
	drain(resp.Body)
	if resp.StatusCode == http.StatusAccepted {
		m.to.offers.Store(desc.Digest, resp) // a session to go on with
	}
	said := resp.Header.Get("Docker-Content-Digest")
	return resp.StatusCode == http.StatusCreated && (said == "" || said == desc.Digest.String())
}

// drop takes back a session that was offered and is not gone on with.
func (m *mounts) drop(ctx context.Context, desc ocispec.Descriptor) {
	if m == nil {
		return
	}
	if offer, ok := m.to.offers.LoadAndDelete(desc.Digest); ok {
		u := &blobUpload{place: m.to, desc: desc}
		if u.accept(offer.(*http.Response)) == nil {
			u.cancel(auth.AppendRepositoryScope(ctx, m.to.repo.Reference, auth.ActionPull, auth.ActionPush))
		}
	}
}
