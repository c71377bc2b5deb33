package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"waybill/bundle"
	"waybill/export"
	"waybill/internal/door"
	"waybill/internal/flags"
	"waybill/internal/ref"
	"waybill/internal/ui"
	"waybill/registry"
)

// exportFormats are what nodes are configured by, and exportLater what comes
// with a later version.
func exportFormats() []string { return []string{"containerd", "crio", "k3s", "idms"} }

func exportLater() []string { return []string{"flux", "argo"} }

func exportCommand() *cli.Command {
	return &cli.Command{
		Name: "export", Usage: "write what makes nodes pull a bundle's images from a mirror",
		ArgsUsage: "containerd|crio|k3s|idms LOCATION…",
		Description: `For nodes that keep the names charts give images, and a mirror that "bundle copy
--expand PREFIX" filled. --mirror is that PREFIX, by the name nodes reach it.

  bundle copy shop-1.0.0.tar oci://harbor.site/m/shop --expand harbor.site/m
  bundle export containerd shop-1.0.0.tar --mirror harbor.site/m
  bundle export crio shop-1.0.0.tar --mirror harbor.site/m --to /etc/containers

containerd  hosts.toml files, one for each registry that images come from
crio        a drop-in for registries.conf.d, of CRI-O and Podman
k3s         registries.yaml, of K3s and RKE2
idms        ImageDigestMirrorSet and ImageTagMirrorSet, for OpenShift

Files are printed, each after a line that says where on a node it belongs, or
written below --to. What nodes should know of TLS is what the flags say of the
mirror's host: --ca-file, --plain-http-host, --insecure-host, and as with other
commands a loopback host is spoken to without TLS unless --tls-host names it.
Logins are never written.

Exit codes: 0 done, 1 failed (a file there says otherwise, …), 2 usage, 3 refused
by the policy, 4 a registry says not found or denied, 6 content corrupt, 10 not
reachable.`,
		Flags: flags.Join([]cli.Flag{
			&cli.StringFlag{Name: "mirror", Usage: "`HOST[/PATH]` that the bundle was expanded below, by the name nodes reach it"},
			&cli.BoolFlag{Name: "only-mirror", Usage: "keep nodes from asking anybody else for these images"},
			&cli.StringFlag{Name: "to", Usage: "write the files below `FOLDER`, which stands for their place on a node"},
			&cli.BoolFlag{Name: "overwrite", Usage: "replace files that say otherwise"},
		}, flags.Policy(), flags.Registry(), flags.Common()),
		Action: func(c *cli.Context) error {
			opts, err := exportOptionsFrom(c)
			if err != nil {
				return err
			}
			return runExport(c.Context, opts, c.App.Writer, flags.Talk(c))
		},
	}
}

type exportOptions struct {
	format    string
	from      []registry.Location
	mirror    string
	only      bool
	to        string
	overwrite bool
	client    *registry.Client
	caFiles   []string
	door      door.Options
	form      flags.Form
}

func exportOptionsFrom(c *cli.Context) (exportOptions, error) {
	opts := exportOptions{format: c.Args().First(), only: c.Bool("only-mirror"), to: c.String("to"), overwrite: c.Bool("overwrite")}
	var err error
	if opts.form, err = flags.Output(c); err != nil {
		return opts, err
	}
	if err := checkExportFormat(opts.format); err != nil {
		return opts, err
	}
	if c.Args().Len() < 2 {
		return opts, &flags.UsageError{Message: fmt.Sprintf("`bundle export %s` needs a location", opts.format), Hint: "bundle export " + opts.format + " oci://HOST/PATH:TAG --mirror HOST/PATH"}
	}
	if opts.mirror, err = mirrorFlag(c); err != nil {
		return opts, err
	}
	if opts.from, err = flags.Locations(c.Args().Tail()); err != nil {
		return opts, err
	}
	settings, err := flags.RegistrySettings(c, append(prefixLocation(opts.mirror), opts.from...)...)
	if err != nil {
		return opts, err
	}
	opts.caFiles = settings.CAFiles
	if opts.client, err = registry.NewClient(settings); err != nil {
		return opts, err
	}
	opts.door = door.Options{SkipContent: true}
	opts.door.Policy, err = flags.LoadPolicy(c, c.StringSlice("key"))
	return opts, err
}

func checkExportFormat(format string) error {
	switch {
	case slices.Contains(exportFormats(), format):
		return nil
	case slices.Contains(exportLater(), format):
		return flags.Usagef("`bundle export %s` comes with a later version of waybill", format)
	case format == "":
		return &flags.UsageError{Message: "`bundle export` needs to be told what to write", Hint: "bundle export " + strings.Join(exportFormats(), "|") + " LOCATION"}
	}
	return &flags.UsageError{Message: fmt.Sprintf("`bundle export` knows no %q", format), Hint: "it knows " + strings.Join(exportFormats(), ", ")}
}

