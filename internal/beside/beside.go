// Package beside makes files that are not whole yet, beside the place that they
// are renamed to, so that those of a writer that was killed are told from those of
// one that is at work: a writer holds its own locked, and locks end with the
// process, however that ends.
//
// Try [Create] first.
package beside

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// ErrLocked is a file that somebody holds.
var ErrLocked = errors.New("locked")

// createTries bounds the race with a [Sweep] between the making of a file and its
// lock.
const createTries = 100

// Create makes a new file in dir, only for its owner to read, whose name begins
// with prefix, and locks it. It is the caller's to close and to rename or remove.
func Create(dir, prefix string) (*os.File, error) {
	for range createTries {
		name := filepath.Join(dir, prefix+strings.ToLower(rand.Text()))
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return nil, err
		}
		if ours, err := hold(f); ours || err != nil {
			return f, err
		}
	}
	return nil, fmt.Errorf("%s: others take away every file that is made there", dir)
}

// hold locks a file that was made a moment ago. It is not ours when a sweep got it
// first.
func hold(f *os.File) (bool, error) {
	err := Lock(f)
	if err == nil && isNamed(f) {
		return true, nil
	}
	_ = f.Close()
	if err == nil || errors.Is(err, ErrLocked) {
		return false, nil
	}
	return false, errors.Join(err, os.Remove(f.Name()))
}

// isNamed says whether an open file is still the one of its name.
func isNamed(f *os.File) bool {
	mine, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(f.Name())
	return err == nil && os.SameFile(mine, there)
}

// Rename closes a file and gives it its name. It is held until it has it, but on
// Windows, which does not rename what is open.
func Rename(f *os.File, path string) error {
	if runtime.GOOS == "windows" {
		if err := f.Close(); err != nil {
			return err
		}
		return os.Rename(f.Name(), path)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return f.Close()
}

// Sweep removes the files in dir whose names begin with prefix and that nobody
// holds. A folder that is not there has none, and one that is not ours keeps them.
func Sweep(dir, prefix string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.Type().IsRegular() && strings.HasPrefix(entry.Name(), prefix) {
			removeLeft(filepath.Join(dir, entry.Name()))
		}
	}
	return nil
}

// removeLeft removes a file that nobody holds. One that can't be opened or removed
// is in nobody's way.
func removeLeft(name string) {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer f.Close()
	if Lock(f) == nil && isNamed(f) {
		_ = os.Remove(name)
	}
}
