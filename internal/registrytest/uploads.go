package registrytest

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"cuelabs.dev/go/oci/ociregistry"
	"cuelabs.dev/go/oci/ociregistry/ocimem"
	"github.com/opencontainers/go-digest"
)

// Uploads say in which ways a registry takes blobs. The zero value keeps to the
// distribution specification, sections "Pushing a blob monolithically" and
// "Pushing a blob in chunks": a session is known until it is committed or
// cancelled, a chunk begins where the last one ended, and the digest is checked.
type Uploads struct {
	RefuseChunks  int           // answer chunks with this status: 404, 405, 400
	ChunkStatus   int           // answer accepted chunks with this; 0: 202, Amazon's ECR: 201
	MinChunk      int64         // said in OCI-Chunk-Min-Length; a smaller chunk that isn't the last is refused at the commit
	MaxBody       int64         // answer larger bodies with TooLarge; 0: no limit
	TooLarge      int           // 0: 413; GitHub's registry: 416
	Expires       time.Duration // a session without a request for so long is forgotten; 0: never
	LosesPart     bool          // a session is lost with the connection of a chunk, as in CNCF Distribution 2
	NoStatus      bool          // a session can't be asked how far it is
	CommitDigest  string        // the commit answers with this Docker-Content-Digest; "-": none
	Absolute      bool          // Location is an absolute URL, else a path
	LocationQuery string        // Location has this query, and requests without it are refused
	Elsewhere     string        // Location leads to this base URL, where [Server.Storage] is expected
}

// A session is one upload under way.
type session struct {
	repository string
	data       bytes.Buffer
	short      bool // a chunk was too small; only the last may be
	seen       time.Time
}

type uploads struct {
	Uploads
	commit func(ctx context.Context, repository string, desc ociregistry.Descriptor, r io.Reader) error
	mount  func(ctx context.Context, from, to string, d digest.Digest) error

	mu       sync.Mutex
	sessions map[string]*session
}

func newUploads(opts Uploads, backend *ocimem.Registry) *uploads {
	return &uploads{
		Uploads:  opts,
		sessions: map[string]*session{},
		commit: func(ctx context.Context, repository string, desc ociregistry.Descriptor, r io.Reader) error {
			_, err := backend.PushBlob(ctx, repository, desc, r)
			return err
		},
		mount: func(ctx context.Context, from, to string, d digest.Digest) error {
			_, err := backend.MountBlob(ctx, from, to, d)
			return err
		},
	}
}

// Sessions is the number of uploads that were begun and neither committed nor
// cancelled nor forgotten.
func (s *Server) Sessions() int {
	s.uploads.mu.Lock()
	defer s.uploads.mu.Unlock()
	return len(s.uploads.sessions)
}

// Storage is the handler of another host where uploads may lead to, see
// [Uploads.Elsewhere]. It wants no login.
func (s *Server) Storage() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		repository, id, _ := uploadPath(r.URL.Path)
		s.uploads.serve(w, r, repository, id)
	})
}

// uploadPath takes /v2/REPOSITORY/blobs/uploads/ID apart.
func uploadPath(path string) (repository, id string, ok bool) {
	repository, id, ok = strings.Cut(strings.TrimPrefix(path, "/v2/"), "/blobs/uploads/")
	return repository, id, ok
}

func (u *uploads) serve(w http.ResponseWriter, r *http.Request, repository, id string) {
	if id == "" {
		u.start(w, r, repository)
		return
	}
	if u.LocationQuery != "" && !strings.Contains(r.URL.RawQuery, u.LocationQuery) {
		fail(w, http.StatusBadRequest, "BLOB_UPLOAD_INVALID", "the address of the session was changed")
		return
	}
	up := u.find(repository, id)
	if up == nil {
		fail(w, http.StatusNotFound, "BLOB_UPLOAD_UNKNOWN", "no such session")
		return
	}
	switch r.Method {
	case http.MethodGet:
		u.status(w, r, up, id)
	case http.MethodPatch:
		u.chunk(w, r, up, id)
	case http.MethodPut:
		u.finish(w, r, up, id)
	case http.MethodDelete:
		u.forget(id)
		w.WriteHeader(http.StatusNoContent)
	default:
		fail(w, http.StatusMethodNotAllowed, "UNSUPPORTED", r.Method)
	}
}

func (u *uploads) start(w http.ResponseWriter, r *http.Request, repository string) {
	if r.Method != http.MethodPost {
		fail(w, http.StatusMethodNotAllowed, "UNSUPPORTED", r.Method)
		return
	}
	query := r.URL.Query()
	if d, from := digest.Digest(query.Get("mount")), query.Get("from"); d != "" && u.mount(r.Context(), from, repository, d) == nil {
		w.Header().Set("Location", "/v2/"+repository+"/blobs/"+d.String())
		w.Header().Set("Docker-Content-Digest", d.String())
		w.WriteHeader(http.StatusCreated)
		return
	}
	id := rand.Text()
	u.mu.Lock()
	u.sessions[id] = &session{repository: repository, seen: time.Now()}
	u.mu.Unlock()
	if u.MinChunk > 0 {
		w.Header().Set("OCI-Chunk-Min-Length", strconv.FormatInt(u.MinChunk, 10))
	}
	u.here(w, r, repository, id, 0)
	w.WriteHeader(http.StatusAccepted)
}

