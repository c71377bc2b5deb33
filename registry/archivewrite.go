package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"waybill/internal/beside"
)

// archiveTarget collects what an archive will hold and writes it on commit: to
// FILE.partial, which it holds locked from the beginning, so that two writers of
// one archive don't meet in it. What is pushed is kept in memory; what copies
// bring is promised, and goes from its source to its place in the file.
type archiveTarget struct {
	staged
	*cargo
	path    string
	partial *os.File
	delta   *Delta // nil: nothing is left out
}

// createArchive begins an archive. With keep, what is in the file now will be in
// the new one too.
func createArchive(l Location, keep bool) (*archiveTarget, error) {
	c := newCargo()
	t := &archiveTarget{path: l.Path, cargo: c, staged: staged{place: placeName(l), into: c}}
	if isDirectory(l.Path) {
		return nil, &LocationError{Input: l.String(), Reason: "is a folder, not an archive"}
	}
	if keep && exists(l.Path) {
		before, err := openArchive(l)
		if err != nil {
			return nil, err
		}
		t.before = before
	}
	if err := t.reserve(); err != nil {
		return nil, errors.Join(err, t.close())
	}
	return t, nil
}

func (t *archiveTarget) reserve() error {
	partial, err := tryLock(t.path + ".partial")
	if errors.Is(err, beside.ErrLocked) {
		return &BusyError{Path: t.place}
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", t.place, plainPathError(err))
	}
	t.partial = partial
	return nil
}

// Fetch gives what was pushed or promised, or what is in the file now.
func (t *archiveTarget) Fetch(ctx context.Context, desc ocispec.Descriptor) (io.ReadCloser, error) {
	_, isHeld, p, isPromised := t.find(desc.Digest)
	if isPromised && !isHeld {
		return t.fetch(ctx, p)
	}
	return t.staged.Fetch(ctx, desc)
}

// commit writes the tar beside its place and renames it, so that the file is
// there whole or not at all.
func (t *archiveTarget) commit(ctx context.Context) error {
	err := t.write(ctx)
	if closeErr := t.close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = t.rename()
	}
	if err == nil {
		return nil
	}
	if !isOurs(err) && ctx.Err() == nil {
		err = fmt.Errorf("writing %s: %w", t.place, plainPathError(err))
	}
	return errors.Join(err, t.dropPartial())
}

// rename keeps the lock until the file has its name. Windows doesn't rename
// what is open.
func (t *archiveTarget) rename() error {
	if runtime.GOOS == "windows" {
		if err := t.partial.Close(); err != nil {
			return err
		}
		return os.Rename(t.partial.Name(), t.path)
	}
	if err := os.Rename(t.partial.Name(), t.path); err != nil {
		return err
	}
	return t.partial.Close()
}

// abort removes all that was written. What was there before is untouched.
func (t *archiveTarget) abort() error {
	return errors.Join(t.close(), t.dropPartial())
}

// close lets go of all that is read from.
func (t *archiveTarget) close() error {
	err := t.cargo.Close()
	if t.before != nil {
		err = errors.Join(err, t.before.Close())
	}
	return err
}

// dropPartial removes while the lock is held, and once more after it where a
// file that is open can't be removed.
func (t *archiveTarget) dropPartial() error {
	err := os.Remove(t.partial.Name())
	closeErr := t.partial.Close()
	if errors.Is(closeErr, os.ErrClosed) {
		closeErr = nil
	}
	if err != nil && exists(t.partial.Name()) {
		err = os.Remove(t.partial.Name())
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, closeErr)
}

func (t *archiveTarget) write(ctx context.Context) error {
	index := t.index()
	if len(index.Manifests) == 0 {
		return &ContentError{Ref: t.place, Reason: "nothing was tagged, so there is nothing to write"}
	}
	plan, err := t.plan(ctx)
	if err != nil {
		return err
	}
	if err := t.partial.Truncate(plan.tar.Size()); err != nil {
		return err
	}
	w := &tarWriter{plan: plan, file: t.partial, place: t.place}
	if err := w.write(ctx, t.concurrency); err != nil {
		return err
	}
	return t.partial.Sync()
}

// findSupply is where a blob comes from: what was pushed or promised, else what
// is in the file now.
func (t *archiveTarget) findSupply(desc ocispec.Descriptor) (supply, bool) {
	if o, ok := t.cargo.supply(desc); ok || t.before == nil {
		return o, ok
	}
	if there, err := t.before.has(context.Background(), desc); err != nil || !there {
		return supply{}, false
	}
	return plainSupply(func(ctx context.Context, offset int64) (io.ReadCloser, error) {
		return t.before.openAt(ctx, desc, offset)
	}), true
}
