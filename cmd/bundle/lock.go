package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"waybill/bundle"
	"waybill/internal/flags"
	"waybill/internal/releasefile"
	"waybill/internal/ui"
	"waybill/registry"
)

func lockCommand() *cli.Command {
	return &cli.Command{
		Name: "lock", Usage: "resolve every chart and image to a digest and write the lock file beside the release file",
		ArgsUsage: "[COMPONENT…]",
		Description: `What is locked and still allowed stays; the rest is added or dropped. With
--update the named components, or all, are resolved anew. What changed is said.
Charts are rendered to find the images they run, and each image is resolved to a
digest; "bundle images" lists them with the reasons.

  bundle lock
  bundle lock --update cert-manager
  bundle lock --check
  bundle lock --outdated
  bundle lock --no-images

A chart that its repository now serves with other content under the locked name
and version is refused; --update accepts it.

Exit codes: 0 done, 1 failed, 2 usage, 4 no such chart, or no right to it,
5 (--check) file and lock disagree, (--outdated) something newer is allowed or
moved, 6 a chart is not what is locked, 10 not reachable.`,
		Flags: flags.Join([]cli.Flag{
			fileFlag(),
			&cli.BoolFlag{Name: "update", Usage: "resolve the named components anew, or all"},
			&cli.BoolFlag{Name: "check", Usage: "ask no network; exit 5 when file and lock disagree"},
			&cli.BoolFlag{Name: "outdated", Usage: "ask for newer charts and moved tags and change nothing; exit 5 when something newer is allowed or moved"},
			noImagesFlag(),
			versionFlag(),
		}, flags.Registry(), flags.Common()),
		Action: runLock,
	}
}

func noImagesFlag() cli.Flag {
	return &cli.BoolFlag{Name: "no-images", Usage: "charts only, no container images"}
}

func versionFlag() cli.Flag {
	return &cli.StringFlag{Name: "version", Usage: "release `VERSION`, instead of the one in the file"}
}

// A lockResult is what `lock` says in JSON.
type lockResult struct {
	Lock        string                 `json:"lock"`
	Changed     bool                   `json:"changed"`
	Packed      string                 `json:"packed"`
	Charts      []bundle.LockedChart   `json:"charts"`
	Images      []bundle.LockedImage   `json:"images,omitempty"`
	Candidates  []string               `json:"candidates,omitempty"` // references that may be images, and are not locked
	Changes     []bundle.LockChange    `json:"changes,omitempty"`
	Differences []string               `json:"differences,omitempty"` // --check
	Outdated    []releasefile.Outdated `json:"outdated,omitempty"`    // --outdated

	ImageChanges   []bundle.ImageChange        `json:"imageChanges,omitempty"`
	OutdatedImages []releasefile.OutdatedImage `json:"outdatedImages,omitempty"` // --outdated

	Problems []problem `json:"problems,omitempty"` // what went wrong; the lock is as it was
}

// A locking is one run of `lock`.
type locking struct {
	file     *releasefile.File
	values   map[string][]byte
	previous *bundle.Lock
	client   *registry.Client // nil with --check
	opts     bundle.LockOptions
	form     flags.Form
	out      io.Writer
	talk     *ui.Talk
}

func runLock(c *cli.Context) error {
	if err := checkLockFlags(c); err != nil {
		return err
	}
	l, err := readLocking(c)
	if err != nil {
		return err
	}
	switch {
	case c.Bool("check"):
		return l.check(c.Context)
	case c.Bool("outdated"):
		return l.outdated(c.Context)
	}
	return l.lock(c.Context)
}

func checkLockFlags(c *cli.Context) error {
	names, update := c.Args().Slice(), c.Bool("update")
	if len(names) > 0 && !update {
		return &flags.UsageError{
			Message: fmt.Sprintf("`bundle lock` takes component names only with --update, got %q", names[0]),
			Hint:    "`bundle lock --update COMPONENT` resolves one component anew",
		}
	}
	given := []string{}
	for _, name := range []string{"check", "update", "outdated"} {
		if c.Bool(name) {
			given = append(given, "--"+name)
		}
	}
	if len(given) > 1 {
		return flags.Usagef("%s and %s exclude each other", given[0], given[1])
	}
	return checkVersion(c.String("version"))
}

// readLocking reads what there is on disk.
func readLocking(c *cli.Context) (*locking, error) {
	l := &locking{out: c.App.Writer, talk: flags.Talk(c), opts: bundle.LockOptions{
		Update: c.Args().Slice(), UpdateAll: c.Bool("update") && !c.Args().Present(), Version: c.String("version"), Packed: packedBy(c),
	}}
	var err error
	if l.form, err = flags.Output(c); err != nil {
		return nil, err
	}
	if l.file, err = readSound(c.String("file")); err != nil {
		return nil, err
	}
	for _, name := range l.opts.Update {
		if _, err := l.file.Release.Component(name); err != nil {
			return nil, err
		}
	}
	if l.values, err = l.file.ValuesFiles(); err != nil {
		return nil, err
	}
	if l.previous, _, err = l.file.ReadLock(); err != nil {
		return nil, err
	}
	l.opts.Previous = l.previous
	if !c.Bool("check") {
		l.client, err = sourceClient(c, l.file)
	}
	return l, err
}

