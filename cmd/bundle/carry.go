package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"waybill/internal/flags"
	"waybill/internal/releasefile"
	"waybill/internal/ui"
	"waybill/registry"
)

func foreignFlag() cli.Flag {
	return &cli.StringFlag{Name: "foreign-layers", Usage: "what becomes of layers that may not be given on, such as those of Windows: `include|omit`"}
}

// foreignChoice reads --foreign-layers; empty is no choice.
func foreignChoice(c *cli.Context) (string, error) {
	switch choice := c.String("foreign-layers"); choice {
	case "", releasefile.ForeignInclude, releasefile.ForeignOmit:
		return choice, nil
	default:
		return "", &flags.UsageError{Message: fmt.Sprintf("--foreign-layers %q is unknown", choice), Hint: "it is include or omit"}
	}
}

func attachmentsFlag() cli.Flag {
	return &cli.BoolFlag{Name: "with-attachments", Value: true, Usage: "carry the signatures, SBOMs and attestations of images too; --with-attachments=false leaves them"}
}

// readCargo finds out all that the images consist of, before any of it moves, and
// says what will not come along.
func readCargo(ctx context.Context, client *registry.Client, origins []releasefile.ImageOrigin, opts buildOptions, talk *ui.Talk) (*releasefile.Cargo, error) {
	settings := releasefile.CargoOptions{Concurrency: opts.settings.Concurrency, WithoutAttachments: !opts.attachments, Foreign: opts.foreign}
	if len(origins) == 0 {
		return releasefile.ReadCargo(ctx, client, nil, settings)
	}
	step := talk.Progress(ui.Step{Doing: "reading the images", Did: "read the images", Unit: "image", Items: len(origins)})
	defer step.Close()
	settings.OnRead = step.Finish
	cargo, err := releasefile.ReadCargo(ctx, client, origins, settings)
	if err != nil {
		return nil, err
	}
	size := cargo.Plan.Size()
	step.Notef("%s, %s", ui.Count(size.Objects, "object"), ui.Size(size.Bytes))
	step.End()
	sayStaysBehind(talk, cargo.Behind())
	undetermined := undeterminedLines(cargo.Plan.Undetermined())
	for _, line := range undetermined {
		talk.Warnf("%s", line)
	}
	if opts.strict && len(undetermined) > 0 {
		err := &undeterminedError{count: len(undetermined), location: "the images of the release"}
		return nil, errors.Join(err, cargo.Close())
	}
	return cargo, nil
}

// manyLines are the most that are said of one kind; the JSON has all.
const manyLines = 5

// sayStaysBehind says what hangs on images and is not carried.
func sayStaysBehind(talk *ui.Talk, lines []string) {
	for _, line := range lines[:min(manyLines, len(lines))] {
		talk.Warnf("%s", line)
	}
	if more := len(lines) - manyLines; more > 0 {
		talk.Warnf("and so it is with %s; -o json lists all", ui.Count(more, "more image"))
	}
}

// carryImages copies the images to dst byte for byte, with what hangs on them,
// before anything there names them. An archive reads what it was promised when it
// is committed: done ends the showing, and says whether all is through.
func (p publisher) carryImages(ctx context.Context, dst *registry.Destination, to *published) (done func(through bool), err error) {
	if p.cargo.Empty() {
		return func(bool) {}, nil
	}
	what := fmt.Sprintf("%s to %s", ui.Count(p.cargo.Images(), "image"), dst.Location)
	step := p.talk.Progress(ui.Step{Doing: "copying " + what, Did: "copied " + what, Unit: "object"})
	result, err := p.cargo.Plan.To(ctx, dst, showCopy(step, registry.CopyOptions{Concurrency: p.concurrency}))
	to.carried(result)
	if err != nil {
		step.Close()
		return nil, err
	}
	done = func(through bool) {
		if through {
			noteCopy(step, result)
			step.End()
		}
		step.Close()
	}
	if dst.Location.Kind != registry.Archive {
		done(true)
	}
	return done, nil
}

// carried adds what a copy of the images did.
func (r *published) carried(result registry.CopyResult) {
	r.pushed(result.Copied, result.Skipped)
	r.pushed(result.Mounted, registry.Amount{})
	r.Attachments = countAttachments(result.Attachments, func(registry.Attachment) bool { return true })
	r.Undetermined = result.Undetermined
}
