package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"waybill/bundle"
	"waybill/internal/flags"
	"waybill/internal/ui"
	"waybill/registry"
	"waybill/signing"
)

func buildCommand() *cli.Command {
	return &cli.Command{
		Name: "build", Aliases: []string{"create", "package"},
		Usage: "pack the release and its charts, publish, sign, then tag",
		Description: `The lock beside the release file is used and never changed; when there is none
it is made. A destination without a tag gets the release version as its tag.

  bundle build --no-images -t oci://registry.example/shop --signing-key cosign.key
  bundle build --no-images -t shop-1.0.0.tar --signing-key env://SIGNING_KEY
  bundle build --no-images --locked -t ./layout --unsigned

The only line on stdout is LOCATION@sha256:… of each destination.

Exit codes: 0 done, 1 failed (a version's tag names other content, a record too
large for Helm), 2 usage, 4 registry says not found or denied, 5 the lock is
stale or (--locked) absent, 6 content corrupt, 10 registry not reachable.`,
		Flags: flags.Join([]cli.Flag{
			fileFlag(),
			&cli.StringSliceFlag{Name: "tag", Aliases: []string{"t"}, Usage: "`LOCATION` to publish to (repeatable)"},
			&cli.StringSliceFlag{Name: "signing-key", Usage: "private `KEY` to sign with: file, env://VAR, KMS URI or k8s://NS/NAME (repeatable)"},
			&cli.BoolFlag{Name: "unsigned", Usage: "publish without a signature and without a warning"},
			recursiveFlag(), signatureFormatFlag(),
			&cli.BoolFlag{Name: "locked", Usage: "fail when there is no lock, instead of making one"},
			&cli.BoolFlag{Name: "overwrite", Usage: "move a version's tag that names other content"},
			noImagesFlag(), versionFlag(),
			&cli.StringFlag{Name: "source", Usage: "`URL` of the release's source, recorded in the bundle"},
			&cli.StringFlag{Name: "revision", Usage: "`REVISION` of the release's source, recorded in the bundle"},
			&cli.StringSliceFlag{Name: "annotation", Usage: "`KEY=VALUE` recorded on the bundle (repeatable)"},
		}, flags.Registry(), flags.Common()),
		Action: func(c *cli.Context) error {
			opts, err := buildOptionsFrom(c)
			if err != nil {
				return err
			}
			return runBuild(c.Context, opts, c.App.Writer, flags.Talk(c))
		},
	}
}

type buildOptions struct {
	file, version string
	to            []registry.Location
	settings      registry.Settings
	signingKeys   []string
	unsigned      bool
	sign          signOptions
	locked        bool
	overwrite     bool
	noImages      bool
	annotations   map[string]string
	form          flags.Form
}

func buildOptionsFrom(c *cli.Context) (buildOptions, error) {
	opts := buildOptions{
		file: c.String("file"), version: c.String("version"),
		signingKeys: c.StringSlice("signing-key"), unsigned: c.Bool("unsigned"),
		locked: c.Bool("locked"), overwrite: c.Bool("overwrite"), noImages: c.Bool("no-images"),
	}
	if err := flags.NoArgs(c); err != nil {
		return opts, err
	}
	if err := needNoImages(opts.noImages, "build"); err != nil {
		return opts, err
	}
	if len(opts.signingKeys) > 0 && opts.unsigned {
		return opts, flags.Usagef("--signing-key and --unsigned exclude each other")
	}
	var err error
	if opts.form, err = flags.Output(c); err != nil {
		return opts, err
	}
	if opts.annotations, err = buildAnnotations(c); err != nil {
		return opts, err
	}
	if opts.sign, err = signOptionsFrom(c); err != nil {
		return opts, err
	}
	if len(c.StringSlice("tag")) == 0 {
		return opts, &flags.UsageError{
			Message: "`bundle build` needs a place to publish to",
			Hint:    "-t oci://HOST/PATH, -t FILE.tar or -t ./FOLDER",
		}
	}
	if opts.to, err = flags.Locations(c.StringSlice("tag")); err != nil {
		return opts, err
	}
	opts.settings, err = flags.RegistrySettings(c, opts.to...)
	return opts, err
}

func buildAnnotations(c *cli.Context) (map[string]string, error) {
	annotations := map[string]string{}
	if source := c.String("source"); source != "" {
		annotations[ocispec.AnnotationSource] = source
	}
	if revision := c.String("revision"); revision != "" {
		annotations[ocispec.AnnotationRevision] = revision
	}
	for _, pair := range c.StringSlice("annotation") {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return nil, &flags.UsageError{Message: fmt.Sprintf("--annotation %q is not KEY=VALUE", pair)}
		}
		switch key {
		case ocispec.AnnotationTitle, ocispec.AnnotationVersion:
			return nil, flags.Usagef("--annotation %s: title and version of a bundle are its release's", key)
		}
		annotations[key] = value
	}
	return annotations, nil
}

// A buildResult is what `build` says of one destination in JSON.
type buildResult struct {
	Repository string `json:"repository"`
	Digest     string `json:"digest"`
	Tag        string `json:"tag"`
	Reference  string `json:"reference"`
	Size       int64  `json:"size"`
}

