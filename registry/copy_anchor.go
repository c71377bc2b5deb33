package registry

import (
	"context"
	"fmt"
	"regexp"

	"waybill/internal/ref"
)

var anchorName = regexp.MustCompile(`^waybill-[0-9a-f]{16}$`)

// isAnchor says whether a tag is there to keep something, and is nobody's version.
func isAnchor(tag string) bool { return anchorName.MatchString(tag) || isPieceTag(tag) }

// Anchor gives everything that was planned its tags, as [CopyOptions.AnchorTags]
// has it, at a registry where it already is, and says how many were set.
func (p *CopyPlan) Anchor(ctx context.Context, dst *Destination, opts CopyOptions) (int, error) {
	opts.AnchorTags = true
	r := &copyRun{plan: p, dst: dst, opts: opts}
	err := r.anchorAll(ctx)
	return r.result.Anchors, err
}

// anchorAll tags every manifest that no tag names: not the roots, which are the
// caller's, and not those under cosign's tags.
func (r *copyRun) anchorAll(ctx context.Context) error {
	if _, registry := r.dst.target.(*remotePlace); !registry || !r.opts.AnchorTags {
		return nil
	}
	tagged := map[*copyNode]bool{}
	for _, root := range r.plan.roots {
		tagged[root] = true
	}
	for _, a := range r.plan.attachments {
		if a.Form == FormTag {
			tagged[a.manifest] = true
		}
	}
	var todo []*copyNode
	for _, group := range r.plan.manifests {
		for _, n := range group {
			if !tagged[n] && !r.failed[n] {
				todo = append(todo, n)
			}
		}
	}
	return each(ctx, r.opts.Concurrency, len(todo), func(ctx context.Context, i int) error {
		return r.anchor(ctx, todo[i])
	})
}

func (r *copyRun) anchor(ctx context.Context, n *copyNode) error {
	tag := ref.AnchorTag(n.desc.Digest)
	now, found, err := r.tagAtTarget(ctx, tag)
	switch {
	case err != nil:
		return r.target(n, "looking for the anchor of", err)
	case found && now.Digest == n.desc.Digest:
		return nil
	case found:
		return r.target(n, "anchoring", fmt.Errorf("tag %s names %s", tag, now.Digest))
	}
	if err := r.dst.Tag(ctx, n.desc, tag); err != nil {
		return r.target(n, "anchoring", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.Anchors++
	return nil
}
