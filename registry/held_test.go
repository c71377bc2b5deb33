package registry_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"waybill/registry"
)

// What a place holds is told before it is written to.
func TestHeld(t *testing.T) {
	dir := t.TempDir()
	c, s := client(t, quick()), newSample(t, "one")
	for _, at := range []string{filepath.Join(dir, "shop.tar"), filepath.Join(dir, "layout")} {
		loc := location(t, at)
		if held, err := c.Held(t.Context(), loc); err != nil || len(held) != 0 {
			t.Errorf("%s before it is there: %v, %v", at, held, err)
		}
		store(t, c, at, "shop-1.0.0", s)
		held, err := c.Held(t.Context(), loc)
		if err != nil || len(held) != 1 || held[0].Digest != s.root.desc.Digest || held[0].Annotations[ocispec.AnnotationRefName] != "shop-1.0.0" {
			t.Errorf("%s holds %v, %v", at, held, err)
		}
	}
}

// Somebody's file or folder is never taken for a place to write a bundle to.
func TestWritingLeavesOthersAlone(t *testing.T) {
	dir := t.TempDir()
	file, folder := filepath.Join(dir, "notes.tar"), filepath.Join(dir, "folder")
	if err := os.WriteFile(file, []byte("precious"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(folder, "inner"), 0o755); err != nil {
		t.Fatal(err)
	}
	c := client(t, quick())
	for _, typed := range []string{file, folder, "oci-layout:" + file, "oci-archive:" + folder} {
		_, err := c.Held(t.Context(), location(t, typed))
		var wrong *registry.LocationError
		if !errors.As(err, &wrong) {
			t.Errorf("%s is held as if it were ours: %v", typed, err)
		}
	}
	for _, typed := range []string{folder, "oci-layout:" + file, "oci-archive:" + folder, filepath.Join(dir, "absent", "shop.tar")} {
		_, err := c.Create(t.Context(), location(t, typed))
		var wrong *registry.LocationError
		if !errors.As(err, &wrong) {
			t.Errorf("%s can be written to: %v", typed, err)
		}
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "precious" {
		t.Errorf("the file holds %q, %v", data, err)
	}
	var names []string
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if want := []string{"folder", "notes.tar"}; !slices.Equal(names, want) {
		t.Errorf("the folder holds %v, want %v", names, want)
	}
}

func TestCheckTag(t *testing.T) {
	for _, tt := range []struct {
		kind registry.Kind
		tag  string
		ok   bool
	}{
		{registry.Registry, "1.0.0_build.5", true},
		{registry.Registry, "1.0.0+build.5", false},
		{registry.Registry, "", false},
		{registry.Registry, "a b", false},
		{registry.Archive, "shop-1.0.0+build.5", true},
		{registry.Layout, "../shop", false},
	} {
		err := registry.CheckTag(tt.kind, tt.tag)
		var wrong *registry.TagError
		if ok := err == nil; ok != tt.ok || !ok && !errors.As(err, &wrong) {
			t.Errorf("%s %q: %v", tt.kind, tt.tag, err)
		}
	}
}
