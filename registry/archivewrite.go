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
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// archiveTarget collects blobs in a private folder beside the file and writes
// the tar on commit.
type archiveTarget struct {
	staged
	path string
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
	stage, err := os.MkdirTemp(filepath.Dir(l.Path), "."+filepath.Base(l.Path)+".*")
	if err != nil {
		err = fmt.Errorf("writing %s: %w", t.place, plainPathError(err))
		if t.before != nil {
			err = errors.Join(err, t.before.Close())
		}
		return nil, err
	}
	t.into = folder(stage)
	return t, nil
}

// commit writes the tar beside its place and renames it, so that the file is
// there whole or not at all.
func (t *archiveTarget) commit(ctx context.Context) error {
	partial := t.path + ".partial"
	err := t.write(ctx, partial)
	if cleanErr := t.abort(); err == nil {
		err = cleanErr
	}
	if err == nil {
		err = plainPathError(os.Rename(partial, t.path))
	}
	if err != nil {
		_ = os.Remove(partial)
		if isOurs(err) || ctx.Err() != nil {
			return err
		}
		return fmt.Errorf("writing %s: %w", t.place, plainPathError(err))
	}
	return nil
}

// abort removes the private folder. What was there before is untouched.
func (t *archiveTarget) abort() error {
	err := os.RemoveAll(string(t.into))
	if t.before != nil {
		err = errors.Join(err, t.before.Close())
	}
	return err
}

func (t *archiveTarget) write(ctx context.Context, path string) (err error) {
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
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := t.writeTar(ctx, tar.NewWriter(f), indexData, order); err != nil {
		return err
	}
	return f.Sync()
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
