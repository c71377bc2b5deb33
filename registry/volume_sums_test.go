package registry_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"waybill/internal/registrytest"
	"waybill/registry"
)

// cutSaving is a registry with a blob that is cut when it is saved, and what its
// volumes are.
type cutSaving struct {
	sample
	c    *registry.Client
	from string
	good map[string][]byte // volumes by the ends of their names

	mu    sync.Mutex
	asked []int64 // for the blob, from which byte on
	fault func(n int) *registrytest.Fault
}

const cutSplit = 24 << 10

func newCutSaving(t *testing.T) *cutSaving {
	s := &cutSaving{sample: newSample(t, "one"), c: client(t, registry.Settings{Retry: -1, Concurrency: 1}), good: map[string][]byte{}}
	blob := "/blobs/" + s.imageLayer.desc.Digest.String()
	reg := registrytest.New(t, registrytest.Options{Fault: func(r *http.Request) *registrytest.Fault {
		if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, blob) {
			return nil
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		begin, _, _ := strings.Cut(strings.TrimPrefix(r.Header.Get("Range"), "bytes="), "-")
		at, _ := strconv.ParseInt(begin, 10, 64)
		s.asked = append(s.asked, at)
		if s.fault == nil {
			return nil
		}
		return s.fault(len(s.asked))
	}})
	store(t, s.c, "oci://"+reg.Host+"/team/shop", "1.0.0", s.sample)
	s.from = "oci://" + reg.Host + "/team/shop:1.0.0"
	archive := filepath.Join(t.TempDir(), "p.tar")
	volumes, err := saveVolumes(t, s.c, s.from, archive, registry.ArchiveOptions{Split: cutSplit})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range volumes.Files {
		s.good[filepath.Ext(f.Path)] = readFile(t, f.Path)
	}
	if s.began(nil); volumes.Total < 3 {
		t.Fatalf("there are %d volumes", volumes.Total)
	}
	return s
}

// began has requests go wrong from now on, and gives those that were made before.
func (s *cutSaving) began(fault func(n int) *registrytest.Fault) []int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.asked
	s.asked, s.fault = nil, fault
	return asked
}

// holds wants of the volumes of an archive that they are what they should be, and
// says how many there are.
func (s *cutSaving) holds(t *testing.T, archive string) int {
	t.Helper()
	found, err := filepath.Glob(archive + ".???")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range found {
		if !bytes.Equal(readFile(t, path), s.good[filepath.Ext(path)]) {
			t.Errorf("%s is not what it should be", filepath.Base(path))
		}
	}
	return len(found)
}

// A blob that is cut and of which one byte is wrong on its way, whenever it is read,
// is in no volume that has its name, and doing it again puts right what there is.
func TestVolumesOfChangedContent(t *testing.T) {
	s := newCutSaving(t)
	for _, volume := range []int{0, 2, 3} {
		for nth := 1; ; nth++ {
			archive := filepath.Join(t.TempDir(), "p.tar")
			opts := registry.ArchiveOptions{Split: cutSplit, Volume: volume}
			s.began(func(n int) *registrytest.Fault {
				if n == nth {
					return &registrytest.Fault{Corrupt: 100}
				}
				return nil
			})
			_, err := saveVolumes(t, s.c, s.from, archive, opts)
			if asked := s.began(nil); len(asked) < nth {
				if nth < 3 || err != nil {
					t.Errorf("volume %d: it was read %d times, %v", volume, len(asked), err)
				}
				break
			}
			t.Run(fmt.Sprintf("volume %d, read %d", volume, nth), func(t *testing.T) {
				wantContentError(t, err, s.imageLayer)
				if there := s.holds(t, archive); there > 0 && nth == 1 {
					t.Errorf("there are %d volumes", there)
				}
				if _, err := saveVolumes(t, s.c, s.from, archive, opts); err != nil {
					t.Fatal(err)
				}
				want := len(s.good)
				if volume > 0 {
					want = 1
				}
				if there := s.holds(t, archive); there != want {
					t.Errorf("after it there are %d volumes", there)
				}
			})
		}
	}
}

