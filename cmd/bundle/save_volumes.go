package main

import (
	"context"
	"errors"
	"path/filepath"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/urfave/cli/v2"

	"waybill/internal/flags"
	"waybill/internal/ui"
	"waybill/registry"
)

// savedFlags are those of `save` about parts of an archive.
func savedFlags() []cli.Flag {
	return []cli.Flag{
		baseFlag("leave out the blobs that a `LOCATION` holds, or FILE.json lists, as \"bundle inventory -o json\" writes it (repeatable)"),
		&cli.StringFlag{Name: "split", Usage: "write FILE.tar.001, FILE.tar.002, … of at most `SIZE` bytes: 29G, 4095M, 700MB"},
		&cli.IntFlag{Name: "volume", Usage: "of the volumes, write number `N` alone"},
	}
}

// savedParts reads them.
func savedParts(c *cli.Context, opts *copyOptions) error {
	if c.IsSet("split") {
		size, err := flags.ParseSize(c.String("split"))
		if err != nil {
			return &flags.UsageError{Message: "--split: " + err.Error(), Hint: "--split 29G, or 4095M for a FAT file system"}
		}
		opts.split = size
	}
	if !c.IsSet("volume") {
		return nil
	}
	opts.volume = c.Int("volume")
	switch {
	case opts.split == 0:
		return flags.Usagef("--volume is a number of those that --split makes; give both")
	case opts.volume < 1:
		return flags.Usagef("--volume %d: volumes are numbered from 1", opts.volume)
	}
	return nil
}

// createParts opens volumes, or an archive without what the bases hold.
func createParts(ctx context.Context, c copier, d destination) (*registry.Destination, error) {
	delta, err := c.leaveOut(ctx)
	if err != nil {
		return nil, err
	}
	return c.client.CreateArchive(ctx, d.loc, registry.ArchiveOptions{
		Split: c.split, Volume: c.volume, Delta: delta, DryRun: c.dryRun,
		OnReplace: func(path, what string, removed bool) {
			done := "replaced"
			if removed {
				done = "removed"
			}
			c.talk.Sayf("%s was %s: %s", path, what, done)
		},
		OnCut: func(desc ocispec.Descriptor) {
			c.talk.Sayf("%s (%s) is larger than a volume: it is read and checked before its pieces are written", desc.Digest, ui.Size(desc.Size))
		},
		OnVolume: func(f registry.VolumeFile, of int, kept bool) {
			word := "written"
			switch {
			case kept:
				word = "is there already, and whole"
			case c.dryRun:
				word = "would be written"
			}
			c.talk.Sayf("volume %d of %d, %s (%s): %s", f.Number, of, f.Path, ui.Size(f.Size), word)
		},
	})
}

// compareVolumes says what carry would do where it writes volumes: they are planned
// as they would be written.
func (c copier) compareVolumes(ctx context.Context, d destination, at copiedTo) (_ copiedTo, err error) {
	dst, err := c.open(ctx, d)
	if err != nil {
		return at, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, dst.Abort())
		}
	}()
	if err := c.checkTag(ctx, dst, d); err != nil {
		return at, err
	}
	result, err := c.plan.To(ctx, dst, c.copySettings())
	if err != nil {
		return at, err
	}
	if err := c.publish(ctx, d, dst); err != nil {
		return at, err
	}
	volumes := dst.Volumes()
	result.Copied, result.Skipped = volumes.Written, volumes.Kept
	at.take(result)
	at.takeVolumes(dst)
	what := ui.Count(volumes.Total, "volume")
	if c.volume != 0 {
		what = volumeNumbers(volumes)
	}
	c.talk.Sayf("would %s %s of %s to %s: %s, %s of %s; %s there already; %s of room needed", c.words.do, what, c.what(), d.loc,
		ui.Count(result.Copied.Objects, "object"), ui.Size(result.Copied.Bytes), ui.Size(c.plan.Size().Bytes), ui.Count(result.Skipped.Objects, "object"), ui.Size(volumes.Need))
	return at, nil
}

// takeVolumes takes over which volumes were written, and what they leave out.
func (at *copiedTo) takeVolumes(dst *registry.Destination) {
	at.Delta = deltaResultOf(dst.Delta())
	if volumes := dst.Volumes(); volumes != nil {
		for _, f := range volumes.Files {
			at.Volumes = append(at.Volumes, packedFile{Number: f.Number, File: filepath.Base(f.Path), Size: f.Size, SHA256: f.SHA256})
		}
	}
}

// wroteSaved writes the packing list of what was saved.
func wroteSaved(ctx context.Context, c copier, d destination, dst *registry.Destination, at *copiedTo) error {
	at.takeVolumes(dst)
	return c.writePackingList(ctx, d, dst, at)
}
