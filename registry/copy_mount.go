package registry

import (
	"context"
	"net/http"
	"net/url"
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
	repo := m.to.repo
	scheme := "https"
	if repo.PlainHTTP {
		scheme = "http"
	}
	at := url.URL{
		Scheme: scheme, Host: repo.Reference.Host(), Path: "/v2/" + repo.Reference.Repository + "/blobs/uploads/",
		RawQuery: url.Values{"mount": {desc.Digest.String()}, "from": {m.from.ref.Repository}}.Encode(),
	}
	asking := auth.AppendRepositoryScope(ctx, repo.Reference, auth.ActionPull, auth.ActionPush)
	from := repo.Reference
	from.Repository = m.from.ref.Repository
	asking = auth.AppendRepositoryScope(asking, from, auth.ActionPull)
	req, err := http.NewRequestWithContext(asking, http.MethodPost, at.String(), nil)
	if err != nil {
		return false
	}
	resp, err := repo.Client.Do(req)
	if err != nil {
		return false
	}
	drain(resp.Body)
	if resp.StatusCode == http.StatusAccepted { // a session was offered instead
		m.cancel(ctx, resp)
	}
	said := resp.Header.Get("Docker-Content-Digest")
	return resp.StatusCode == http.StatusCreated && (said == "" || said == desc.Digest.String())
}

// cancel ends an upload session that nobody will use, as far as the registry lets
// itself be told.
func (m *mounts) cancel(ctx context.Context, resp *http.Response) {
	at, err := resp.Location()
	if err != nil {
		return
	}
	ctx = auth.AppendRepositoryScope(ctx, m.to.repo.Reference, auth.ActionPull, auth.ActionPush)
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, at.String(), nil)
	if err != nil {
		return
	}
	if resp, err := m.to.repo.Client.Do(req); err == nil {
		drain(resp.Body)
	}
}
