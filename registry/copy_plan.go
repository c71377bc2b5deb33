package registry

import (
	"cmp"
	"context"
	"errors"
	"slices"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
)

// Bounds on the graph that a source may make us walk. A bundle of 1,000 images
// of 5 platforms and 30 layers has some 150,000 objects, and is 3 manifests
// deep; signatures of attestations of images are 2 attachments deep.
const (
	maxCopyNodes  = 1_000_000
	maxCopyRounds = 24
	// What is held of manifests between reading and writing them, in bytes.
	// Others are read again.
	maxHeldManifests = 24 << 20
)

// plannedAttachment is an attachment with its manifest.
type plannedAttachment struct {
	Attachment
	subject  *copyNode
	manifest *copyNode
	listed   ocispec.Descriptor // as a list of referrers has it: with the true type
}

// PlanCopy reads every manifest below roots and looks for what hangs on them,
// and on that. Nothing is written and no blob is read.
//
// Errors are those of [Copy].
func PlanCopy(ctx context.Context, src *Source, roots []ocispec.Descriptor, opts CopyOptions) (*CopyPlan, error) {
	p := &planner{
		plan:   &CopyPlan{nodes: map[copyKey]*copyNode{}},
		src:    src,
		find:   src.place.finder(),
		source: src.place.name(),
		ahead:  newAhead(src, opts),
	}
	if opts.WithoutAttachments {
		p.find = nothingHangs{}
	}
	var round []*copyNode
	for _, root := range roots {
		n, isNew := p.node(root, nil, 0)
		if p.plan.roots = append(p.plan.roots, n); isNew {
			round = append(round, n)
		}
	}
	for rounds := 0; len(round) > 0; rounds++ {
		if rounds == maxCopyRounds || len(p.plan.nodes) > maxCopyNodes {
			return nil, &CopyError{Side: "source", Ref: p.source, Step: "reading", Err: &ContentError{Ref: p.source, Reason: "it is nested too deeply or has too many parts"}}
		}
		if rounds == 1 && len(round) > fewManifests {
			p.find.learn(ctx, p.tagsFound(src))
		}
		next, err := p.round(ctx, round, opts)
		if err != nil {
			return nil, err
		}
		round = next
	}
	if len(p.problems) > 0 {
		return nil, joinProblems(p.problems)
	}
	p.plan.order()
	return p.plan, nil
}

// fewManifests are looked after one by one rather than by a list of all tags.
const fewManifests = 8

type planner struct {
	plan     *CopyPlan
	src      *Source
	find     finder
	source   string
	ahead    *ahead
	held     int64
	problems []error
}

// node finds or makes the node of a descriptor. The first to name it says what
// it is part of.
func (p *planner) node(desc ocispec.Descriptor, parent *copyNode, depth int) (*copyNode, bool) {
	key := keyOf(desc)
	if n := p.plan.nodes[key]; n != nil {
		n.alsoNamed(isForeign(desc), desc.URLs)
		return n, false
	}
	n := &copyNode{
		src:  p.src,
		desc: ocispec.Descriptor{MediaType: desc.MediaType, Digest: desc.Digest, Size: desc.Size},
		name: nameOfPart(desc, parent), parent: parent, depth: depth, foreign: isForeign(desc), urls: desc.URLs,
	}
	p.plan.nodes[key] = n
	return n, true
}

// tagsFound are tags of which it is known that they are there.
func (p *planner) tagsFound(src *Source) []string {
	var tags []string
	if src.Location.Kind == Registry && src.Location.Ref.Tag != "" {
		tags = append(tags, src.Location.Ref.Tag)
	}
	for _, a := range p.plan.attachments {
		if a.Tag != "" {
			tags = append(tags, a.Tag)
		}
	}
	return tags
}

// reading is what reading one manifest brought.
type reading struct {
	data         []byte
	known        presence
	links        links
	attached     []foundAttachment
	undetermined []Undetermined
	problem      error
}

// round reads manifests and returns those that they lead to.
func (p *planner) round(ctx context.Context, round []*copyNode, opts CopyOptions) ([]*copyNode, error) {
	visits := make([]reading, len(round))
	err := each(ctx, opts.Concurrency, len(round), func(ctx context.Context, i int) (err error) {
		visits[i], err = p.visit(ctx, round[i])
		return err
	})
	if err != nil {
		return nil, err
	}
	var next []*copyNode
	for i, v := range visits {
		if v.problem != nil {
			p.problems = append(p.problems, v.problem)
			continue
		}
		next = append(next, p.take(round[i], v)...)
	}
	return next, nil
}

func (p *planner) visit(ctx context.Context, n *copyNode) (v reading, err error) {
	if v.known = p.ahead.assume(ctx, n); v.known.there {
		if n.parent != nil || n.depth > 0 {
			return v, nil
		}
		return v, p.lookForAttached(ctx, n, &v)
	}
	fail := func(step string, err error) error {
		return &CopyError{Side: "source", Ref: p.source, Digest: n.desc.Digest, Of: n.of(), Step: step, Err: err}
	}
	if !isManifest(n.desc.MediaType) {
		v.problem = fail("reading", &ManifestTypeError{Ref: p.source, Digest: n.desc.Digest, MediaType: n.desc.MediaType})
		return v, nil
	}
	if v.data = n.data; v.data == nil {
		v.data, v.known, err = p.read(ctx, n.desc, v.known)
	}
	if err == nil {
		v.links, err = readLinks(v.data)
		if err != nil {
			err = &ContentError{Ref: p.source, Digest: n.desc.Digest, Reason: "is no manifest", Err: err}
		}
	}
	if err == nil {
		err = p.checkParts(v.links)
	}
	if err == nil {
		err = p.checkEntries(v.links)
	}
	if isContentProblem(err) || as[*ManifestTypeError](err) {
		v.problem = fail("reading", err)
		return v, nil
	}
	if err != nil {
		return v, fail("reading", err)
	}
	return v, p.lookForAttached(ctx, n, &v)
}