// checkVersion refuses a --version that is none.
func checkVersion(version string) error {
	if version == "" {
		return nil
	}
	return bundle.CheckVersion(version)
}

// packedBy is what --no-images makes of a lock.
func packedBy(c *cli.Context) string {
	if c.Bool("no-images") {
		return bundle.PackedCharts
	}
	return bundle.PackedImages
}

// sources is how the charts of the file are found.
func (l *locking) sources() releasefile.ResolveOptions {
	opts := releasefile.ResolveOptions{Values: l.values, Images: l.opts.Packed == bundle.PackedImages}
	if l.client != nil {
		opts.Network = releasefile.Network(l.client)
	}
	return opts
}

// lock makes the lock and writes it.
func (l *locking) lock(ctx context.Context) error {
	lock, candidates, err := l.make(ctx)
	if err != nil {
		return l.failed(err)
	}
	changed, err := l.file.WriteLock(lock)
	if err != nil {
		return err
	}
	changes, images := lock.Changes(l.previous), lock.ImageChanges(l.previous)
	if l.form == flags.JSON {
		return ui.JSON(l.out, lockResult{
			Lock: l.file.LockPath(), Changed: changed, Packed: lock.Packed, Charts: lock.Charts, Images: lock.Images,
			Candidates: candidates, Changes: changes, ImageChanges: images,
		})
	}
	table := ui.NewTable(l.out, "COMPONENT", "CHART", "VERSION", "MANIFEST")
	for _, chart := range lock.Charts {
		table.Row(chart.Component, chart.Name, chart.Version, chart.Manifest.String())
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if len(lock.Images) > 0 {
		table = ui.NewTable(l.out, "IMAGE", "DIGEST")
		for _, image := range lock.Images {
			table.Row(image.References[0], image.Digest.String())
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}
	sayCandidates(l.talk, candidates)
	l.sayChanges(changes, images, changed)
	return nil
}

// make resolves charts, and then the images found in them.
func (l *locking) make(ctx context.Context) (*bundle.Lock, []string, error) {
	sources := l.sources()
	sources.AskAgain = true
	r := startResolving(l.file, sources, l.talk, "resolving", "resolved")
	defer r.Close()
	lock, packed, err := bundle.MakeLock(ctx, l.file.Release, r, r.shown(l.opts))
	if err != nil {
		return nil, nil, err
	}
	r.end()
	if lock.Packed == bundle.PackedCharts {
		return lock, nil, nil
	}
	search := imageSearch{file: l.file, values: l.values, client: l.client, talk: l.talk}
	found, err := search.find(packed)
	if err != nil {
		return nil, nil, err
	}
	resolved, err := search.resolve(ctx, found.Images, releasefile.ImageOptions{Previous: l.opts.KeptImages()})
	if err != nil {
		return nil, nil, err
	}
	lock.Images = resolved.Locked
	return lock, candidates(found.Images), nil
}

func (l *locking) sayChanges(changes []bundle.LockChange, images []bundle.ImageChange, written bool) {
	if !written {
		l.talk.Sayf("%s is unchanged", l.file.LockPath())
		return
	}
	for _, change := range changes {
		l.talk.Sayf("%s: %s", change.Component, change)
	}
	for _, change := range images {
		l.talk.Sayf("image %s: %s", change.Reference, change)
	}
	l.talk.Sayf("wrote %s", l.file.LockPath())
}

// failed prints what went wrong, component by component, where JSON was asked
// for; the lock is as it was.
func (l *locking) failed(err error) error {
	if l.form != flags.JSON {
		return err
	}
	result := lockResult{Lock: l.file.LockPath(), Packed: l.opts.Packed, Charts: []bundle.LockedChart{}, Problems: problemsOf(err)}
	if l.previous != nil {
		result.Charts = l.previous.Charts
	}
	return errors.Join(err, ui.JSON(l.out, result))
}

// check compares file and lock and asks no network.
func (l *locking) check(ctx context.Context) error {
	differences, err := l.differences(ctx)
	if err != nil {
		return l.failed(err)
	}
	if l.form == flags.JSON {
		result := lockResult{Lock: l.file.LockPath(), Packed: l.opts.Packed, Differences: differences}
		if l.previous != nil {
			result.Charts, result.Images = l.previous.Charts, l.previous.Images
		}
		if err := ui.JSON(l.out, result); err != nil {
			return err
		}
	}
	if err := bundle.StaleLock(l.previous, differences, l.opts); err != nil {
		return err
	}
	if l.form == flags.Text {
		ui.Printf(l.out, "%s agrees with %s\n", l.file.LockPath(), l.file.Path)
	}
	return nil
}

func (l *locking) differences(ctx context.Context) ([]string, error) {
	return l.file.Compare(ctx, l.previous, l.sources(), l.opts)
}
