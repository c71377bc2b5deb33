package main

import (
	"context"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"waybill/bundle"
	"waybill/internal/flags"
	"waybill/internal/releasefile"
	"waybill/internal/ui"
	"waybill/registry"
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
large for Helm), 2 usage, 4 registry or chart repository says not found or
denied, 5 the lock is stale or (--locked) absent, 6 content corrupt, or a chart
is not what is locked, 10 registry or chart repository not reachable.`,
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
	if err := checkVersion(opts.version); err != nil {
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
	client, err := registry.NewClient(opts.settings)
	if err != nil {
		return err
	}
	spec, err := prepare(ctx, client, opts, talk)
	if err != nil {
		return err
	}
	packed, err := bundle.Pack(ctx, spec)
	if err != nil {
		return err
	}
	parts, bytes := packed.Amount()
	talk.Sayf("packed %s %s: %s in %s, %s, as %s", spec.Lock.Release.Name, spec.Lock.Release.Version,
		ui.Count(len(spec.Lock.Charts), "chart"), ui.Count(parts, "part"), ui.Size(bytes), packed.Root.Digest)
	if len(signers) == 0 && !opts.unsigned {
		talk.Warnf("nothing signs this bundle; give --signing-key, or say --unsigned")
	}
	p := publisher{
		client: client, packed: packed, release: spec.Lock.Release,
		signers: signers, sign: opts.sign, overwrite: opts.overwrite, talk: talk,
	}
	return p.publishAll(ctx, opts.to, out, opts.form)
}

// prepare turns the files into what is to be packed: release file, lock,
// values files and charts.
func prepare(ctx context.Context, client *registry.Client, opts buildOptions, talk *ui.Talk) (bundle.Spec, error) {
	file, err := readRelease(opts.file)
	if err != nil {
		return bundle.Spec{}, err
	}
	if err := file.Check(); err != nil {
		return bundle.Spec{}, err
	}
	values, err := file.ValuesFiles()
	if err != nil {
		return bundle.Spec{}, err
	}
	sources := releasefile.ResolveOptions{Values: values, Network: releasefile.Network(client), Outputs: localPaths(opts.to)}
	lock, lockFile, packed, err := lockedCharts(ctx, file, sources, opts, talk)
	if err != nil {
		return bundle.Spec{}, err
	}
	if err := checkCharts(file, values, packed, talk); err != nil {
		return bundle.Spec{}, err
	}
	return bundle.Spec{
		ReleaseFile: file.Data, Release: file.Release, Lock: lock, LockFile: lockFile,
		ValuesFiles: values, Charts: packed, Annotations: opts.annotations,
	}, nil
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

// lockedCharts returns the lock, its bytes on disk, and the charts it names. A
// lock that is there is used and never changed. Without one it makes one, unless
// --locked says that there must be one.
func lockedCharts(ctx context.Context, file *releasefile.File, sources releasefile.ResolveOptions, opts buildOptions, talk *ui.Talk) (*bundle.Lock, []byte, map[string]bundle.Chart, error) {
	lock, lockFile, err := file.ReadLock()
	if err != nil {
		return nil, nil, nil, err
	}
	if lock == nil && !opts.locked {
		return firstLock(ctx, file, sources, opts, talk)
	}
	r := startResolving(file, sources, talk, "fetching", "fetched")
	defer r.Close()
	differences, err := file.Compare(ctx, lock, r, bundle.LockOptions{Version: opts.version})
	if err != nil {
		return nil, nil, nil, err
	}
	if len(differences) > 0 {
		return nil, nil, nil, &bundle.StaleError{Differences: differences}
	}
	packed, err := bundle.ResolveLocked(ctx, file.Release, lock, r, nil, r.shown(bundle.LockOptions{}))
	if err != nil {
		return nil, nil, nil, err
	}
	r.end()
	return lock, lockFile, packed, nil
}

// firstLock makes the lock that is not there, and says so.
func firstLock(ctx context.Context, file *releasefile.File, sources releasefile.ResolveOptions, opts buildOptions, talk *ui.Talk) (*bundle.Lock, []byte, map[string]bundle.Chart, error) {
	r := startResolving(file, sources, talk, "resolving", "resolved")
	defer r.Close()
	lock, packed, err := bundle.MakeLock(ctx, file.Release, r, r.shown(bundle.LockOptions{Version: opts.version}))
	if err != nil {
		return nil, nil, nil, err
	}
	r.end()
	if _, err := file.WriteLock(lock); err != nil {
		return nil, nil, nil, err
	}
	talk.Sayf("there was no lock; wrote %s", file.LockPath())
	lockFile, err := lock.Encode()
	return lock, lockFile, packed, err
}
