// Package releasefile is a release file on disk with what belongs to it: the
// lock and the values files beside it, and the charts it names, wherever they
// come from. Both programs work with it: one makes bundles of release files, the
// other can install from one.
//
// It joins the rooms bundle and charts: [Resolver] is the charts of a file in the
// words of the lock. What the documents mean it leaves to bundle, what a chart is to
// charts, and what to say of it to the programs. Try [Read] first.
package releasefile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"waybill/bundle"
	"waybill/internal/files"
)

// A File is a release file that was read.
type File struct {
	Path    string
	Data    []byte // as written
	Release *bundle.Release
}

// Read reads and parses the release file at path. Errors are [*files.Error] and
// [*bundle.FileError]; what [bundle.Release.Check] finds is not looked for.
func Read(path string) (*File, error) {
	data, err := files.Read(path)
	if err != nil {
		return nil, err
	}
	release, err := bundle.ParseRelease(path, data)
	if err != nil {
		return nil, err
	}
	return &File{Path: path, Data: data, Release: release}, nil
}

// Check returns a [*bundle.LintError] for what lint finds in the file itself.
func (f *File) Check() error {
	if problems := f.Release.Check(); len(problems) > 0 {
		return &bundle.LintError{File: f.Path, Problems: problems}
	}
	return nil
}

// LockPath is x.lock.yaml for x.yaml.
func (f *File) LockPath() string {
	return strings.TrimSuffix(f.Path, filepath.Ext(f.Path)) + ".lock.yaml"
}

// ReadLock returns the lock beside the release file with its bytes, nil when
// there is none. Errors are those of [Read].
func (f *File) ReadLock() (*bundle.Lock, []byte, error) {
	data, err := files.Read(f.LockPath())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	lock, err := bundle.ParseLock(f.LockPath(), data)
	return lock, data, err
}

// Compare says what makes the lock stale, as [bundle.CompareLock] does; a lock
// that is not there is. No network of sources is asked, and whether what decides
// about images counts is the lock's to say: that images are wanted and none are
// locked is a difference of its own.
func (f *File) Compare(ctx context.Context, lock *bundle.Lock, sources ResolveOptions, opts bundle.LockOptions) ([]string, error) {
	if lock == nil {
		return []string{"there is no " + f.LockPath()}, nil
	}
	sources.Network, sources.Images = nil, lock.Packed == bundle.PackedImages
	r := f.Resolver(sources)
	defer r.Close()
	return bundle.CompareLock(ctx, f.Release, lock, r, opts)
}

// RequireFresh returns a [*bundle.StaleError] where [File.Compare] finds something.
func (f *File) RequireFresh(ctx context.Context, lock *bundle.Lock, sources ResolveOptions, opts bundle.LockOptions) error {
	differences, err := f.Compare(ctx, lock, sources, opts)
	if err != nil {
		return err
	}
	return bundle.StaleLock(lock, differences, opts)
}

// Hosts returns the hosts that the charts of the release file come from, each
// once, sorted.
func (f *File) Hosts() []string {
	var hosts []string
	for _, c := range f.Release.Components {
		for _, address := range []string{c.Chart.Repository, c.Chart.Git} {
			if u, err := url.Parse(address); err == nil && u.Host != "" {
				hosts = append(hosts, u.Host)
			}
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// Beside is the path of a file that the release file names.
func (f *File) Beside(name string) string {
	if path := filepath.FromSlash(name); filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(f.Path), filepath.FromSlash(name))
}

// WriteLock writes the lock beside the release file, aside first. It reports
// whether the file changed.
func (f *File) WriteLock(lock *bundle.Lock) (bool, error) {
	data, err := lock.Encode()
	if err != nil {
		return false, err
	}
	if old, err := os.ReadFile(f.LockPath()); err == nil && string(old) == string(data) {
		return false, nil
	}
	return true, files.Write(f.LockPath(), data, 0o644)
}

// ValuesFiles reads the values files that the components name, each under its
// path in the release file.
func (f *File) ValuesFiles() (map[string][]byte, error) {
	values := map[string][]byte{}
	for _, c := range f.Release.Components {
		for _, name := range c.ValuesFiles {
			if _, have := values[name]; have {
				continue
			}
			data, err := files.Read(f.Beside(name))
			if err != nil {
				return nil, fmt.Errorf("values file %q of component %s: %w", name, c.Name, err)
			}
			values[name] = data
		}
	}
	return values, nil
}