// A piece that its volume vouches for, and that is none of the blob, is found and
// made again.
func TestVolumeOfAnotherPiece(t *testing.T) {
	s := newCutSaving(t)
	for _, volume := range []int{0, 2} {
		archive := filepath.Join(t.TempDir(), "p.tar")
		opts := registry.ArchiveOptions{Split: cutSplit, Volume: volume}
		if _, err := saveVolumes(t, s.c, s.from, archive, opts); err != nil {
			t.Fatal(err)
		}
		path := archive + ".002"
		if err := os.WriteFile(path, withOtherPiece(t, s.good[".002"]), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := saveVolumes(t, s.c, s.from, archive, opts); err != nil {
			t.Error(err)
		}
		s.holds(t, archive)
	}
}

// withOtherPiece changes a byte of a piece and its checksum in waybill-pieces.json.
func withOtherPiece(t *testing.T, volume []byte) []byte {
	t.Helper()
	for r := tar.NewReader(bytes.NewReader(volume)); ; {
		header, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(header.Name, "waybill-pieces/") {
			continue
		}
		piece, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		other := bytes.Clone(piece)
		other[100] ^= 1
		changed := bytes.Replace(volume, piece, other, 1)
		return bytes.Replace(changed, []byte(digest.FromBytes(piece).Encoded()), []byte(digest.FromBytes(other).Encoded()), 1)
	}
}

// What lies there whole is read there, and not where it comes from, to know that it
// is what it should be.
func TestVolumesThatAreThereAreReadThere(t *testing.T) {
	s := newCutSaving(t)
	archive := filepath.Join(t.TempDir(), "p.tar")
	for range 2 {
		s.began(nil)
		if _, err := saveVolumes(t, s.c, s.from, archive, registry.ArchiveOptions{Split: cutSplit}); err != nil {
			t.Fatal(err)
		}
	}
	if asked := s.began(nil); len(asked) != 0 {
		t.Errorf("it was read from %v on again", asked)
	}
}

// What is cut in the middle of a piece goes on there: beside the one read that tells
// what the pieces are, nothing of it is read twice, and that read is not told of.
func TestPieceGoesOn(t *testing.T) {
	s := newCutSaving(t)
	archive := filepath.Join(t.TempDir(), "p.tar")
	save := func() (told int64, err error) {
		src := open(t, s.c, s.from)
		dst, err := s.c.CreateArchive(t.Context(), location(t, archive), registry.ArchiveOptions{Split: cutSplit})
		if err != nil {
			t.Fatal(err)
		}
		if _, err = registry.Copy(t.Context(), src, dst, []ocispec.Descriptor{src.Root}, registry.CopyOptions{
			Concurrency: 1, OnBytes: func(n int) { told += int64(n) },
		}); err != nil {
			t.Fatal(err)
		}
		if err = dst.Tag(t.Context(), src.Root, "shop-1.0.0"); err != nil {
			t.Fatal(err)
		}
		err = dst.Commit(t.Context())
		return told, err
	}
	const cut = 5000
	s.began(func(n int) *registrytest.Fault {
		if n == 3 { // the second piece
			return &registrytest.Fault{Cut: cut}
		}
		return nil
	})
	before, err := save()
	var unfinished *registry.UnfinishedError
	if !errors.As(err, &unfinished) {
		t.Fatalf("cut: %v", err)
	}
	first := s.began(nil)
	if len(first) != 3 || first[0] != 0 || first[1] != 0 {
		t.Fatalf("read from %v on", first)
	}
	if most := first[2] + cut; before < most || before >= most+s.imageLayer.desc.Size/2 {
		t.Errorf("told of %d bytes, and %d of the layer were written", before, most)
	}
	if _, err := save(); err != nil {
		t.Fatal(err)
	}
	if then := s.began(nil); len(then) < 2 || then[0] != 0 || then[1] != first[2]+cut {
		t.Errorf("cut in what begins at %d, it was read from %v on", first[2], then)
	}
	if there := s.holds(t, archive); there != len(s.good) {
		t.Errorf("there are %d volumes", there)
	}
}
