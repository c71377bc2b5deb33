package registry

import (
	"context"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"cuelabs.dev/go/oci/ociregistry"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"waybill/internal/beside"
	"waybill/internal/files"
)

const (
	uploadPrefix = tempPrefix + "upload-"
	// An upload that nobody goes on with for so long is given up. Clients that
	// come back after a break do so within minutes.
	uploadPatience = time.Hour
	// More open uploads than any client begins at the same time.
	maxUploads = 10_000
)

// uploads are the blobs that are being sent to a layout, each a file beside the
// blobs until all of it is there.
type uploads struct {
	dir string

	mu   sync.Mutex
	open map[string]*upload
}

// newUploads takes away what servers left behind that were killed.
func newUploads(dir string) (*uploads, error) {
	if err := beside.Sweep(dir, uploadPrefix); err != nil {
		return nil, fmt.Errorf("removing what an interrupted upload left: %w", err)
	}
	return &uploads{dir: dir, open: map[string]*upload{}}, nil
}

// begin opens a new upload.
func (u *uploads) begin(repository string) (*upload, error) {
	up := &upload{all: u, repository: repository, hash: digest.SHA256.Hash(), used: time.Now()}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.dropIdle()
	if len(u.open) >= maxUploads {
		return nil, ociregistry.NewError("too many uploads are open", ociregistry.ErrTooManyRequests.Code(), nil)
	}
	file, err := beside.Create(u.dir, uploadPrefix)
	if err != nil {
		return nil, files.PlainError(err)
	}
	up.file, up.id = file, strings.TrimPrefix(filepath.Base(file.Name()), uploadPrefix)
	u.open[up.id] = up
	return up, nil
}

func (u *uploads) dropIdle() {
	for id, up := range u.open {
		if time.Since(up.used) > uploadPatience && up.busy.TryLock() {
			up.remove()
			up.busy.Unlock()
			delete(u.open, id)
		}
	}
}

// take gives an open upload to one caller at a time.
func (u *uploads) take(repository, id string) (*upload, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	up := u.open[id]
	if up == nil || up.repository != repository {
		return nil, ociregistry.ErrBlobUploadUnknown
	}
	if !up.busy.TryLock() {
		return nil, ociregistry.NewError("another request is writing to this upload", ociregistry.ErrBlobUploadInvalid.Code(), nil)
	}
	up.used = time.Now()
	return up, nil
}

// size is how much of an upload has arrived.
func (u *uploads) size(repository, id string) (int64, error) {
	up, err := u.take(repository, id)
	if err != nil {
		return 0, err
	}
	defer up.busy.Unlock()
	return up.size, nil
}

// cancel ends an upload and forgets what was sent.
func (u *uploads) cancel(repository, id string) error {
	up, err := u.take(repository, id)
	if err != nil {
		return err
	}
	defer up.busy.Unlock()
	u.forget(id)
	up.remove()
	return nil
}

func (u *uploads) forget(id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.open, id)
}

func (u *uploads) endAll() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for id, up := range u.open {
		up.remove()
		delete(u.open, id)
	}
}

// upload is one blob on its way in.
type upload struct {
	all        *uploads
	id         string
	repository string
	used       time.Time // under all.mu

	busy sync.Mutex
	file *os.File
	hash hash.Hash // of what is in the file
	size int64
}

func (up *upload) remove() {
	_ = up.file.Close()
	_ = os.Remove(up.file.Name())
}

// uploadWriter is an upload in the hands of one request.
type uploadWriter struct {
	*upload
	store  *store
	offset int64 // where the request says its bytes begin
	once   sync.Once
	begun  bool
	done   bool
}

var _ ociregistry.BlobWriter = (*uploadWriter)(nil)

