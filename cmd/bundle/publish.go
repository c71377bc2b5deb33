package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"waybill/bundle"
	"waybill/internal/flags"
	"waybill/internal/releasefile"
	"waybill/internal/ui"
	"waybill/registry"
	"waybill/signing"
)

// A publisher brings one packed bundle to places.
type publisher struct {
	client      *registry.Client
	packed      *bundle.Packed
	cargo       *releasefile.Cargo // the images, which are no part of packed
	leftOut     []bundle.LeftOutImage
	lock        *bundle.Lock
	signers     []*signing.Signer
	sign        signOptions
	overwrite   bool
	anchor      bool // tag everything below the root too
	concurrency int
	talk        *ui.Talk
}

// A published bundle is what `build` says of one destination in JSON.
type published struct {
	Repository string `json:"repository"`
	Digest     string `json:"digest"`
	Tag        string `json:"tag"`
	Reference  string `json:"reference"`
	Size       int64  `json:"size"`

	Packed  string               `json:"packed"` // images or charts
	Charts  []bundle.LockedChart `json:"charts"`
	Images  []bundle.LockedImage `json:"images,omitempty"`
	Pushed  registry.Amount      `json:"pushed"`  // sent, or taken over from another repository there
	Present registry.Amount      `json:"present"` // there already
	Signed  []signedDigest       `json:"signed,omitempty"`

	Attachments  attachmentCount         `json:"attachments"` // of the images, from where they are
	Undetermined []registry.Undetermined `json:"undetermined,omitempty"`
	LeftOut      []bundle.LeftOutImage   `json:"leftOut,omitempty"`
	StaysBehind  []string                `json:"staysBehind,omitempty"` // what hangs on images of which some platforms are carried
}

// A destination is a place to publish to, looked at before anything is written.
type destination struct {
	loc  registry.Location // with its tag or name
	tag  string
	held []ocispec.Descriptor // what an archive or layout holds now
	add  bool                 // an archive that holds this bundle already and keeps what is in it

	refused error // what keeps anything from being written here, found before
}

// publishAll looks at every place first, so that one that refuses the bundle
// is found before another holds it, then publishes to each, past those that fail
// all the same, and prints where.
func (p publisher) publishAll(ctx context.Context, to []registry.Location, out io.Writer, form flags.Form) error {
	destinations, err := p.examineAll(ctx, to)
	if err != nil {
		return err
	}
	var done []published
	var failed []error
	for _, d := range destinations {
		result, err := p.publish(ctx, d)
		if ctx.Err() != nil {
			return errors.Join(append(failed, err)...)
		}
		if err != nil {
			failed = append(failed, err)
			if len(destinations) > 1 {
				p.talk.Warnf("not published to %s: %v", d.loc, err)
			}
			continue
		}
		done = append(done, result)
		if form == flags.Text {
			if _, err := ui.Println(out, result.Reference); err != nil {
				return err
			}
		}
	}
	if form == flags.JSON {
		if err := printPublished(out, done, len(to)); err != nil {
			return err
		}
	}
	return someFailed(failed, len(to))
}

func places(destinations []destination) string {
	names := make([]string, len(destinations))
	for i, d := range destinations {
		names[i] = d.loc.String()
	}
	return strings.Join(names, ", ")
}

// printPublished prints one document: of one place the object, of several a list.
func printPublished(out io.Writer, done []published, asked int) error {
	switch {
	case asked > 1 && len(done) > 0:
		return ui.JSON(out, done)
	case len(done) == 1:
		return ui.JSON(out, done[0])
	}
	return nil
}

