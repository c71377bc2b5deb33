//go:build unix

package registry

import (
	"errors"
	"os"
	"syscall"
)

// lockHandle locks an open file, for this handle alone. The lock ends with the
// process, however that ends.
func lockHandle(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errLocked
	}
	return err
}
