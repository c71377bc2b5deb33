package main

import (
	"context"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"waybill/bundle"
	"waybill/internal/flags"
	"waybill/internal/releasefile"
	"waybill/internal/ui"
)

func lockCommand() *cli.Command {
	return &cli.Command{
		Name: "lock", Usage: "resolve every chart to a digest and write the lock file beside the release file",
		ArgsUsage: "[COMPONENT…]",
		Description: `What is locked and still allowed stays; the rest is added or dropped. With
--update the named components, or all, are resolved anew.

  bundle lock --no-images
  bundle lock --no-images --update cert-manager
  bundle lock --no-images --check

Exit codes: 0 done, 1 failed, 2 usage, 5 (--check) file and lock disagree.`,
		Flags: flags.Join([]cli.Flag{
			fileFlag(),
			&cli.BoolFlag{Name: "update", Usage: "resolve the named components anew, or all"},
			&cli.BoolFlag{Name: "check", Usage: "ask no network; exit 5 when file and lock disagree"},
			noImagesFlag(),
			versionFlag(),
		}, flags.Common()),
		Action: func(c *cli.Context) error {
			form, err := flags.Output(c)
			if err != nil {
				return err
			}
			return runLock(c.Context, lockOptions{
				file: c.String("file"), update: c.Bool("update"), components: c.Args().Slice(),
				check: c.Bool("check"), noImages: c.Bool("no-images"), version: c.String("version"), form: form,
			}, c.App.Writer, flags.Talk(c))
		},
	}
}

func noImagesFlag() cli.Flag {
	return &cli.BoolFlag{Name: "no-images", Usage: "charts only, no container images"}
}

func versionFlag() cli.Flag {
	return &cli.StringFlag{Name: "version", Usage: "release `VERSION`, instead of the one in the file"}
}

type lockOptions struct {
	file       string
	update     bool
	components []string
	check      bool
	noImages   bool
	version    string
	form       flags.Form
}

// A lockResult is what `lock` says in JSON.
type lockResult struct {
	Lock        string               `json:"lock"`
	Changed     bool                 `json:"changed"`
	Packed      string               `json:"packed"`
	Charts      []bundle.LockedChart `json:"charts"`
	Differences []string             `json:"differences,omitempty"`
}

func runLock(ctx context.Context, opts lockOptions, out io.Writer, talk *ui.Talk) error {
	if err := opts.validate(); err != nil {
		return err
	}
	file, err := readRelease(opts.file)
	if err != nil {
		return err
	}
	if err := file.Check(); err != nil {
		return err
	}
	previous, err := file.ReadLock()
	if err != nil {
		return err
	}
	if opts.check {
		return checkLock(ctx, file, previous, opts, out)
	}
	lock, _, err := makeLock(ctx, file, file.Resolver(), bundle.LockOptions{
		Previous: previous, Update: opts.components, UpdateAll: opts.update && len(opts.components) == 0, Version: opts.version,
	}, talk)
	if err != nil {
		return err
	}
	changed, err := file.WriteLock(lock)
	if err != nil {
		return err
	}
	return printLock(out, talk, file, lock, changed, opts.form)
}

// makeLock is [bundle.MakeLock], shown.
func makeLock(ctx context.Context, file *releasefile.File, resolver bundle.Resolver, opts bundle.LockOptions, talk *ui.Talk) (*bundle.Lock, map[string]bundle.Chart, error) {
	p := talk.Progress(ui.Step{
		Doing: "resolving " + file.Path, Did: "resolved " + file.Path, Unit: "chart", Items: len(file.Release.Components),
	})
	defer p.Close()
	opts.OnResolve = func(component string) { p.Start("the chart of " + component) }
	opts.OnResolved = func(chart bundle.LockedChart) { p.Finish("the chart of " + chart.Component) }
	lock, charts, err := bundle.MakeLock(ctx, file.Release, resolver, opts)
	if err == nil {
		p.End()
	}
	return lock, charts, err
}

func (o lockOptions) validate() error {
	if len(o.components) > 0 && !o.update {
		return &flags.UsageError{
			Message: fmt.Sprintf("`bundle lock` takes component names only with --update, got %q", o.components[0]),
			Hint:    "`bundle lock --update COMPONENT` resolves one component anew",
		}
	}
	if o.check && o.update {
		return flags.Usagef("--check and --update exclude each other")
	}
	if err := checkVersion(o.version); err != nil {
		return err
	}
	return needNoImages(o.noImages, "lock")
}

// checkVersion refuses a --version that is none.
func checkVersion(version string) error {
	if version == "" {
		return nil
	}
	return bundle.CheckVersion(version)
}

// needNoImages is asked by the verbs that will pack container images.
func needNoImages(given bool, verb string) error {
	if given {
		return nil
	}
	return &flags.UsageError{
		Message: "container images come with a later version of waybill; this one packs charts only",
		Hint:    fmt.Sprintf("`bundle %s --no-images` packs the charts", verb),
	}
}

func checkLock(ctx context.Context, file *releasefile.File, lock *bundle.Lock, opts lockOptions, out io.Writer) error {
	differences, err := file.Compare(ctx, lock, bundle.LockOptions{Version: opts.version})
	if err != nil {
		return err
	}
	if opts.form == flags.JSON {
		result := lockResult{Lock: file.LockPath(), Packed: "charts", Differences: differences}
		if lock != nil {
			result.Charts = lock.Charts
		}
		if err := ui.JSON(out, result); err != nil {
			return err
		}
	}
	if len(differences) > 0 {
		return &bundle.StaleError{Differences: differences}
	}
	if opts.form == flags.Text {
		fmt.Fprintf(out, "%s agrees with %s\n", file.LockPath(), file.Path)
	}
	return nil
}

func printLock(out io.Writer, talk *ui.Talk, file *releasefile.File, lock *bundle.Lock, changed bool, form flags.Form) error {
	if form == flags.JSON {
		return ui.JSON(out, lockResult{Lock: file.LockPath(), Changed: changed, Packed: lock.Packed, Charts: lock.Charts})
	}
	for _, chart := range lock.Charts {
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\n", chart.Component, chart.Name, chart.Version, chart.Manifest)
	}
	if changed {
		talk.Sayf("wrote %s", file.LockPath())
	} else {
		talk.Sayf("%s is unchanged", file.LockPath())
	}
	return nil
}
