//go:build unix

package disk

import (
	"errors"
	"io/fs"
	"syscall"
)

func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

func isTooLarge(err error) bool { return errors.Is(err, syscall.EFBIG) }

// taken counts blocks of 512 bytes, whatever the blocks of the disk are.
func taken(info fs.FileInfo) int64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Blocks * 512
	}
	return 0
}