// examineAll names the bundle at every place and refuses what would not be
// honoured or would lose something there. Nothing is left of it but the
// knowledge that all of them can be written to.
func (p publisher) examineAll(ctx context.Context, to []registry.Location) ([]destination, error) {
	var all []destination
	for _, loc := range to {
		d, err := p.name(ctx, loc)
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	step := p.talk.Progress(ui.Step{Doing: "looking at " + places(all), Brief: true})
	defer step.Close()
	if err := p.client.Probe(ctx, to...); err != nil {
		return nil, err
	}
	shape := registry.ShapeOf(p.packed.Index(), bundle.ArtifactTypeRelease)
	if err := p.client.ProbeShape(ctx, shape, p.packed.Root, to...); err != nil {
		return nil, err
	}
	for i := range all {
		if err := p.examine(ctx, &all[i]); err != nil {
			return nil, err
		}
	}
	step.End()
	return all, nil
}

// name gives the bundle its name at a place, and says what a local place holds.
func (p publisher) name(ctx context.Context, loc registry.Location) (destination, error) {
	if loc.Digest != "" && loc.Digest != p.packed.Root.Digest {
		return destination{}, flags.Usagef("%s names the digest of another bundle: what is built is %s", loc, p.packed.Root.Digest)
	}
	loc, tag, err := nameDestination(loc, p.lock.Release)
	if err != nil {
		return destination{}, err
	}
	held, err := p.client.Held(ctx, loc)
	return destination{loc: loc, tag: tag, held: held}, err
}

// examine looks at what the bundle's name names now.
func (p publisher) examine(ctx context.Context, d *destination) error {
	var names tagResolver = heldNames(d.held)
	if d.loc.Kind == registry.Registry {
		dst, err := p.client.Create(ctx, d.loc)
		if err != nil {
			return err
		}
		names = dst
	}
	if err := p.guard(d.loc).check(ctx, names, d.tag, p.packed.Root, p.talk); err != nil {
		return err
	}
	if d.loc.Kind == registry.Archive {
		d.add = p.sayReplaced(d.loc, d.held)
	}
	return nil
}

func (p publisher) guard(at registry.Location) tagGuard {
	return tagGuard{at: at, release: p.lock.Release, overwrite: p.overwrite, replaces: at.Kind == registry.Archive}
}

// sayReplaced says what an archive holds that will be gone, and reports whether
// it holds this bundle and nothing else: then its signatures stay.
func (p publisher) sayReplaced(loc registry.Location, held []ocispec.Descriptor) bool {
	other := func(desc ocispec.Descriptor) bool { return desc.Digest != p.packed.Root.Digest }
	if !slices.ContainsFunc(held, other) {
		return len(held) > 0
	}
	sayReplaced(p.talk, loc, held)
	return false
}

func sayReplaced(talk *ui.Talk, loc registry.Location, held []ocispec.Descriptor) {
	var gone []string
	for _, desc := range held {
		gone = append(gone, strings.TrimSpace(desc.Annotations[ocispec.AnnotationRefName]+" "+desc.Digest.String()))
	}
	talk.Sayf("%s is replaced; it held %s", loc, strings.Join(gone, ", "))
}

// publish brings the bundle to one place: blobs, children, root, read-back,
// signatures, and the tag last. What is at the place before the last step is
// found by no tag.
func (p publisher) publish(ctx context.Context, d destination) (result published, err error) {
	open := p.client.Create
	if d.add {
		open = p.client.Update
	}
	dst, err := open(ctx, d.loc)
	if err != nil {
		return result, err
	}
	dst.Resume = resumeHooks(p.talk)
	defer func() {
		if err != nil {
			err = errors.Join(err, dst.Abort())
		}
	}()
	root := p.packed.Root
	result = published{
		Repository: repositoryOf(d.loc), Digest: root.Digest.String(), Tag: d.tag,
		Reference: d.loc.WithDigest(root.Digest).String(), Size: root.Size,
		Packed: p.lock.Packed, Charts: p.lock.Charts, Images: p.lock.Images, LeftOut: p.leftOut, StaysBehind: p.cargo.Behind(),
	}
	carried, err := p.carryImages(ctx, dst, &result)
	if err != nil {
		return result, err
	}
	defer func() { carried(err == nil) }()
	if err := p.push(ctx, dst, &result); err != nil {
		return result, err
	}
	for _, signer := range p.signers {
		signed, err := signEach(ctx, dst, root, signer, p.sign, p.talk)
		if err != nil {
			return result, err
		}
		result.Signed = append(result.Signed, signed...)
	}
	if err := p.anchorAll(ctx, dst); err != nil {
		return result, err
	}
	if err := p.tag(ctx, dst, d); err != nil {
		return result, err
	}
	return result, nil
}

// push brings everything but the signatures and the tag to dst.
func (p publisher) push(ctx context.Context, dst *registry.Destination, result *published) error {
	what := fmt.Sprintf("%s %s to %s", p.lock.Release.Name, p.lock.Release.Version, dst.Location)
	parts, bytes := p.packed.Amount()
	step := p.talk.Progress(ui.Step{Doing: "pushing " + what, Did: "pushed " + what, Unit: "part", Items: parts, Bytes: bytes})
	defer step.Close()
	var mu sync.Mutex
	var pushed, present registry.Amount
	done := func(desc ocispec.Descriptor, to *registry.Amount) {
		mu.Lock()
		to.Objects, to.Bytes = to.Objects+1, to.Bytes+desc.Size
		mu.Unlock()
		step.Advance(desc.Size)
		step.Finish(desc.Digest.String())
	}
	err := p.packed.Push(ctx, dst, bundle.BuildOptions{
		OnPush:     func(desc ocispec.Descriptor) { step.Start(desc.Digest.String()) },
		OnPushed:   func(desc ocispec.Descriptor) { done(desc, &pushed) },
		OnSkipped:  func(desc ocispec.Descriptor) { done(desc, &present) },
		OnReadBack: func(desc ocispec.Descriptor) { step.Waiting("the read-back of " + desc.Digest.String()) },
	})
	if err != nil && dst.Location.Kind == registry.Registry {
		return fmt.Errorf("%w; %d of %d parts are there and need not be sent again", err, pushed.Objects+present.Objects, parts)
	}
	if err != nil {
		return err
	}
	if n := present.Objects; n > 0 {
		step.Notef("%d of them there already", n)
	}
	result.pushed(pushed, present)
	step.End()
	return nil
}

// pushed adds to what was pushed, and to what was there.
func (r *published) pushed(pushed, present registry.Amount) {
	r.Pushed.Objects, r.Pushed.Bytes = r.Pushed.Objects+pushed.Objects, r.Pushed.Bytes+pushed.Bytes
	r.Present.Objects, r.Present.Bytes = r.Present.Objects+present.Objects, r.Present.Bytes+present.Bytes
}

// anchorAll tags everything below the root, signatures too, in a registry.
func (p publisher) anchorAll(ctx context.Context, dst *registry.Destination) error {
	if !p.anchor || dst.Location.Kind != registry.Registry {
		return nil
	}
	step := p.talk.Progress(ui.Step{Doing: "anchoring what " + dst.Location.String() + " is made of", Did: "anchored what " + dst.Location.String() + " is made of"})
	defer step.Close()
	at := dst.Location.WithDigest(p.packed.Root.Digest)
	at.Ref.Tag = "" // it comes last
	src, err := p.client.Open(ctx, at)
	if err != nil {
		return err
	}
	plan, err := registry.PlanCopy(ctx, src, []ocispec.Descriptor{src.Root}, registry.CopyOptions{Concurrency: p.concurrency})
	if err != nil {
		return errors.Join(err, src.Close())
	}
	n, err := plan.Anchor(ctx, dst, registry.CopyOptions{Concurrency: p.concurrency})
	if err := errors.Join(err, src.Close()); err != nil {
		return err
	}
	step.Notef("%s", ui.Count(n, "tag"))
	step.End()
	return nil
}

// tag gives the bundle its name, last.
func (p publisher) tag(ctx context.Context, dst *registry.Destination, d destination) error {
	words := [2]string{"tagging ", "tagged "}
	if d.loc.Kind == registry.Archive { // now it is written
		words = [2]string{"writing ", "wrote "}
	}
	step := p.talk.Progress(ui.Step{Doing: words[0] + d.loc.String(), Did: words[1] + d.loc.String()})
	defer step.Close()
	// Somebody else may have published under the tag in the meantime.
	if _, err := p.guard(d.loc).moves(ctx, dst, d.tag, p.packed.Root); err != nil {
		return err
	}
	if err := dst.Tag(ctx, p.packed.Root, d.tag); err != nil {
		return fmt.Errorf("tagging %s: %w", d.loc, err)
	}
	if err := dst.Commit(ctx); err != nil {
		return err
	}
	step.End()
	return nil
}
