package export

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// String has all files, one after the other, each below a line that says where
// it belongs. Objects for a cluster are documents of one YAML stream.
func (c Config) String() string {
	var b strings.Builder
	for i, f := range c.Files {
		switch {
		case c.Base == "" && i > 0:
			b.WriteString("---\n")
		case i > 0:
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "# %s\n%s", path.Join(c.Base, f.Path), f.Content)
	}
	return b.String()
}

// An OtherFileError reports files that are there and say something else. Nothing
// was written.
type OtherFileError struct{ Paths []string }

func (e *OtherFileError) Error() string {
	return "these files are there and say otherwise; nothing was written: " + strings.Join(e.Paths, " ")
}

// Hint says what to type next.
func (e *OtherFileError) Hint() string {
	return "look at them, put both together by hand, or replace them with --overwrite"
}

// WriteTo writes the files into a folder that stands for the base, each whole or
// not at all, and returns their paths. A file that is there with other content
// is not replaced unless overwrite says so, and then nothing is written: an
// [*OtherFileError].
func (c Config) WriteTo(folder string, overwrite bool) ([]string, error) {
	var paths, others []string
	for _, f := range c.Files {
		name := filepath.Join(folder, filepath.FromSlash(f.Path))
		there, err := os.ReadFile(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, err
		case !overwrite && !bytes.Equal(there, []byte(f.Content)):
			others = append(others, name)
		}
		paths = append(paths, name)
	}
	if len(others) > 0 {
		return nil, &OtherFileError{Paths: others}
	}
	for i, f := range c.Files {
		if err := writeWhole(paths[i], []byte(f.Content)); err != nil {
			return nil, err
		}
	}
	return paths, nil
}

// writeWhole writes beside and renames. Whoever runs containers must be able to
// read it.
func writeWhole(name string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	beside, err := os.CreateTemp(filepath.Dir(name), ".waybill-*")
	if err != nil {
		return err
	}
	defer os.Remove(beside.Name())
	_, err = beside.Write(data)
	if err := errors.Join(err, beside.Chmod(0o644), beside.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return os.Rename(beside.Name(), name)
}
