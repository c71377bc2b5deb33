package main

import (
	"context"
	"fmt"
	"strings"

	"waybill/internal/flags"
	"waybill/internal/releasefile"
	"waybill/internal/ui"
)

// outdated lists the locked charts that there is something newer for, and
// changes nothing.
func (l *locking) outdated(ctx context.Context) error {
	if l.previous != nil {
		l.opts.Packed = l.previous.Packed // nothing is packed here
	}
	if err := l.file.RequireFresh(ctx, l.previous, l.sources(), l.opts); err != nil {
		return l.failed(err)
	}
	r := startResolving(l.file, l.sources(), l.talk, "looking for newer versions of", "looked for newer versions of")
	defer r.Close()
	found, err := l.file.Outdated(ctx, l.previous, r.Resolver)
	if err != nil {
		return l.failed(err)
	}
	r.end()
	if l.form == flags.JSON {
		err = ui.JSON(l.out, lockResult{Lock: l.file.LockPath(), Packed: l.previous.Packed, Charts: l.previous.Charts, Outdated: found})
	} else {
		err = l.printOutdated(found)
	}
	if err != nil {
		return err
	}
	return behind(found)
}

func (l *locking) printOutdated(found []releasefile.Outdated) error {
	for _, o := range found {
		if _, err := fmt.Fprintf(l.out, "%s: %s\n", o.Component, o); err != nil {
			return err
		}
	}
	if len(found) == 0 {
		l.talk.Sayf("nothing newer is there")
	}
	return nil
}

// behind is the exit code of --outdated; the list is on stdout.
func behind(found []releasefile.Outdated) error {
	var names []string
	for _, o := range found {
		if o.Behind() {
			names = append(names, o.Component)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return &outdatedError{names}
}

// An outdatedError says that a lock would change if it were updated.
type outdatedError struct{ components []string }

func (e *outdatedError) Error() string {
	return "there is something newer, or something else, than is locked for " + strings.Join(e.components, ", ")
}

// ExitCode is that of differences.
func (e *outdatedError) ExitCode() int { return ui.ExitDiffers }

// Hint says what brings the lock up to date.
func (e *outdatedError) Hint() string {
	return "`bundle lock --update " + strings.Join(e.components, " ") + "` locks the newest that is allowed"
}
