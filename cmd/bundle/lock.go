package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"waybill/bundle"
	"waybill/charts"
	"waybill/internal/flags"
	"waybill/internal/releasefile"
	"waybill/internal/ui"
)

func lockCommand() *cli.Command {
	return &cli.Command{
		Name: "lock", Usage: "resolve every chart to a digest and write the lock file beside the release file",
		ArgsUsage: "[COMPONENT…]",
		Description: `What is locked and still allowed stays; the rest is added or dropped. With
--update the named components, or all, are resolved anew. What changed is said.

  bundle lock --no-images
  bundle lock --no-images --update cert-manager
  bundle lock --no-images --check
  bundle lock --no-images --outdated

A chart that its repository now serves with other content under the locked name
and version is refused; --update accepts it.

Exit codes: 0 done, 1 failed, 2 usage, 4 no such chart, or no right to it,
5 (--check) file and lock disagree, (--outdated) something newer is allowed or
moved, 6 a chart is not what is locked, 10 not reachable.`,
		Flags: flags.Join([]cli.Flag{
			fileFlag(),
			&cli.BoolFlag{Name: "update", Usage: "resolve the named components anew, or all"},
			&cli.BoolFlag{Name: "check", Usage: "ask no network; exit 5 when file and lock disagree"},
			&cli.BoolFlag{Name: "outdated", Usage: "ask for newer charts and change nothing; exit 5 when something newer is allowed or moved"},
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
	Changes     []bundle.LockChange    `json:"changes,omitempty"`
	Differences []string               `json:"differences,omitempty"` // --check
	Outdated    []releasefile.Outdated `json:"outdated,omitempty"`    // --outdated
	Problems    []problem              `json:"problems,omitempty"`    // what went wrong; the lock is as it was
}

// A locking is one run of `lock`.
type locking struct {
	file     *releasefile.File
	values   map[string][]byte
	previous *bundle.Lock
	network  charts.Network // nil with --check
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
	if err := checkVersion(c.String("version")); err != nil {
		return err
	}
	return needNoImages(c.Bool("no-images"), "lock")
}

// readLocking reads what there is on disk.
func readLocking(c *cli.Context) (*locking, error) {
	l := &locking{out: c.App.Writer, talk: flags.Talk(c), opts: bundle.LockOptions{
		Update: c.Args().Slice(), UpdateAll: c.Bool("update") && !c.Args().Present(), Version: c.String("version"),
	}}
	var err error
	if l.form, err = flags.Output(c); err != nil {
		return nil, err
	}
	if l.file, err = readRelease(c.String("file")); err != nil {
		return nil, err
	}
	if err := l.file.Check(); err != nil {
		return nil, err
	}
	if l.values, err = l.file.ValuesFiles(); err != nil {
		return nil, err
	}
	if l.previous, _, err = l.file.ReadLock(); err != nil {
		return nil, err
	}
	l.opts.Previous = l.previous
	if !c.Bool("check") {
		l.network, err = chartNetwork(c, l.file)
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

// lock makes the lock and writes it.
func (l *locking) lock(ctx context.Context) error {
	r := startResolving(l.file, releasefile.ResolveOptions{Values: l.values, Network: l.network, AskAgain: true}, l.talk, "resolving", "resolved")
	defer r.Close()
	lock, _, err := bundle.MakeLock(ctx, l.file.Release, r, r.shown(l.opts))
	if err != nil {
		return l.failed(err)
	}
	r.end()
	changed, err := l.file.WriteLock(lock)
	if err != nil {
		return err
	}
	changes := lock.Changes(l.previous)
	if l.form == flags.JSON {
		return ui.JSON(l.out, lockResult{Lock: l.file.LockPath(), Changed: changed, Packed: lock.Packed, Charts: lock.Charts, Changes: changes})
	}
	for _, chart := range lock.Charts {
		fmt.Fprintf(l.out, "%s\t%s\t%s\t%s\n", chart.Component, chart.Name, chart.Version, chart.Manifest)
	}
	l.sayChanges(changes, changed)
	return nil
}

func (l *locking) sayChanges(changes []bundle.LockChange, written bool) {
	if !written {
		l.talk.Sayf("%s is unchanged", l.file.LockPath())
		return
	}
	for _, change := range changes {
		l.talk.Sayf("%s: %s", change.Component, change)
	}
	l.talk.Sayf("wrote %s", l.file.LockPath())
}

// failed prints what went wrong, component by component, where JSON was asked
// for; the lock is as it was.
func (l *locking) failed(err error) error {
	if l.form != flags.JSON {
		return err
	}
	result := lockResult{Lock: l.file.LockPath(), Packed: bundle.PackedCharts, Charts: []bundle.LockedChart{}, Problems: problemsOf(err)}
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
		result := lockResult{Lock: l.file.LockPath(), Packed: bundle.PackedCharts, Differences: differences}
		if l.previous != nil {
			result.Charts = l.previous.Charts
		}
		if err := ui.JSON(l.out, result); err != nil {
			return err
		}
	}
	if len(differences) > 0 {
		return &bundle.StaleError{Differences: differences}
	}
	if l.form == flags.Text {
		fmt.Fprintf(l.out, "%s agrees with %s\n", l.file.LockPath(), l.file.Path)
	}
	return nil
}

func (l *locking) differences(ctx context.Context) ([]string, error) {
	r := l.file.Resolver(releasefile.ResolveOptions{Values: l.values})
	defer r.Close()
	return l.file.Compare(ctx, l.previous, r, l.opts)
}
