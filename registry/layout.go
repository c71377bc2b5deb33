package registry

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"waybill/internal/beside"
	"waybill/internal/files"
	"waybill/internal/ref"
)

// openLayout reads a layout folder. Reading never writes.
func openLayout(l Location) (*localPlace, error) {
	place := placeName(l)
	data, err := readSmall(filepath.Join(l.Path, layoutFile), maxLayoutFile)
	if err != nil {
		return nil, notLayout(err, l, layoutFile)
	}
	if err := checkLayoutFile(data, place); err != nil {
		return nil, err
	}
	index, err := readIndexFile(l)
	if err != nil {
		return nil, notLayout(err, l, indexFile)
	}
	return &localPlace{place: place, index: index, blobs: folder(l.Path)}, nil
}

func readIndexFile(l Location) (ocispec.Index, error) {
	data, err := readSmall(filepath.Join(l.Path, indexFile), maxIndexFile)
	if err != nil {
		return ocispec.Index{}, err
	}
	return readIndex(data, placeName(l))
}

// placeName is a location without the choice of what in it.
func placeName(l Location) string {
	l.Name, l.Digest, l.Ref.Tag = "", "", ""
	return l.String()
}

func notLayout(err error, l Location, file string) error {
	if isOurs(err) {
		return err
	}
	if errors.Is(err, fs.ErrNotExist) {
		if !exists(l.Path) {
			return &LocationError{Input: l.String(), Reason: "does not exist"}
		}
		return &ContentError{Ref: placeName(l), Reason: "is a folder, but no OCI image layout: it has no file " + file, Err: err}
	}
	return fmt.Errorf("reading %s of %s: %w", file, placeName(l), files.PlainError(err))
}

// readSmall reads a regular file that must not be larger than limit.
func readSmall(path string, limit int64) ([]byte, error) {
	f, size, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size > limit {
		return nil, &ContentError{Ref: path, Reason: fmt.Sprintf("is larger than %d bytes", limit)}
	}
	return io.ReadAll(io.LimitReader(f, limit))
}

// openRegular opens a file and nothing that could block or lead elsewhere.
func openRegular(path string) (*os.File, int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, &ContentError{Ref: path, Reason: "is no regular file", Advice: "name a file or a folder; what comes through a pipe has to be written to a file first"}
	}
	f, err := os.Open(path)
	return f, info.Size(), err
}

// folder is the blobs of a layout folder.
type folder string

// path is made of a digest that was checked: letters and digits only.
func (f folder) path(d digest.Digest) (string, error) {
	if err := ref.CheckDigest(d.String()); err != nil {
		return "", err
	}
	return filepath.Join(string(f), ocispec.ImageBlobsDir, d.Algorithm().String(), d.Encoded()), nil
}

func (f folder) open(d digest.Digest) (blobFile, int64, error) {
	path, err := f.path(d)
	if err != nil {
		return nil, 0, err
	}
	file, size, err := openRegular(path)
	if err != nil {
		return nil, 0, err
	}
	return file, size, nil
}

func (f folder) size(d digest.Digest) (int64, error) {
	path, err := f.path(d)
	if err != nil {
		return 0, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (f folder) Close() error { return nil }

// write puts content under its digest: written beside, checked, then renamed.
func (f folder) write(desc ocispec.Descriptor, r io.Reader, place string) error {
	path, err := f.path(desc.Digest)
	if err != nil {
		return err
	}
	rc, err := checked(io.NopCloser(r), desc, "content for "+place)
	if err != nil {
		return err
	}
	if size, err := f.size(desc.Digest); err == nil && size == desc.Size {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("writing to %s: %w", place, files.PlainError(err))
	}
	if err := writeBeside(path, func(w io.Writer) error { _, err := io.Copy(w, rc); return err }); err != nil {
		if isOurs(err) {
			return err
		}
		return fmt.Errorf("writing %s to %s: %w", describe(desc), place, files.PlainError(err))
	}
	return nil
}

// tempPrefix begins the names of files that are not whole yet. Their writers hold
// them locked.
const tempPrefix = ".tmp-"

// writeBeside writes a file under another name and renames it when all went well.
func writeBeside(path string, fill func(io.Writer) error) (err error) {
	tmp, err := beside.Create(filepath.Dir(path), tempPrefix)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = tmp.Close()
			_ = os.Remove(tmp.Name())
		}
	}()
	if err := fill(tmp); err != nil {
		return err
	}
	if err := tmp.Chmod(0o644); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	if err := tmp.Sync(); err != nil {
		return err
	}
	return beside.Rename(tmp, path)
}
