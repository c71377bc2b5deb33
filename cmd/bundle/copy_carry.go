package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"waybill/bundle"
	"waybill/internal/door"
	"waybill/internal/flags"
	"waybill/internal/ui"
	"waybill/registry"
)

// toAll copies to one place after the other and goes on past those that fail.
func (c copier) toAll(ctx context.Context, destinations []destination, x *expander, out io.Writer) error {
	if err := x.check(ctx, c); err != nil {
		return err
	}
	if err := c.probeShape(ctx, destinations); err != nil {
		return err
	}
	result := c.result()
	var failed []error
	var holders []destination
	for i, d := range destinations {
		at, err := c.toOne(ctx, d)
		if err != nil {
			at.Error = err.Error()
			failed = append(failed, err)
			if len(destinations) > 1 {
				c.talk.Warnf("not %s to %s: %v", c.words.did, d.loc, err)
			}
		} else if holders = append(holders, d); c.form == flags.Text {
			if _, err := ui.Println(out, at.Reference); err != nil {
				return err
			}
		}
		result.Destinations = append(result.Destinations, at)
		if ctx.Err() != nil && i+1 < len(destinations) {
			break
		}
	}
	of := len(destinations)
	if x != nil && len(holders) > 0 { // else there was nothing to expand
		of++
	}
	if err := c.expandAll(ctx, x, holders, out, &result); err != nil {
		failed = append(failed, err)
		if c.dryRun { // nothing was done of which this is a part
			failed, of = []error{err}, 1
		}
	}
	if c.form == flags.JSON {
		if err := ui.JSON(out, result); err != nil {
			return err
		}
	}
	return someFailed(failed, of)
}

// probe finds out which destinations can be written to, before one of them is.
// A single one that can't is an error.
func (c copier) probe(ctx context.Context, destinations []destination) error {
	if c.dryRun {
		return nil
	}
	if c.split > 0 {
		return c.checkLocal(ctx, c.client) // a file of the archive's own name is none of the volumes
	}
	return refuse(ctx, destinations, c.client.ProbeEach)
}

// checkLocal refuses a single file or folder that nothing can be written to,
// before the source is asked for anything.
func (o copyOptions) checkLocal(ctx context.Context, client *registry.Client) error {
	switch {
	case len(o.to) != 1 || o.to[0].Kind == registry.Registry:
		return nil
	case o.split > 0:
		return registry.CheckFile(o.to[0])
	}
	return client.Probe(ctx, o.to[0])
}

// probeShape finds out which of them take what is going to be sent.
func (c copier) probeShape(ctx context.Context, destinations []destination) error {
	if c.dryRun || noneTakes(destinations) {
		return nil
	}
	return refuse(ctx, destinations, func(ctx context.Context, all ...registry.Location) []error {
		return c.client.ProbeShapeEach(ctx, c.shape(), c.source.Root, all...)
	})
}

// refuse asks about those that nothing is known against, and notes at each what
// is.
func refuse(ctx context.Context, destinations []destination, ask func(context.Context, ...registry.Location) []error) error {
	var asked []*destination
	var at []registry.Location
	for i := range destinations {
		if d := &destinations[i]; d.refused == nil {
			asked, at = append(asked, d), append(at, d.loc)
		}
	}
	for i, err := range ask(ctx, at...) {
		asked[i].refused = err
	}
	if len(destinations) == 1 {
		return destinations[0].refused
	}
	return ctx.Err()
}

// noneTakes says whether nothing can be written anywhere.
func noneTakes(destinations []destination) bool {
	return !slices.ContainsFunc(destinations, func(d destination) bool { return d.refused == nil })
}

// shape is what of a bundle some registries refuse, and of any other index that
// holds one.
func (c copier) shape() registry.Shape {
	if b := c.source.Bundle; b != nil {
		return registry.ShapeOf(b.RootBytes, bundle.ArtifactTypeRelease)
	}
	return c.plan.Shape(c.source.Root)
}

// someFailed is the error of a whole run: of one destination its own.
func someFailed(failed []error, of int) error {
	switch {
	case len(failed) == 0:
		return nil
	case len(failed) == of:
		return allTargets(failed)
	}
	return &partlyDoneError{failed: len(failed), of: of, first: failed[0]}
}

