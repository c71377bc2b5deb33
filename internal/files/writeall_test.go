package files_test

import (
	"os"
	"path/filepath"
	"testing"

	"waybill/internal/files"
)

// Of files that belong together none is there when one can't be written, or can't
// have its name; what was there before stays when none was named yet.
func TestWriteAll(t *testing.T) {
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	write := func(second string) error {
		return files.WriteAll([]files.Content{{Path: one, Data: []byte("new")}, {Path: second, Data: []byte("new")}}, 0o644)
	}
	holds := func(want ...string) {
		t.Helper()
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) != len(want) {
			t.Fatalf("there is %v, want %q, %v", entries, want, err)
		}
		for i, e := range entries {
			if e.Name() != want[i] {
				t.Errorf("there is %s, want %s", e.Name(), want[i])
			}
		}
	}
	if err := write(filepath.Join(dir, "absent", "two")); err == nil {
		t.Error("one in a folder that is not there is written")
	}
	holds()
	if err := os.WriteFile(one, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := write(filepath.Join(dir, "absent", "two")); err == nil {
		t.Error("one in a folder that is not there is written")
	}
	if data, err := os.ReadFile(one); err != nil || string(data) != "old" {
		t.Errorf("what was there is %q, %v", data, err)
	}
	if err := os.Mkdir(two, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := write(two); err == nil {
		t.Error("a folder is replaced")
	}
	holds("two")
	if err := os.Remove(two); err != nil {
		t.Fatal(err)
	}
	if err := write(two); err != nil {
		t.Fatal(err)
	}
	holds("one", "two")
}