func mirrorFlag(c *cli.Context) (string, error) {
	if c.String("mirror") == "" {
		return "", &flags.UsageError{Message: "`bundle export` needs --mirror", Hint: "--mirror is the PREFIX of `bundle copy --expand PREFIX`, by the name nodes reach it"}
	}
	prefix, err := ref.ParsePrefix(c.String("mirror"))
	if err != nil {
		return "", &flags.UsageError{Message: "--mirror: " + err.Error(), Hint: "such as harbor.site/mirror"}
	}
	return prefix, nil
}

// An exportResult is what `export` says in JSON.
type exportResult struct {
	Format string        `json:"format"`
	Mirror string        `json:"mirror"`
	From   []exportedOf  `json:"from"`
	Base   string        `json:"base,omitempty"` // the folder on a node that the files belong into
	Files  []export.File `json:"files"`
	Notes  []string      `json:"notes"`
	Wrote  []string      `json:"wrote,omitempty"` // with --to, and what was there already
}

// exportedOf is one bundle that was asked about.
type exportedOf struct {
	Reference string `json:"reference"`
	Digest    string `json:"digest"`
	door.Verification
}

func runExport(ctx context.Context, opts exportOptions, out io.Writer, talk *ui.Talk) error {
	result := exportResult{Format: opts.format, Mirror: opts.mirror}
	var images []bundle.Expanded
	var releases []string
	for _, loc := range opts.from {
		of, found, err := opts.images(ctx, loc, talk)
		if err != nil {
			return err
		}
		result.From = append(result.From, of.exportedOf)
		images, releases = append(images, found...), append(releases, of.release)
	}
	mirror, err := opts.mirrored()
	if err != nil {
		return err
	}
	slices.Sort(releases)
	config, err := writeConfig(opts.format, images, strings.Join(slices.Compact(releases), "-"), mirror)
	if err != nil {
		return err
	}
	result.Base, result.Files, result.Notes = config.Base, config.Files, config.Notes
	if opts.to != "" {
		if result.Wrote, err = config.WriteTo(opts.to, opts.overwrite); err != nil {
			return err
		}
	}
	return opts.print(result, config, out, talk)
}

// exportedRelease is a bundle with the name of its release.
type exportedRelease struct {
	exportedOf
	release string
}

// images opens one bundle and names its images in the mirror.
func (opts exportOptions) images(ctx context.Context, loc registry.Location, talk *ui.Talk) (exportedRelease, []bundle.Expanded, error) {
	opened, err := door.Open(ctx, opts.client, loc, opts.door)
	if err != nil {
		return exportedRelease{}, nil, err
	}
	defer opened.Close() // it was only read from
	talk.Sayf("%s: %s", opened.Location, opened.Verification)
	lock := opened.Bundle.Lock
	if len(lock.Images) == 0 {
		return exportedRelease{}, nil, flags.Usagef("%s holds no images that nodes would pull", opened.Location)
	}
	all, err := opened.Bundle.Expand(opts.mirror)
	if err != nil {
		return exportedRelease{}, nil, err
	}
	(&expander{named: all}).warn(talk)
	warnNarrowed(lock, talk)
	of := exportedOf{Reference: opened.Location.String(), Digest: opened.Root.Digest.String(), Verification: opened.Verification}
	return exportedRelease{of, lock.Release.Name}, all, nil
}

// warnNarrowed names references by a digest that the mirror has not got, since
// only some of its platforms are packed.
func warnNarrowed(lock *bundle.Lock, talk *ui.Talk) {
	for _, image := range lock.Images {
		for _, reference := range image.References {
			if image.Upstream != "" && strings.HasSuffix(reference, "@"+image.Upstream.String()) {
				talk.Warnf("%s names all platforms, of which the bundle has some: by this digest nodes don't find it in a mirror; pull %s, or let `apply` rewrite it", reference, image.Digest)
			}
		}
	}
}

// mirrored is the mirror, and how the flags say that its host is reached.
func (opts exportOptions) mirrored() (export.Mirror, error) {
	m := export.Mirror{Prefix: opts.mirror, Only: opts.only}
	host, _, _ := strings.Cut(opts.mirror, "/")
	m.PlainHTTP, m.Insecure = opts.client.Speaks(host)
	for _, file := range opts.caFiles {
		data, err := os.ReadFile(file)
		if err != nil {
			return m, err
		}
		m.CA = append(m.CA, data...)
	}
	return m, nil
}

func writeConfig(format string, images []bundle.Expanded, release string, m export.Mirror) (export.Config, error) {
	switch format {
	case "containerd":
		return export.Containerd(images, m)
	case "crio":
		return export.CRIO(images, release, m)
	case "k3s":
		return export.K3s(images, m)
	}
	return export.IDMS(images, release, m)
}

// print gives the result, and says beside it what else is to be known.
func (opts exportOptions) print(result exportResult, config export.Config, out io.Writer, talk *ui.Talk) error {
	for _, note := range result.Notes {
		talk.Sayf("%s", note)
	}
	switch {
	case opts.form == flags.JSON:
		return ui.JSON(out, result)
	case opts.to != "":
		for _, path := range result.Wrote {
			if _, err := ui.Println(out, path); err != nil {
				return err
			}
		}
		return nil
	}
	_, err := io.WriteString(out, config.String())
	return err
}
