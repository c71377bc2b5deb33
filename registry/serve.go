package registry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"cuelabs.dev/go/oci/ociregistry/ociserver"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"waybill/internal/files"
)

// A Server is a registry over one archive, read-only and without unpacking, or
// over one layout folder, which takes pushes. It answers the whole API of the
// distribution specification, referrers, tag lists by pages and byte ranges
// included. It is safe for use at the same time, also beside other writers of
// the same folder. Who may use it is for a handler around it to ask.
//
// Repositories and tags are the names in index.json: [nameEntry]'s rules are in
// docs/format.md, "Names as a registry". Blobs, manifests by digest, and all that
// hangs on a digest are the same in every repository of a server.
type Server struct {
	store   *store
	handler http.Handler
}

// ServerOptions are the options of [NewServer].
type ServerOptions struct {
	// OnPush is called after a tag was set; nil for nobody. It may be called at
	// the same time.
	OnPush func(repository, tag string, d digest.Digest)
}

// NewServer opens an archive for reading, or a layout folder for reading and
// writing, which is made when it isn't there or is empty.
//
// Errors: *LocationError for a registry or a path where something else is,
// *ContentError for an archive or layout that is none, *DeltaError for a delta,
// which lacks what its base has.
func NewServer(l Location, opts ServerOptions) (*Server, error) {
	if l.Kind == Registry {
		return nil, &LocationError{Input: l.String(), Reason: "is a registry already; an archive or a folder can be served"}
	}
	s := &store{base: placeRepository(l.Path), known: map[digest.Digest]artifact{}, onPush: opts.OnPush}
	if s.onPush == nil {
		s.onPush = func(string, string, digest.Digest) {}
	}
	open := s.openLayout
	if l.Kind == Archive {
		open = s.openArchive
	}
	if err := open(l); err != nil {
		return nil, err
	}
	backend := newServeBackend(s)
	return &Server{store: s, handler: &serveHTTP{store: s, next: ociserver.New(backend, nil)}}, nil
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// ReadOnly says whether pushes are refused.
func (s *Server) ReadOnly() bool { return s.store.folder == "" }

// Close ends uploads that are not done and closes the archive.
func (s *Server) Close() error {
	if s.store.uploads != nil {
		s.store.uploads.endAll()
	}
	return s.store.blobs.Close()
}

// A ServedTag is one tag of a [Server].
type ServedTag struct {
	Repository, Tag string
	Descriptor      ocispec.Descriptor
}

// Tags lists what is served now, without signatures and the like, in order, and
// the tags that two things would have.
func (s *Server) Tags() ([]ServedTag, []Clash, error) {
	v, err := s.store.current()
	if err != nil {
		return nil, nil, err
	}
	var all []ServedTag
	for repository, tags := range v.tags {
		for tag, desc := range tags {
			all = append(all, ServedTag{repository, tag, desc})
		}
	}
	slices.SortFunc(all, func(a, b ServedTag) int {
		if c := strings.Compare(a.Repository, b.Repository); c != 0 {
			return c
		}
		return strings.Compare(a.Tag, b.Tag)
	})
	return all, v.clashes, nil
}

// store is what is served: blobs, and an index.json.
type store struct {
	place  string // printed
	base   string // the repository of what names none
	blobs  blobStore
	folder folder // of the layout; empty for an archive
	onPush func(repository, tag string, d digest.Digest)

	uploads  *uploads     // nil for an archive
	writing  sync.Mutex   // of index.json, before the lock that other processes see
	removing sync.RWMutex // read while a manifest is stored: its parts must not go

	mu    sync.Mutex
	known map[digest.Digest]artifact
	view  *view
	stamp os.FileInfo // of the index.json that view was made of
}

func (s *store) openArchive(l Location) error {
	p, err := openLocal(l)
	if err != nil {
		return err
	}
	if p.delta != nil {
		return errors.Join(&DeltaError{Ref: p.place, Needs: p.delta.Needs()}, p.Close())
	}
	s.place, s.blobs = p.place, p.blobs
	s.view = s.viewOf(p.index)
	return nil
}

func (s *store) openLayout(l Location) error {
	target, err := createLayout(l)
	if err != nil {
		return err
	}
	s.place, s.folder, s.blobs = target.place, folder(l.Path), folder(l.Path)
	if target.before == nil { // no index.json yet
		if err := target.commit(context.Background()); err != nil {
			return err
		}
	}
	s.uploads, err = newUploads(l.Path)
	if err != nil {
		return err
	}
	_, err = s.current()
	return err
}

func (s *store) indexPath() string { return filepath.Join(string(s.folder), indexFile) }

// current is the registry as index.json has it now; other processes write it too.
func (s *store) current() (*view, error) {
	if s.folder == "" {
		return s.view, nil
	}
	stamp, err := os.Stat(s.indexPath())
	if err != nil {
		return nil, fmt.Errorf("reading %s of %s: %w", indexFile, s.place, files.PlainError(err))
	}
	s.mu.Lock()
	before, v := s.stamp, s.view
	s.mu.Unlock()
	if v != nil && sameFile(before, stamp) {
		return v, nil
	}
	index, err := s.readIndex()
	if err != nil {
		return nil, err
	}
	v = s.viewOf(index)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.view, s.stamp = v, stamp
	return v, nil
}

func sameFile(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

func (s *store) readIndex() (ocispec.Index, error) {
	data, err := readSmall(s.indexPath(), maxIndexFile)
	if err != nil {
		return ocispec.Index{}, err
	}
	return readIndex(data, s.place)
}

// change writes index.json anew, under the lock that every writer of the folder
// takes. edit gets the entries that are there, and says whether it changed them.
func (s *store) change(ctx context.Context, edit func([]ocispec.Descriptor) ([]ocispec.Descriptor, bool)) (err error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	unlock, err := lockFolder(ctx, string(s.folder), s.place)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	index, err := s.readIndex()
	if err != nil {
		return err
	}
	entries, changed := edit(slices.Clone(index.Manifests))
	if !changed {
		return nil
	}
	index.Manifests = entries
	data, err := writeIndex(index)
	if err != nil {
		return err
	}
	if err := writeWhole(s.indexPath(), data); err != nil {
		return fmt.Errorf("writing %s of %s: %w", indexFile, s.place, files.PlainError(err))
	}
	return nil
}
