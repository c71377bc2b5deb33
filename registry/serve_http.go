package registry

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"cuelabs.dev/go/oci/ociregistry"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"waybill/internal/files"
	"waybill/internal/ref"
)

// serveHTTP answers by itself where ociserver's answer is not enough, and leaves
// the rest to it: blobs by any byte range and at the speed of the disk; a mount
// that can't be done becomes an upload, as the specification wants; uploads can
// be cancelled; manifests are bounded and may have digests of other algorithms;
// an empty list of referrers is a list.
type serveHTTP struct {
	store *store
	next  http.Handler
}

func (h *serveHTTP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Docker-Distribution-API-Version", "registry/2.0")
	reading := r.Method == http.MethodGet || r.Method == http.MethodHead
	repository, kind, rest := splitPathOf(r.URL.Path)
	switch {
	case !reading && h.store.folder == "":
		writeError(w, http.StatusMethodNotAllowed, ociregistry.ErrUnsupported.Code(), "this registry is read-only: it is served from an archive")
	case kind == "" || ref.CheckRepository(repository) != nil:
		w.Header().Set("Content-Type", "application/json") // of lists, where ociserver leaves it to chance
		h.next.ServeHTTP(w, r)                             // ping, catalogue, and what is no path of the API
	case kind == "blobs" && reading && ref.CheckDigest(rest) == nil:
		h.blob(w, r, digest.Digest(rest))
	case kind == "blobs" && r.Method == http.MethodDelete:
		writeError(w, http.StatusMethodNotAllowed, ociregistry.ErrUnsupported.Code(), "blobs are not deleted: other manifests may need them")
	case kind == "uploads" && r.Method == http.MethodDelete:
		h.cancel(w, repository, rest)
	case kind == "uploads" && r.Method == http.MethodPost && rest == "":
		h.begin(w, r, repository)
	case kind == "uploads" && !reading && !h.inOrder(w, r, repository, rest):
	case kind == "manifests" && r.Method == http.MethodPut:
		h.manifest(w, r, repository, rest)
	case kind == "referrers" && reading && ref.CheckDigest(rest) == nil:
		h.referrers(w, r, digest.Digest(rest))
	default:
		h.next.ServeHTTP(w, r)
	}
}

// splitPathOf takes /v2/REPOSITORY/KIND/REST apart; uploads are a kind of their own.
func splitPathOf(path string) (repository, kind, rest string) {
	path, ok := strings.CutPrefix(path, "/v2/")
	if !ok {
		return "", "", ""
	}
	for _, kind := range []string{"blobs/uploads", "blobs", "manifests", "referrers"} {
		if at := strings.LastIndex(path, "/"+kind+"/"); at > 0 {
			return path[:at], strings.TrimPrefix(kind, "blobs/"), path[at+len(kind)+2:]
		}
	}
	if repository, ok := strings.CutSuffix(path, "/blobs/uploads"); ok {
		return repository, "uploads", ""
	}
	return "", "", ""
}

func writeError(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(ociregistry.WireErrors{Errors: []ociregistry.WireError{{Code_: code, Message: message}}})
}

func (h *serveHTTP) blob(w http.ResponseWriter, r *http.Request, d digest.Digest) {
	file, _, err := h.store.blobs.open(d)
	if errors.Is(err, fs.ErrNotExist) {
		_ = ociregistry.WriteError(w, ociregistry.ErrBlobUnknown)
		return
	}
	if err != nil {
		_ = ociregistry.WriteError(w, files.PlainError(err))
		return
	}
	defer file.Close()
	w.Header().Set("Content-Type", octetStream)
	w.Header().Set("Docker-Content-Digest", d.String())
	http.ServeContent(w, r, "", time.Time{}, file)
}

// begin starts an upload, or finds that none is needed: the blobs of a folder are
// one store.
func (h *serveHTTP) begin(w http.ResponseWriter, r *http.Request, repository string) {
	query := r.URL.Query()
	wanted := query.Get("mount")
	if wanted != "" && ref.CheckDigest(wanted) == nil {
		if _, err := h.store.blobs.size(digest.Digest(wanted)); err == nil {
			w.Header().Set("Location", "/v2/"+repository+"/blobs/"+wanted)
			w.Header().Set("Docker-Content-Digest", wanted)
			w.WriteHeader(http.StatusCreated)
			return
		}
	}
	query.Del("mount")
	query.Del("from")
	r = r.Clone(r.Context())
	r.URL.RawQuery = query.Encode()
	h.next.ServeHTTP(w, r)
}

