package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/opencontainers/go-digest"
	"github.com/urfave/cli/v2"

	"waybill/bundle"
	"waybill/charts"
	"waybill/internal/flags"
	"waybill/internal/ui"
)

// defaultReleaseFile is read when -f is not given.
const defaultReleaseFile = "release.yaml"

func fileFlag() cli.Flag {
	return &cli.StringFlag{Name: "file", Aliases: []string{"f"}, Value: defaultReleaseFile, Usage: "release `FILE`"}
}

// A releaseFile is a release file on disk with what lies beside it.
type releaseFile struct {
	path    string
	data    []byte
	release *bundle.Release
}

// readRelease reads the release file at path.
func readRelease(path string) (*releaseFile, error) {
	data, err := flags.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && path == defaultReleaseFile {
		return nil, &flags.UsageError{
			Message: "there is no release.yaml in this folder",
			Hint:    "name the release file with -f FILE",
		}
	}
	if err != nil {
		return nil, err
	}
	release, err := bundle.ParseRelease(path, data)
	if err != nil {
		return nil, err
	}
	return &releaseFile{path: path, data: data, release: release}, nil
}

// check refuses what lint finds in the file itself.
func (f *releaseFile) check() error {
	if problems := f.release.Check(); len(problems) > 0 {
		return &bundle.LintError{File: f.path, Problems: problems}
	}
	return nil
}

// resolver resolves the charts of this file; outputs is what will be written
// besides the lock.
func (f *releaseFile) resolver(outputs ...string) resolver {
	return resolver{dir: filepath.Dir(f.path), outputs: append([]string{f.lockPath()}, outputs...)}
}

// lockPath is x.lock.yaml for x.yaml.
func (f *releaseFile) lockPath() string {
	return strings.TrimSuffix(f.path, filepath.Ext(f.path)) + ".lock.yaml"
}

// readLock returns the lock beside the release file, nil when there is none.
func (f *releaseFile) readLock() (*bundle.Lock, error) {
	data, err := flags.ReadFile(f.lockPath())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return bundle.ParseLock(f.lockPath(), data)
}

// compare says what makes the lock stale; a lock that is not there is.
func (f *releaseFile) compare(ctx context.Context, lock *bundle.Lock, version string) ([]string, error) {
	if lock == nil {
		return []string{"there is no " + f.lockPath()}, nil
	}
	return bundle.CompareLock(ctx, f.release, lock, f.resolver(), bundle.LockOptions{Version: version})
}

// beside is the path of a file that the release file names.
func (f *releaseFile) beside(name string) string {
	if path := filepath.FromSlash(name); filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(f.path), filepath.FromSlash(name))
}

// writeLock writes the lock beside the release file, aside first. It reports
// whether the file changed.
func (f *releaseFile) writeLock(lock *bundle.Lock) (bool, error) {
	data, err := lock.Encode()
	if err != nil {
		return false, err
	}
	if old, err := os.ReadFile(f.lockPath()); err == nil && string(old) == string(data) {
		return false, nil
	}
	return true, flags.WriteFile(f.lockPath(), data, 0o644)
}

// valuesFiles reads the values files that the components name, each under its
// path in the release file.
func (f *releaseFile) valuesFiles() (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, c := range f.release.Components {
		for _, name := range c.ValuesFiles {
			if _, have := files[name]; have {
				continue
			}
			data, err := flags.ReadFile(f.beside(name))
			if err != nil {
				return nil, fmt.Errorf("values file %q of component %s: %w", name, c.Name, err)
			}
			files[name] = data
		}
	}
	return files, nil
}

// A resolver resolves charts for the lock: the room charts in the words of
// the room bundle.
type resolver struct {
	dir     string   // where relative paths begin
	outputs []string // what is written from the charts and so can't be in them
}

var (
	_ bundle.Resolver = resolver{}
	_ bundle.Inputs   = resolver{}
)

// Resolve packs the chart; what is locked is of no use to a folder or file,
// whose content alone decides.
func (r resolver) Resolve(ctx context.Context, c bundle.Component, _ *bundle.LockedChart) (bundle.Resolved, error) {
	chart, err := r.chart(ctx, c)
	if err != nil {
		return bundle.Resolved{}, err
	}
	locked := bundle.LockedChart{
		Component: c.Name, Name: chart.Name(), Version: chart.Version(), Source: chart.Source,
		Inputs: chart.Inputs, Content: chart.Content, Manifest: chart.Manifest, Files: chart.Files,
	}
	return bundle.Resolved{Locked: locked, Chart: chart}, nil
}

// Inputs returns the digest of what resolving depends on; it asks no network.
func (r resolver) Inputs(ctx context.Context, c bundle.Component) (digest.Digest, error) {
	chart, err := r.chart(ctx, c)
	if err != nil {
		return "", err
	}
	return chart.Inputs, nil
}

func (r resolver) chart(ctx context.Context, c bundle.Component) (*charts.Chart, error) {
	if err := supported(c); err != nil {
		return nil, err
	}
	chart, err := charts.Resolve(ctx, r.dir, charts.Source{Path: c.Chart.Path, Outputs: r.outputs})
	var invalid *charts.InvalidError
	if errors.As(err, &invalid) {
		return nil, &chartFileError{err}
	}
	return chart, err
}

// A chartFileError reports a chart on disk that is none.
type chartFileError struct{ err error }

func (e *chartFileError) Error() string { return e.err.Error() }

func (e *chartFileError) Unwrap() error { return e.err }

// ExitCode is that of files that don't parse.
func (e *chartFileError) ExitCode() int { return ui.ExitUsage }

var kindWords = map[string]string{
	bundle.SourceRepository: "a repository", bundle.SourceGit: "git", bundle.SourceManifests: "manifests",
}

// supported refuses chart sources that the release file may name and this
// version does not fetch.
func supported(c bundle.Component) error {
	if c.Chart.Kind() == bundle.SourcePath {
		return nil
	}
	return &flags.UsageError{
		Message: fmt.Sprintf("charts from %s come with a later version of waybill; this one packs a folder or a .tgz file", kindWords[c.Chart.Kind()]),
		Hint:    "fetch the chart once (`helm pull`) and name it with chart: {path: …}",
	}
}
