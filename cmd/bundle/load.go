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
		ArgsUsage: "FILE.tar DESTINATION…",
		Description: `What "bundle save" wrote, or skopeo, oras and others, is read where it lies:
nothing is unpacked and no other disk is used. A file that holds several things
needs a choice, FILE.tar#NAME or FILE.tar@sha256:…. A destination without a tag
gets the version. What is there already is not sent again; the tag is set last.

  bundle load shop-1.0.0.tar oci://harbor.site/mirror/shop --key vendor.pub
  bundle load shop-1.0.0.tar oci://a.site/mirror/shop --expand a.site/mirror

With a policy the file must satisfy it before anything is sent, and each target
before its tag is set. The rest is as with "bundle copy".

Exit codes: 0 done, 1 failed (a version's tag names other content, …), 2 usage,
3 refused by the policy, 4 a registry says not found or denied, 6 the file is
truncated, corrupt or incomplete, 9 some of several destinations failed, 10 not
reachable, 130 interrupted.`,
		Flags: flags.Join([]cli.Flag{
			dryRunFlag(), overwriteFlag(), allowMissingFlag(), anchorFlag(), assumeFlag(), foreignFlag(), expandFlag(),
		}, flags.Policy(), flags.Registry(), flags.Common()),
		Action: func(c *cli.Context) error {
			opts, err := loadOptionsFrom(c)
			if err != nil {
				return err
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
	all, err := flags.Locations(c.Args().Slice())
	if err != nil {
		return copyOptions{}, err
	}
	if all[0].Kind == registry.Registry {
		return copyOptions{}, &flags.UsageError{
			Message: fmt.Sprintf("%s is a registry, and `bundle load` reads a file", all[0]),
			Hint:    "`bundle copy " + strings.Join(c.Args().Slice(), " ") + "` copies from there",
		}
	}
	return carryOptions(c, wordsOfLoad, all[0], all[1:])
}
