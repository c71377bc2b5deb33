package files

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// zeros never ends.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func TestReadFromIsBounded(t *testing.T) {
	tests := []struct {
		name string
		r    io.Reader
		want string // of the error; empty: none
	}{
		{"as much as may be", io.LimitReader(zeros{}, Limit), ""},
		{"a byte more", io.LimitReader(zeros{}, Limit+1), `reading "standard input": larger than 16777216 bytes`},
		{"without an end", zeros{}, `reading "standard input": larger than 16777216 bytes`},
		{"nothing", strings.NewReader(""), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ReadFrom("standard input", tt.r)
			var failed *Error
			if tt.want == "" && err != nil || tt.want != "" && (!errors.As(err, &failed) || failed.Error() != tt.want) {
				t.Errorf("error is %v, want %q", err, tt.want)
			}
		})
	}
}

func TestReadNamesTheFileOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "absent.yaml")
	_, err := Read(path)
	if !errors.Is(err, fs.ErrNotExist) || strings.Count(err.Error(), path) != 1 {
		t.Errorf("error is %v", err)
	}
}

// What cannot be put in place leaves what was there, and nothing beside it.
func TestWriteIsWholeOrNot(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.yaml")
	for _, text := range []string{"one", "two"} {
		if err := Write(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got, err := Read(path); err != nil || string(got) != text {
			t.Errorf("read %q, %v", got, err)
		}
	}
	taken := filepath.Join(dir, "taken")
	if err := os.MkdirAll(filepath.Join(taken, "full"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Write(taken, []byte("three"), 0o644); err == nil {
		t.Error("a folder was replaced by a file")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

// What a killed writer left beside the file goes with the next one; what an editor
// keeps there stays.
func TestWriteTakesAwayWhatWasLeft(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.lock.yaml")
	for _, name := range []string{".a.lock.yaml.waybill-abc", ".a.lock.yaml.swp"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := Write(path, []byte("whole"), 0o640); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 || entries[0].Name() != ".a.lock.yaml.swp" || entries[1].Name() != "a.lock.yaml" {
		t.Errorf("there is %v, %v", entries, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v", info, err)
	}
}
