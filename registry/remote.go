package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"waybill/internal/ref"
)

// remotePlace is a repository in a registry.
type remotePlace struct {
	client *Client
	ref    ref.Reference // where requests go
	named  string        // what it is called: where it is read in place of, else ref
	repo   *remote.Repository
	absent sync.Map // digests that a caller was told are not here, and may push next
	offers sync.Map // by digest, the answers that opened a session for it without being asked to

	listsReferrers atomic.Bool // it was seen to have the referrers API
}

// remote is a repository itself, to be written to.
func (c *Client) remote(r ref.Reference) *remotePlace {
	c.hosts.name(r.Host)
	return &remotePlace{client: c, ref: r, named: r.Name(), repo: c.repository(r)}
}

// reading is a repository, or what the overrides have in place of it.
func (c *Client) reading(r ref.Reference) *remotePlace {
	at := c.overrides.repository(r)
	if at == r {
		return c.remote(r)
	}
	return &remotePlace{client: c, ref: at, named: r.Name(), repo: c.repository(at)}
}

func (p *remotePlace) name() string { return schemeRegistry + p.named }

func (p *remotePlace) failed(err error, what string, desc ocispec.Descriptor, reading bool) error {
	place := p.name()
	if p.ref.Name() != p.named {
		place += " (read from " + p.ref.Name() + ")"
	}
	return p.client.translate(err, asked{ref: place, host: p.ref.Host, account: p.ref.Name(), what: what, digest: desc.Digest, reading: reading})
}

func (p *remotePlace) Fetch(ctx context.Context, desc ocispec.Descriptor) (io.ReadCloser, error) {
	rc, err := p.openAt(ctx, desc, 0)
	if err != nil {
		return nil, err
	}
	return checked(rc, desc, p.name())
}

// openAt asks for content from an offset on. A registry that knows no ranges is
// read from the beginning.
func (p *remotePlace) openAt(ctx context.Context, desc ocispec.Descriptor, offset int64) (io.ReadCloser, error) {
	if err := checkDescriptor(desc, p.name()); err != nil {
		return nil, err
	}
	r := &resumingReader{place: p, ctx: ctx, desc: desc, done: offset, from: offset}
	var err error
	if offset == 0 {
		r.rc, err = p.repo.Fetch(ctx, desc)
	} else {
		err = r.resume()
	}
	if err == nil {
		return r, nil
	}
	if r.rc != nil {
		_ = r.rc.Close()
	}
	if err = p.failed(err, describe(desc), desc, true); as[*NotFoundError](err) {
		return nil, missing(p.name(), desc)
	}
	return nil, p.explainSize(ctx, desc, err)
}

// explainSize says of content that is none as promised how much of it there is,
// if that is why.
func (p *remotePlace) explainSize(ctx context.Context, desc ocispec.Descriptor, err error) error {
	if isManifest(desc.MediaType) || !as[*ContentError](err) {
		return err
	}
	found, lookup := p.repo.Blobs().Resolve(ctx, desc.Digest.String())
	if lookup != nil || found.Size == desc.Size {
		return err
	}
	return &ContentError{Ref: p.name(), Digest: desc.Digest, Reason: fmt.Sprintf("corrupt: it has %d bytes, its descriptor says %d", found.Size, desc.Size), Err: err}
}

func (p *remotePlace) Exists(ctx context.Context, desc ocispec.Descriptor) (bool, error) {
	there, err := p.has(ctx, desc)
	if err == nil && !there && !isManifest(desc.MediaType) {
		p.absent.Store(desc.Digest, true)
	}
	return there, err
}

// has asks for size and presence with one HEAD.
func (p *remotePlace) has(ctx context.Context, desc ocispec.Descriptor) (bool, error) {
	if err := checkDescriptor(desc, p.name()); err != nil {
		return false, err
	}
	var resolver content.Resolver = p.repo.Blobs()
	if isManifest(desc.MediaType) {
		resolver = p.repo.Manifests()
	}
	got, err := resolver.Resolve(ctx, desc.Digest.String())
	if errors.Is(err, errdef.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, p.failed(err, describe(desc), desc, true)
	}
	if got.Size != desc.Size {
		return false, &ContentError{Ref: p.name(), Digest: desc.Digest, Reason: fmt.Sprintf("the registry has %d bytes, its descriptor says %d", got.Size, desc.Size)}
	}
	return true, nil
}

// Resolve asks with HEAD, and with GET where that does not tell the digest.
func (p *remotePlace) Resolve(ctx context.Context, reference string) (ocispec.Descriptor, error) {
	desc, err := p.repo.Resolve(ctx, reference)
	if err == nil {
		return desc, nil
	}
	err = p.failed(err, whatFor(reference), ocispec.Descriptor{}, true)
	if !as[*ContentError](err) {
		return ocispec.Descriptor{}, err
	}
	desc, _, err = p.read(ctx, reference)
	return desc, err
}

// read gets a manifest by tag or digest, whole and checked.
func (p *remotePlace) read(ctx context.Context, reference string) (ocispec.Descriptor, []byte, error) {
	desc, rc, err := p.repo.FetchReference(ctx, reference)
	if err != nil {
		return ocispec.Descriptor{}, nil, p.failed(err, whatFor(reference), desc, true)
	}
	rc, err = checked(&resumingReader{place: p, ctx: ctx, desc: desc, rc: rc}, desc, p.name())
	if err != nil {
		return ocispec.Descriptor{}, nil, err
	}
	defer rc.Close()
	data, err := io.ReadAll(rc)
	return desc, data, p.failed(err, whatFor(reference), desc, true)
}

