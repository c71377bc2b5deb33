//go:build linux

package registry_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"waybill/internal/registrytest"
	"waybill/registry"
)

// mount mounts a file system of its own, and skips the test of who may not.
func mount(t *testing.T, args ...string) string {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("mount", append(args, dir)...).CombinedOutput(); err != nil {
		t.Skipf("nothing can be mounted: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	return dir
}

// Where there is no room for an archive, that is said before a byte is written,
// with how much is missing; what an interrupted write has left counts as there.
func TestArchiveWithoutRoom(t *testing.T) {
	s := newSaving(t)
	s.dir = mount(t, "-t", "tmpfs", "-o", "size=5m", "tmpfs")
	_, read, err := s.save(t, t.Context(), func(int64) {}, 4)
	var space *registry.SpaceError
	if !errors.As(err, &space) || read != 0 {
		t.Fatalf("%d bytes are read, %v", read, err)
	}
	if want := int64(len(s.want)); space.Size != want || space.Need != want || space.Free > 5<<20 || space.Short() < want-5<<20 {
		t.Errorf("%+v for %d bytes", space, want)
	}
	s.holds(t)

	// A disk on which it fits once, and half of it is there.
	s.dir = mount(t, "-t", "tmpfs", "-o", "size=7m", "tmpfs")
	if s.cut(t, s.bytes/2, 2) == nil {
		t.Fatal("nothing is kept")
	}
	if _, _, err := s.save(t, t.Context(), func(int64) {}, 4); err != nil {
		t.Fatal(err)
	}
	if now, err := os.ReadFile(s.to()); err != nil || !bytes.Equal(now, s.want) {
		t.Errorf("another archive, %v", err)
	}
	// The same again is there already. One bit of it is not as it should be, and a
	// second one does not fit beside it.
	if _, read, err := s.save(t, t.Context(), func(int64) {}, 4); err != nil || read != 0 {
		t.Errorf("%d bytes are read for what is there: %v", read, err)
	}
	damaged := slices.Clone(s.want)
	damaged[len(damaged)/2] ^= 1
	if err := os.WriteFile(s.to(), damaged, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.save(t, t.Context(), func(int64) {}, 4); !errors.As(err, &space) {
		t.Errorf("a second one: %v", err)
	}
	s.holds(t, "saved.tar")
}

// Where no room can be taken before it is needed, somebody else may take it. What
// is written stays, and is gone on from when there is room again.
func TestArchiveRunsOutOfRoom(t *testing.T) {
	s := newSaving(t)
	image := filepath.Join(t.TempDir(), "ext2")
	if err := os.WriteFile(image, make([]byte, 12<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mkfs.ext2", "-q", "-F", image).CombinedOutput(); err != nil {
		t.Skipf("no ext2: %v: %s", err, out)
	}
	disk := mount(t, "-o", "loop", image)
	s.dir = filepath.Join(disk, "saved")
	if err := os.Mkdir(s.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	filler := filepath.Join(disk, "filler")
	filled := false
	_, _, err := s.save(t, t.Context(), func(n int64) {
		if n < s.bytes/2 || filled {
			return
		}
		filled = true
		f, err := os.Create(filler)
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close()
		for err == nil {
			_, err = f.Write(make([]byte, 4096))
		}
	}, 1)
	var unfinished *registry.UnfinishedError
	if !errors.Is(err, syscall.ENOSPC) || !errors.As(err, &unfinished) || unfinished.Done.Bytes == 0 {
		t.Fatalf("%+v, %v", unfinished, err)
	}
	s.holds(t, "saved.tar.partial", "saved.tar.partial.journal")
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	kept, read, err := s.save(t, t.Context(), func(int64) {}, 1)
	if err != nil || kept == nil || read >= s.bytes {
		t.Errorf("%+v, %d bytes are read, %v", kept, read, err)
	}
	if now, err := os.ReadFile(s.to()); err != nil || !bytes.Equal(now, s.want) {
		t.Errorf("another archive, %v", err)
	}
}

// Files of a size that the file system has no room to count are refused with the
// size that volumes should have.
func TestArchiveLargerThanFilesCanBe(t *testing.T) {
	e := &registry.FileSizeError{Place: "shop.tar", Size: 5 << 30, Most: 1<<32 - 1, System: "FAT"}
	for _, want := range []string{"shop.tar", "5368709120", "5.0 GiB", "FAT"} {
		if !strings.Contains(e.Error(), want) {
			t.Errorf("%q does not say %s", e, want)
		}
	}
	if e.Split() != "4095M" {
		t.Errorf("--split %s", e.Split())
	}
}

// Volumes need room for all of them before the first is written; those that are
// there are counted.
func TestVolumesWithoutRoom(t *testing.T) {
	s := newSaving(t)
	save := func(at string) error {
		c := client(t, quick())
		src := open(t, c, s.from)
		dst, err := c.CreateArchive(t.Context(), location(t, at), registry.ArchiveOptions{Split: 2 << 20})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := registry.Copy(t.Context(), src, dst, []ocispec.Descriptor{s.root.desc}, registry.CopyOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := dst.Tag(t.Context(), s.root.desc, "1.0.0"); err != nil {
			t.Fatal(err)
		}
		return dst.Commit(t.Context())
	}
	s.dir = mount(t, "-t", "tmpfs", "-o", "size=5m", "tmpfs")
	var space *registry.SpaceError
	if err := save(s.to()); !errors.As(err, &space) || space.Size < s.bytes || space.Need != space.Size {
		t.Fatalf("%v", err)
	}
	s.holds(t)
	if out, err := exec.Command("mount", "-o", "remount,size=9m", s.dir).CombinedOutput(); err != nil {
		t.Skipf("%v: %s", err, out)
	}
	if err := save(s.to()); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(s.to() + ".002"); err != nil {
		t.Fatal(err)
	}
	if err := save(s.to()); err != nil {
		t.Errorf("one of them is gone, and all but that are there: %v", err)
	}
}

// How large files can be is tried where the system does not tell it.
func TestArchiveLargerThanItsFileSystemTakes(t *testing.T) {
	if os.Getenv("WAYBILL_SMALL_FILES") == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestArchiveLargerThanItsFileSystemTakes$", "-test.v")
		cmd.Env = append(os.Environ(), "WAYBILL_SMALL_FILES=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	s := newSaving(t)
	_ = os.Remove(s.to())
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 3<<20 + 5, Max: 3<<20 + 5}); err != nil {
		t.Skip(err)
	}
	_, read, err := s.save(t, t.Context(), func(int64) {}, 4)
	var large *registry.FileSizeError
	if !errors.As(err, &large) || read != 0 || large.Most != 3<<20+5 || large.Split() != "3M" {
		t.Errorf("%+v, %v", large, err)
	}
	s.holds(t)
}

// A save from a registry goes on in the middle of a blob, also from one that knows
// no ranges.
func TestArchiveResumesFromRegistry(t *testing.T) {
	for name, opts := range map[string]registrytest.Options{"ranges": {}, "no ranges": {NoRange: true}} {
		t.Run(name, func(t *testing.T) {
			s := newSaving(t)
			_ = os.Remove(s.to())
			reg := registrytest.New(t, opts)
			c := client(t, quick())
			dst, err := c.Create(t.Context(), location(t, "oci://"+reg.Host+"/shop"))
			if err != nil {
				t.Fatal(err)
			}
			pushAll(t, dst, append(append([]piece{blob("application/vnd.oci.image.config.v1+json", "{}")}, s.layers...), s.root))
			if err := dst.Tag(t.Context(), s.root.desc, "1.0.0"); err != nil {
				t.Fatal(err)
			}
			s.from = "oci://" + reg.Host + "/shop:1.0.0"
			for _, after := range []int64{1, 2 << 20, s.bytes / 2, s.bytes - 1} {
				_ = os.Remove(s.to())
				if s.cut(t, after, 1) == nil {
					t.Fatal("nothing is kept")
				}
				kept, read, err := s.save(t, t.Context(), func(int64) {}, 1)
				if err != nil || kept == nil || read+kept.Kept.Bytes > s.bytes+s.root.desc.Size {
					t.Errorf("cut after %d: %+v, %d of %d bytes are read, %v", after, kept, read, s.bytes, err)
				}
				if now, err := os.ReadFile(s.to()); err != nil || !bytes.Equal(now, s.want) {
					t.Errorf("cut after %d: another archive, %v", after, err)
				}
			}
		})
	}
}

func pushAll(t *testing.T, dst *registry.Destination, pieces []piece) {
	t.Helper()
	for _, p := range pieces {
		if err := dst.Push(t.Context(), p.desc, bytes.NewReader(p.data)); err != nil {
			t.Fatal(err)
		}
	}
}

// Where there is no room for what a folder is to hold, that is said before a blob
// is written, and the folder is not there afterwards.
func TestFolderWithoutRoom(t *testing.T) {
	s := newSaving(t)
	dir := filepath.Join(mount(t, "-t", "tmpfs", "-o", "size=3m", "tmpfs"), "lay")
	c := client(t, quick())
	dst, err := c.Update(t.Context(), location(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	_, err = registry.Copy(t.Context(), open(t, c, s.from), dst, []ocispec.Descriptor{s.root.desc}, registry.CopyOptions{
		Concurrency: 1, OnBytes: func(n int) { read += n },
	})
	var space *registry.SpaceError
	if !errors.As(err, &space) || read != 0 || space.Need != s.bytes || space.Short() < s.bytes-3<<20 {
		t.Errorf("%d bytes are read of %d, %v", read, s.bytes, err)
	}
	if err := dst.Abort(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is there: %v", err)
	}
}
