package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"waybill/bundle"
	"waybill/internal/door"
	"waybill/internal/flags"
	"waybill/internal/ui"
	"waybill/registry"
	"waybill/signing"
)

func partialFlag() cli.Flag {
	return &cli.BoolFlag{Name: "partial", Usage: "bring what the volumes given here hold; the last one publishes"}
}

// checkPartial refuses what --partial can't do: what earlier volumes brought is
// known to one registry.
func (o copyOptions) checkPartial() error {
	switch {
	case !o.partial:
		return nil
	case len(o.to) > 1:
		return flags.Usagef("--partial goes to one destination; give the others commands of their own")
	case o.to[0].Kind != registry.Registry:
		return flags.Usagef("--partial goes to a registry, and %s is none: name all volumes at once", o.to[0])
	case o.expand != "":
		return &flags.UsageError{
			Message: "--partial and --expand don't go together: names are given once everything is there",
			Hint:    fmt.Sprintf("load all volumes, then `bundle copy %[1]s %[1]s --expand %[2]s`", o.to[0], o.expand),
		}
	case o.from.Kind != registry.Archive:
		return flags.Usagef("--partial is about volumes of an archive, and %s is none", o.from)
	}
	for _, l := range o.files {
		if registry.IsWhole(l.Path) {
			return &flags.UsageError{Message: fmt.Sprintf("%s is no volume but a whole archive, and --partial is about volumes", l), Hint: "leave out --partial"}
		}
	}
	return nil
}

// splitLoaded tells the files of `load` from its destinations: the first word and
// the volumes that follow it are files. Beside volumes so is a file that is too
// damaged to say what it is: no destination, which would be a whole archive.
func splitLoaded(words []string) (files, destinations []registry.Location, err error) {
	all, err := flags.Locations(words)
	if err != nil {
		return nil, nil, err
	}
	n := 1
	for n < len(all) && all[0].Kind == registry.Archive && all[n].Kind == registry.Archive && isLoaded(all[0].Path, all[n].Path) {
		n++
	}
	return all[:n], all[n:], nil
}

// isLoaded says whether a file is a volume, or what became of one.
func isLoaded(first, path string) bool {
	if registry.IsVolume(path) {
		return true
	}
	if registry.VolumesOf(first)[0] == first && !registry.IsVolume(first) {
		return false
	}
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && !registry.IsWhole(path)
}

// openLoaded opens the volumes that were named, or the one place.
func (o copyOptions) openLoaded(ctx context.Context, client *registry.Client) (*registry.Source, error) {
	if len(o.files) < 2 && !o.partial {
		return client.Open(ctx, o.from)
	}
	return client.OpenVolumes(ctx, o.volumes(), o.partial)
}

// volumes are all that were named, with those that an archive's path stands for.
func (o copyOptions) volumes() []registry.Location {
	var all []registry.Location
	for _, l := range o.files {
		for _, path := range registry.VolumesOf(l.Path) {
			at := l
			at.Path = path
			all = append(all, at)
		}
	}
	return all
}

// checkVolumes reads volumes before anything is sent, so that the one that is
// damaged is known while it can still be made again.
func (c copier) checkVolumes(ctx context.Context) error {
	return checkVolumes(ctx, c.source.Source, c.talk)
}

func checkVolumes(ctx context.Context, src *registry.Source, talk *ui.Talk) error {
	volumes := src.Volumes()
	if volumes == nil {
		return nil
	}
	size := int64(0)
	for _, f := range volumes.Files {
		size += f.Size
	}
	what := fmt.Sprintf("%s of %s", ui.Count(len(volumes.Files), "volume"), volumes.Archive)
	progress := talk.Progress(ui.Step{Doing: "checking " + what, Did: "checked " + what, Bytes: size})
	defer progress.Close()
	if err := src.CheckVolumes(ctx, func(n int) { progress.Advance(int64(n)) }); err != nil {
		return err
	}
	progress.End()
	return nil
}

// A depositResult is what `load --partial` says in JSON as long as volumes are
// missing.
type depositResult struct {
	Source      string          `json:"source"`
	Reference   string          `json:"reference"` // where it will be once all volumes have come
	Digest      string          `json:"digest"`
	Complete    bool            `json:"complete"`
	Volumes     int             `json:"volumes"` // in the set
	Missing     []missingVolume `json:"missing"`
	Destination string          `json:"destination"` // the repository
	Copied      registry.Amount `json:"copied"`
	Skipped     registry.Amount `json:"skipped"`
}

type missingVolume struct {
	Number int    `json:"number"`
	File   string `json:"file"`
}

