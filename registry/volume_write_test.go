package registry_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"waybill/internal/registrytest"
	"waybill/registry"
)

// saveVolumes copies a sample out of a registry into volumes.
func saveVolumes(t *testing.T, c *registry.Client, from string, path string, opts registry.ArchiveOptions) (*registry.Volumes, error) {
	t.Helper()
	src := open(t, c, from)
	dst, err := c.CreateArchive(t.Context(), location(t, path), opts)
	if err != nil {
		return nil, err
	}
	defer dst.Abort()
	if _, err := registry.Copy(t.Context(), src, dst, []ocispec.Descriptor{src.Root}, registry.CopyOptions{}); err != nil {
		return nil, err
	}
	if err := dst.Tag(t.Context(), src.Root, "shop-1.0.0"); err != nil {
		return nil, err
	}
	if err := dst.Commit(t.Context()); err != nil {
		return nil, err
	}
	return dst.Volumes(), nil
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// A bundle goes into volumes and comes back the same, and each volume is the same
// bytes when it is made alone, or again.
func TestSaveInVolumes(t *testing.T) {
	c := client(t, quick())
	reg := registrytest.New(t, registrytest.Options{})
	s := newSample(t, "one")
	store(t, c, "oci://"+reg.Host+"/team/shop", "1.0.0", s)
	from := "oci://" + reg.Host + "/team/shop:1.0.0"
	archive := filepath.Join(t.TempDir(), "p.tar")
	const split = 24 << 10
	volumes, err := saveVolumes(t, c, from, archive, registry.ArchiveOptions{Split: split})
	if err != nil {
		t.Fatal(err)
	}
	if volumes.Total < 3 || len(volumes.Files) != volumes.Total || volumes.Root != s.root.desc.Digest {
		t.Fatalf("volumes %+v", volumes)
	}
	for _, f := range volumes.Files {
		if size := int64(len(readFile(t, f.Path))); f.Size != size || size > split || len(f.SHA256) != 64 {
			t.Errorf("%+v has %d bytes", f, size)
		}
	}
	src := open(t, c, archive)
	contractContent(t, src, s)
	contractAttachments(t, src, s)
	if err := src.CheckVolumes(t.Context(), nil); err != nil {
		t.Error(err)
	}
	alones := int64(0)
	for n := 1; n <= volumes.Total; n++ {
		alone := filepath.Join(t.TempDir(), "p.tar")
		got, err := saveVolumes(t, c, from, alone, registry.ArchiveOptions{Split: split, Volume: n})
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Files) != 1 || len(got.Missing) != volumes.Total-1 || !bytes.Equal(readFile(t, got.Files[0].Path), readFile(t, fmt.Sprintf("%s.%03d", archive, n))) {
			t.Errorf("volume %d alone is another than with the rest: %+v", n, got)
		}
		alones += got.Written.Bytes
		if entries, err := os.ReadDir(filepath.Dir(alone)); err != nil || len(entries) != 1 {
			t.Errorf("beside volume %d there is %v, %v", n, entries, err)
		}
	}
	if alones != volumes.Written.Bytes {
		t.Errorf("one at a time %d bytes are written, together %d", alones, volumes.Written.Bytes)
	}
	reg.Requests()
	kept := 0
	again, err := saveVolumes(t, c, from, archive, registry.ArchiveOptions{Split: split, OnVolume: func(_ registry.VolumeFile, _ int, there bool) {
		if there {
			kept++
		}
	}})
	if err != nil || kept != volumes.Total || again.Kept != volumes.Written || again.Written.Bytes != 0 || again.Written.Objects != 0 {
		t.Errorf("again: %d of %d are kept, %+v, %v", kept, volumes.Total, again, err)
	}
}

