package registry

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"waybill/internal/beside"
	"waybill/internal/files"
)

const (
	lockPoll = 20 * time.Millisecond
	// Writing an index takes milliseconds: who waits so long waits for something stuck.
	lockPatience = 30 * time.Second
)

// lockFolder waits for the lock of a folder and gives the function that ends
// it. When another process keeps it too long the error is a *BusyError.
func lockFolder(ctx context.Context, path, place string) (func() error, error) {
	name := filepath.Join(path, lockFile)
	for deadline := time.Now().Add(lockPatience); ; {
		f, err := tryLock(name)
		if err == nil {
			_, err := fmt.Fprintf(f, "process %d\n", os.Getpid())
			return func() error { return errors.Join(releaseLock(name), f.Close()) }, err
		}
		if !errors.Is(err, beside.ErrLocked) {
			return nil, fmt.Errorf("locking %s: %w", place, files.PlainError(err))
		}
		if time.Now().After(deadline) {
			holder, _ := os.ReadFile(name)
			return nil, &BusyError{Path: place, Holder: strings.TrimSpace(printable(string(holder)))}
		}
		if err := sleep(ctx, lockPoll); err != nil {
			return nil, err
		}
	}
}

// tryLock takes the lock of a file that is nothing else, or gives beside.ErrLocked.
func tryLock(name string) (*os.File, error) {
	f, err := openLocked(name)
	if err != nil {
		return nil, err
	}
	return f, f.Truncate(0)
}

// inTheWay is something else where a file has to be written.
func inTheWay(name string) error {
	return &ContentError{Ref: name, Reason: "is no regular file", Advice: "remove " + name + ", which a write would have to make anew, or choose another name to write to"}
}

// openLocked opens a file, which it makes when it isn't there, and takes its
// lock, or gives beside.ErrLocked. The name may have gone to another file meanwhile, so
// it must be looked at again; a link is none that this package makes.
func openLocked(name string) (*os.File, error) {
	if info, err := os.Lstat(name); err == nil && !info.Mode().IsRegular() {
		return nil, inTheWay(name)
	}
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if err := beside.Lock(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	mine, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	there, err := os.Lstat(name)
	if err != nil || !os.SameFile(mine, there) {
		_ = f.Close()
		return nil, beside.ErrLocked
	}
	return f, nil
}

func releaseLock(name string) error {
	err := os.Remove(name)
	if errors.Is(err, fs.ErrPermission) {
		return nil // Windows keeps a file that is open; the next one uses it
	}
	return err
}