// allTargets is the first of several errors. Repositories that must be created or
// granted are one list.
func allTargets(failed []error) error {
	if !errors.As(failed[0], new(*registry.TargetsError)) {
		return failed[0]
	}
	all := &registry.TargetsError{}
	seen := map[string]bool{}
	for _, err := range failed {
		var targets *registry.TargetsError
		if !errors.As(err, &targets) {
			continue
		}
		for _, t := range targets.Targets {
			if !seen[t.Name()] {
				all.Targets = append(all.Targets, t)
			}
			seen[t.Name()] = true
		}
	}
	return all
}

// A partlyDoneError reports that some of several destinations have it and some
// have not.
type partlyDoneError struct {
	failed, of int
	first      error
}

func (e *partlyDoneError) Error() string {
	return fmt.Sprintf("%d of %d destinations failed; the first: %v", e.failed, e.of, e.first)
}

// ExitCode is that of something done and something failed.
func (e *partlyDoneError) ExitCode() int { return ui.ExitPartial }

// Hint says what to type next.
func (e *partlyDoneError) Hint() string {
	return "once that is mended, run the same command again: what is there is not sent again"
}

// toOne copies to one place.
func (c copier) toOne(ctx context.Context, d destination) (copiedTo, error) {
	at := copiedTo{
		Reference: d.loc.WithDigest(c.source.Root.Digest).String(), Repository: repositoryOf(d.loc), Tag: d.tag,
		Digest: c.source.Root.Digest.String(), DryRun: c.dryRun,
	}
	if d.refused != nil {
		return at, d.refused
	}
	if samePlace(c.source.Location, d.loc) {
		c.talk.Warnf("%s is where it is copied from: only its tag can change", d.loc)
	}
	if c.dryRun {
		return c.compare(ctx, d, at)
	}
	return c.carry(ctx, d, at)
}

func samePlace(a, b registry.Location) bool {
	if a.Kind != b.Kind {
		return false
	}
	if a.Kind == registry.Registry {
		return a.Ref.Name() == b.Ref.Name()
	}
	return a.SamePath(b)
}

// compare says what carry would do.
func (c copier) compare(ctx context.Context, d destination, at copiedTo) (copiedTo, error) {
	if c.split > 0 {
		return c.compareVolumes(ctx, d, at)
	}
	names, err := c.namesAt(ctx, d.loc)
	if err == nil {
		err = c.checkTag(ctx, names, d)
	}
	if err != nil {
		return at, err
	}
	settings := c.copySettings()
	if c.create != nil {
		delta, err := c.leaveOut(ctx)
		if err != nil {
			return at, err
		}
		at.Delta, settings.Delta = deltaResultOf(delta), delta
	}
	result, err := c.plan.Compare(ctx, c.client, d.loc, settings)
	if err != nil {
		return at, err
	}
	at.take(result)
	c.talk.Sayf("would %s %s to %s: %s, %s of %s; %s there already", c.words.do, c.what(), d.loc,
		ui.Count(result.Copied.Objects, "object"), ui.Size(result.Copied.Bytes), ui.Size(c.plan.Size().Bytes), ui.Count(result.Skipped.Objects, "object"))
	return at, nil
}

// namesAt are the names at a place that nobody has opened for writing.
func (c copier) namesAt(ctx context.Context, loc registry.Location) (tagResolver, error) {
	if loc.Kind == registry.Registry {
		return c.client.Create(ctx, loc)
	}
	held, err := c.client.Held(ctx, loc)
	return heldNames(held), err
}

// carry brings everything to one place: content, then what hangs on it, then it
// is looked at as anybody would who opens it there, and the tag comes last.
func (c copier) carry(ctx context.Context, d destination, at copiedTo) (_ copiedTo, err error) {
	dst, err := c.open(ctx, d)
	if err != nil {
		return at, err
	}
	dst.Resume = c.resume(&at)
	defer func() {
		if err != nil {
			err = errors.Join(err, dst.Abort())
		}
	}()
	if err := c.checkTag(ctx, dst, d); err != nil {
		return at, err
	}
	if err := c.source.Source.CheckBase(ctx, dst, c.settings.Concurrency); err != nil {
		return at, err
	}
	sending := c.sending(d)
	defer sending.Close()
	result, err := c.send(ctx, dst, sending)
	at.take(result)
	if err != nil && d.loc.Kind == registry.Registry {
		there := result.Copied.Objects + result.Mounted.Objects + result.Skipped.Objects
		return at, fmt.Errorf("%w; %d of %s are there and need not be sent again", err, there, ui.Count(c.plan.Size().Objects, "object"))
	}
	if err != nil {
		return at, err
	}
	examined, err := door.Examine(ctx, dst, c.source.Root, d.loc.String(), c.door())
	if err != nil {
		return at, fmt.Errorf("what was copied to %s: %w", d.loc, err)
	}
	at.Verification = &examined.Verification
	if lost := missingFrom(examined.Verification.Signers, c.source.Verification.Signers); len(lost) > 0 {
		return at, fmt.Errorf("%s was copied, but there it is not signed by %s any more", d.loc, strings.Join(lost, ", "))
	}
	if err := c.publish(ctx, d, dst); err != nil {
		return at, err
	}
	if at.There {
		result = wasThere(result, c.plan.Size())
		at.take(result)
		c.sayLeft(d, dst.Left())
	}
	if volumes := dst.Volumes(); volumes != nil {
		result.Copied, result.Skipped = volumes.Written, volumes.Kept
		at.Copied, at.Skipped = result.Copied, result.Skipped
	}
	if at.Resumed != nil {
		result.Copied.Bytes -= at.Resumed.Bytes
		sending.Notef("%s kept from before", ui.Size(at.Resumed.Bytes))
	}
	c.sent(sending, result)
	if err := c.forgetPieces(ctx, d, dst); err != nil {
		return at, err
	}
	if c.wrote != nil {
		return at, c.wrote(ctx, c, d, dst, &at)
	}
	return at, nil
}