// Write appends. A request that begins elsewhere than the upload ends is refused
// (distribution specification, "Pushing a blob in chunks").
func (w *uploadWriter) Write(p []byte) (int, error) {
	if !w.begun && w.offset != w.size {
		return 0, fmt.Errorf("the upload has %d bytes, these begin at %d: %w", w.size, w.offset, ociregistry.ErrRangeInvalid)
	}
	w.begun = true
	n, err := w.file.WriteAt(p, w.size)
	_, _ = w.hash.Write(p[:n]) // hashes don't fail
	w.size += int64(n)
	return n, files.PlainError(err)
}

func (w *uploadWriter) Size() int64 { return w.size }

// ChunkSize is the least that a chunk should have; none is too small.
func (w *uploadWriter) ChunkSize() int { return 1 }

func (w *uploadWriter) ID() string { return w.id }

// Close lets the next request have the upload.
func (w *uploadWriter) Close() error {
	w.once.Do(w.busy.Unlock)
	return nil
}

// Cancel ends the upload.
func (w *uploadWriter) Cancel() error {
	if !w.done {
		w.done = true
		w.all.forget(w.id)
		w.remove()
	}
	return w.Close()
}

// Commit holds the bytes against the digest and gives them their name.
func (w *uploadWriter) Commit(d digest.Digest) (ocispec.Descriptor, error) {
	desc := ocispec.Descriptor{MediaType: octetStream, Digest: d, Size: w.size}
	got, err := w.sum(d.Algorithm())
	if err != nil {
		return desc, err
	}
	if got != d {
		_ = w.Cancel()
		return desc, fmt.Errorf("the content is %s: %w", got, ociregistry.ErrDigestInvalid)
	}
	path, err := w.store.folder.path(d)
	if err != nil {
		return desc, err
	}
	if size, err := w.store.folder.size(d); err == nil && size == w.size {
		return desc, w.Cancel()
	}
	return desc, w.moveTo(path)
}

func (w *uploadWriter) sum(a digest.Algorithm) (digest.Digest, error) {
	if a == digest.SHA256 {
		return digest.NewDigest(a, w.hash), nil
	}
	if !a.Available() {
		return "", ociregistry.ErrDigestInvalid
	}
	return a.FromReader(io.NewSectionReader(w.file, 0, w.size))
}

func (w *uploadWriter) moveTo(path string) error {
	w.done = true
	w.all.forget(w.id)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return files.PlainError(err)
	}
	err := w.file.Chmod(0o644)
	if errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	if err == nil {
		err = w.file.Sync()
	}
	if err == nil {
		err = beside.Rename(w.file, path)
	}
	if err != nil {
		w.remove()
	}
	return files.PlainError(err)
}

// pushBlob takes a blob that is sent in one piece.
func (s *store) pushBlob(_ context.Context, repository string, desc ocispec.Descriptor, r io.Reader) (ocispec.Descriptor, error) {
	w, err := s.beginUpload(repository)
	if err != nil {
		return desc, err
	}
	defer w.Close()
	if _, err := io.Copy(w, r); err != nil {
		return desc, errors.Join(err, w.Cancel())
	}
	if desc.Size >= 0 && w.size != desc.Size {
		return desc, errors.Join(ociregistry.ErrSizeInvalid, w.Cancel())
	}
	return w.Commit(desc.Digest)
}

func (s *store) beginUpload(repository string) (*uploadWriter, error) {
	up, err := s.uploads.begin(repository)
	if err != nil {
		return nil, err
	}
	if up, err = s.uploads.take(repository, up.id); err != nil {
		return nil, err
	}
	return &uploadWriter{upload: up, store: s}, nil
}

// resumeUpload goes on with an upload; offset -1 is wherever it is.
func (s *store) resumeUpload(repository, id string, offset int64) (*uploadWriter, error) {
	up, err := s.uploads.take(repository, id)
	if err != nil {
		return nil, err
	}
	if offset < 0 {
		offset = up.size
	}
	return &uploadWriter{upload: up, store: s, offset: offset}, nil
}
