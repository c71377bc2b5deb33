//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// A bench holds the programs, the folder and what was measured.
type bench struct {
	options
	dir      string // holds everything that is written
	home     string // of the programs under test
	scratch  string // their working folder and that of their temporary files
	registry string // the program
	itself   string // this program

	tools    []tool            // those that are there
	programs map[string]string // their paths, by name
	versions map[string]string
	absent   []string

	source  *registry
	idle    measurement // of bundle version
	results []result
	began   time.Time
}

// A result is what was measured of one tool doing one thing.
type result struct {
	workload, what, tool string
	runs                 []measurement
}

// What is measured.
const (
	doCopy     = "copy"
	doAgain    = "copy again"
	doAssume   = "copy again, --assume-complete"
	doChange   = "copy, one image of 100 changed"
	doSave     = "save"
	doLoad     = "load"
	doLoadWarm = "load what is in the cache"
	doCutCopy  = "copy after a cut at 90 %"
	doCutSave  = "save after a cut at 90 %"
	doCutLoad  = "load after a cut at 90 %"
	headClient = "HEAD requests alone"
)

func newBench(ctx context.Context, opts options) (*bench, error) {
	b := &bench{options: opts, programs: map[string]string{}, versions: map[string]string{}, began: time.Now()}
	var err error
	if b.itself, err = os.Executable(); err != nil {
		return nil, err
	}
	if b.registry, err = find(opts.peers, "registry"); err != nil {
		return nil, fmt.Errorf("there is no registry to measure on: make interop builds one: %w", err)
	}
	for _, t := range tools() {
		path, err := find(opts.peers, t.program)
		if err != nil && t.name == ours {
			return nil, fmt.Errorf("bundle is not built: %w", err)
		}
		if err != nil {
			b.absent = append(b.absent, t.name)
			fmt.Fprintf(os.Stderr, "%s is absent and left out: it is neither in bin/peers (make interop; skopeo is a package of Debian) nor in PATH\n", t.name)
			continue
		}
		b.tools = append(b.tools, t)
		b.programs[t.name], b.versions[t.name] = path, versionOf(ctx, path, t.version...)
	}
	b.versions["registry"] = versionOf(ctx, b.registry, "--version")
	if b.dir, err = os.MkdirTemp(opts.dir, "waybill-bench-"); err != nil {
		return nil, err
	}
	b.home, b.scratch = filepath.Join(b.dir, "home"), filepath.Join(b.dir, "scratch")
	for _, folder := range []string{b.home, b.scratch} {
		if err := os.Mkdir(folder, 0o700); err != nil {
			return nil, errors.Join(err, b.close())
		}
	}
	if err := b.checkSpace(); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

// checkSpace wants room for the source, a target, an archive, and what other
// tools unpack it to.
func (b *bench) checkSpace() error {
	var disk syscall.Statfs_t
	if err := syscall.Statfs(b.dir, &disk); err != nil {
		return err
	}
	free := float64(disk.Bavail) * float64(disk.Bsize)
	need := 4.1*b.scale*(8<<30) + 2.5*(1<<30)
	if free < need {
		return fmt.Errorf("%s has %s left and the bench needs %s: give another folder with -dir, or a scale below %.2f (make bench BENCH_SCALE=…)", b.dir, size(free), size(need), (free-2.5*(1<<30))/4.1/(8<<30))
	}
	return nil
}

// close ends the registry and removes everything that was written.
func (b *bench) close() error {
	var err error
	if b.source != nil {
		err = b.source.stop()
	}
	return errors.Join(err, os.RemoveAll(b.dir))
}

// all measures everything.
func (b *bench) all(ctx context.Context) error {
	var err error
	if b.source, err = b.startRegistry(); err != nil {
		return err
	}
	if b.idle, err = b.idleMemory(ctx); err != nil {
		return err
	}
	if b.only != "large" {
		if err := b.workload(ctx, many(), b.rounds); err != nil {
			return err
		}
		if err := b.changes(ctx); err != nil {
			return err
		}
	}
	if b.only == "many" {
		return nil
	}
	return b.workload(ctx, large(b.scale), b.rounds)
}

// workload measures one workload.
func (b *bench) workload(ctx context.Context, w workload, rounds int) error {
	all, err := b.make(w)
	if err != nil {
		return err
	}
	for round := range rounds {
		for _, t := range b.inTurn(round) {
			if !b.isSlow(w, t, doCopy, doAgain) {
				if err := b.copies(ctx, w, all, t); err != nil {
					return err
				}
			}
			if t.save == nil || b.isSlow(w, t, doSave, doLoad) {
				continue
			}
			if err := b.archives(ctx, w, all, t); err != nil {
				return err
			}
		}
	}
	return b.cuts(ctx, w)
}

// isSlow says whether a tool was measured doing things and took more than twice as
// long as the fastest with the first of them, and with the second. To measure it
// again would tell nothing.
func (b *bench) isSlow(w workload, t tool, things ...string) bool {
	for _, what := range things {
		mine, measured := b.of(w.name, what, t.name)
		_, best, ok := b.fastest(w.name, what)
		if !measured || !ok || mine.Wall < 2*best.Wall {
			return false
		}
	}
	return t.name != ours
}

// inTurn is all tools, another one first in each round.
func (b *bench) inTurn(round int) []tool {
	first := round % len(b.tools)
	return append(append([]tool(nil), b.tools[first:]...), b.tools[:first]...)
}

// make puts a workload into the source.
func (b *bench) make(w workload) (inventory, error) {
	fmt.Fprintf(os.Stderr, "making %s\n", w.title)
	return w.put(repository{b.source, "source"})
}

func (b *bench) from(w workload) string { return b.source.host + "/source:" + w.name }

// take runs a tool once and notes what it took.
func (b *bench) take(ctx context.Context, workload, what string, t tool, args []string) error {
	m, err := b.measure(ctx, b.programs[t.name], args...)
	if err != nil {
		return err
	}
	b.note(workload, what, t.name, m)
	return nil
}

func (b *bench) note(workload, what, tool string, m measurement) {
	fmt.Fprintf(os.Stderr, "%-8s %-32s %-20s %8.2f s  %7.2f s CPU  %5d MiB\n", workload, what, tool, m.Wall.Seconds(), m.CPU.Seconds(), m.Memory>>20)
	for i := range b.results {
		if r := &b.results[i]; r.workload == workload && r.what == what && r.tool == tool {
			r.runs = append(r.runs, m)
			return
		}
	}
	b.results = append(b.results, result{workload, what, tool, []measurement{m}})
}

// copies measures a first and a second copy into an empty registry.
func (b *bench) copies(ctx context.Context, w workload, all inventory, t tool) (err error) {
	target, err := b.startRegistry()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, target.stop()) }()
	args := t.copy(b.from(w), target.host+"/mirror:"+w.name)
	if err := b.take(ctx, w.name, doCopy, t, args); err != nil {
		return err
	}
	if err := (repository{target, "mirror"}).has(all); err != nil {
		return fmt.Errorf("%s left something out: %w", t.name, err)
	}
	if err := b.take(ctx, w.name, doAgain, t, args); err != nil || t.name != ours {
		return err
	}
	if err := b.take(ctx, w.name, doAssume, t, append(args, "--assume-complete")); err != nil {
		return err
	}
	return b.heads(ctx, w, all, repository{target, "mirror"})
}

