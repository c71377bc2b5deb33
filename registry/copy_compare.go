package registry

import (
	"context"
	"errors"
	"slices"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"
)

// Compare says what [CopyPlan.To] would do at a place, and writes nothing.
//
// Errors are those of [Copy], and *LocationError for a path where something else
// is.
func (p *CopyPlan) Compare(ctx context.Context, c *Client, l Location, opts CopyOptions) (CopyResult, error) {
	result := CopyResult{Undetermined: p.Undetermined(), Assumed: p.assumed}
	at, err := c.lookAt(ctx, l)
	if err != nil {
		return result, err
	}
	var nodes []*copyNode
	for _, n := range p.blobs {
		if n.choice == ForeignOmit {
			result.LeftOut = append(result.LeftOut, n.desc)
			continue
		}
		nodes = append(nodes, n)
	}
	for _, group := range p.manifests {
		nodes = append(nodes, group...)
	}
	there := make([]bool, len(nodes))
	if at != nil {
		err = each(ctx, opts.Concurrency, len(nodes), func(ctx context.Context, i int) (err error) {
			n := nodes[i]
			if n.known.at == at.name() {
				there[i] = n.known.there
				return nil
			}
			if there[i], err = at.has(ctx, n.desc); err != nil {
				return &CopyError{Side: "target", Ref: at.name(), Digest: n.desc.Digest, Of: n.of(), Step: "looking for", Err: err}
			}
			return nil
		})
	}
	for i, n := range nodes {
		if there[i] || opts.Delta.leaves(n.desc.Digest) {
			result.Skipped.add(n.desc)
		} else {
			result.Copied.add(n.desc)
		}
	}
	if err == nil {
		result.Attachments, err = p.compareAttachments(ctx, at)
	}
	if at != nil {
		err = errors.Join(err, at.Close())
	}
	return result, err
}

// lookAt opens a place for a look; nil for none.
func (c *Client) lookAt(_ context.Context, l Location) (place, error) {
	if l.Kind == Registry {
		return c.remote(l.Ref), nil
	}
	if !exists(l.Path) || l.Kind == Layout && isFresh(l.Path) {
		return nil, nil
	}
	p, err := openLocal(l)
	if err != nil {
		return nil, notOurs(err, l)
	}
	return p, nil
}

func (p *CopyPlan) compareAttachments(ctx context.Context, at place) ([]Attachment, error) {
	var all []Attachment
	for _, a := range p.attachments {
		state, err := compareAttachment(ctx, at, a)
		if err != nil {
			return nil, &CopyError{Side: "target", Ref: at.name(), Digest: a.Digest, Of: a.manifest.of(), Step: "looking for", Err: err}
		}
		a.State = state
		all = append(all, a.Attachment)
	}
	return all, nil
}

func compareAttachment(ctx context.Context, at place, a plannedAttachment) (string, error) {
	if at == nil {
		return AttachmentCopied, nil
	}
	if a.Form == FormReferrer {
		listed, err := at.Predecessors(ctx, a.subject.desc)
		if slices.ContainsFunc(listed, func(desc ocispec.Descriptor) bool { return desc.Digest == a.Digest }) {
			return AttachmentThere, err
		}
		return AttachmentCopied, err
	}
	now, err := at.Resolve(ctx, a.Tag)
	switch {
	case errors.Is(err, errdef.ErrNotFound):
		return AttachmentCopied, nil
	case err == nil && now.Digest == a.Digest:
		return AttachmentThere, nil
	}
	return AttachmentUnited, err
}