// Predecessors lists what hangs on a manifest: what the registry's referrers
// API says, and what stands under the tag that takes its place. Registries that
// have the API may still hold the tag, brought by a tool that knew no better.
func (p *remotePlace) Predecessors(ctx context.Context, desc ocispec.Descriptor) ([]ocispec.Descriptor, error) {
	var all []ocispec.Descriptor
	for _, api := range []bool{true, false} {
		repo := p.client.repository(p.ref)
		if err := repo.SetReferrersCapability(api); err != nil {
			return nil, err
		}
		found, err := repo.Predecessors(ctx, desc)
		if err != nil && !isNoReferrers(err) {
			return nil, p.failed(err, "referrers of "+desc.Digest.String(), desc, true)
		}
		all = append(all, found...)
	}
	return sortedOnce(all), nil
}

// isNoReferrers says whether an answer means that the API, or the repository,
// is not there. What it may be is up to each registry.
func isNoReferrers(err error) bool {
	if errors.Is(err, errdef.ErrUnsupported) || errors.Is(err, errdef.ErrNotFound) {
		return true
	}
	var answer *errcode.ErrorResponse
	if !errors.As(err, &answer) {
		return false
	}
	switch answer.StatusCode {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusNotImplemented:
		return true
	}
	return false
}

// tags hands out the tags page by page, each once. A list that goes on without
// anything new is given up.
func (p *remotePlace) tags(ctx context.Context, fn func([]string) error) error {
	return p.tagsAfter(ctx, "", fn)
}

// tagsAfter begins the list after a tag, in the order of the registry.
func (p *remotePlace) tagsAfter(ctx context.Context, tag string, fn func([]string) error) error {
	var caller error
	seen, idle := map[string]bool{}, 0
	err := p.repo.Tags(ctx, tag, func(tags []string) error {
		fresh := slices.DeleteFunc(slices.Clone(tags), func(tag string) bool { return seen[tag] })
		for _, tag := range fresh {
			seen[tag] = true
		}
		if idle++; len(fresh) > 0 {
			idle = 0
		}
		if idle == maxIdlePages {
			caller = &ContentError{Ref: p.name(), Reason: fmt.Sprintf("the list of its tags does not end: %d pages brought nothing new", idle)}
			return caller
		}
		caller = fn(fresh)
		return caller
	})
	if caller != nil {
		return caller
	}
	return p.failed(err, "tags", ocispec.Descriptor{}, true)
}

func (p *remotePlace) Push(ctx context.Context, desc ocispec.Descriptor, r io.Reader) error {
	if !isManifest(desc.MediaType) {
		return p.pushBlob(ctx, desc, r)
	}
	rc, err := checked(io.NopCloser(r), desc, "content for "+p.name())
	if err != nil {
		return err
	}
	data, err := io.ReadAll(rc)
	if err != nil {
		return err
	}
	return p.failed(p.put(ctx, p.repo, desc, data, desc.Digest.String()), describe(desc), desc, false)
}

// Tag puts the manifest's own bytes under a tag, unless they are there.
func (p *remotePlace) Tag(ctx context.Context, desc ocispec.Descriptor, tag string) error {
	if now, err := p.repo.Resolve(ctx, tag); err == nil && now.Digest == desc.Digest {
		return nil
	}
	data, err := content.FetchAll(ctx, p, desc)
	if err != nil {
		return err
	}
	err = p.put(ctx, p.repo, desc, data, tag)
	return p.failed(err, "tag "+tag, desc, false)
}

func (p *remotePlace) local() bool                  { return false }
func (p *remotePlace) Close() error                 { return nil }
func (p *remotePlace) commit(context.Context) error { return nil }
func (p *remotePlace) abort() error                 { return nil }

func describe(desc ocispec.Descriptor) string {
	if isManifest(desc.MediaType) {
		return "manifest " + desc.Digest.String()
	}
	return "blob " + desc.Digest.String()
}

func whatFor(reference string) string {
	if strings.Contains(reference, ":") {
		return "manifest " + reference
	}
	return "tag " + reference
}

// sortedOnce puts descriptors in order of their digests, each one once. Of two
// with the same digest the one that says more stays.
func sortedOnce(all []ocispec.Descriptor) []ocispec.Descriptor {
	slices.SortStableFunc(all, func(a, b ocispec.Descriptor) int {
		if c := strings.Compare(a.Digest.String(), b.Digest.String()); c != 0 {
			return c
		}
		return len(b.ArtifactType) - len(a.ArtifactType)
	})
	return slices.CompactFunc(all, func(a, b ocispec.Descriptor) bool { return a.Digest == b.Digest })
}

// missing is content that something else in the place promises. It is still one
// of oras-go's not-found errors.
func missing(place string, desc ocispec.Descriptor) error {
	return &ContentError{Ref: place, Digest: desc.Digest, Reason: "incomplete: it is missing", Err: errdef.ErrNotFound}
}