// heads measures what asking for everything costs at least, and our second copy
// once more beside it.
func (b *bench) heads(ctx context.Context, w workload, all inventory, target repository) error {
	file := filepath.Join(b.scratch, "heads")
	if err := writeHeads(file, target, all); err != nil {
		return err
	}
	defer os.Remove(file)
	for range 2 {
		m, err := b.measure(ctx, b.itself, "-heads", file)
		if err != nil {
			return err
		}
		b.note(w.name, doAgain, headClient, m)
		if err := b.take(ctx, w.name, doAgain, b.tools[0], b.tools[0].copy(b.from(w), target.registry.host+"/mirror:"+w.name)); err != nil {
			return err
		}
	}
	return nil
}

// archives measures saving, and loading what was saved: as it is on a medium that
// has come, and once more out of the cache.
func (b *bench) archives(ctx context.Context, w workload, all inventory, t tool) (err error) {
	file := filepath.Join(b.scratch, t.name+".tar")
	defer func() { err = errors.Join(err, b.sweep()) }()
	if err := b.take(ctx, w.name, doSave, t, t.save(b.from(w), file)); err != nil {
		return err
	}
	if b.isSlow(w, t, doLoad) {
		return nil
	}
	if err := forget(file); err != nil {
		return err
	}
	if err := b.load(ctx, w, all, doLoad, t, file); err != nil {
		return err
	}
	if err := remember(file); err != nil {
		return err
	}
	return b.load(ctx, w, all, doLoadWarm, t, file)
}

// load measures loading a file into an empty registry.
func (b *bench) load(ctx context.Context, w workload, all inventory, what string, t tool, file string) error {
	return b.onTarget(func(target *registry) error {
		if err := b.take(ctx, w.name, what, t, t.load(file, target.host+"/mirror:"+w.name)); err != nil {
			return err
		}
		if err := (repository{target, "mirror"}).has(all); err != nil {
			return fmt.Errorf("%s left something out: %w", t.name, err)
		}
		return nil
	})
}

// sweep removes what a tool left in its working folder.
func (b *bench) sweep() error {
	left, err := os.ReadDir(b.scratch)
	if err != nil {
		return err
	}
	for _, entry := range left {
		err = errors.Join(err, os.RemoveAll(filepath.Join(b.scratch, entry.Name())))
	}
	return err
}

// changes measures the copy of an index of which one image of 100 is new.
func (b *bench) changes(ctx context.Context) error {
	versions := []workload{changed(many(), 0)}
	for version := range b.rounds {
		versions = append(versions, changed(many(), version+1))
	}
	for _, w := range versions {
		if _, err := b.make(w); err != nil {
			return err
		}
	}
	for _, t := range b.tools {
		if err := b.changesOf(ctx, t, versions); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) changesOf(ctx context.Context, t tool, versions []workload) (err error) {
	target, err := b.startRegistry()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, target.stop()) }()
	for version, w := range versions {
		args := t.copy(b.from(w), target.host+"/mirror:"+strconv.Itoa(version))
		if version == 0 {
			_, err = b.measure(ctx, b.programs[t.name], args...)
		} else {
			err = b.take(ctx, "many", doChange, t, args)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// idleMemory is what bundle takes that does nothing.
func (b *bench) idleMemory(ctx context.Context) (measurement, error) {
	var all []measurement
	for range 5 {
		m, err := b.measure(ctx, b.programs[ours], "version")
		if err != nil {
			return m, err
		}
		all = append(all, m)
	}
	return median(all), nil
}
