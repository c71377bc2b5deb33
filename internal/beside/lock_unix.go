//go:build unix

package beside

import (
	"errors"
	"os"
	"syscall"
)

// Lock locks an open file, for this handle alone, or gives [ErrLocked]. The lock
// ends with the handle and with the process, however that ends.
func Lock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrLocked
	}
	return err
}
