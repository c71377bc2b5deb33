package disk

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// forget has the system drop what is in its cache of a file from a place on.
func forget(t *testing.T, f *os.File, from int64) {
	t.Helper()
	if err := unix.Fadvise(int(f.Fd()), from, 0, unix.FADV_DONTNEED); err != nil {
		t.Log(err)
	}
}
