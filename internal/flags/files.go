package flags

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// maxFile bounds the files a person names, in bytes: release, site, lock and
// values files.
const maxFile = 16 << 20

// ReadFile reads a file that a person named, at most 16 MiB of it. A file
// that cannot be read is a [*FileError].
func ReadFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, &FileError{Path: path, Err: err}
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, &FileError{Path: path, Err: err}
	}
	if len(data) > maxFile {
		return nil, &FileError{Path: path, Err: fmt.Errorf("larger than %d bytes", maxFile)}
	}
	return data, nil
}

// A FileError reports a file named by a person that cannot be read.
type FileError struct {
	Path string
	Err  error
}

func (e *FileError) Error() string {
	var perr *fs.PathError
	if errors.As(e.Err, &perr) {
		return fmt.Sprintf("reading %q: %v", e.Path, perr.Err)
	}
	return fmt.Sprintf("reading %q: %v", e.Path, e.Err)
}

func (e *FileError) Unwrap() error { return e.Err }

// UsageHint returns "": the message says which file it is.
func (e *FileError) UsageHint() string { return "" }

// WriteFile writes a file beside its place and renames it there, so that a
// half-written one is never seen.
func WriteFile(path string, data []byte, mode fs.FileMode) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	if _, err := f.Write(data); err != nil {
		return err
	}
	if err := f.Chmod(mode); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
