package registry

import (
	"fmt"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// part is the plan of some of what was planned, with all that is below it and
// hangs on it. Nothing is read again. It is an error when a root was not planned.
func (p *CopyPlan) part(roots []ocispec.Descriptor, hung map[*copyNode][]*copyNode) (*CopyPlan, error) {
	part := &CopyPlan{nodes: map[copyKey]*copyNode{}}
	for _, root := range roots {
		n := p.nodes[keyOf(root)]
		if n == nil {
			return nil, fmt.Errorf("%s is no part of what is copied", root.Digest)
		}
		part.roots = append(part.roots, n)
		part.add(n, hung)
	}
	for _, n := range p.blobs {
		if part.nodes[keyOf(n.desc)] != nil {
			part.blobs = append(part.blobs, n)
		}
	}
	for _, group := range p.manifests {
		var kept []*copyNode
		for _, n := range group {
			if part.nodes[keyOf(n.desc)] != nil {
				kept = append(kept, n)
			}
		}
		if len(kept) > 0 {
			part.manifests = append(part.manifests, kept)
		}
	}
	for _, a := range p.attachments {
		if part.nodes[keyOf(a.subject.desc)] != nil {
			part.attachments = append(part.attachments, a)
		}
	}
	for _, u := range p.undetermined {
		if part.nodes[copyKey{true, u.Subject}] != nil {
			part.undetermined = append(part.undetermined, u)
		}
	}
	return part, nil
}

// hung are the manifests that hang on each.
func (p *CopyPlan) hung() map[*copyNode][]*copyNode {
	hung := map[*copyNode][]*copyNode{}
	for _, a := range p.attachments {
		hung[a.subject] = append(hung[a.subject], a.manifest)
	}
	return hung
}

// add takes in a node and everything it leads to. Plans are only a few manifests
// deep.
func (p *CopyPlan) add(n *copyNode, hung map[*copyNode][]*copyNode) {
	key := keyOf(n.desc)
	if p.nodes[key] != nil {
		return
	}
	p.nodes[key] = n
	for _, part := range n.parts {
		p.add(part, hung)
	}
	for _, attachment := range hung[n] {
		p.add(attachment, hung)
	}
}
