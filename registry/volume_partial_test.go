package registry_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"waybill/internal/registrytest"
	"waybill/registry"
)

// Volumes go into a registry one at a time, in any order, with nothing kept
// between; the last one completes what they are volumes of, blobs that are cut
// too, and nothing else is left there.
func TestVolumesOneAtATime(t *testing.T) {
	c, dir := client(t, quick()), t.TempDir()
	s := newSample(t, "one")
	store(t, c, filepath.Join(dir, "layout"), "shop-1.0.0", s)
	archive := filepath.Join(dir, "p.tar")
	volumes, err := saveVolumes(t, c, filepath.Join(dir, "layout"), archive, registry.ArchiveOptions{Split: 24 << 10})
	if err != nil {
		t.Fatal(err)
	}
	forward := volumes.Files
	backward := slices.Clone(forward)
	slices.Reverse(backward)
	for name, files := range map[string][]registry.VolumeFile{"forward": forward, "backward": backward} {
		t.Run(name, func(t *testing.T) {
			reg := registrytest.New(t, registrytest.Options{})
			at := location(t, "oci://"+reg.Host+"/team/shop:1.0.0")
			var brought, planned, done int64
			opts := registry.CopyOptions{
				Concurrency: 1, OnPlanned: func(_ int, bytes int64) { planned += bytes },
				OnDone: func(desc ocispec.Descriptor, _ string, _ int64) { done += desc.Size },
			}
			for i, f := range files {
				src, err := c.OpenVolumes(t.Context(), []registry.Location{location(t, f.Path)}, true)
				if err != nil {
					t.Fatal(err)
				}
				dst, err := c.Create(t.Context(), at)
				if err != nil {
					t.Fatal(err)
				}
				got, err := src.Deposit(t.Context(), dst, opts)
				if err != nil {
					t.Fatal(err)
				}
				brought += got.Copied.Bytes
				var want []int
				for _, later := range files[i+1:] {
					want = append(want, later.Number)
				}
				slices.Sort(want)
				if !slices.Equal(got.Missing, want) {
					t.Errorf("after volume %d, %v are missing, want %v", f.Number, got.Missing, want)
				}
				if i+1 < len(files) {
					if names, err := c.List(t.Context(), at); err != nil && !strings.Contains(err.Error(), "not found") || len(names) > 0 {
						t.Errorf("before the last volume there is %v, %v", names, err)
					}
					if err := src.Close(); err != nil {
						t.Error(err)
					}
					continue
				}
				if err := src.CompleteFrom(t.Context(), dst); err != nil {
					t.Fatal(err)
				}
				if err := copyAndTag(t.Context(), src, dst, "1.0.0"); err != nil {
					t.Fatal(err)
				}
				if kept, err := src.ForgetPieces(t.Context(), dst); kept != 0 || err != nil {
					t.Errorf("%d pieces are kept, %v", kept, err)
				}
				if err := src.Close(); err != nil {
					t.Error(err)
				}
			}
			// What names a piece brings {}, which is a blob of the volumes too.
			if all := volumes.Written.Bytes; all-brought > 2 || brought > all || planned != all || done != all {
				t.Errorf("brought %d bytes, planned %d, done %d; the volumes have %d", brought, planned, done, volumes.Written.Bytes)
			}
			there := open(t, c, at.String())
			contractContent(t, there, s)
			contractAttachments(t, there, s)
			var tags []string
			if err := there.Tags(t.Context(), func(page []string) error { tags = append(tags, page...); return nil }); err != nil {
				t.Fatal(err)
			}
			for _, tag := range tags {
				if strings.HasPrefix(tag, "waybill-") {
					t.Errorf("tag %s is left", tag)
				}
			}
		})
	}
}

// A source that no volume is missing of needs nothing of the destination.
func TestDepositOfAllVolumes(t *testing.T) {
	c, dir := client(t, quick()), t.TempDir()
	store(t, c, filepath.Join(dir, "layout"), "shop-1.0.0", newSample(t, "one"))
	archive := filepath.Join(dir, "p.tar")
	if _, err := saveVolumes(t, c, filepath.Join(dir, "layout"), archive, registry.ArchiveOptions{Split: 24 << 10}); err != nil {
		t.Fatal(err)
	}
	reg := registrytest.New(t, registrytest.Options{})
	dst, err := c.Create(t.Context(), location(t, "oci://"+reg.Host+"/team/shop:1.0.0"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := open(t, c, archive).Deposit(t.Context(), dst, registry.CopyOptions{OnDone: func(ocispec.Descriptor, string, int64) {}})
	if err != nil || len(got.Missing) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := open(t, c, filepath.Join(dir, "layout")).Deposit(t.Context(), dst, registry.CopyOptions{}); err == nil {
		t.Error("a layout has volumes")
	}
}
