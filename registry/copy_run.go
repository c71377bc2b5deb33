package registry

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/registry/remote/errcode"
)

// To brings what is planned to a target, as [Copy] does after planning.
func (p *CopyPlan) To(ctx context.Context, dst *Destination, opts CopyOptions) (CopyResult, error) {
	r := &copyRun{plan: p, dst: dst, opts: opts, failed: map[*copyNode]bool{}, taken: map[*copyNode]bool{}, news: make(chan struct{}, 1), mounts: mountsTo{dst: dst, known: opts.Mounts}}
	r.size = p.Size()
	r.result.Undetermined, r.result.Assumed = p.Undetermined(), p.assumed
	if opts.OnPlanned != nil {
		opts.OnPlanned(r.size.Objects, r.size.Bytes)
	}
	err := r.all(ctx)
	slices.SortFunc(r.result.LeftOut, func(a, b ocispec.Descriptor) int { return bytes.Compare([]byte(a.Digest), []byte(b.Digest)) })
	if err == nil && len(r.problems) > 0 {
		err = joinProblems(r.problems)
	}
	return r.result, err
}

// copyRun is one copy to one target.
type copyRun struct {
	plan   *CopyPlan
	dst    *Destination
	opts   CopyOptions
	mounts mountsTo
	first  firstLook
	size   Amount // of the plan

	mu       sync.Mutex
	result   CopyResult
	failed   map[*copyNode]bool // not at the target, nor is what needs it
	problems []error
	sent     []*copyNode // and not read back yet
	below    []*copyNode // blobs that were sent, and are looked for by the target when it takes their manifests
	taken    map[*copyNode]bool
	news     chan struct{} // that there is more of it
}

func (r *copyRun) all(ctx context.Context) error {
	steps := []func(context.Context) error{r.blobs, r.manifests, r.rest, r.attachAll, r.anchorAll}
	for _, step := range steps {
		if err := r.readingBack(ctx, step); err != nil {
			return err
		}
	}
	return r.readBackAll(ctx, r.opts.Concurrency)
}

func (r *copyRun) blobs(ctx context.Context) error {
	if err := r.lookAtFirst(ctx); err != nil {
		return err
	}
	if err := r.roomInFolder(ctx); err != nil {
		return err
	}
	return each(ctx, r.opts.Concurrency, len(r.plan.blobs), func(ctx context.Context, i int) error {
		return r.blob(ctx, r.plan.blobs[i])
	})
}

// roomInFolder says, as a *SpaceError, when the disk of a layout has no room for
// the blobs that are not there. An archive's is looked at when its size is known.
func (r *copyRun) roomInFolder(ctx context.Context) error {
	t, ok := r.dst.target.(*layoutTarget)
	if !ok {
		return nil
	}
	need := int64(0)
	for _, n := range r.plan.blobs {
		if n.choice == ForeignOmit || n.mayLack() {
			continue
		}
		there, err := r.dst.Exists(ctx, n.desc)
		if err != nil {
			return r.target(n, "looking for", err)
		}
		if !there {
			need += n.desc.Size
		}
	}
	return haveRoom(t.place, t.location.Path, r.size.Bytes, need)
}

