package registry

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// archiveTarget collects blobs in a private folder beside the file and writes
// the tar on commit: to FILE.partial, which it holds locked from the beginning,
// so that two writers of one archive don't meet in it.
type archiveTarget struct {
	staged
	path    string
	partial *os.File
}

// createArchive begins an archive. With keep, what is in the file now will be in
// the new one too.
func createArchive(l Location, keep bool) (*archiveTarget, error) {
	t := &archiveTarget{path: l.Path, staged: staged{place: placeName(l)}}
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
		if t.before != nil {
			err = errors.Join(err, t.before.Close())
		}
		return nil, err
	}
	return t, nil
}

func (t *archiveTarget) reserve() error {
	partial, err := tryLock(t.path + ".partial")
	if errors.Is(err, errLocked) {
		return &BusyError{Path: t.place}
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", t.place, plainPathError(err))
	}
	t.partial = partial
	stage, err := os.MkdirTemp(filepath.Dir(t.path), "."+filepath.Base(t.path)+".*")
	if err != nil {
		return errors.Join(fmt.Errorf("writing %s: %w", t.place, plainPathError(err)), t.dropPartial())
	}
	t.into = folder(stage)
	return nil
}

// commit writes the tar beside its place and renames it, so that the file is
// there whole or not at all.
func (t *archiveTarget) commit(ctx context.Context) error {
	err := t.write(ctx)
	if cleanErr := t.dropStage(); err == nil {
		err = cleanErr
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
	return errors.Join(t.dropStage(), t.dropPartial())
}

func (t *archiveTarget) dropStage() error {
	err := os.RemoveAll(string(t.into))
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
	order, err := archiveOrder(ctx, index, t, t.place)
	if err != nil {
		return err
	}
	indexData, err := writeIndex(index)
	if err != nil {
		return err
	}
	if err := t.writeTar(ctx, tar.NewWriter(t.partial), indexData, order); err != nil {
		return err
	}
	return t.partial.Sync()
}

func (t *archiveTarget) writeTar(ctx context.Context, w *tar.Writer, index []byte, order []ocispec.Descriptor) error {
	for _, top := range []struct {
		name string
		data []byte
	}{{layoutFile, layoutFileBytes()}, {indexFile, index}} {
		if err := w.WriteHeader(tarHeader(top.name, int64(len(top.data)))); err != nil {
			return err
		}
		if _, err := w.Write(top.data); err != nil {
			return err
		}
	}
	for _, desc := range order {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := w.WriteHeader(tarHeader(blobName(desc.Digest), desc.Size)); err != nil {
			return err
		}
		if err := t.copyBlob(ctx, w, desc); err != nil {
			return err
		}
	}
	return w.Close()
}

func (t *archiveTarget) copyBlob(ctx context.Context, w io.Writer, desc ocispec.Descriptor) error {
	rc, err := t.Fetch(ctx, desc)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, rc)
	return errors.Join(err, rc.Close())
}

// tarHeader is the same on every machine and any day. Sizes that USTAR's octal
// digits can't hold take PAX.
func tarHeader(name string, size int64) *tar.Header {
	const ustarLimit = 8 << 30
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: int64(fs.FileMode(0o644)), ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}
	if size >= ustarLimit {
		h.Format = tar.FormatPAX
	}
	return h
}