func (p *planner) lookForAttached(ctx context.Context, n *copyNode, v *reading) (err error) {
	v.attached, v.undetermined, err = p.find.attachments(ctx, n.desc)
	for i := range v.undetermined {
		v.undetermined[i].Of = n.of()
	}
	if err != nil {
		return &CopyError{Side: "source", Ref: p.source, Digest: n.desc.Digest, Of: n.of(), Step: "looking for what hangs on", Err: err}
	}
	return nil
}

// read gets a manifest from the target when that has it, else from the source.
func (p *planner) read(ctx context.Context, desc ocispec.Descriptor, known presence) ([]byte, presence, error) {
	if known.at == "" {
		var data []byte
		if data, known = p.ahead.read(ctx, desc); data != nil {
			return data, known, nil
		}
	}
	data, err := content.FetchAll(ctx, p.src, desc)
	return data, known, err
}

func (p *planner) checkParts(l links) error {
	for _, part := range append(l.blobs(), l.Manifests...) {
		if err := checkDescriptor(part, p.source); err != nil {
			return err
		}
	}
	return nil
}

// checkEntries refuses an index with a manifest in it whose parts can't be known.
// Other entries are content like layers: an index may list anything.
func (p *planner) checkEntries(l links) error {
	for _, desc := range l.Manifests {
		if isOldManifest(desc.MediaType) {
			return &ManifestTypeError{Ref: p.source, Digest: desc.Digest, MediaType: desc.MediaType}
		}
	}
	return nil
}

// take notes the parts of a manifest and what hangs on it, and returns the
// manifests that nobody has read yet.
func (p *planner) take(n *copyNode, v reading) []*copyNode {
	var next []*copyNode
	n.known = v.known
	if v.data == nil {
		p.plan.assumed++
	}
	p.hold(n, v.data)
	for _, desc := range append(v.links.blobs(), v.links.Manifests...) {
		part, isNew := p.node(desc, n, n.depth)
		n.parts = append(n.parts, part)
		if isNew && isManifest(desc.MediaType) {
			next = append(next, part)
		}
	}
	for _, found := range v.attached {
		m, isNew := p.node(found.desc, nil, n.depth+1)
		if isNew {
			m.name = found.name() + " of " + orDigest(n)
			p.hold(m, found.data)
			next = append(next, m)
		}
		p.plan.attachments = append(p.plan.attachments, plannedAttachment{
			Attachment: found.attachment(n.desc), subject: n, manifest: m, listed: found.listed(),
		})
	}
	p.plan.undetermined = append(p.plan.undetermined, v.undetermined...)
	return next
}

func orDigest(n *copyNode) string {
	if n.name == "" {
		return n.desc.Digest.String()
	}
	return n.name
}

func (p *planner) hold(n *copyNode, data []byte) {
	if n.data == nil && p.held+int64(len(data)) <= maxHeldManifests {
		n.data = data
		p.held += int64(len(data))
	}
}

// order puts everything into the order in which it is written.
func (p *CopyPlan) order() {
	var all []*copyNode
	for key, n := range p.nodes {
		if key.manifest {
			all = append(all, n)
		} else {
			p.blobs = append(p.blobs, n)
		}
	}
	for _, n := range all {
		n.height = heightOf(n)
	}
	// Large blobs first: the last one begun should not be the longest.
	slices.SortFunc(p.blobs, func(a, b *copyNode) int {
		return cmp.Or(cmp.Compare(b.desc.Size, a.desc.Size), cmp.Compare(a.desc.Digest, b.desc.Digest))
	})
	slices.SortFunc(all, func(a, b *copyNode) int {
		return cmp.Or(cmp.Compare(a.depth, b.depth), cmp.Compare(a.height, b.height), cmp.Compare(a.desc.Digest, b.desc.Digest))
	})
	for i, n := range all {
		if i == 0 || n.depth != all[i-1].depth || n.height != all[i-1].height {
			p.manifests = append(p.manifests, nil)
		}
		last := len(p.manifests) - 1
		p.manifests[last] = append(p.manifests[last], n)
	}
	slices.SortStableFunc(p.attachments, func(a, b plannedAttachment) int {
		return cmp.Or(cmp.Compare(a.Subject, b.Subject), cmp.Compare(a.Form, b.Form), cmp.Compare(a.Tag, b.Tag), cmp.Compare(a.Digest, b.Digest))
	})
	slices.SortFunc(p.undetermined, func(a, b Undetermined) int {
		return cmp.Or(cmp.Compare(a.Subject, b.Subject), cmp.Compare(a.Lookup, b.Lookup))
	})
}

// heightOf is 1 above the highest part. Digests make a circle impossible.
func heightOf(n *copyNode) int {
	if n.height > 0 || !isManifest(n.desc.MediaType) {
		return n.height
	}
	highest := 0
	for _, part := range n.parts {
		highest = max(highest, heightOf(part))
	}
	n.height = highest + 1
	return n.height
}

// manifestData gives a manifest's bytes, read again when they were not held.
func (p *CopyPlan) manifestData(ctx context.Context, n *copyNode) ([]byte, error) {
	if n.data != nil {
		return n.data, nil
	}
	data, err := content.FetchAll(ctx, n.src, n.desc)
	if err != nil {
		return nil, &CopyError{Side: "source", Ref: n.src.place.name(), Digest: n.desc.Digest, Of: n.of(), Step: "reading", Err: err}
	}
	return data, nil
}

var errNotListed = errors.New("it was written, but is not listed as a referrer")
