package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"waybill/internal/beside"
	"waybill/internal/files"
)

// lockFile serialises writers of one layout's index.json. It is there only
// while somebody writes.
const lockFile = ".waybill.lock"

// layoutTarget writes to a layout folder that others may write to at the same time.
type layoutTarget struct {
	staged
	location Location
	made     bool // the folder was not there before
}

// createLayout opens a layout folder for writing, and makes it when there is
// none. A folder with other things in it is left alone.
func createLayout(l Location) (*layoutTarget, error) {
	t := &layoutTarget{location: l, staged: staged{place: placeName(l), into: folder(l.Path)}}
	if err := checkFolder(l); err != nil {
		return nil, err
	}
	before, err := openLayout(l)
	var notThere *LocationError
	var incomplete *ContentError
	switch {
	case err == nil:
		t.before = before
		return t, t.sweep()
	case errors.As(err, &notThere):
		t.made = true
	case errors.As(err, &incomplete) && isFresh(l.Path):
	default:
		// Another writer may have completed it between the two looks.
		if t.before, err = openLayout(l); err != nil {
			return nil, notOurs(err, l)
		}
		return t, t.sweep()
	}
	if err := t.sweep(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(l.Path, 0o755); err != nil {
		return nil, fmt.Errorf("making layout %s: %w", t.place, files.PlainError(err))
	}
	if err := writeWhole(filepath.Join(l.Path, layoutFile), layoutFileBytes()); err != nil {
		return nil, fmt.Errorf("making layout %s: %w", t.place, files.PlainError(err))
	}
	return t, nil
}

// checkFolder refuses a file.
func checkFolder(l Location) error {
	if exists(l.Path) && !isDirectory(l.Path) {
		return &LocationError{Input: l.String(), Reason: "is a file, not a folder"}
	}
	return nil
}

// sweep takes away what writers that were killed left half-written.
func (t *layoutTarget) sweep() error {
	dirs, err := filepath.Glob(filepath.Join(globEscape(t.location.Path), ocispec.ImageBlobsDir, "*"))
	for _, dir := range append(dirs, t.location.Path) {
		if err == nil {
			err = beside.Sweep(dir, tempPrefix)
		}
	}
	if err != nil {
		return fmt.Errorf("writing to %s: %w", t.place, files.PlainError(err))
	}
	return nil
}

func globEscape(path string) string {
	return strings.NewReplacer(`*`, `[*]`, `?`, `[?]`, `[`, `[[]`).Replace(path)
}

// isFresh says whether a folder has nothing in it but the beginnings of a
// layout, from a writer that is at work or was interrupted.
func isFresh(path string) bool {
	found, err := os.ReadDir(path)
	if err != nil {
		return false
	}
	for _, f := range found {
		switch name := f.Name(); {
		case name == layoutFile, name == ocispec.ImageBlobsDir, name == lockFile, strings.HasPrefix(name, tempPrefix):
		default:
			return false
		}
	}
	return true
}

func writeWhole(path string, data []byte) error {
	return writeBeside(path, func(w io.Writer) error { _, err := w.Write(data); return err })
}

// removeFile removes a file that may be gone already.
func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// commit merges the entries into the index.json that is there now, under the
// lock, and renames the new one into its place.
func (t *layoutTarget) commit(ctx context.Context) error {
	unlock, err := lockFolder(ctx, t.location.Path, t.place)
	if err != nil {
		return err
	}
	return errors.Join(t.writeIndex(), unlock())
}

func (t *layoutTarget) writeIndex() error {
	now, err := readIndexFile(t.location)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	t.mu.Lock()
	index := merge(now, t.entries)
	t.mu.Unlock()
	data, err := writeIndex(index)
	if err != nil {
		return err
	}
	if err := writeWhole(filepath.Join(t.location.Path, indexFile), data); err != nil {
		return fmt.Errorf("writing %s of %s: %w", indexFile, t.place, files.PlainError(err))
	}
	return nil
}

// abort takes back what nobody else can have built on: the folder, when it was
// made here and nothing was put into it. Blobs stay; they are whole, named by
// their digests, and another writer may have found them.
func (t *layoutTarget) abort() error {
	if !t.made {
		return nil
	}
	if found, err := os.ReadDir(t.location.Path); err != nil || len(found) != 1 || found[0].Name() != layoutFile {
		return nil
	}
	return errors.Join(os.Remove(filepath.Join(t.location.Path, layoutFile)), os.Remove(t.location.Path))
}
