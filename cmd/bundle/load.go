package main

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"waybill/internal/flags"
	"waybill/registry"
)

var wordsOfLoad = copyWords{"load", "loading", "loaded"}

func loadCommand() *cli.Command {
	return &cli.Command{
		Name: "load", Usage: "bring what is in a file to a registry or folder, with its signatures",
		ArgsUsage: "FILE.tar… DESTINATION…",
		Description: `What "bundle save" wrote, or skopeo, oras and others, is read where it lies:
nothing is unpacked and no other disk is used. A file that holds several things
needs a choice, FILE.tar#NAME or FILE.tar@sha256:…. A destination without a tag
gets the version. What is there already is not sent again; the tag is set last.

  bundle load shop-1.0.0.tar oci://harbor.site/mirror/shop --key vendor.pub
  bundle load shop-1.0.0.tar oci://a.site/mirror/shop --expand a.site/mirror

Volumes, FILE.tar.001 and so on, are named by any of them when they lie together,
else by all of them, in any order. They are checked before anything is sent; one
that is missing or damaged is named, with what makes it again. With --partial
those that are here go to a registry, which is enough when the others follow: the
last one publishes.

  bundle load shop.tar.001 oci://harbor.site/mirror/shop
  bundle load --partial /media/usb/shop.tar.002 oci://harbor.site/mirror/shop

A delta says what it needs. That has to be in the destination's repository, or
in an archive or folder that --base names, before anything is written.

With a policy the file must satisfy it before anything is sent, and each target
before its tag is set. The rest is as with "bundle copy".

Exit codes: 0 done, 1 failed (a version's tag names other content, …), 2 usage,
3 refused by the policy, 4 a registry says not found or denied, 6 the file is
truncated, corrupt or incomplete, 9 some of several destinations failed, 10 not
reachable, 130 interrupted.`,
		Flags: flags.Join([]cli.Flag{
			partialFlag(), baseFlag("read what a delta leaves out in an archive or folder at `LOCATION` (repeatable)"),
			dryRunFlag(), overwriteFlag(), allowMissingFlag(), anchorFlag(), assumeFlag(), foreignFlag(), expandFlag(),
		}, flags.Policy(), flags.Registry(), flags.Common()),
		Action: func(c *cli.Context) error {
			opts, err := loadOptionsFrom(c)
			if err != nil {
				return err
			}
			if opts.partial {
				return runPartial(c.Context, opts, c.App.Writer, flags.Talk(c))
			}
			return runCopy(c.Context, opts, c.App.Writer, flags.Talk(c))
		},
	}
}

func loadOptionsFrom(c *cli.Context) (copyOptions, error) {
	if c.Args().Len() < 2 {
		return copyOptions{}, &flags.UsageError{
			Message: fmt.Sprintf("`bundle load` takes a file and at least one destination, got %d arguments", c.Args().Len()),
			Hint:    "bundle load FILE.tar oci://HOST/PATH",
		}
	}
	files, destinations, err := splitLoaded(c.Args().Slice())
	if err != nil {
		return copyOptions{}, err
	}
	if len(destinations) == 0 {
		return copyOptions{}, &flags.UsageError{Message: "`bundle load` got files and no destination", Hint: "bundle load FILE.tar.001 FILE.tar.002 oci://HOST/PATH"}
	}
	if files[0].Kind == registry.Registry {
		return copyOptions{}, &flags.UsageError{
			Message: fmt.Sprintf("%s is a registry, and `bundle load` reads a file", files[0]),
			Hint:    "`bundle copy " + strings.Join(c.Args().Slice(), " ") + "` copies from there",
		}
	}
	opts, err := carryOptions(c, wordsOfLoad, files[0], destinations)
	if err != nil {
		return opts, err
	}
	opts.files, opts.partial = files, c.Bool("partial")
	return opts, opts.checkPartial()
}
