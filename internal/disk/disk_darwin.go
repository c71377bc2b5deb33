package disk

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

func isFAT(folder string) bool {
	var s unix.Statfs_t
	err := unix.Statfs(folder, &s)
	return err == nil && unix.ByteSliceToString(s.Fstypename[:]) == "msdos"
}

func free(folder string) (int64, bool) {
	var s unix.Statfs_t
	if err := unix.Statfs(folder, &s); err != nil || s.Blocks == 0 {
		return 0, false
	}
	return int64(s.Bavail) * int64(s.Bsize), true //nolint:gosec // no disk is that large
}

func reserve(_ context.Context, f *os.File, size int64) error { return truncate(f, size) }

func past(string) (*os.File, error) { return nil, errors.ErrUnsupported }

func isNotPast(error) bool { return false }

func openPast(*os.File) (*os.File, error) { return nil, errors.ErrUnsupported }

func isCached(*os.File, int64, int64) bool { return false }

func stateOf(info fs.FileInfo) State { return State{Changed: info.ModTime()} }