// open opens a place for writing: what is there stays, unless the verb has it
// otherwise.
func (c copier) open(ctx context.Context, d destination) (*registry.Destination, error) {
	if c.create != nil {
		return c.create(ctx, c, d)
	}
	return c.client.Update(ctx, d.loc)
}

func missingFrom(have, want []string) []string {
	has := map[string]bool{}
	for _, name := range have {
		has[name] = true
	}
	var missing []string
	for _, name := range want {
		if !has[name] {
			missing = append(missing, name)
		}
	}
	return missing
}

// publish sets the tag, if nobody else has set it in the meantime.
func (c copier) publish(ctx context.Context, d destination, dst *registry.Destination) error {
	if d.tag == "" {
		if d.loc.Kind == registry.Registry {
			c.talk.Warnf("%s has no tag: nothing but the digest leads to it, and a registry may collect it as garbage", d.loc.WithDigest(c.source.Root.Digest))
		}
		if err := dst.Keep(ctx, c.source.Root); err != nil {
			return err
		}
		return dst.Commit(ctx)
	}
	if _, err := c.guard(d.loc).moves(ctx, dst, d.tag, c.source.Root); err != nil {
		return err
	}
	if err := dst.Tag(ctx, c.source.Root, d.tag); err != nil {
		return fmt.Errorf("tagging %s: %w", d.loc, err)
	}
	return dst.Commit(ctx)
}

func (c copier) guard(at registry.Location) tagGuard {
	guard := tagGuard{at: at, overwrite: c.overwrite, replaces: c.create != nil}
	if c.source.Bundle != nil {
		guard.release = c.source.Bundle.Lock.Release
	}
	return guard
}

func (c copier) checkTag(ctx context.Context, names tagResolver, d destination) error {
	if d.tag == "" {
		return nil
	}
	return c.guard(d.loc).check(ctx, names, d.tag, c.source.Root, c.talk)
}

func (c copier) copySettings() registry.CopyOptions {
	return registry.CopyOptions{Concurrency: c.settings.Concurrency, AnchorTags: c.anchorTags}
}

// what is copied, for people.
func (c copier) what() string {
	if c.source.Bundle == nil {
		return c.source.Root.Digest.String()
	}
	release := c.source.Bundle.Lock.Release
	return release.Name + " " + release.Version
}

// sending shows the progress to one place. An archive gets what it was promised
// when it is committed, so that the end is after that.
func (c copier) sending(d destination) *ui.Progress {
	return c.talk.Progress(ui.Step{
		Doing: fmt.Sprintf("%s %s to %s", c.words.doing, c.what(), d.loc), Did: fmt.Sprintf("%s %s to %s", c.words.did, c.what(), d.loc), Unit: "object",
	})
}

// send copies with its progress shown.
func (c copier) send(ctx context.Context, dst *registry.Destination, progress *ui.Progress) (registry.CopyResult, error) {
	return c.plan.To(ctx, dst, showCopy(progress, c.copySettings()))
}

// sent says what was sent.
func (c copier) sent(progress *ui.Progress, result registry.CopyResult) {
	noteCopy(progress, result)
	progress.End()
	for _, desc := range result.LeftOut {
		c.talk.Warnf("layer %s may not be given on and was left out: who runs the image fetches it from its addresses", desc.Digest)
	}
}
