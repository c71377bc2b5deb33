package main

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"waybill/bundle"
	"waybill/internal/flags"
	"waybill/internal/releasefile"
	"waybill/internal/ui"
	"waybill/registry"
	"waybill/signing"
)

func buildCommand() *cli.Command {
	return &cli.Command{
		Name: "build", Aliases: []string{"create", "package"},
		Usage: "pack the release and its charts, publish, sign, then tag",
		Description: `The lock beside the release file is used and never changed; when there is none
it is made. Charts and images are fetched by their digests. A destination without a tag gets the release version as its tag.

  bundle build -t oci://registry.example/shop --signing-key cosign.key
  bundle build --no-images -t shop-1.0.0.tar --signing-key env://SIGNING_KEY
  bundle build --locked -t ./layout --unsigned

The only line on stdout is LOCATION@sha256:… of each destination.

Exit codes: 0 done, 1 failed (a version's tag names other content, a record too
large for Helm), 2 usage, 4 registry or chart repository says not found or
denied, 5 the lock is stale or (--locked) absent, 6 content corrupt, or a chart
is not what is locked, 9 some of several places failed, 10 registry or chart
repository not reachable.`,
		Flags: flags.Join([]cli.Flag{
			fileFlag(),
			&cli.StringSliceFlag{Name: "tag", Aliases: []string{"t"}, Usage: "`LOCATION` to publish to (repeatable)"},
			&cli.StringSliceFlag{Name: "signing-key", Usage: "private `KEY` to sign with: file, env://VAR, KMS URI or k8s://NS/NAME (repeatable)"},
			&cli.BoolFlag{Name: "unsigned", Usage: "publish without a signature and without a warning"},
			recursiveFlag(), signatureFormatFlag(),
			&cli.BoolFlag{Name: "locked", Usage: "fail when there is no lock, instead of making one"},
			&cli.BoolFlag{Name: "overwrite", Usage: "move a version's tag that names other content"},
			anchorFlag(),
			noImagesFlag(), foreignFlag(), attachmentsFlag(), versionFlag(), strictFlag(),
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
	anchor        bool
	packed        string // what is packed: charts and images, or charts
	strict        bool
	foreign       string // what becomes of layers that may not be given on; empty: nobody said
	attachments   bool   // what hangs on the images comes along
	annotations   map[string]string
	form          flags.Form
}

func buildOptionsFrom(c *cli.Context) (buildOptions, error) {
	opts := buildOptions{
		file: c.String("file"), version: c.String("version"),
		signingKeys: c.StringSlice("signing-key"), unsigned: c.Bool("unsigned"),
		locked: c.Bool("locked"), overwrite: c.Bool("overwrite"), anchor: c.Bool("anchor-tags"), packed: packedBy(c), strict: c.Bool("strict"),
		attachments: c.Bool("with-attachments"),
	}
	if err := flags.NoArgs(c); err != nil {
		return opts, err
	}
	if err := checkVersion(opts.version); err != nil {
		return opts, err
	}
	if len(opts.signingKeys) > 0 && opts.unsigned {
		return opts, flags.Usagef("--signing-key and --unsigned exclude each other")
	}
	var err error
	if opts.form, err = flags.Output(c); err != nil {
		return opts, err
	}
	if opts.foreign, err = foreignChoice(c); err != nil {
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
			return nil, flags.Usagef("--annotation %q is not KEY=VALUE", pair)
		}
		if err := bundle.CheckAnnotation(key); err != nil {
			return nil, flags.Usagef("--annotation: %v", err)
		}
		if before, twice := annotations[key]; twice && before != value {
			return nil, flags.Usagef("annotation %s is given twice, as %q and as %q", key, before, value)
		}
		annotations[key] = value
	}
	return annotations, nil
}

func runBuild(ctx context.Context, opts buildOptions, out io.Writer, talk *ui.Talk) error {
	signers, err := loadSigners(ctx, opts.signingKeys, talk)
	if err != nil {
		return err
	}
	return buildSigned(ctx, opts, signers, out, talk)
}

// buildSigned packs and publishes with keys that are unlocked.
func buildSigned(ctx context.Context, opts buildOptions, signers []*signing.Signer, out io.Writer, talk *ui.Talk) (err error) {
	client, err := registry.NewClient(opts.settings)
	if err != nil {
		return err
	}
	spec, origins, err := prepare(ctx, client, opts, talk)
	if err != nil {
		return err
	}
	cargo, err := readCargo(ctx, client, origins, opts, talk)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cargo.Close()) }()
	spec.LeftOut = cargo.LeftOut
	packed, err := bundle.Pack(ctx, spec)
	if err != nil {
		return err
	}
	parts, bytes := packed.Amount()
	talk.Sayf("packed %s %s: %s in %s, %s, as %s", spec.Lock.Release.Name, spec.Lock.Release.Version,
		ui.Count(len(spec.Lock.Charts), "chart"), ui.Count(parts, "part"), ui.Size(bytes), packed.Root.Digest)
	for _, image := range packed.LeftOut() {
		talk.Warnf("%s", image)
	}
	if len(signers) == 0 && !opts.unsigned {
		talk.Warnf("nothing signs this bundle; give --signing-key, or say --unsigned")
	}
	p := publisher{
		client: client, packed: packed, cargo: cargo, leftOut: packed.LeftOut(), lock: spec.Lock, concurrency: opts.settings.Concurrency,
		signers: signers, sign: opts.sign, overwrite: opts.overwrite, anchor: opts.anchor, talk: talk,
	}
	return p.publishAll(ctx, opts.to, out, opts.form)
}

// prepare turns the files into what is to be packed: release file, lock,
// values files and charts, and says where the images come from.
func prepare(ctx context.Context, client *registry.Client, opts buildOptions, talk *ui.Talk) (bundle.Spec, []releasefile.ImageOrigin, error) {
	b := building{opts: opts, client: client, talk: talk}
	if err := b.read(); err != nil {
		return bundle.Spec{}, nil, err
	}
	if err := b.lock(ctx); err != nil {
		return bundle.Spec{}, nil, err
	}
	if err := checkCharts(b.file, b.values, b.charts, talk); err != nil {
		return bundle.Spec{}, nil, err
	}
	lockFile, err := b.finishLock()
	if err != nil {
		return bundle.Spec{}, nil, err
	}
	return bundle.Spec{
		ReleaseFile: b.file.Data, Release: b.file.Release, Lock: b.locked, LockFile: lockFile,
		ValuesFiles: b.values, Charts: b.charts, Indexes: b.images.Indexes, Annotations: opts.annotations,
	}, b.images.Origins, nil
}

// localPaths are the files and folders that will be written.
func localPaths(locations []registry.Location) []string {
	var paths []string
	for _, loc := range locations {
		if loc.Kind != registry.Registry {
			paths = append(paths, loc.Path)
		}
	}
	return paths
}
