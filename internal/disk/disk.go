// Package disk tells of the file systems that large files are written to what
// the os package leaves out: how much room there is, how large a file may be,
// and how room is taken before it is needed.
//
// It knows operating systems and nothing of ours. What a system does not tell is
// not known, and no error.
package disk

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"
)

// ErrTooLarge is what [Reserve] gives for a file larger than files can be there.
var ErrTooLarge = errors.New("larger than files can be there")

// ErrFull is what [Reserve] gives when there is no room for all of a file.
var ErrFull = errors.New("no room left")

// A Limit is how large a file may be on a file system.
type Limit struct {
	Bytes  int64  // 0: more than anybody writes, or not known
	System string // its name, for people
}

// fat is what 32 bits can count.
var fat = Limit{Bytes: 1<<32 - 1, System: "FAT"}

// LimitAt tells how large a file in a folder may be.
func LimitAt(folder string) Limit {
	if isFAT(folder) {
		return fat
	}
	return Limit{}
}

// Free is how many bytes can be written in a folder, by who asks.
func Free(folder string) (bytes int64, known bool) { return free(folder) }

// Taken is how much of its disk a file takes, which is less than its size where
// it has holes. Where that is not told it is nothing.
func Taken(info fs.FileInfo) int64 { return taken(info) }

// A State tells whether a file is the one that it was.
type State struct {
	ID      uint64    // of the file on its disk: another one for a copy of it; 0 where it is not told
	Changed time.Time // when anything about it was changed last, as far as is told; nobody can set it where ID is told
}

// StateOf is the state that a file had when it was asked for.
func StateOf(info fs.FileInfo) State { return stateOf(info) }

// Reserve gives an open file its size, and where the file system can do so the
// room for all of it, so that nobody else takes it. Elsewhere it has holes, and
// where those would be written as zeros it stays as long as it is. What is in the
// file stays. It is done at once or after a moment: no byte is written.
//
// Errors: [ErrFull], [ErrTooLarge], those of the system.
func Reserve(ctx context.Context, f *os.File, size int64) error {
	err := reserve(ctx, f, size)
	switch {
	case isFull(err):
		return ErrFull
	case isTooLarge(err):
		return ErrTooLarge
	}
	return err
}

// Largest finds out, after [ErrTooLarge], how large a file can be, by trying. The
// file is as long afterwards as it was.
func Largest(f *os.File, tooLarge int64) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	fits := info.Size()
	for tooLarge-fits > 1 {
		try := fits + (tooLarge-fits)/2
		if f.Truncate(try) == nil {
			fits = try
		} else {
			tooLarge = try
		}
	}
	return fits, f.Truncate(info.Size())
}

// Alignment is what the places, sizes and memory of writes past the cache are
// multiples of, on all disks that we know.
const Alignment = 4096

// Past opens a file that is there for writing past the system's cache: whole
// blocks from memory that begins at a block, see [Alignment]. What was written so
// is not kept in memory, which many systems take longer to find than a disk
// takes to write; it is as safe as what was written through the cache, once the
// file is synced. An error where that is not possible.
func Past(path string) (*os.File, error) { return past(path) }

// IsNotPast says whether a write past the cache failed because it is not possible
// for this file or at this place.
func IsNotPast(err error) bool { return isNotPast(err) }

// IsFull says whether a write failed because there was no room left, or the
// user's share of it was used up.
func IsFull(err error) bool { return errors.Is(err, ErrFull) || isFull(err) }

// truncate makes a longer file of zeros that take no room.
func truncate(f *os.File, size int64) error {
	info, err := f.Stat()
	if err != nil || info.Size() >= size {
		return err
	}
	return f.Truncate(size)
}
