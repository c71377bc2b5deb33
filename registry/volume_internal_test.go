package registry

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// randomBlobs are blobs of the sizes that bundles have, some larger than a volume.
func randomBlobs(r *rand.Rand, split int64) []groupedBlob {
	var all []groupedBlob
	for i := range 1 + r.IntN(60) {
		size := r.Int64N(split / 8)
		switch r.IntN(10) {
		case 0:
			size = 0
		case 1:
			size = split - r.Int64N(8<<10)
		case 2:
			size = r.Int64N(5 * split)
		}
		desc := ocispec.Descriptor{Digest: digest.FromString(fmt.Sprint(i, size)), Size: size}
		all = append(all, groupedBlob{desc: desc, group: r.IntN(groupRest + 1)})
	}
	slices.SortStableFunc(all, func(a, b groupedBlob) int { return a.group - b.group })
	return all
}

// Whatever the blobs are: each is in exactly one volume, or in pieces that cover
// it exactly; no volume is larger than it may be; and the same set gives the same
// volumes.
func TestVolumesHoldEachBlobOnce(t *testing.T) {
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 1))
		base := volumeTable{Split: 32<<10 + r.Int64N(300<<10), Root: digest.FromString("root"), Index: digest.FromString("index"), Name: "shop-1.0.0"}
		blobs := randomBlobs(r, base.Split)
		plan, err := assignVolumes(blobs, base, 700)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		again, err := assignVolumes(slices.Clone(blobs), base, 700)
		if err != nil {
			t.Fatal(err)
		}
		found := map[digest.Digest]int64{}
		for n := 1; n <= len(plan.parts); n++ {
			table := plan.table(n)
			if err := table.check(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if table.set() != plan.table(1).set() {
				t.Fatalf("seed %d: volume %d is of another set", seed, n)
			}
			for _, p := range table.Contents {
				found[p.Digest] += p.bytes()
			}
			data := encodeVolume(t, table, make([]byte, 700), zeros)
			if int64(len(data)) > base.Split {
				t.Errorf("seed %d: volume %d of %d has %d bytes, and may have %d", seed, n, len(plan.parts), len(data), base.Split)
			}
			other, err := marshalVolume(again.table(n))
			if err != nil {
				t.Fatal(err)
			}
			if ours, err := marshalVolume(table); err != nil || !bytes.Equal(ours, other) {
				t.Errorf("seed %d: volume %d is not the same again", seed, n)
			}
		}
		for _, b := range blobs {
			if got, ok := found[b.desc.Digest]; !ok || got != b.desc.Size {
				t.Errorf("seed %d: of %d bytes of a blob %d are in volumes (%v)", seed, b.desc.Size, got, ok)
			}
		}
		if len(found) != len(blobs) {
			t.Errorf("seed %d: %d of %d blobs", seed, len(found), len(blobs))
		}
	}
}

func TestVolumesTooSmallSayHowLarge(t *testing.T) {
	blobs := randomBlobs(rand.New(rand.NewPCG(1, 1)), 1<<20)
	base := volumeTable{Split: 4 << 10, Root: digest.FromString("root"), Index: digest.FromString("index")}
	_, err := assignVolumes(blobs, base, 700)
	var small *SplitError
	if !errors.As(err, &small) {
		t.Fatalf("volumes of 4 KiB: %v", err)
	}
	if _, err := assignVolumes(blobs, volumeTable{Split: small.Enough, Root: base.Root, Index: base.Index}, 700); err != nil {
		t.Errorf("%v, and then: %v", small, err)
	}
}

// tarHeader is what docs/format.md says of every file in a tar of ours.
func tarHeader(name string, size int64) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644, ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}
}

// zeros stands for content that nobody reads.
func zeros(p volumePart) []byte { return make([]byte, p.bytes()) }

