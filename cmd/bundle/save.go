package main

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"waybill/internal/flags"
	"waybill/registry"
)

var wordsOfSave = copyWords{"save", "saving", "saved"}

func saveCommand() *cli.Command {
	return &cli.Command{
		Name: "save", Usage: "write a bundle, image or chart to a file, with its signatures",
		ArgsUsage: "SOURCE FILE.tar",
		Description: `The file is an OCI image layout in a tar, the same bytes for the same content. It
is written as FILE.tar.partial and gets its name when all of it is there and
right; what was in FILE.tar before stays until then. A save that was interrupted
or failed leaves FILE.tar.partial and FILE.tar.partial.journal: the same command
goes on from there. A file that is there already, whole, is left as it is.

  bundle save oci://vendor.example/shop:1.0.0 shop-1.0.0.tar --key vendor.pub

Room on the disk is looked for before the first byte is written. "bundle load"
brings the file to a registry, "bundle verify FILE.tar" checks it where it lies,
and "bundle copy" adds something to a file that holds other things.

With --split the archive is volumes, FILE.tar.001 and so on, each a file of its own
that is checked, loaded and made again alone; --volume N makes only that one, so
that one port and two media need no other disk. With --base it is a delta: blobs
that the receiver has are left out, and loading it makes sure that they are there.
FILE.tar.waybill.txt and .json beside it say what is in it and how it is loaded.

  bundle save oci://vendor.example/shop:1.1.0 /media/a/shop.tar --split 29G --volume 1
  bundle save oci://vendor.example/shop:1.1.0 shop-1.1.0.tar --base shop-1.0.0.tar

Exit codes: 0 done, 1 failed (no room, …), 2 usage, 3 refused by the policy, 4 a
registry says not found or denied, 6 content corrupt, truncated or incomplete,
10 not reachable, 130 interrupted.`,
		Flags: flags.Join(savedFlags(), []cli.Flag{
			dryRunFlag(), allowMissingFlag(), foreignFlag(),
		}, flags.Policy(), flags.Registry(), flags.Common()),
		Action: func(c *cli.Context) error {
			opts, err := saveOptionsFrom(c)
			if err != nil {
				return err
			}
			return runCopy(c.Context, opts, c.App.Writer, flags.Talk(c))
		},
	}
}

func saveOptionsFrom(c *cli.Context) (copyOptions, error) {
	if c.Args().Len() != 2 {
		return copyOptions{}, &flags.UsageError{
			Message: fmt.Sprintf("`bundle save` takes a source and a file, got %d arguments", c.Args().Len()),
			Hint:    "bundle save oci://HOST/PATH:TAG FILE.tar",
		}
	}
	from, err := registry.ParseLocation(c.Args().Get(0))
	if err != nil {
		return copyOptions{}, err
	}
	to, err := registry.ParseLocation(c.Args().Get(1))
	if err != nil {
		return copyOptions{}, meantFile(c.Args().Get(1), err)
	}
	if err := checkSaved(c.Args().Get(0), to); err != nil {
		return copyOptions{}, err
	}
	opts, err := carryOptions(c, wordsOfSave, from, []registry.Location{to})
	if err != nil {
		return opts, err
	}
	opts.create, opts.wrote = createSaved, wroteSaved
	return opts, savedParts(c, &opts)
}

// meantFile explains a word that may have been meant as a file's name.
func meantFile(word string, err error) error {
	if strings.ContainsAny(word, ":@#") {
		return err
	}
	return &flags.UsageError{
		Message: fmt.Sprintf("%q is no file to save to", word),
		Hint:    "did you mean " + packedSuffix.ReplaceAllString(word, "") + ".tar? Archives are not compressed; their layers are",
	}
}

// packedSuffix ends the name of a tar that is compressed.
var packedSuffix = regexp.MustCompile(`\.(tgz|tar\.(gz|zst|xz|bz2))$`)

// checkSaved refuses what is no file to write to, with the word for what was
// meant.
func checkSaved(from string, to registry.Location) error {
	what := ""
	switch to.Kind {
	case registry.Archive:
		return nil
	case registry.Registry:
		what = "a registry"
	default:
		what = "a folder, or the name of none that ends in .tar"
	}
	return &flags.UsageError{
		Message: fmt.Sprintf("%s is %s, and `bundle save` writes a file whose name ends in .tar", to, what),
		Hint:    fmt.Sprintf("`bundle copy %s %s` copies there", from, to),
	}
}

// createSaved replaces a file. What it held is said when it is something else.
func createSaved(ctx context.Context, c copier, d destination) (*registry.Destination, error) {
	if c.split > 0 {
		return createParts(ctx, c, d)
	}
	held, err := c.client.Held(ctx, d.loc)
	if err != nil {
		return nil, err
	}
	other := func(desc ocispec.Descriptor) bool { return desc.Digest != c.source.Root.Digest }
	if slices.ContainsFunc(held, other) {
		sayReplaced(c.talk, d.loc, held)
	}
	return createParts(ctx, c, d)
}