// here says where the session is and how far.
func (u *uploads) here(w http.ResponseWriter, r *http.Request, repository, id string, size int) {
	at := "/v2/" + repository + "/blobs/uploads/" + id
	switch {
	case u.Elsewhere != "":
		at = u.Elsewhere + at
	case u.Absolute:
		at = scheme(r) + r.Host + at
	}
	if u.LocationQuery != "" {
		at += "?" + u.LocationQuery
	}
	w.Header().Set("Location", at)
	w.Header().Set("Range", fmt.Sprintf("0-%d", max(size-1, 0)))
	w.Header().Set("Docker-Upload-UUID", id)
}

func scheme(r *http.Request) string {
	if r.TLS != nil {
		return "https://"
	}
	return "http://"
}

func (u *uploads) find(repository, id string) *session {
	u.mu.Lock()
	defer u.mu.Unlock()
	up := u.sessions[id]
	if up == nil || up.repository != repository {
		return nil
	}
	if u.Expires > 0 && time.Since(up.seen) > u.Expires {
		delete(u.sessions, id)
		return nil
	}
	up.seen = time.Now()
	return up
}

func (u *uploads) forget(id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.sessions, id)
}

func (u *uploads) status(w http.ResponseWriter, r *http.Request, up *session, id string) {
	if u.NoStatus {
		fail(w, http.StatusMethodNotAllowed, "UNSUPPORTED", "no status")
		return
	}
	u.mu.Lock()
	size := up.data.Len()
	u.mu.Unlock()
	u.here(w, r, up.repository, id, size)
	w.WriteHeader(http.StatusNoContent)
}

func (u *uploads) chunk(w http.ResponseWriter, r *http.Request, up *session, id string) {
	if u.RefuseChunks != 0 {
		fail(w, u.RefuseChunks, "UNSUPPORTED", "no chunks here")
		return
	}
	if !u.fits(w, r) || !u.follows(w, r, up) {
		return
	}
	size, err := u.take(r, up, id)
	if err != nil {
		return // nobody is there to be answered
	}
	u.here(w, r, up.repository, id, size)
	w.WriteHeader(cmp.Or(u.ChunkStatus, http.StatusAccepted))
}

// fits refuses bodies that are too large, before they are read.
func (u *uploads) fits(w http.ResponseWriter, r *http.Request) bool {
	if u.MaxBody == 0 || r.ContentLength <= u.MaxBody {
		return true
	}
	fail(w, cmp.Or(u.TooLarge, http.StatusRequestEntityTooLarge), "SIZE_INVALID", "the body is too large")
	return false
}

// follows refuses a chunk that doesn't begin where the last one ended.
func (u *uploads) follows(w http.ResponseWriter, r *http.Request, up *session) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	said := r.Header.Get("Content-Range")
	if said == "" {
		return true
	}
	first, last, _ := strings.Cut(said, "-")
	from, err1 := strconv.ParseInt(first, 10, 64)
	to, err2 := strconv.ParseInt(last, 10, 64)
	if err1 != nil || err2 != nil || from != int64(up.data.Len()) || to-from+1 != r.ContentLength {
		fail(w, http.StatusRequestedRangeNotSatisfiable, "BLOB_UPLOAD_INVALID", "the chunk begins elsewhere")
		return false
	}
	if up.short {
		fail(w, http.StatusBadRequest, "SIZE_INVALID", "a chunk before this one was too small")
		return false
	}
	up.short = r.ContentLength < u.MinChunk
	return true
}

// take reads a body into the session, as far as it comes.
func (u *uploads) take(r *http.Request, up *session, id string) (int, error) {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Body.Read(buf)
		u.mu.Lock()
		up.data.Write(buf[:n])
		up.seen = time.Now()
		size := up.data.Len()
		u.mu.Unlock()
		if errors.Is(err, io.EOF) {
			return size, nil
		}
		if err != nil {
			if u.LosesPart {
				u.forget(id)
			}
			return size, err
		}
	}
}

func (u *uploads) finish(w http.ResponseWriter, r *http.Request, up *session, id string) {
	if !u.fits(w, r) {
		return
	}
	if _, err := u.take(r, up, id); err != nil {
		return
	}
	d := digest.Digest(r.URL.Query().Get("digest"))
	u.mu.Lock()
	data := up.data.Bytes()
	u.mu.Unlock()
	desc := ociregistry.Descriptor{MediaType: "application/octet-stream", Digest: d, Size: int64(len(data))}
	u.forget(id)
	if err := u.commit(r.Context(), up.repository, desc, bytes.NewReader(data)); err != nil {
		fail(w, http.StatusBadRequest, "DIGEST_INVALID", "the content has another digest")
		return
	}
	switch u.CommitDigest {
	case "-":
	case "":
		w.Header().Set("Docker-Content-Digest", d.String())
	default:
		w.Header().Set("Docker-Content-Digest", u.CommitDigest)
	}
	w.Header().Set("Location", "/v2/"+up.repository+"/blobs/"+d.String())
	w.WriteHeader(http.StatusCreated)
}

// fail answers with an error as the distribution specification's section "Error
// Codes" has it.
func fail(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"errors":[{"code":%q,"message":%q}]}`, code, message)
}
