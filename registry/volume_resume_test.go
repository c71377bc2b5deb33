package registry_test

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"waybill/internal/registrytest"
	"waybill/registry"
)

// A save in volumes that is cut keeps the volumes that are whole and what there is
// of the next, and going on asks for nothing of them again.
func TestSaveInVolumesGoesOn(t *testing.T) {
	var cut atomic.Bool
	var asked atomic.Int32
	s := newSample(t, "one")
	large := "/blobs/" + s.imageLayer.desc.Digest.String()
	reg := registrytest.New(t, registrytest.Options{Fault: func(r *http.Request) *registrytest.Fault {
		if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, large) {
			return nil
		}
		asked.Add(1)
		// The layer is read once to know what its pieces are, and then these in their
		// order: the second of them is where the registry ends.
		if cut.Load() && asked.Load() > 2 {
			return &registrytest.Fault{Status: http.StatusForbidden}
		}
		return nil
	}})
	c := client(t, registry.Settings{Retry: -1, Concurrency: 1})
	store(t, c, "oci://"+reg.Host+"/team/shop", "1.0.0", s)
	from, archive := "oci://"+reg.Host+"/team/shop:1.0.0", filepath.Join(t.TempDir(), "p.tar")
	opts := registry.ArchiveOptions{Split: 24 << 10}
	cut.Store(true)
	_, err := saveVolumes(t, c, from, archive, opts)
	var denied *registry.DeniedError
	if !errors.As(err, &denied) {
		t.Fatalf("cut: %v", err)
	}
	cut.Store(false)
	first := asked.Swap(0)
	kept := 0
	opts.OnVolume = func(_ registry.VolumeFile, _ int, there bool) {
		if there {
			kept++
		}
	}
	volumes, err := saveVolumes(t, c, from, archive, opts)
	if err != nil {
		t.Fatal(err)
	}
	if kept == 0 {
		t.Errorf("no volume is kept of %d; asked %d times before and %d after", volumes.Total, first, asked.Load())
	}
	src := open(t, c, archive)
	if err := src.CheckVolumes(t.Context(), nil); err != nil {
		t.Error(err)
	}
	contractContent(t, src, s)
}

// An interruption leaves no file that could be taken for a volume.
func TestSaveInVolumesInterrupted(t *testing.T) {
	c, dir := client(t, quick()), t.TempDir()
	s := newSample(t, "one")
	store(t, c, filepath.Join(dir, "layout"), "shop-1.0.0", s)
	src := open(t, c, filepath.Join(dir, "layout"))
	ctx, cancel := context.WithCancel(t.Context())
	dst, err := c.CreateArchive(ctx, location(t, filepath.Join(dir, "p.tar")), registry.ArchiveOptions{
		Split: 24 << 10, OnVolume: func(registry.VolumeFile, int, bool) { cancel() },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := copyAndTag(ctx, src, dst, "shop-1.0.0"); err == nil {
		t.Fatal("it was not interrupted")
	}
	var missing *registry.VolumesError
	if _, err := c.Open(t.Context(), location(t, filepath.Join(dir, "p.tar"))); !errors.As(err, &missing) || missing.Volumes[0].Number != 2 {
		t.Errorf("after it: %v", err)
	}
}
