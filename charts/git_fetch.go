package charts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"oras.land/oras-go/v2/errdef"
)

// What a git repository may weigh. One commit is fetched where the server can
// give one, all of the repository where it cannot.
const (
	maxPackBytes   = 1 << 30
	maxPackObjects = 2_000_000
	maxRefsBytes   = 64 << 20
	gitIdle        = 2 * time.Minute // without a byte; then the server is given up
)

// fetchGit fetches one commit of a repository elsewhere.
func (f *finder) fetchGit(ctx context.Context, p gitPlace) (_ *gitClone, err error) {
	where := masked(p.url)
	access, err := f.net.Git(ctx, p.url)
	if err != nil {
		return nil, fmt.Errorf("git repository %s: %w", where, err)
	}
	link, err := dialGit(p.url, access)
	if err != nil {
		return nil, err
	}
	ctx, link.alive = idleContext(ctx, access.Transport != nil)
	defer link.alive.stop()
	f.onFetch("git repository " + where)
	refs, caps, err := link.references(ctx)
	if err != nil {
		return nil, link.explain(ctx, where, err)
	}
	clone := &gitClone{where: where}
	if p.commit != "" {
		clone.commit = plumbing.NewHash(p.commit)
	} else if clone.commit, err = refs.choose(where, p.ref); err != nil {
		return nil, err
	}
	f.onFetch(fmt.Sprintf("commit %s of git repository %s", clone.commit, where))
	store, err := f.privateStore()
	if err != nil {
		return nil, err
	}
	clone.store = store
	if err := link.fetch(ctx, store, refs, caps, clone.commit); err != nil {
		return nil, link.explain(ctx, where, err)
	}
	return clone, clone.peel()
}

// A gitLink is the way to one repository.
type gitLink struct {
	transport transport.Transport
	endpoint  *transport.Endpoint
	auth      transport.AuthMethod
	wire      *gitTransport // of http, remembers what went wrong
	alive     *idleTimer
	session   transport.UploadPackSession
}

// references asks what names the repository has.
func (l *gitLink) references(ctx context.Context) (gitRefs, *capability.List, error) {
	if err := l.open(ctx); err != nil {
		return gitRefs{}, nil, err
	}
	advertised, err := l.session.AdvertisedReferencesContext(ctx)
	if err != nil {
		return gitRefs{}, nil, err
	}
	refs := gitRefs{names: advertised.References, peeled: advertised.Peeled}
	if advertised.Head != nil {
		refs.names["HEAD"] = *advertised.Head
	}
	return refs, advertised.Capabilities, nil
}

// open begins a session. go-git's ssh asks no context while it says hello, so
// who waits for it is let go here.
func (l *gitLink) open(ctx context.Context) (err error) {
	opened := make(chan error, 1)
	var session transport.UploadPackSession
	go func() {
		var err error
		session, err = l.transport.NewUploadPackSession(l.endpoint, l.auth)
		opened <- err
	}()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err = <-opened:
		l.session = session
		return err
	}
}

// fetch brings a commit into the store: alone where the server can, with all
// the repository's history where it cannot.
func (l *gitLink) fetch(ctx context.Context, store storer.Storer, refs gitRefs, caps *capability.List, commit plumbing.Hash) error {
	defer l.session.Close() // nothing was sent that could be lost
	want, named := refs.wants(commit)
	alone := named || caps.Supports(capability.AllowReachableSHA1InWant) || caps.Supports("allow-any-sha1-in-want")
	req := packp.NewUploadPackRequestFromCapabilities(caps)
	if caps.Supports(capability.NoProgress) {
		if err := req.Capabilities.Set(capability.NoProgress); err != nil {
			return err
		}
	}
	if alone && caps.Supports(capability.Shallow) {
		req.Depth = packp.DepthCommits(1)
		if err := req.Capabilities.Set(capability.Shallow); err != nil {
			return err
		}
	}
	req.Wants = []plumbing.Hash{want}
	if !alone {
		req.Wants = refs.all()
	}
	answer, err := l.session.UploadPack(ctx, req)
	if err != nil {
		return err
	}
	defer answer.Close() // only read from
	pack := &boundedPack{r: demultiplexed(req.Capabilities, answer), ctx: ctx, alive: l.alive}
	return packfile.UpdateObjectStorage(store, pack)
}

