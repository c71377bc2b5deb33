package disk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func statfs(folder string) (unix.Statfs_t, error) {
	var s unix.Statfs_t
	for {
		err := unix.Statfs(folder, &s)
		if !errors.Is(err, unix.EINTR) {
			return s, err
		}
	}
}

// isFAT knows FAT; exFAT has another number and no such limit.
func isFAT(folder string) bool {
	s, err := statfs(folder)
	return err == nil && uint32(s.Type) == unix.MSDOS_SUPER_MAGIC //nolint:gosec // its width differs between machines
}

func free(folder string) (int64, bool) {
	s, err := statfs(folder)
	if err != nil || s.Blocks == 0 { // some in user space tell nothing
		return 0, false
	}
	size := s.Frsize
	if size == 0 {
		size = s.Bsize
	}
	return int64(s.Bavail) * int64(size), true //nolint:gosec,unconvert // as above
}

func past(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_WRONLY|unix.O_DIRECT, 0)
}

func stateOf(info fs.FileInfo) State {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return State{Changed: info.ModTime()}
	}
	return State{ID: s.Ino, Changed: time.Unix(s.Ctim.Unix())}
}

// openPast opens the same file again, whatever is at its path by now.
func openPast(f *os.File) (*os.File, error) {
	return os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), os.O_RDONLY|unix.O_DIRECT, 0)
}

// isCached asks Linux 6.5 and later. To read without waiting would tell it too, and
// begin to fill the cache.
func isCached(f *os.File, at, size int64) bool {
	var found unix.Cachestat_t
	err := unix.Cachestat(uint(f.Fd()), &unix.CachestatRange{Off: uint64(at), Len: uint64(size)}, &found, 0) //nolint:gosec // neither is less than 0
	page := uint64(os.Getpagesize())                                                                         //nolint:gosec // nor is this
	return err == nil && found.Cache*page >= uint64(size)                                                    //nolint:gosec // as above
}

func isNotPast(err error) bool { return errors.Is(err, unix.EINVAL) }

// step is how much is reserved with one call: a file system in memory clears it
// at once, and begins from nothing when it is interrupted.
const step = 256 << 20

func reserve(ctx context.Context, f *os.File, size int64) error {
	for at := int64(0); at < size; at += step {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := allocate(f, at, min(step, size-at))
		switch {
		case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EINVAL), errors.Is(err, unix.EINTR):
			return withoutRoom(f, size)
		case err != nil:
			return err
		}
	}
	return nil
}

func allocate(f *os.File, at, size int64) error {
	const patience = 20
	var err error
	for range patience {
		if err = unix.Fallocate(int(f.Fd()), 0, at, size); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
	return err
}

// withoutRoom gives a file its size where no room can be taken before it is
// needed. FAT and exFAT know no holes and would write zeros now.
func withoutRoom(f *os.File, size int64) error {
	var s unix.Statfs_t
	err := unix.Fstatfs(int(f.Fd()), &s)
	switch kind := uint32(s.Type); { //nolint:gosec // its width differs between machines
	case err != nil, kind == unix.MSDOS_SUPER_MAGIC, kind == unix.EXFAT_SUPER_MAGIC:
		return nil
	}
	return truncate(f, size)
}
