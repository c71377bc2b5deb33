// Package files reads and writes the files that a person names: bounded when
// they are read, so that a file of endless length fills no memory, and whole or
// not at all when they are written.
//
// It knows nothing of what is in them. Try [Read] first.
package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"waybill/internal/beside"
)

// Limit bounds what is read of one file, in bytes: release, site, lock, values
// and policy files, keys and trust material. The largest known is a bundle's
// document of 4 MiB.
const Limit = 16 << 20

// Read reads a file that a person named, at most [Limit] bytes of it. A file
// that cannot be read is an [*Error].
func Read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, &Error{Path: path, Err: err}
	}
	defer f.Close() // only read from
	return ReadFrom(path, f)
}

// ReadFrom reads what is no file on disk, such as standard input, as [Read]
// does. name is used in the error only.
func ReadFrom(name string, r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, Limit+1))
	if err == nil && len(data) > Limit {
		err = fmt.Errorf("larger than %d bytes", Limit)
	}
	if err != nil {
		return nil, &Error{Path: name, Err: err}
	}
	return data, nil
}

// An Error reports a file named by a person that cannot be read.
type Error struct {
	Path string
	Err  error
}

func (e *Error) Error() string {
	return fmt.Sprintf("reading %q: %v", e.Path, PlainError(e.Err))
}

func (e *Error) Unwrap() error { return e.Err }

// UsageHint returns "": the message says which file it is.
func (e *Error) UsageHint() string { return "" }

// PlainError leaves out act and path, which the caller says.
func PlainError(err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}

// Write writes a file beside its place and renames it there, so that a
// half-written one is never seen. What an earlier Write left that was killed is
// taken away.
func Write(path string, data []byte, mode fs.FileMode) error {
	return WriteAll([]Content{{Path: path, Data: data}}, mode)
}

// Content is what a file will hold.
type Content struct {
	Path string
	Data []byte
}

// WriteAll writes files as [Write] does, and gives none of them its name before
// there was room for all. When one can't have its name, none has.
func WriteAll(all []Content, mode fs.FileMode) (err error) {
	var staged []*os.File
	named := 0
	defer func() {
		if err == nil {
			return
		}
		for i, f := range staged {
			f.Close()
			os.Remove(f.Name()) // one that was renamed has not got this name any more
			if i < named {
				os.Remove(all[i].Path)
			}
		}
	}()
	for _, c := range all {
		f, err := create(c.Path)
		if err != nil {
			return err
		}
		staged = append(staged, f)
		if err := fill(f, c.Data, mode); err != nil {
			return err
		}
	}
	for i, f := range staged {
		if err := beside.Rename(f, all[i].Path); err != nil {
			return err
		}
		named++
	}
	return nil
}

// create makes the file that will be renamed to path.
func create(path string) (*os.File, error) {
	dir, prefix := filepath.Dir(path), "."+filepath.Base(path)+".waybill-"
	if err := beside.Sweep(dir, prefix); err != nil {
		return nil, err
	}
	return beside.Create(dir, prefix)
}

// fill writes all of a file, down to the disk.
func fill(f *os.File, data []byte, mode fs.FileMode) error {
	if _, err := f.Write(data); err != nil {
		return err
	}
	if err := f.Chmod(mode); err != nil {
		return err
	}
	return f.Sync()
}