// all are the branches and tags, each once.
func (r gitRefs) all() []plumbing.Hash {
	var list []plumbing.Hash
	seen := map[plumbing.Hash]bool{}
	for _, name := range sortedKeys(r.names) {
		hash := r.names[name]
		if (strings.HasPrefix(name, "refs/heads/") || strings.HasPrefix(name, "refs/tags/")) && !seen[hash] {
			seen[hash] = true
			list = append(list, hash)
		}
	}
	return list
}

// demultiplexed takes the pack out of what else the server tells meanwhile.
func demultiplexed(caps *capability.List, r io.Reader) io.Reader {
	switch {
	case caps.Supports(capability.Sideband64k):
		return sideband.NewDemuxer(sideband.Sideband64k, r)
	case caps.Supports(capability.Sideband):
		return sideband.NewDemuxer(sideband.Sideband, r)
	}
	return r
}

// explain says in our words what went wrong.
func (l *gitLink) explain(ctx context.Context, where string, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		if errors.Is(cause, errIdle) {
			return &GitError{Repository: where, Reason: cause.Error(), Unreachable: true}
		}
		return cause
	}
	if failed := l.wire.failure(); failed != nil {
		if l.wire.login == nil { // the network's own error says what it is
			return fmt.Errorf("git repository %s: %w", where, failed)
		}
		return &GitError{Repository: where, Reason: "cannot be reached", Unreachable: true, Err: failed}
	}
	var wire net.Error
	switch {
	case errors.Is(err, errPackTooLarge):
		return &GitError{Repository: where, Reason: err.Error()}
	case errors.Is(err, transport.ErrRepositoryNotFound):
		return &NotFoundError{What: "repository there", Where: "git host of " + where, Err: errdef.ErrNotFound}
	case errors.Is(err, transport.ErrEmptyRemoteRepository):
		return &NotFoundError{What: "commit yet", Where: "git repository " + where, Err: errdef.ErrNotFound}
	case errors.Is(err, transport.ErrAuthenticationRequired):
		return &GitError{Repository: where, Reason: "wants a login", Denied: true}
	case errors.Is(err, transport.ErrAuthorizationFailed), errors.Is(err, transport.ErrInvalidAuthMethod):
		return &GitError{Repository: where, Reason: "denies access", Denied: true}
	case errors.As(err, &wire):
		return &GitError{Repository: where, Reason: "cannot be reached", Unreachable: true, Err: err}
	}
	return fmt.Errorf("git repository %s: %w", where, err)
}

// idleTimer ends a transfer that stands still. A network's own transport sees
// to that itself, and may have its reasons to wait.
type idleTimer struct {
	timer  *time.Timer // nil: nothing ends it
	cancel context.CancelCauseFunc
}

var errIdle = fmt.Errorf("sent nothing for %v", gitIdle)

// idleContext is cancelled when nothing was read for too long.
func idleContext(ctx context.Context, patient bool) (context.Context, *idleTimer) {
	ctx, cancel := context.WithCancelCause(ctx)
	t := &idleTimer{cancel: cancel}
	if !patient {
		t.timer = time.AfterFunc(gitIdle, func() { cancel(errIdle) })
	}
	return ctx, t
}

func (t *idleTimer) touch() {
	if t.timer != nil {
		t.timer.Reset(gitIdle)
	}
}

func (t *idleTimer) stop() {
	if t.timer != nil {
		t.timer.Stop()
	}
	t.cancel(nil)
}
