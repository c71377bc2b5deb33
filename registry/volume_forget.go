package registry

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"net/url"
	"strings"

	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote/auth"
)

// ForgetPieces removes the tags of pieces that were deposited, once what they are
// pieces of is there. A registry that removes nothing keeps them: how many it
// kept is returned.
func (s *Source) ForgetPieces(ctx context.Context, dst *Destination) (kept int, err error) {
	set, err := s.volumeSet()
	if err != nil {
		return 0, err
	}
	p, ok := dst.target.(*remotePlace)
	if !ok {
		return 0, nil
	}
	for _, cut := range set.cut {
		for _, part := range cut {
			gone, err := p.removeTag(ctx, pieceTag(part))
			if err != nil {
				return kept, err
			}
			if !gone {
				kept++
			}
		}
	}
	return kept, nil
}

// ForgetPieces removes the tags of pieces of what was planned, once it is there:
// volumes may have left them, of whatever set, before it came in another way. A
// registry that lists no tags keeps them without a word, one that removes nothing
// says how many.
func (p *CopyPlan) ForgetPieces(ctx context.Context, dst *Destination) (kept int, err error) {
	target, ok := dst.target.(*remotePlace)
	if !ok {
		return 0, nil
	}
	tags := target.pieceTags(ctx)
	if len(tags) == 0 {
		return 0, ctx.Err()
	}
	whole := map[string]*copyNode{}
	for _, n := range p.blobs {
		whole[n.desc.Digest.Encoded()[:32]] = n
	}
	for _, tag := range tags {
		of, _, _ := strings.Cut(strings.TrimPrefix(tag, pieceTagPrefix), "-")
		n := whole[of]
		if n == nil {
			continue
		}
		if there, err := dst.Exists(ctx, n.desc); err != nil || !there {
			continue // it was left out
		}
		gone, err := target.removeTag(ctx, tag)
		if err != nil {
			return kept, err
		}
		if !gone {
			kept++
		}
	}
	return kept, ctx.Err()
}

// pieceTags are the tags of pieces, as far as the registry lists them. Tags are
// listed in order, so that few others are read.
func (p *remotePlace) pieceTags(ctx context.Context) []string {
	var all []string
	_ = p.tagsAfter(ctx, pieceTagPrefix, func(page []string) error {
		for _, tag := range page {
			if isPieceTag(tag) {
				all = append(all, tag)
			}
		}
		if last := len(page) - 1; last < 0 || page[last] > pieceTagPrefix && !isPieceTag(page[last]) {
			return fs.ErrExist // enough
		}
		return nil
	})
	return all
}

// removeTag removes a tag and what it names, as far as the registry does such
// things, and says whether it is gone.
func (p *remotePlace) removeTag(ctx context.Context, tag string) (bool, error) {
	desc, err := p.Resolve(ctx, tag)
	if errors.Is(err, errdef.ErrNotFound) {
		return true, nil
	}
	if err != nil {
		return false, ctx.Err()
	}
	// Some registries remove tags and some what they name, and some neither.
	for _, reference := range []string{tag, desc.Digest.String()} {
		u := p.uploads()
		u.Path = "/v2/" + p.ref.Repository + "/manifests/" + reference
		within := auth.AppendRepositoryScope(ctx, p.repo.Reference, auth.ActionDelete)
		req, err := http.NewRequestWithContext(within, http.MethodDelete, (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String(), nil)
		if err != nil {
			return false, err
		}
		if resp, err := p.do(req); err == nil { //nolint:bodyclose // drain closes it
			drain(resp.Body)
		}
	}
	_, err = p.Resolve(ctx, tag)
	return errors.Is(err, errdef.ErrNotFound), ctx.Err()
}