// A damaged volume is made again, the others stay; one of something else is not
// replaced by accident, and those of a larger set do not stay behind.
func TestSaveOverVolumes(t *testing.T) {
	c := client(t, quick())
	dir := t.TempDir()
	store(t, c, filepath.Join(dir, "one"), "shop-1.0.0", newSample(t, "one"))
	store(t, c, filepath.Join(dir, "two"), "shop-1.0.0", newSample(t, "two"))
	archive := filepath.Join(dir, "p.tar")
	opts := registry.ArchiveOptions{Split: 24 << 10}
	volumes, err := saveVolumes(t, c, filepath.Join(dir, "one"), archive, opts)
	if err != nil {
		t.Fatal(err)
	}
	second := volumes.Files[1].Path
	whole := readFile(t, second)
	for name, damaged := range map[string][]byte{"a byte": append(bytes.Clone(whole[:len(whole)-2000]), make([]byte, 2000)...), "cut": whole[:len(whole)/2], "empty": {}} {
		if err := os.WriteFile(second, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := saveVolumes(t, c, filepath.Join(dir, "one"), archive, registry.ArchiveOptions{Split: 24 << 10, Volume: 2}); err != nil || !bytes.Equal(readFile(t, second), whole) {
			t.Errorf("%s: not mended, %v", name, err)
		}
	}
	_, err = saveVolumes(t, c, filepath.Join(dir, "two"), archive, opts)
	var other *registry.LocationError
	if !errors.As(err, &other) || !strings.Contains(err.Error(), "left alone") || !bytes.Equal(readFile(t, second), whole) {
		t.Errorf("over volumes of something else: %v", err)
	}
	var removed []string
	again, err := saveVolumes(t, c, filepath.Join(dir, "one"), archive, registry.ArchiveOptions{Split: 40 << 10, OnReplace: func(path, what string, gone bool) {
		if gone {
			removed = append(removed, path)
		}
		if !strings.Contains(what, "another split, of 24K") {
			t.Errorf("%s was %s", path, what)
		}
	}})
	if err != nil || again.Total >= volumes.Total || len(removed) != volumes.Total-again.Total {
		t.Fatalf("%+v, removed %v, %v", again, removed, err)
	}
	if src := open(t, c, archive); src.Volumes().Total != again.Total {
		t.Errorf("%+v", src.Volumes())
	}
	if _, err := c.Create(t.Context(), location(t, second)); !errors.As(err, &other) {
		t.Errorf("a whole archive under the name of a volume: %v", err)
	}
	if _, err := saveVolumes(t, c, filepath.Join(dir, "two"), filepath.Join(dir, "q.tar"), registry.ArchiveOptions{Split: 40 << 10, Volume: 9}); !errors.As(err, &other) || !strings.Contains(err.Error(), "at 40K, ") {
		t.Errorf("a volume that there is none of: %v", err)
	}
	var small *registry.SplitError
	if _, err := saveVolumes(t, c, filepath.Join(dir, "two"), filepath.Join(dir, "q.tar"), registry.ArchiveOptions{Split: 1000}); !errors.As(err, &small) {
		t.Errorf("volumes of 1000 bytes: %v", err)
	}
}

// What a delta leaves out is what the base has, and no manifest; it is refused
// where the base is not, and complete where it is.
func TestDelta(t *testing.T) {
	for _, split := range []int64{0, 24 << 10} {
		t.Run(fmt.Sprintf("split %d", split), func(t *testing.T) { testDelta(t, split) })
	}
}

func testDelta(t *testing.T, split int64) {
	c, dir := client(t, quick()), t.TempDir()
	before, now := newSample(t, "one"), newSample(t, "two")
	now.imageLayer = before.imageLayer // unchanged between versions
	config := now.all[2]
	now.image = image(t, config, "", nil, before.imageLayer)
	now.root = manifest(t, ocispec.MediaTypeImageIndex, ocispec.Index{
		MediaType: ocispec.MediaTypeImageIndex, ArtifactType: "application/vnd.example.bundle",
		Manifests: []ocispec.Descriptor{now.release.desc, now.chart.desc, now.image.desc},
	})
	now.referrer = image(t, now.all[0], "application/vnd.example.proof", &now.root.desc, now.proof)
	now.all = []piece{now.all[0], now.all[1], config, now.releaseFile, now.chartLayer, now.imageLayer, now.release, now.chart, now.image, now.root, now.signed, now.signature, now.proof, now.referrer}
	store(t, c, filepath.Join(dir, "before"), "shop-1.0.0", before)
	store(t, c, filepath.Join(dir, "now"), "shop-2.0.0", now)

	held, err := c.BaseAt(t.Context(), location(t, filepath.Join(dir, "before")), nil)
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := held.WriteJSON(&file); err != nil {
		t.Fatal(err)
	}
	held, err = registry.ReadHoldings(&file, "inventory.json")
	if err != nil {
		t.Fatal(err)
	}
	src := open(t, c, filepath.Join(dir, "now"))
	plan, err := registry.PlanCopy(t.Context(), src, []ocispec.Descriptor{src.Root}, registry.CopyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	delta, err := plan.Delta(t.Context(), held)
	if err != nil {
		t.Fatal(err)
	}
	for _, desc := range delta.LeftOut {
		if desc.Digest == now.releaseFile.desc.Digest || desc.Digest == now.signed.desc.Digest {
			t.Errorf("a document or a signature is left out")
		}
	}
	if !strings.Contains(delta.String(), "delta, needs") || !strings.Contains(delta.String(), before.root.desc.Digest.String()) {
		t.Errorf("the delta says %q", delta)
	}
	path := filepath.Join(dir, "d.tar")
	dst, err := c.CreateArchive(t.Context(), location(t, path), registry.ArchiveOptions{Delta: delta, Split: split})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := plan.To(t.Context(), dst, registry.CopyOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := dst.Tag(t.Context(), src.Root, "shop-2.0.0"); err != nil {
		t.Fatal(err)
	}
	if err := dst.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	from := open(t, c, path)
	if from.Delta() == nil || from.Delta().String() != delta.String() {
		t.Fatalf("opened as %v", from.Delta())
	}
	if split == 0 {
		staysDelta(t, c, path, delta)
	}
	var lacking *registry.DeltaError
	if err := fetch(t.Context(), from, now.imageLayer); !errors.As(err, &lacking) {
		t.Errorf("the layer that is left out: %v", err)
	}

	reg := registrytest.New(t, registrytest.Options{})
	empty, err := c.Create(t.Context(), location(t, "oci://"+reg.Host+"/empty:2.0.0"))
	if err != nil {
		t.Fatal(err)
	}
	if err := from.CheckBase(t.Context(), empty, 4); !errors.As(err, &lacking) || len(lacking.Lacking) != len(delta.LeftOut) {
		t.Errorf("without the base: %v", err)
	}
	store(t, c, "oci://"+reg.Host+"/shop", "1.0.0", before)
	there, err := c.Create(t.Context(), location(t, "oci://"+reg.Host+"/shop:2.0.0"))
	if err != nil {
		t.Fatal(err)
	}
	if err := from.CheckBase(t.Context(), there, 4); err != nil {
		t.Error(err)
	}
	if err := copyAndTag(t.Context(), from, there, "2.0.0"); err != nil {
		t.Fatal(err)
	}
	contractContent(t, open(t, c, "oci://"+reg.Host+"/shop:2.0.0"), now)

	// With the last version's place beside it a delta is whole anywhere.
	if err := from.AddBase(open(t, c, filepath.Join(dir, "before"))); err != nil {
		t.Fatal(err)
	}
	if err := from.CheckBase(t.Context(), empty, 4); err != nil {
		t.Error(err)
	}
	if err := copyAndTag(t.Context(), from, empty, "2.0.0"); err != nil {
		t.Fatal(err)
	}
	contractContent(t, open(t, c, "oci://"+reg.Host+"/empty:2.0.0"), now)
}

// staysDelta gives what is in a delta another name: it stays one.
func staysDelta(t *testing.T, c *registry.Client, path string, delta *registry.Delta) {
	t.Helper()
	src := open(t, c, path)
	dst, err := c.Update(t.Context(), location(t, path))
	if err != nil {
		t.Fatal(err)
	}
	if err := dst.Tag(t.Context(), src.Root, "other"); err != nil {
		t.Fatal(err)
	}
	if err := dst.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	again := open(t, c, path+"#other")
	if again.Delta() == nil || again.Delta().String() != delta.String() || again.Delta().Size() != delta.Size() {
		t.Errorf("with another name it is %v", again.Delta())
	}
}

func copyAndTag(ctx context.Context, src *registry.Source, dst *registry.Destination, tag string) error {
	if _, err := registry.Copy(ctx, src, dst, []ocispec.Descriptor{src.Root}, registry.CopyOptions{}); err != nil {
		return err
	}
	if err := dst.Tag(ctx, src.Root, tag); err != nil {
		return err
	}
	return dst.Commit(ctx)
}

// An inventory is the same of a registry, a layout and an archive of one thing.
func TestInventory(t *testing.T) {
	for _, p := range append(places(t, registrytest.Options{}), places(t, registrytest.Options{NoReferrers: true})[0]) {
		t.Run(p.name, func(t *testing.T) {
			c, s := client(t, quick()), newSample(t, "one")
			store(t, c, p.at, "shop-1.0.0", s)
			held, err := c.Inventory(t.Context(), location(t, p.at), nil)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]int64{}
			if err := held.Each(func(d digest.Digest, size int64) error { got[d.String()] = size; return nil }); err != nil {
				t.Fatal(err)
			}
			for _, want := range s.all {
				if got[want.desc.Digest.String()] != want.desc.Size {
					t.Errorf("%s is not in it, or not with its size", want.desc.Digest)
				}
			}
			if len(held.Roots) != 1 || held.Roots[0].Tag != "shop-1.0.0" || held.Roots[0].Digest != s.root.desc.Digest {
				t.Errorf("roots %+v", held.Roots)
			}
			one, err := c.Inventory(t.Context(), location(t, p.at+p.tag+"shop-1.0.0"), nil)
			if err != nil || one.Size().Objects < len(s.all) {
				t.Errorf("of one root: %+v, %v", one, err)
			}
		})
	}
}

// What is named and not there, or not right, is told and not held, nor is what only
// it leads to.
func TestInventoryOfWhatIsNotRight(t *testing.T) {
	remove := os.Remove
	change := func(path string) error { return os.WriteFile(path, []byte("{}"), 0o600) }
	chart := func(s sample) []piece { return []piece{s.chart, s.chartLayer} }
	for name, tc := range map[string]struct {
		spoil func(path string) error
		of    string               // what is asked for in the folder
		lost  func(sample) []piece // the first is what is spoiled
	}{
		"a chart that is absent":     {remove, "#shop-1.0.0", chart},
		"a chart that is another":    {change, "#shop-1.0.0", chart},
		"a referrer that is another": {change, "#shop-1.0.0", func(s sample) []piece { return []piece{s.referrer, s.proof} }},
		"a root in a whole folder":   {change, "", func(s sample) []piece { return []piece{s.root} }},
	} {
		t.Run(name, func(t *testing.T) {
			p, s := places(t, registrytest.Options{})[1], newSample(t, "one")
			c := client(t, quick())
			store(t, c, p.at, "shop-1.0.0", s)
			lost := tc.lost(s)
			if err := tc.spoil(filepath.Join(p.at, "blobs", "sha256", lost[0].desc.Digest.Encoded())); err != nil {
				t.Fatal(err)
			}
			held, err := c.Inventory(t.Context(), location(t, p.at+tc.of), nil)
			if err != nil {
				t.Fatal(err)
			}
			if len(held.Unreadable) != 1 || !strings.Contains(held.Unreadable[0].Error(), lost[0].desc.Digest.String()) {
				t.Errorf("told is %v", held.Unreadable)
			}
			err = held.Each(func(d digest.Digest, _ int64) error {
				for _, lost := range lost {
					if d == lost.desc.Digest {
						t.Errorf("%s is held", d)
					}
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

func TestInventoriesThatAreNone(t *testing.T) {
	for name, text := range map[string]string{
		"nothing": "", "a list": "[]", "another format": `{"format":"x","blobs":[]}`,
		"a newer one":  `{"format":"application/vnd.waybill.inventory.v2+json","blobs":[]}`,
		"no digest":    `{"format":"application/vnd.waybill.inventory.v1+json","blobs":[{"digest":"../x","size":1}]}`,
		"a size below": `{"format":"application/vnd.waybill.inventory.v1+json","blobs":[{"digest":"sha256:` + strings.Repeat("0", 64) + `","size":-1}]}`,
		"cut":          `{"format":"application/vnd.waybill.inventory.v1+json","blobs":[`,
	} {
		var content *registry.ContentError
		if _, err := registry.ReadHoldings(io.LimitReader(strings.NewReader(text), 1<<20), "x.json"); !errors.As(err, &content) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