// runPartial brings some volumes to a registry, and publishes when all have come.
func runPartial(ctx context.Context, opts copyOptions, out io.Writer, talk *ui.Talk) (err error) {
	client, err := registry.NewClient(opts.settings)
	if err != nil {
		return err
	}
	src, err := opts.openLoaded(ctx, client)
	if err != nil {
		return err
	}
	opened := false
	defer func() {
		if !opened {
			err = errors.Join(err, src.Close())
		}
	}()
	if err := checkVolumes(ctx, src, talk); err != nil {
		return err
	}
	to := opts.to[0]
	dst, err := client.Create(ctx, to)
	if err != nil {
		return err
	}
	if len(src.Volumes().Missing) > 0 {
		deposit, err := depositVolumes(ctx, opts, client, src, dst, talk)
		if err != nil {
			return err
		}
		if len(deposit.Missing) > 0 {
			return sayMissing(opts, src, deposit, out, talk)
		}
		if err := src.CompleteFrom(ctx, dst); err != nil {
			return err
		}
	}
	opened = true // and closed when it is not let in
	source, err := door.OpenSource(ctx, client, src, opts.door())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	return carryOpened(ctx, opts, client, source, out, talk)
}

// forgetPieces removes what earlier volumes have left at a destination, once all
// that they are pieces of is there, however the last of it came from an archive.
func (c copier) forgetPieces(ctx context.Context, d destination, dst *registry.Destination) error {
	if d.loc.Kind != registry.Registry || c.source.Source.Location.Kind != registry.Archive {
		return nil
	}
	forget := c.plan.ForgetPieces
	if c.source.Source.Volumes() != nil {
		forget = c.source.Source.ForgetPieces
	}
	kept, err := forget(ctx, dst)
	if err == nil && kept > 0 {
		c.talk.Warnf("%s keeps %s of blobs that are whole there by now: the registry removes no tags; those that begin with waybill-piece- are of no more use", repositoryOf(d.loc), ui.Count(kept, "piece"))
	}
	return err
}

// depositVolumes sends what is at hand, once the policy has not refused it.
func depositVolumes(ctx context.Context, opts copyOptions, client *registry.Client, src *registry.Source, dst *registry.Destination, talk *ui.Talk) (registry.Deposit, error) {
	if err := refusedAlready(ctx, opts, src, dst, talk); err != nil {
		return registry.Deposit{}, err
	}
	if opts.dryRun {
		return registry.Deposit{Missing: src.Volumes().Missing}, nil
	}
	if err := client.Probe(ctx, opts.to...); err != nil {
		return registry.Deposit{}, err
	}
	what := volumeNumbers(src.Volumes()) + " of " + src.Volumes().Archive
	progress := talk.Progress(ui.Step{Doing: "loading " + what + " to " + repositoryOf(opts.to[0]), Did: "loaded " + what + " to " + repositoryOf(opts.to[0]), Unit: "object"})
	defer progress.Close()
	deposit, err := src.Deposit(ctx, dst, showCopy(progress, registry.CopyOptions{Concurrency: opts.settings.Concurrency}))
	if err != nil {
		return deposit, err
	}
	progress.Notef("%s sent", ui.Size(deposit.Copied.Bytes))
	progress.End()
	return deposit, nil
}

// refusedAlready looks at the signatures as far as they are in volumes that are
// here or have come: what a policy refuses is not sent.
func refusedAlready(ctx context.Context, opts copyOptions, src *registry.Source, dst *registry.Destination, talk *ui.Talk) error {
	if err := src.CompleteFrom(ctx, dst); err != nil {
		return err
	}
	examined, err := door.Examine(ctx, src, src.Root, src.Location.String(), opts.door())
	var content *registry.ContentError
	// What is here was checked: what is not there is in another volume.
	var signature *signing.ContentError
	var document *bundle.ContentError
	switch {
	case errors.As(err, &content), errors.As(err, &signature), errors.As(err, &document):
		talk.Sayf("%s: who signed it is found out with the volumes that are missing", src.Location)
		return nil
	case err != nil:
		return err
	}
	talk.Sayf("%s: %s", src.Location, examined.Verification)
	return nil
}

func volumeNumbers(v *registry.Volumes) string {
	var numbers []string
	for _, f := range v.Files {
		numbers = append(numbers, fmt.Sprint(f.Number))
	}
	word := "volume "
	if len(numbers) > 1 {
		word = "volumes "
	}
	return fmt.Sprintf("%s%s of %d", word, strings.Join(numbers, ", "), v.Total)
}

// sayMissing says which volumes are to come.
func sayMissing(opts copyOptions, src *registry.Source, deposit registry.Deposit, out io.Writer, talk *ui.Talk) error {
	volumes := src.Volumes()
	result := depositResult{
		Source: src.Location.String(), Digest: src.Root.Digest.String(), Volumes: volumes.Total,
		Reference: opts.to[0].WithDigest(src.Root.Digest).String(), Destination: withTag(opts.to[0], "").String(), Copied: deposit.Copied, Skipped: deposit.Skipped,
	}
	var names []string
	for _, n := range deposit.Missing {
		file := fmt.Sprintf("%s.%03d", filepath.Base(volumes.Archive), n)
		result.Missing = append(result.Missing, missingVolume{Number: n, File: file})
		names = append(names, fmt.Sprintf("%d (%s)", n, file))
	}
	talk.Sayf("nothing is published yet: still missing, of %d volumes: %s; bring them with `bundle load --partial`", volumes.Total, strings.Join(names, ", "))
	if opts.form == flags.JSON {
		return ui.JSON(out, result)
	}
	return nil
}
