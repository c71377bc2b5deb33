package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"waybill/internal/ref"
)

// A Placement is something of a plan that gets a repository and a tag of its own.
type Placement struct {
	Ref  ref.Reference      // with the tag
	Root ocispec.Descriptor // part of the plan
}

// What became of a [Placement].
const (
	PlacementNew   = "new"   // the tag was not there
	PlacementThere = "there" // the tag named the same
	PlacementMoved = "moved" // the tag named something else
)

// A Placed is a [Placement] and what became of it.
type Placed struct {
	Placement
	State  string
	Before digest.Digest // what a moved tag named
}

// ExpandOptions are the options of an [Expansion]. The zero value works.
type ExpandOptions struct {
	CopyOptions // OnPlanned is told the sum of all repositories
	// MayMove says whether a tag that names something else may be moved; nil: it
	// may. It is asked before anything is written, and again before the tag is.
	MayMove func(ctx context.Context, dst *Destination, tag string, root ocispec.Descriptor) error
}

// An ExpandResult says what became of all placements, and what was sent, in all
// repositories together.
type ExpandResult struct {
	CopyResult
	Placed []Placed // by reference
}

// An Expansion brings what was planned to repositories of their own, with what
// hangs on it. Begin with [Client.Expand].
type Expansion struct {
	client       *Client
	plan         *CopyPlan
	repositories []*expandedRepository // by name
}

// expandedRepository is what one repository gets.
type expandedRepository struct {
	loc    Location // without a tag
	part   *CopyPlan
	placed []Placed
}

// Expand prepares an expansion. Nothing is asked yet. The error is a
// *PlacementError for names that the registry is known not to take.
func (c *Client) Expand(plan *CopyPlan, placements []Placement) (*Expansion, error) {
	x := &Expansion{client: c, plan: plan}
	byName := map[string]*expandedRepository{}
	var tooDeep []string
	for _, p := range placements {
		if most := depthOf(p.Ref.Host); most > 0 && strings.Count(p.Ref.Repository, "/") >= most {
			tooDeep = append(tooDeep, p.Ref.Name())
			continue
		}
		r := byName[p.Ref.Name()]
		if r == nil {
			r = &expandedRepository{loc: Location{Kind: Registry, Ref: ref.Reference{Host: p.Ref.Host, Repository: p.Ref.Repository}}}
			byName[p.Ref.Name()] = r
			x.repositories = append(x.repositories, r)
		}
		r.placed = append(r.placed, Placed{Placement: p, State: PlacementNew})
	}
	if len(tooDeep) > 0 {
		slices.Sort(tooDeep)
		host := placements[0].Ref.Host
		return nil, &PlacementError{Host: host, Most: depthOf(host), Names: slices.Compact(tooDeep)}
	}
	slices.SortFunc(x.repositories, func(a, b *expandedRepository) int { return strings.Compare(a.loc.Ref.Name(), b.loc.Ref.Name()) })
	hung := plan.hung()
	for _, r := range x.repositories {
		var roots []ocispec.Descriptor
		for _, p := range r.placed {
			roots = append(roots, p.Root)
		}
		var err error
		if r.part, err = plan.part(roots, hung); err != nil {
			return nil, err
		}
	}
	return x, nil
}

// depthOf is how many parts the path of a repository has at most, where a
// registry is known to want no more; 0 for others. Who knows better is asked by
// [Expansion.Check].
func depthOf(host string) int {
	switch host {
	case "docker.io", "index.docker.io", "registry-1.docker.io":
		return 2
	}
	return 0
}

// A PlacementError reports repositories that a registry is known not to take.
type PlacementError struct {
	Host  string
	Most  int // parts of a path
	Names []string
}

func (e *PlacementError) Error() string {
	return fmt.Sprintf("repositories of %s have at most %d parts in their path; nothing was written. These would have more: %s", e.Host, e.Most, strings.Join(e.Names, " "))
}

