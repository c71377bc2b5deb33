package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"waybill/internal/door"
	"waybill/internal/flags"
	"waybill/internal/ui"
	"waybill/registry"
)

func tagCommand() *cli.Command {
	return &cli.Command{
		Name: "tag", Usage: "give a bundle another tag where it lies",
		ArgsUsage: "LOCATION TAG",
		Description: `A tag equal to the bundle's version is not moved to other content without
--overwrite; other tags move, and both digests are said.

Exit codes: 0 done, 1 the version's tag names other content, 2 usage, 3 refused,
4 registry says not found or denied, 6 content corrupt, 10 not reachable.`,
		Flags: flags.Join([]cli.Flag{
			&cli.BoolFlag{Name: "overwrite", Usage: "move a version's tag that names other content"},
		}, flags.Policy(), flags.Registry(), flags.Common()),
		Action: func(c *cli.Context) error {
			if c.Args().Len() != 2 {
				return &flags.UsageError{Message: fmt.Sprintf("`bundle tag` takes a location and a tag, got %d arguments", c.Args().Len())}
			}
			form, err := flags.Output(c)
			if err != nil {
				return err
			}
			loc, err := registry.ParseLocation(c.Args().Get(0))
			if err != nil {
				return err
			}
			if err := registry.CheckTag(loc.Kind, c.Args().Get(1)); err != nil {
				return err
			}
			opened, err := flags.OpenAndSay(c, c.Args().Get(0), door.Options{SkipContent: true})
			if err != nil {
				return err
			}
			defer opened.Close()
			settings, err := flags.RegistrySettings(c, opened.Location)
			if err != nil {
				return err
			}
			return runTag(c.Context, settings, opened, c.Args().Get(1), c.Bool("overwrite"), form, c.App.Writer, flags.Talk(c))
		},
	}
}

func runTag(ctx context.Context, settings registry.Settings, o *door.Opened, tag string, overwrite bool, form flags.Form, out io.Writer, talk *ui.Talk) (err error) {
	client, err := registry.NewClient(settings)
	if err != nil {
		return err
	}
	dst, err := client.Update(ctx, o.Location)
	if err != nil {
		return err
	}
	dst.Resume = resumeHooks(talk)
	defer func() { err = errors.Join(err, dst.Abort()) }() // nothing is left to undo after Commit
	guard := tagGuard{at: dst.Location, release: o.Bundle.Lock.Release, overwrite: overwrite}
	if err := guard.check(ctx, dst, tag, o.Root, talk); err != nil {
		return err
	}
	if err := dst.Tag(ctx, o.Root, tag); err != nil {
		return err
	}
	if err := dst.Commit(ctx); err != nil {
		return err
	}
	at := withTag(o.Location, tag)
	if form == flags.JSON {
		return ui.JSON(out, map[string]string{"reference": at.String(), "tag": tag, "digest": o.Root.Digest.String()})
	}
	_, err = ui.Println(out, at)
	return err
}
