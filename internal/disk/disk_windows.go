package disk

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/windows"
)

func isFAT(folder string) bool {
	path, err := filepath.Abs(folder)
	if err != nil {
		return false
	}
	root, err := windows.UTF16PtrFromString(filepath.VolumeName(path) + `\`)
	if err != nil {
		return false
	}
	var name [windows.MAX_PATH + 1]uint16
	if err := windows.GetVolumeInformation(root, nil, 0, nil, nil, nil, &name[0], uint32(len(name))); err != nil {
		return false
	}
	system := windows.UTF16ToString(name[:])
	return strings.HasPrefix(system, "FAT")
}

func free(folder string) (int64, bool) {
	path, err := windows.UTF16PtrFromString(folder)
	if err != nil {
		return 0, false
	}
	var bytes uint64
	if err := windows.GetDiskFreeSpaceEx(path, &bytes, nil, nil); err != nil {
		return 0, false
	}
	return int64(bytes), true //nolint:gosec // no disk is that large
}

func reserve(_ context.Context, f *os.File, size int64) error { return truncate(f, size) }

func isFull(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL)
}

func isTooLarge(err error) bool { return errors.Is(err, windows.ERROR_FILE_TOO_LARGE) }

// taken is the size: a file that was given one takes it, holes or not.
func taken(info fs.FileInfo) int64 { return info.Size() }

func past(string) (*os.File, error) { return nil, errors.ErrUnsupported }

func isNotPast(error) bool { return false }

func openPast(*os.File) (*os.File, error) { return nil, errors.ErrUnsupported }

func isCached(*os.File, int64, int64) bool { return false }

func stateOf(info fs.FileInfo) State { return State{Changed: info.ModTime()} }