// Check looks at every tag and asks every repository that lacks something
// whether it can be written to. Nothing is uploaded.
//
// Errors: those of MayMove, joined; *TargetsError; those of looking at a tag.
func (x *Expansion) Check(ctx context.Context, opts ExpandOptions) error {
	looked := make([]error, len(x.repositories))
	err := each(ctx, opts.Concurrency, len(x.repositories), func(ctx context.Context, i int) error {
		looked[i] = x.repositories[i].look(ctx, x.client)
		return ignoreAnswers(looked[i])
	})
	if err != nil {
		return err
	}
	var unfilled []Location
	for i, r := range x.repositories {
		isThere := func(p Placed) bool { return p.State == PlacementThere }
		if looked[i] != nil || slices.ContainsFunc(r.placed, func(p Placed) bool { return !isThere(p) }) {
			unfilled = append(unfilled, r.loc)
		}
	}
	if err := x.client.Probe(ctx, unfilled...); err != nil {
		return err
	}
	if err := errors.Join(looked...); err != nil {
		return err
	}
	return x.checkTags(ctx, opts)
}

// ignoreAnswers leaves a look that the registry denies, or doesn't understand, to
// the probe, which says of all repositories what to do about it.
func ignoreAnswers(err error) error {
	if as[*DeniedError](err) || as[*CredentialsError](err) || as[*ResponseError](err) {
		return nil
	}
	return err
}

// look finds out what the tags name now.
func (r *expandedRepository) look(ctx context.Context, c *Client) error {
	dst, err := c.Update(ctx, r.loc)
	if err != nil {
		return err
	}
	for i := range r.placed {
		p := &r.placed[i]
		now, err := dst.Resolve(ctx, p.Ref.Tag)
		switch {
		case as[*NotFoundError](err):
			p.State, p.Before = PlacementNew, ""
		case err != nil:
			return fmt.Errorf("looking at %s: %w", p.Ref, err)
		case now.Digest == p.Root.Digest:
			p.State, p.Before = PlacementThere, ""
		default:
			p.State, p.Before = PlacementMoved, now.Digest
		}
	}
	return dst.Commit(ctx)
}

// checkTags asks whether all tags that name something else may move.
func (x *Expansion) checkTags(ctx context.Context, opts ExpandOptions) error {
	if opts.MayMove == nil {
		return nil
	}
	var refused []error
	for _, r := range x.repositories {
		dst, err := x.client.Update(ctx, r.loc)
		if err != nil {
			return err
		}
		for _, p := range r.placed {
			if p.State != PlacementMoved {
				continue
			}
			if err := opts.MayMove(ctx, dst, p.Ref.Tag, p.Root); err != nil {
				refused = append(refused, err)
			}
		}
	}
	return errors.Join(refused...)
}

// Compare says what Run would do, and writes nothing. What would be taken over
// within the registry counts as copied.
//
// Errors are those of [CopyPlan.Compare], and those of MayMove, joined.
func (x *Expansion) Compare(ctx context.Context, opts ExpandOptions) (ExpandResult, error) {
	result, err := x.run(ctx, opts, func(ctx context.Context, r *expandedRepository, opts ExpandOptions) (CopyResult, error) {
		if err := r.look(ctx, x.client); err != nil {
			return CopyResult{}, err
		}
		return r.part.Compare(ctx, x.client, r.loc, opts.CopyOptions)
	})
	if err != nil {
		return result, err
	}
	return result, x.checkTags(ctx, opts)
}

// Run brings everything to its place: in each repository as [Copy] does, then
// the tags. What is there already is not sent again, and blobs are taken over
// from other repositories of the registry, as far as it lets them be.
//
// Errors are those of [Copy], and those of MayMove.
func (x *Expansion) Run(ctx context.Context, opts ExpandOptions) (ExpandResult, error) {
	if opts.Mounts == nil {
		opts.Mounts = &Mounts{}
	}
	return x.run(ctx, opts, func(ctx context.Context, r *expandedRepository, opts ExpandOptions) (CopyResult, error) {
		return r.fill(ctx, x.client, opts)
	})
}