func (h *serveHTTP) cancel(w http.ResponseWriter, repository, id string) {
	plain, err := base64.RawURLEncoding.DecodeString(id) // as ociserver writes it
	if err == nil {
		err = h.store.uploads.cancel(repository, string(plain))
	} else {
		err = ociregistry.ErrBlobUploadUnknown
	}
	if err != nil {
		_ = ociregistry.WriteError(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// manifest stores a manifest by its digest, of any algorithm, or under a tag.
func (h *serveHTTP) manifest(w http.ResponseWriter, r *http.Request, repository, reference string) {
	data, err := io.ReadAll(io.LimitReader(r.Body, maxManifest+1))
	if err != nil {
		writeError(w, http.StatusBadRequest, ociregistry.ErrManifestInvalid.Code(), "the manifest did not arrive whole")
		return
	}
	if len(data) > maxManifest {
		writeError(w, http.StatusRequestEntityTooLarge, ociregistry.ErrSizeInvalid.Code(), "a manifest of more than 4 MiB")
		return
	}
	d, tag := digest.FromBytes(data), reference
	if strings.Contains(reference, ":") {
		if ref.CheckDigest(reference) != nil || digest.Digest(reference).Algorithm().FromBytes(data) != digest.Digest(reference) {
			_ = ociregistry.WriteError(w, ociregistry.ErrDigestInvalid)
			return
		}
		d, tag = digest.Digest(reference), ""
	} else if ref.CheckTag(tag) != nil {
		writeError(w, http.StatusBadRequest, "TAG_INVALID", "no tag")
		return
	}
	mediaType, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	subject, err := h.store.pushManifest(r.Context(), repository, tag, ocispec.Descriptor{MediaType: mediaType, Digest: d, Size: int64(len(data))}, data)
	if err != nil {
		_ = ociregistry.WriteError(w, err)
		return
	}
	w.Header().Set("Location", "/v2/"+repository+"/manifests/"+d.String())
	w.Header().Set("Docker-Content-Digest", d.String())
	if subject != "" {
		w.Header().Set("OCI-Subject", subject.String())
	}
	w.WriteHeader(http.StatusCreated)
}

// inOrder says whether the bytes of a request begin where its upload ends, and
// answers when they do not (distribution specification, "Pushing a blob in
// chunks"). A request that doesn't say where they begin goes on.
func (h *serveHTTP) inOrder(w http.ResponseWriter, r *http.Request, repository, id string) bool {
	first, _, ok := strings.Cut(r.Header.Get("Content-Range"), "-")
	begins, err := strconv.ParseInt(first, 10, 64)
	plain, idErr := base64.RawURLEncoding.DecodeString(id)
	if !ok || err != nil || idErr != nil {
		return true
	}
	size, err := h.store.uploads.size(repository, string(plain))
	if err != nil || size == begins {
		return true
	}
	w.Header().Set("Location", r.URL.Path)
	w.Header().Set("Range", fmt.Sprintf("0-%d", max(size-1, 0)))
	_ = ociregistry.WriteError(w, ociregistry.ErrRangeInvalid)
	return false
}

func (h *serveHTTP) referrers(w http.ResponseWriter, r *http.Request, subject digest.Digest) {
	wanted := r.URL.Query().Get("artifactType")
	list := ocispec.Index{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{},
	}
	for desc, err := range (serveBackend{store: h.store}).Referrers(r.Context(), "", subject, wanted) {
		if err != nil {
			_ = ociregistry.WriteError(w, err)
			return
		}
		list.Manifests = append(list.Manifests, desc)
	}
	if wanted != "" {
		w.Header().Set("OCI-Filters-Applied", "artifactType")
	}
	w.Header().Set("Content-Type", ocispec.MediaTypeImageIndex)
	_ = json.NewEncoder(w).Encode(list)
}
