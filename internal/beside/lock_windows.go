package beside

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// Lock locks an open file, for this handle alone, or gives [ErrLocked]. The lock
// ends with the handle and with the process, however that ends. The locked byte lies far behind the text, which
// others may want to read.
func Lock(f *os.File) error {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, &windows.Overlapped{OffsetHigh: 1})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return ErrLocked
	}
	return err
}