func runBuild(ctx context.Context, opts buildOptions, out io.Writer, talk *ui.Talk) error {
	signers, err := loadSigners(ctx, opts.signingKeys)
	if err != nil {
		return err
	}
	client, err := registry.NewClient(opts.settings)
	if err != nil {
		return err
	}
	spec, err := prepare(ctx, opts, talk)
	if err != nil {
		return err
	}
	if len(signers) == 0 && !opts.unsigned {
		talk.Warnf("nothing signs this bundle; give --signing-key, or say --unsigned")
	}
	for _, loc := range opts.to {
		result, err := publish(ctx, client, loc, spec, signers, opts, talk)
		if err != nil {
			return err
		}
		if err := printBuild(out, result, opts.form); err != nil {
			return err
		}
	}
	return nil
}

func printBuild(out io.Writer, result buildResult, form flags.Form) error {
	if form == flags.JSON {
		return ui.JSON(out, result)
	}
	_, err := fmt.Fprintln(out, result.Reference)
	return err
}

// prepare turns the files into what is to be packed: release file, lock,
// values files and charts.
func prepare(ctx context.Context, opts buildOptions, talk *ui.Talk) (bundle.Spec, error) {
	file, err := readRelease(opts.file)
	if err != nil {
		return bundle.Spec{}, err
	}
	if err := file.check(); err != nil {
		return bundle.Spec{}, err
	}
	values, err := file.valuesFiles()
	if err != nil {
		return bundle.Spec{}, err
	}
	lock, lockFile, packed, err := lockedCharts(ctx, file, opts, talk)
	if err != nil {
		return bundle.Spec{}, err
	}
	if err := checkCharts(file, values, packed, talk); err != nil {
		return bundle.Spec{}, err
	}
	return bundle.Spec{
		ReleaseFile: file.data, Release: file.release, Lock: lock, LockFile: lockFile,
		ValuesFiles: values, Charts: packed, Annotations: opts.annotations,
	}, nil
}

// lockedCharts returns the lock, its bytes on disk, and the charts it names.
// Without a lock it makes one, unless --locked says that there must be one.
func lockedCharts(ctx context.Context, file *releaseFile, opts buildOptions, talk *ui.Talk) (*bundle.Lock, []byte, map[string]bundle.Chart, error) {
	previous, err := file.readLock()
	if err != nil {
		return nil, nil, nil, err
	}
	if previous != nil || opts.locked {
		differences, err := file.compare(ctx, previous, opts.version)
		if err != nil {
			return nil, nil, nil, err
		}
		if len(differences) > 0 {
			return nil, nil, nil, &bundle.StaleError{Differences: differences}
		}
	}
	lock, packed, err := bundle.MakeLock(ctx, file.release, resolver{file.dir()}, bundle.LockOptions{Previous: previous, Version: opts.version})
	if err != nil {
		return nil, nil, nil, err
	}
	if previous == nil {
		if _, err := file.writeLock(lock); err != nil {
			return nil, nil, nil, err
		}
		talk.Sayf("there was no lock; wrote %s", file.lockPath())
	}
	lockFile, err := flags.ReadFile(file.lockPath())
	return lock, lockFile, packed, err
}

// publish brings a bundle to one place: blobs, children, root, signatures,
// read-back, and the tag last. What is at the place before the last step is
// found by no tag.
func publish(ctx context.Context, client *registry.Client, loc registry.Location, spec bundle.Spec, signers []*signing.Signer, opts buildOptions, talk *ui.Talk) (result buildResult, err error) {
	loc, tag, err := nameDestination(loc, spec.Lock.Release)
	if err != nil {
		return result, err
	}
	guard := tagGuard{release: spec.Lock.Release, overwrite: opts.overwrite}
	dst, err := client.Create(ctx, loc)
	if err != nil {
		return result, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, dst.Abort())
		}
	}()
	talk.Sayf("publishing %s %s with %d charts to %s", spec.Lock.Release.Name, spec.Lock.Release.Version, len(spec.Lock.Charts), loc)
	root, err := bundle.Build(ctx, dst, spec, bundle.BuildOptions{OnPushed: func(desc ocispec.Descriptor) {
		talk.Sayf("pushed %s (%d bytes)", desc.Digest, desc.Size)
	}})
	if err != nil {
		return result, err
	}
	if err := guard.check(ctx, dst, tag, root, talk); err != nil {
		return result, err
	}
	for _, signer := range signers {
		if err := signAll(ctx, dst, root, signer, opts.sign, talk); err != nil {
			return result, err
		}
	}
	if err := dst.Tag(ctx, root, tag); err != nil {
		return result, fmt.Errorf("tagging %s: %w", loc, err)
	}
	if err := dst.Commit(ctx); err != nil {
		return result, err
	}
	at := loc.WithDigest(root.Digest)
	return buildResult{
		Repository: repositoryOf(loc), Digest: root.Digest.String(), Tag: tag, Reference: at.String(), Size: root.Size,
	}, nil
}
