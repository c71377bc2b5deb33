package beside

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// What nobody holds goes, and nothing else: neither a writer's file that is at
// work nor one of another name.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	held, err := Create(dir, ".a.")
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	left, err := Create(dir, ".a.")
	if err != nil {
		t.Fatal(err)
	}
	if err := left.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a.yaml", ".b.left"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, ".a.folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Sweep(dir, ".a."); err != nil {
		t.Fatal(err)
	}
	want := []string{filepath.Base(held.Name()), ".a.folder", ".b.left", "a.yaml"}
	slices.Sort(want)
	if got := names(t, dir); !slices.Equal(got, want) {
		t.Errorf("there is %q, want %q", got, want)
	}
	if err := Sweep(filepath.Join(dir, "absent"), ".a."); err != nil {
		t.Errorf("a folder that is not there: %v", err)
	}
}

// Writers that sweep all the time lose none of each other's files.
func TestCreateAmongSweeps(t *testing.T) {
	dir := t.TempDir()
	var writers sync.WaitGroup
	for w := range 8 {
		writers.Go(func() {
			for i := range 50 {
				if err := Sweep(dir, ".a."); err != nil {
					t.Error(err)
				}
				f, err := Create(dir, ".a.")
				if err != nil {
					t.Error(err)
					return
				}
				if err := Rename(f, filepath.Join(dir, fmt.Sprintf("%d-%d", w, i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	if n := len(names(t, dir)); n != 400 {
		t.Errorf("%d files, want 400", n)
	}
}
