package registry

import (
	"context"
	"net/http"
	"net/url"
	"sync"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/registry/remote/auth"

	"waybill/internal/ref"
)

// Mounts is what copies of one run tell each other of the repositories of
// registries: which of them hold which blobs, and what mounting was refused. The
// zero value knows nothing. It is safe for use at the same time.
type Mounts struct {
	mu      sync.Mutex
	held    map[hostDigest]string // a repository
	sending map[hostDigest]chan struct{}
	refused map[repositoryPair]bool
	inVain  map[string]int // by host: pairs that were refused since a mount last succeeded
}

type hostDigest struct {
	host   string
	digest digest.Digest
}

type repositoryPair struct{ host, from, to string }

// mostInVain is how many pairs of repositories a registry may refuse before it
// is taken for one that never mounts.
const mostInVain = 3

// Hold notes that a repository has all blobs of a plan, but for layers that may
// have been left out.
func (m *Mounts) Hold(l Location, p *CopyPlan) {
	for _, n := range p.blobs {
		if !n.foreign {
			m.hold(l.Ref, n.desc.Digest)
		}
	}
}

func (m *Mounts) hold(at ref.Reference, d digest.Digest) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.held == nil {
		m.held = map[hostDigest]string{}
	}
	if key := (hostDigest{at.Host, d}); m.held[key] == "" {
		m.held[key] = at.Repository
	}
}

// holder is a repository that has a blob; "" for none that is known.
func (m *Mounts) holder(host string, d digest.Digest) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.held[hostDigest{host, d}]
}

// hopeless says whether to ask for another mount is in vain.
func (m *Mounts) hopeless(pair repositoryPair) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.refused[pair] || m.inVain[pair.host] >= mostInVain
}

func (m *Mounts) tried(pair repositoryPair, mounted bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refused == nil {
		m.refused, m.inVain = map[repositoryPair]bool{}, map[string]int{}
	}
	switch {
	case mounted:
		m.inVain[pair.host] = 0
	case !m.refused[pair]:
		m.refused[pair] = true
		m.inVain[pair.host]++
	}
}

// enter waits while another copy sends the blob to the same registry: then it can
// be mounted. The caller says when it is through, and whether the blob is there.
func (m *Mounts) enter(ctx context.Context, to ref.Reference, d digest.Digest) (through func(there bool)) {
	key := hostDigest{to.Host, d}
	for {
		m.mu.Lock()
		other := m.sending[key]
		if m.held[key] != "" || m.inVain[to.Host] >= mostInVain {
			m.mu.Unlock()
			return func(bool) {}
		}
		if other == nil {
			break
		}
		m.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return func(bool) {}
		}
	}
	defer m.mu.Unlock()
	if m.sending == nil {
		m.sending = map[hostDigest]chan struct{}{}
	}
	done := make(chan struct{})
	m.sending[key] = done
	return func(there bool) {
		if there {
			m.hold(to, d)
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.sending, key)
		close(done)
	}
}

// mounts takes blobs over from another repository of the same registry instead
// of sending them (distribution specification, "Mounting a blob from another
// repository"). A registry that refuses once for two repositories is not asked
// again for these.
type mounts struct {
	source *ref.Reference // when it is in the same registry
	to     *remotePlace
	known  *Mounts
	shared bool // with other copies
}

// mountsTo are the mounts to one target, by where they come from.
type mountsTo struct {
	dst   *Destination
	known *Mounts // nil: nothing but the sources

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
		found = newMounts(src, m.dst, m.known)
		m.all[src] = found
	}
	return found
}

// newMounts is nil when nothing can be mounted.
func newMounts(src *Source, dst *Destination, known *Mounts) *mounts {
	to, ok := dst.target.(*remotePlace)
	if !ok {
		return nil
	}
	m := &mounts{to: to, known: known, shared: known != nil}
	if from, ok := src.place.(*remotePlace); ok && from.ref.Host == to.ref.Host && from.ref.Repository != to.ref.Repository {
		m.source = &from.ref
	}
	if m.known == nil {
		m.known = &Mounts{}
	}
	if m.source == nil && !m.shared {
		return nil
	}
	return m
}

// found notes a blob that was at the target before.
func (m *mounts) found(desc ocispec.Descriptor) {
	if m != nil && m.shared {
		m.known.hold(m.to.ref, desc.Digest)
	}
}

// enter is that of [Mounts], where there are other copies.
func (m *mounts) enter(ctx context.Context, desc ocispec.Descriptor) (through func(there bool)) {
	if m == nil || !m.shared {
		return func(bool) {}
	}
	return m.known.enter(ctx, m.to.ref, desc.Digest)
}

// try says whether the blob is at the target now. Whatever stood in the way, it
// can still be sent.
func (m *mounts) try(ctx context.Context, desc ocispec.Descriptor) bool {
	if m == nil {
		return false
	}
	from := m.known.holder(m.to.ref.Host, desc.Digest)
	if from == "" && m.source != nil {
		from = m.source.Repository
	}
	pair := repositoryPair{m.to.ref.Host, from, m.to.ref.Repository}
	if from == "" || from == m.to.ref.Repository || m.known.hopeless(pair) {
		return false
	}
	done := m.ask(ctx, desc, from)
	m.known.tried(pair, done)
	return done
}

func (m *mounts) ask(ctx context.Context, desc ocispec.Descriptor, from string) bool {
	at := m.to.uploads()
	at.RawQuery = url.Values{"mount": {desc.Digest.String()}, "from": {from}}.Encode()
	own := m.to.repo.Reference
	other := own
	other.Repository = from
	ctx = auth.AppendRepositoryScope(once(ctx), own, auth.ActionPull, auth.ActionPush)
	ctx = auth.AppendRepositoryScope(ctx, other, auth.ActionPull)
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