func (r *copyRun) manifests(ctx context.Context) error {
	for _, group := range r.plan.manifests {
		err := each(ctx, r.opts.Concurrency, len(group), func(ctx context.Context, i int) error {
			return r.manifest(ctx, group[i])
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// blob sees to it that a blob is at the target.
func (r *copyRun) blob(ctx context.Context, n *copyNode) error {
	if n.choice == ForeignOmit {
		r.leftOut(n)
		return nil
	}
	there, err := r.hasBlob(ctx, n)
	if err != nil {
		return r.target(n, "looking for", err)
	}
	if there {
		r.mounts.from(n.src).found(n.desc)
		r.skipped(n)
		return nil
	}
	if target, ok := r.dst.target.(promiser); ok {
		return r.promise(ctx, n, target)
	}
	if r.opts.OnStart != nil {
		r.opts.OnStart(n.desc, n.of())
	}
	mounts := r.mounts.from(n.src)
	through := mounts.enter(ctx, n.desc)
	sent, err := r.mountOrSend(ctx, mounts, n)
	through(sent)
	return err
}

// mountOrSend says whether the blob is at the target now.
func (r *copyRun) mountOrSend(ctx context.Context, mounts *mounts, n *copyNode) (bool, error) {
	if mounts.try(ctx, n.desc) {
		r.mounted(n)
		return true, nil
	}
	err := r.send(ctx, n)
	mounts.drop(ctx, n.desc)
	switch {
	case err == nil && r.reliesOnManifests(ctx):
		r.copiedBelow(n)
		return true, nil
	case err == nil:
		r.copied(n)
		return true, nil
	case n.mayLack() && isContentProblem(err):
		r.leftOut(n)
		return false, nil
	}
	return false, r.problem(n, err)
}

// send pushes a blob and says which side failed.
func (r *copyRun) send(ctx context.Context, n *copyNode) error {
	reader, err := newSourceReader(ctx, n, r.opts.OnBytes, r.trusts(ctx, n))
	if err != nil {
		return r.source(n, "reading", err)
	}
	defer reader.Close() // it was only read from
	err = r.dst.Push(ctx, n.desc, reader)
	if err == nil {
		return nil
	}
	if reader.err != nil {
		return r.source(n, "reading", reader.err)
	}
	return r.target(n, "writing", err)
}

// manifest sees to it that a manifest is at the target, once all its parts are.
func (r *copyRun) manifest(ctx context.Context, n *copyNode) error {
	if r.lacksParts(n) {
		return nil
	}
	there, err := r.has(ctx, n)
	if err != nil {
		return r.target(n, "looking for", err)
	}
	if there {
		r.skipped(n)
		return nil
	}
	data, err := r.plan.manifestData(ctx, n)
	if err != nil {
		return r.problem(n, err)
	}
	if err := r.dst.target.putManifest(ctx, n.desc, data); err != nil {
		return r.target(n, "writing", r.forLeftOut(n, err))
	}
	r.took(n)
	r.copied(n)
	return nil
}

// forLeftOut says of a registry that wants all parts of a manifest which of them was
// left out.
func (r *copyRun) forLeftOut(n *copyNode, err error) error {
	var answer *errcode.ErrorResponse
	if !errors.As(err, &answer) || !hasCode(answer, errcode.ErrorCodeManifestBlobUnknown) && !hasCode(answer, errcode.ErrorCodeBlobUnknown) {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, part := range n.parts {
		if slices.ContainsFunc(r.result.LeftOut, func(layer ocispec.Descriptor) bool { return layer.Digest == part.desc.Digest }) {
			return &LeftOutError{Layer: part.desc.Digest, Err: err}
		}
	}
	return err
}

// has asks the target for a manifest unless that was done when it was planned.
func (r *copyRun) has(ctx context.Context, n *copyNode) (bool, error) {
	if n.known.at == r.dst.target.name() {
		return n.known.there, nil
	}
	return r.dst.Exists(ctx, n.desc)
}

func (r *copyRun) lacksParts(n *copyNode) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, part := range n.parts {
		if r.failed[part] {
			r.failed[n] = true
		}
	}
	return r.failed[n]
}

// problem notes content that the source has not got, or not right; the copy
// goes on without it and without what needs it. Any other failure comes back.
func (r *copyRun) problem(n *copyNode, err error) error {
	failed := new(CopyError)
	if !asCopyError(err, &failed) || failed.Side != "source" || !isContentProblem(err) {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed[n] = true
	r.problems = append(r.problems, err)
	return nil
}

func (r *copyRun) source(n *copyNode, step string, err error) error {
	return r.fail("source", n.src.place.name(), n, step, err)
}

func (r *copyRun) target(n *copyNode, step string, err error) error {
	return r.fail("target", r.dst.target.name(), n, step, err)
}

func (r *copyRun) fail(side, ref string, n *copyNode, step string, err error) error {
	failed := new(CopyError)
	if asCopyError(err, &failed) {
		return err
	}
	return &CopyError{Side: side, Ref: ref, Digest: n.desc.Digest, Of: n.of(), Step: step, Err: err}
}

func (r *copyRun) copied(n *copyNode) {
	sent := n.desc.Size
	if isManifest(n.desc.MediaType) {
		sent = 0 // OnBytes is told of blobs
	}
	r.done(&r.result.Copied, n, true, sent)
}

func (r *copyRun) mounted(n *copyNode) { r.done(&r.result.Mounted, n, true, 0) }

func (r *copyRun) skipped(n *copyNode) { r.done(&r.result.Skipped, n, false, 0) }

func (r *copyRun) leftOut(n *copyNode) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.LeftOut = append(r.result.LeftOut, n.desc)
}

// done counts content that is at the target now. What is new is read back later.
func (r *copyRun) done(amount *Amount, n *copyNode, isNew bool, sent int64) {
	r.mu.Lock()
	amount.add(n.desc)
	if isNew {
		r.sent = append(r.sent, n)
	}
	r.mu.Unlock()
	if isNew {
		select {
		case r.news <- struct{}{}:
		default:
		}
	}
	if r.opts.OnDone != nil {
		r.opts.OnDone(n.desc, n.of(), sent)
	}
}