// encodeVolume writes a volume as docs/format.md has it, with the standard
// library.
func encodeVolume(t testing.TB, table volumeTable, index []byte, content func(volumePart) []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	write := func(name string, data []byte) {
		if err := w.WriteHeader(tarHeader(name, int64(len(data)))); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	data, err := marshalVolume(table)
	if err != nil {
		t.Fatal(err)
	}
	write(layoutFile, layoutFileBytes())
	write(indexFile, index)
	write(volumeFile, data)
	cut, sums := false, map[string]digest.Digest{}
	for _, p := range table.Contents {
		write(p.entry(), content(p))
		cut = cut || p.Piece != 0
		sums[p.entry()] = digest.FromBytes(content(p))
	}
	if cut {
		list, err := listPieces(table.Contents, sums)
		if err != nil {
			t.Fatal(err)
		}
		write(piecesFile, list)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// volumeSample is an image with a layer that no volume holds whole, in volumes.
type volumeSample struct {
	root  ocispec.Descriptor
	blobs map[digest.Digest][]byte
	index []byte
	plan  volumePlan
}

func newVolumeSample(t testing.TB, salt string, split int64) volumeSample {
	t.Helper()
	s := volumeSample{blobs: map[digest.Digest][]byte{}}
	add := func(mediaType string, data []byte) ocispec.Descriptor {
		desc := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
		s.blobs[desc.Digest] = data
		return desc
	}
	var layers []ocispec.Descriptor
	r := rand.New(rand.NewPCG(uint64(len(salt)), 7))
	for _, size := range []int{300 << 10, 40 << 10, 30 << 10, 20 << 10, 100} {
		data := []byte(salt)
		for len(data) < size {
			data = append(data, byte(r.Uint32()))
		}
		layers = append(layers, add(ocispec.MediaTypeImageLayer, data))
	}
	manifest, err := json.Marshal(ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		Config: add(ocispec.MediaTypeImageConfig, []byte("{}")), Layers: layers,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.root = add(ocispec.MediaTypeImageManifest, manifest)
	if s.index, err = writeIndex(ocispec.Index{Manifests: []ocispec.Descriptor{entry(s.root, "shop-1.0.0")}}); err != nil {
		t.Fatal(err)
	}
	blobs := []groupedBlob{{s.root, groupManifests}}
	for d, data := range s.blobs {
		if d != s.root.Digest {
			blobs = append(blobs, groupedBlob{ocispec.Descriptor{Digest: d, Size: int64(len(data))}, groupRest})
		}
	}
	slices.SortFunc(blobs[1:], func(a, b groupedBlob) int { return strings.Compare(string(a.desc.Digest), string(b.desc.Digest)) })
	s.plan, err = assignVolumes(blobs, volumeTable{Split: split, Root: s.root.Digest, Name: "shop-1.0.0", Index: digest.FromBytes(s.index)}, int64(len(s.index)))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s volumeSample) content(p volumePart) []byte {
	data := s.blobs[p.Digest]
	if p.Piece == 0 {
		return data
	}
	return data[p.Offset : p.Offset+p.Length]
}

func (s volumeSample) encode(t testing.TB, number int) []byte {
	return encodeVolume(t, s.plan.table(number), s.index, s.content)
}

// write puts all volumes into a folder and gives the path without number.
func (s volumeSample) write(t testing.TB, dir string) string {
	t.Helper()
	archive := filepath.Join(dir, "app_0.1.8.tar")
	for n := 1; n <= len(s.plan.parts); n++ {
		writeFile(t, volumePath(archive, n), s.encode(t, n))
	}
	return archive
}

func writeFile(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func openPath(t testing.TB, path string) (*Source, error) {
	t.Helper()
	c, err := NewClient(Settings{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := ParseLocation(path)
	if err != nil {
		return nil, err
	}
	src, err := c.Open(t.Context(), l)
	if err == nil {
		t.Cleanup(func() { src.Close() })
	}
	return src, err
}

// Any volume names the set, and so does the path without a number; the blobs are
// read in place, the cut one too.
func TestVolumesAreReadInPlace(t *testing.T) {
	s := newVolumeSample(t, "one", 128<<10)
	archive := s.write(t, t.TempDir())
	if len(s.plan.parts) < 4 {
		t.Fatalf("only %d volumes", len(s.plan.parts))
	}
	for _, path := range []string{archive, volumePath(archive, 1), volumePath(archive, 3)} {
		src, err := openPath(t, path)
		if err != nil {
			t.Fatal(err)
		}
		if src.Root.Digest != s.root.Digest || src.Name() != "shop-1.0.0" {
			t.Errorf("%s opens as %s %q", path, src.Root.Digest, src.Name())
		}
		for d, want := range s.blobs {
			rc, err := src.Fetch(t.Context(), ocispec.Descriptor{Digest: d, Size: int64(len(want))})
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(rc); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s of %s: %d bytes, %v", d, path, len(got), err)
			}
			rc.Close()
		}
		if err := src.CheckVolumes(t.Context(), nil); err != nil {
			t.Error(err)
		}
	}
}

// Volumes are named in any order, and lie anywhere under any name.
func TestVolumesFromSeveralPlaces(t *testing.T) {
	s := newVolumeSample(t, "one", 128<<10)
	var files []Location
	for n := len(s.plan.parts); n > 0; n-- {
		path := filepath.Join(t.TempDir(), fmt.Sprintf("stick-%c.tar", 'a'+n))
		writeFile(t, path, s.encode(t, n))
		files = append(files, Location{Kind: Archive, Path: path})
	}
	c, err := NewClient(Settings{})
	if err != nil {
		t.Fatal(err)
	}
	src, err := c.OpenVolumes(t.Context(), files, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := src.CheckVolumes(t.Context(), nil); err != nil {
		t.Error(err)
	}
	if err := src.Close(); err != nil {
		t.Error(err)
	}
	src, err = c.OpenVolumes(t.Context(), files[1:], true)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	if got := src.Volumes(); !slices.Equal(got.Missing, []int{len(s.plan.parts)}) || got.Total != len(s.plan.parts) || src.Root.Digest != s.root.Digest {
		t.Errorf("opened %+v", got)
	}
	_, err = c.OpenVolumes(t.Context(), files[1:], false)
	var volumes *VolumesError
	if !errors.As(err, &volumes) || len(volumes.Volumes) != 1 || volumes.Volumes[0].Number != len(s.plan.parts) {
		t.Errorf("without the last volume: %v", err)
	}
}

// What is wrong with a set is said of the volume, with what to type.
func TestVolumesThatDoNotMakeASet(t *testing.T) {
	s, other := newVolumeSample(t, "one", 128<<10), newVolumeSample(t, "two more", 128<<10)
	resplit := newVolumeSample(t, "one", 150<<10)
	for _, tc := range []struct {
		name   string
		change func(t *testing.T, archive string)
		want   string
		again  string
	}{
		{"one is missing", func(t *testing.T, archive string) {
			if err := os.Remove(volumePath(archive, 3)); err != nil {
				t.Fatal(err)
			}
		}, "volume 3 of", "--split 128K --volume 3"},
		{"one is cut short", func(t *testing.T, archive string) {
			writeFile(t, volumePath(archive, 2), s.encode(t, 2)[:50<<10])
		}, "damaged: truncated", "--split 128K --volume 2"},
		{"one is something else", func(t *testing.T, archive string) {
			writeFile(t, volumePath(archive, 2), bytes.Repeat([]byte("x\n"), 5000))
		}, "damaged: corrupt: it is no tar archive", "--split 128K --volume 2"},
		{"one is of another root", func(t *testing.T, archive string) {
			writeFile(t, volumePath(archive, 2), other.encode(t, 2))
		}, "is a volume of something else: its root is " + other.root.Digest.String(), "--volume 2"},
		{"one is of another split", func(t *testing.T, archive string) {
			writeFile(t, volumePath(archive, 2), resplit.encode(t, 2))
		}, "is a volume of another split: of 150K", "--volume 2"},
		{"one is there twice", func(t *testing.T, archive string) {
			writeFile(t, volumePath(archive, 2), s.encode(t, 3))
		}, "is there twice", "--volume 2"},
		{"one too many", func(t *testing.T, archive string) {
			writeFile(t, volumePath(archive, 9), s.encode(t, 3))
		}, "is there twice", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			archive := s.write(t, t.TempDir())
			tc.change(t, archive)
			_, err := openPath(t, volumePath(archive, 1))
			var volumes *VolumesError
			if !errors.As(err, &volumes) || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("got %v, want %q", err, tc.want)
			}
			again := strings.Join(volumes.Again(), "\n")
			if want := "bundle save SOURCE@" + s.root.Digest.String() + " " + archive; tc.again != "" && (!strings.Contains(again, want) || !strings.HasSuffix(again, tc.again)) {
				t.Errorf("what to type is %q, want … %s", again, tc.again)
			}
			if tc.again == "" && again != "" {
				t.Errorf("what to type is %q", again)
			}
		})
	}
}

// A byte that changed is found in each volume, in a piece too, and the volume
// that has it is the one that is named.
func TestDamagedVolumeIsNamed(t *testing.T) {
	s := newVolumeSample(t, "one", 128<<10)
	for n := 1; n <= len(s.plan.parts); n++ {
		archive := s.write(t, t.TempDir())
		data := s.encode(t, n)
		parts := s.plan.table(n).Contents
		content := s.content(parts[len(parts)-1])
		data[bytes.LastIndex(data, content)] ^= 1
		writeFile(t, volumePath(archive, n), data)
		src, err := openPath(t, archive)
		if err != nil {
			t.Fatal(err)
		}
		err = src.CheckVolumes(t.Context(), nil)
		var volumes *VolumesError
		if !errors.As(err, &volumes) || len(volumes.Volumes) != 1 || volumes.Volumes[0].Number != n || volumes.Volumes[0].Path != volumePath(archive, n) {
			t.Fatalf("volume %d: %v", n, err)
		}
		if again := volumes.Again(); len(again) != 1 || !strings.HasSuffix(again[0], fmt.Sprintf("--volume %d", n)) {
			t.Errorf("what to type is %q", again)
		}
		last := parts[len(parts)-1]
		rc, err := src.Fetch(t.Context(), ocispec.Descriptor{Digest: last.Digest, Size: last.Size})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(rc); !errors.As(err, &volumes) || !as[*ContentError](err) {
			t.Errorf("reading the blob of volume %d: %v", n, err)
		}
		rc.Close()
	}
}

// Tables that no set could have are refused, whoever made them.
func TestHostileVolumeTables(t *testing.T) {
	s := newVolumeSample(t, "one", 128<<10)
	for _, tc := range []struct {
		name   string
		change func(*volumeTable)
	}{
		{"number 0", func(t *volumeTable) { t.Number = 0 }},
		{"a number above the total", func(t *volumeTable) { t.Number = t.Total + 1 }},
		{"no volumes", func(t *volumeTable) { t.Total = 0 }},
		{"a million volumes", func(t *volumeTable) { t.Total = 1_000_000 }},
		{"a split of nothing", func(t *volumeTable) { t.Split = 0 }},
		{"a size below zero", func(t *volumeTable) { t.Contents[0].Size = -1 }},
		{"sizes that overflow", func(t *volumeTable) { t.Contents[0].Size, t.Elsewhere[0].Size = 1<<62, 1<<62 }},
		{"a digest that climbs", func(t *volumeTable) { t.Contents[0].Digest = "sha256:../../../etc/passwd" }},
		{"a digest without algorithm", func(t *volumeTable) { t.Elsewhere[0].Digest = "x" }},
		{"a root that is no digest", func(t *volumeTable) { t.Root = "x" }},
		{"a name that climbs", func(t *volumeTable) { t.Name = "../x" }},
		{"another format", func(t *volumeTable) { t.Format = "application/json" }},
		{"a newer format", func(t *volumeTable) { t.Format = "application/vnd.waybill.volume.v2+json" }},
		{"a blob twice", func(t *volumeTable) { t.Contents = append(t.Contents, t.Contents[0]) }},
		{"a blob here and elsewhere", func(t *volumeTable) { p := t.Contents[0]; p.Volume = 2; t.Elsewhere = append(t.Elsewhere, p) }},
		{"a blob whole and cut", func(t *volumeTable) {
			p := t.Contents[0]
			p.Volume, p.Piece, p.Length = 2, 1, p.Size
			t.Elsewhere = append(t.Elsewhere, p)
		}},
		{"elsewhere is here", func(t *volumeTable) { t.Elsewhere[0].Volume = t.Number }},
		{"a volume that is not", func(t *volumeTable) { t.Elsewhere[0].Volume = t.Total + 1 }},
		{"pieces that overlap", func(t *volumeTable) { pieceOf(t, 2).Offset-- }},
		{"pieces with a gap", func(t *volumeTable) { pieceOf(t, 2).Offset++ }},
		{"a piece below zero", func(t *volumeTable) { pieceOf(t, 2).Length = -5 }},
		{"a piece beyond the end", func(t *volumeTable) { pieceOf(t, 2).Length = 1 << 40 }},
		{"a piece missing", func(t *volumeTable) { pieceOf(t, 2).Piece = 5 }},
		{"pieces of different blobs", func(t *volumeTable) { pieceOf(t, 2).Size++ }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			table := s.plan.table(1)
			table.Contents, table.Elsewhere = slices.Clone(table.Contents), slices.Clone(table.Elsewhere)
			tc.change(&table)
			data, err := marshalVolume(table)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := readVolume(data); err == nil {
				t.Error("taken")
			}
		})
	}
	if _, err := readVolume([]byte(`{"format":"` + volumeFormat + `"} trailing`)); err == nil {
		t.Error("what follows the table is taken")
	}
}

// pieceOf finds a piece of the blob that is cut, wherever it is.
func pieceOf(t *volumeTable, number int) *volumePart {
	for _, list := range [][]volumePart{t.Contents, t.Elsewhere} {
		for i := range list {
			if list[i].Piece == number {
				return &list[i]
			}
		}
	}
	panic("no such piece")
}

// A volume whose tar holds other files than its table lists is damaged.
func TestVolumeHoldsWhatItLists(t *testing.T) {
	s := newVolumeSample(t, "one", 128<<10)
	number := len(s.plan.parts)
	for _, tc := range []struct {
		name   string
		change func(table *volumeTable)
		want   string
	}{
		{"one less", func(table *volumeTable) { table.Contents = table.Contents[1:] }, "it lacks"},
		{"one more", func(table *volumeTable) {
			table.Contents = append(slices.Clone(table.Contents), volumePart{Digest: digest.FromString("x"), Size: 3})
		}, "not listed"},
		{"another size", func(table *volumeTable) {
			table.Contents = slices.Clone(table.Contents)
			table.Contents[0].Size++
		}, "are listed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			archive := s.write(t, t.TempDir())
			written, listed := s.plan.table(number), s.plan.table(number)
			tc.change(&written)
			data := encodeVolume(t, written, s.index, func(p volumePart) []byte {
				if content := s.content(p); int64(len(content)) == p.bytes() {
					return content
				}
				return zeros(p)
			})
			table, err := marshalVolume(written)
			if err != nil {
				t.Fatal(err)
			}
			honest, err := marshalVolume(listed)
			if err != nil {
				t.Fatal(err)
			}
			data = replaceEntry(t, data, table, honest)
			writeFile(t, volumePath(archive, number), data)
			if _, err := openPath(t, archive); err == nil || !strings.Contains(err.Error(), tc.want) || !as[*VolumesError](err) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// replaceEntry writes a tar anew with other content in one of its files.
func replaceEntry(t *testing.T, data, old, changed []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	r, w := tar.NewReader(bytes.NewReader(data)), tar.NewWriter(&out)
	for {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Equal(content, old) {
			content = changed
		}
		if err := w.WriteHeader(tarHeader(header.Name, int64(len(content)))); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// Whatever the bytes are, reading a table ends with an answer.
func FuzzVolumeTable(f *testing.F) {
	s := newVolumeSample(f, "one", 128<<10)
	data, err := marshalVolume(s.plan.table(1))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		table, err := readVolume(data)
		if err != nil {
			return
		}
		newVolumeSet("x.tar", &volume{table: table})
	})
}
