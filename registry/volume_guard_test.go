package registry_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"waybill/registry"
)

// What has the name of a volume and is none of the same root stays as it is, and
// nothing is written beside it.
func TestSaveLeavesWhatIsNoVolumeOfItsAlone(t *testing.T) {
	c, dir := client(t, quick()), t.TempDir()
	store(t, c, filepath.Join(dir, "one"), "shop-1.0.0", newSample(t, "one"))
	store(t, c, filepath.Join(dir, "two"), "shop-1.0.0", newSample(t, "two"))
	store(t, c, filepath.Join(dir, "whole.tar"), "shop-1.0.0", newSample(t, "one"))
	saved := func(from string, split int64) []byte {
		t.Helper()
		at := filepath.Join(t.TempDir(), "p.tar")
		if _, err := saveVolumes(t, c, filepath.Join(dir, from), at, registry.ArchiveOptions{Split: split}); err != nil {
			t.Fatal(err)
		}
		return readFile(t, at+".002")
	}
	other, split, set := saved("two", 24<<10), saved("one", 40<<10), saved("one", 24<<10)
	for _, test := range []struct {
		name           string
		content        []byte
		number, volume int
		refused        string // empty: it is written
	}{
		{"a text", []byte("mine\n"), 2, 0, "no volume of an archive"},
		{"a text beyond the last", []byte("mine\n"), 9, 0, "no volume of an archive"},
		{"a text beside the only one", []byte("mine\n"), 9, 1, ""},
		{"a text in the place of the only one", []byte("mine\n"), 1, 1, "no volume of an archive"},
		{"a whole archive", readFile(t, filepath.Join(dir, "whole.tar")), 2, 0, "no volume of an archive"},
		{"of another root", other, 2, 0, "is a volume of sha256:"},
		{"of another root, cut", other[:len(other)/2], 2, 0, "is a volume of sha256:"},
		{"of another root beyond the last", other, 9, 0, "is a volume of sha256:"},
		{"of another root beside the only one", other, 2, 1, "is a volume of sha256:"},
		{"of another split beside the only one", split, 2, 1, "another split, of 40K"},
		{"of another split in the place of the only one", split, 2, 2, "another split, of 40K"},
		{"of the same set beside the only one", set, 2, 1, ""},
		{"of the same set, cut", set[:len(set)-2000], 2, 0, ""},
		{"of the same set, cut in its table", set[:2100], 2, 2, ""},
		{"nothing in it", nil, 2, 0, ""},
		{"nothing in it, beyond the last", nil, 9, 0, "damaged volume"},
	} {
		t.Run(test.name, func(t *testing.T) {
			at := filepath.Join(t.TempDir(), "p.tar")
			path := fmt.Sprintf("%s.%03d", at, test.number)
			if err := os.WriteFile(path, test.content, 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := saveVolumes(t, c, filepath.Join(dir, "one"), at, registry.ArchiveOptions{Split: 24 << 10, Volume: test.volume, OnReplace: func(path, _ string, _ bool) {
				if test.refused != "" {
					t.Errorf("%s is said to be replaced", path)
				}
			}})
			if test.refused == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			var location *registry.LocationError
			if !errors.As(err, &location) || !strings.Contains(err.Error(), test.refused) || !strings.Contains(err.Error(), "left alone") {
				t.Errorf("%v", err)
			}
			entries, err := os.ReadDir(filepath.Dir(at))
			if err != nil || len(entries) != 1 || !bytes.Equal(readFile(t, path), test.content) {
				t.Errorf("beside it lies %v, %v", entries, err)
			}
		})
	}
}
