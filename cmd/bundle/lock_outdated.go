package main

import (
	"context"
	"slices"
	"strings"

	"waybill/internal/flags"
	"waybill/internal/releasefile"
	"waybill/internal/ui"
)

// A behindness is what `lock --outdated` found.
type behindness struct {
	charts []releasefile.Outdated
	images []releasefile.OutdatedImage
}

// outdated lists the locked charts that there is something newer for, and the
// images whose tag moved, and changes nothing.
func (l *locking) outdated(ctx context.Context) error {
	if l.previous != nil {
		l.opts.Packed = l.previous.Packed // nothing is packed here
	}
	if err := l.file.RequireFresh(ctx, l.previous, l.sources(), l.opts); err != nil {
		return l.failed(err)
	}
	found, err := l.lookForNewer(ctx)
	if err != nil {
		return l.failed(err)
	}
	if l.form == flags.JSON {
		err = ui.JSON(l.out, lockResult{
			Lock: l.file.LockPath(), Packed: l.previous.Packed, Charts: l.previous.Charts, Images: l.previous.Images,
			Outdated: found.charts, OutdatedImages: found.images,
		})
	} else {
		err = l.printOutdated(found)
	}
	if err != nil {
		return err
	}
	return found.verdict()
}

func (l *locking) lookForNewer(ctx context.Context) (found behindness, err error) {
	r := startResolving(l.file, l.sources(), l.talk, "looking for newer versions of", "looked for newer versions of")
	defer r.Close()
	if found.charts, err = l.file.Outdated(ctx, l.previous, r.Resolver); err != nil {
		return found, err
	}
	r.end()
	if len(l.previous.Images) == 0 {
		return found, nil
	}
	step := l.talk.Progress(ui.Step{Doing: "asking what the tags of images name now", Did: "asked what the tags of images name now"})
	defer step.Close()
	if found.images, err = l.file.OutdatedImages(ctx, l.client, l.previous); err != nil {
		return found, err
	}
	step.End()
	return found, nil
}

func (l *locking) printOutdated(found behindness) error {
	for _, o := range found.charts {
		if _, err := ui.Printf(l.out, "%s: %s\n", o.Component, o); err != nil {
			return err
		}
	}
	for _, o := range found.images {
		if _, err := ui.Printf(l.out, "image %s: %s\n", o.Reference, o); err != nil {
			return err
		}
	}
	if len(found.charts)+len(found.images) == 0 {
		l.talk.Sayf("nothing newer is there")
	}
	return nil
}

// verdict is the exit code of --outdated; the list is on stdout.
func (b behindness) verdict() error {
	e := &outdatedError{}
	for _, o := range b.charts {
		if o.Behind() {
			e.behind = append(e.behind, o.Component)
			e.components = append(e.components, o.Component)
		}
	}
	for _, o := range b.images {
		if o.Behind() {
			e.behind = append(e.behind, "image "+o.Reference)
			if o.Gone {
				e.gone = append(e.gone, o.Reference)
				continue
			}
			e.components = append(e.components, o.Components...)
			e.everything = e.everything || len(o.Components) == 0
		}
	}
	if len(e.behind) == 0 {
		return nil
	}
	return e
}

// An outdatedError says that a lock would change if it were updated.
type outdatedError struct {
	behind     []string // components, and images
	components []string // that bring it up to date
	everything bool     // some image is of no component
	gone       []string // images whose tag an update would not find
}

func (e *outdatedError) Error() string {
	return "there is something newer, or something else, than is locked for " + strings.Join(e.behind, ", ")
}

// ExitCode is that of differences.
func (e *outdatedError) ExitCode() int { return ui.ExitDiffers }

// Hint says what brings the lock up to date.
func (e *outdatedError) Hint() string {
	if len(e.gone) == 0 {
		return e.update()
	}
	mend := "an update does not find " + strings.Join(e.gone, ", ") + ": first name another tag or the locked digest, in the chart's values or under images"
	if !e.everything && len(e.components) == 0 {
		return mend
	}
	return mend + "; then " + e.update()
}

func (e *outdatedError) update() string {
	words := "bundle lock --update"
	if !e.everything {
		names := slices.Compact(slices.Sorted(slices.Values(e.components)))
		words += " " + strings.Join(names, " ")
	}
	return "`" + words + "` locks what is there now, as far as the release file allows it"
}