// run does something for each repository, some at the same time, and sums up.
func (x *Expansion) run(ctx context.Context, opts ExpandOptions, do func(context.Context, *expandedRepository, ExpandOptions) (CopyResult, error)) (ExpandResult, error) {
	x.planned(opts)
	opts.OnPlanned = nil
	transfers := opts.Concurrency
	if transfers <= 0 {
		transfers = defaultConcurrency
	}
	opts.Concurrency = max(1, min(2, transfers)) // within a repository
	var mu sync.Mutex
	var result ExpandResult
	err := each(ctx, max(1, transfers/opts.Concurrency), len(x.repositories), func(ctx context.Context, i int) error {
		part, err := do(ctx, x.repositories[i], opts)
		mu.Lock()
		defer mu.Unlock()
		result.sum(part)
		if err != nil {
			return fmt.Errorf("expanding to %s: %w", x.repositories[i].loc, err)
		}
		return nil
	})
	for _, r := range x.repositories {
		result.Placed = append(result.Placed, r.placed...)
	}
	slices.SortFunc(result.Placed, func(a, b Placed) int { return strings.Compare(a.Ref.String(), b.Ref.String()) })
	slices.SortStableFunc(result.Attachments, func(a, b Attachment) int { return strings.Compare(a.Subject.String()+a.Tag, b.Subject.String()+b.Tag) })
	return result, err
}

func (x *Expansion) planned(opts ExpandOptions) {
	if opts.OnPlanned == nil {
		return
	}
	var sum Amount
	for _, r := range x.repositories {
		size := r.part.Size()
		sum.Objects, sum.Bytes = sum.Objects+size.Objects, sum.Bytes+size.Bytes
	}
	opts.OnPlanned(sum.Objects, sum.Bytes)
}

// fill brings one repository what it gets. With anchors its roots have theirs too:
// a tag that moves with the next release leaves what it named behind.
func (r *expandedRepository) fill(ctx context.Context, c *Client, opts ExpandOptions) (CopyResult, error) {
	dst, err := c.Update(ctx, r.loc)
	if err != nil {
		return CopyResult{}, err
	}
	result, err := r.part.To(ctx, dst, opts.CopyOptions)
	if err != nil {
		return result, errors.Join(err, dst.Abort())
	}
	if err := r.tag(ctx, c, dst, opts); err != nil {
		return result, errors.Join(err, dst.Abort())
	}
	if opts.AnchorTags {
		n, err := r.anchor(ctx, dst)
		if result.Anchors += n; err != nil {
			return result, errors.Join(err, dst.Abort())
		}
	}
	return result, dst.Commit(ctx)
}

// anchor gives the roots tags made of their digests, and says how many were set.
func (r *expandedRepository) anchor(ctx context.Context, dst *Destination) (int, error) {
	run := &copyRun{plan: r.part, dst: dst}
	for _, root := range r.part.roots {
		if err := run.anchor(ctx, root); err != nil {
			return run.result.Anchors, err
		}
	}
	return run.result.Anchors, nil
}

// tag sets the tags, if nobody else has set them in the meantime.
func (r *expandedRepository) tag(ctx context.Context, c *Client, dst *Destination, opts ExpandOptions) error {
	if err := r.look(ctx, c); err != nil {
		return err
	}
	for _, p := range r.placed {
		if p.State == PlacementThere {
			continue
		}
		if p.State == PlacementMoved && opts.MayMove != nil {
			if err := opts.MayMove(ctx, dst, p.Ref.Tag, p.Root); err != nil {
				return err
			}
		}
		if err := dst.Tag(ctx, p.Root, p.Ref.Tag); err != nil {
			return fmt.Errorf("tagging %s: %w", p.Ref, err)
		}
	}
	return nil
}

func (r *CopyResult) sum(part CopyResult) {
	for to, amount := range map[*Amount]Amount{&r.Copied: part.Copied, &r.Mounted: part.Mounted, &r.Skipped: part.Skipped} {
		to.Objects, to.Bytes = to.Objects+amount.Objects, to.Bytes+amount.Bytes
	}
	r.Anchors += part.Anchors
	r.Attachments = append(r.Attachments, part.Attachments...)
	r.Undetermined = append(r.Undetermined, part.Undetermined...)
	r.LeftOut = append(r.LeftOut, part.LeftOut...)
}
