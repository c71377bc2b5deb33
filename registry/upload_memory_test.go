package registry_test

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"waybill/registry"
)

// sink is a registry that keeps nothing of a blob but its size and digest.
type sink struct {
	chunks bool
	hash   digest.Digester
	size   int64
}

func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodHead:
		w.WriteHeader(http.StatusNotFound)
		return
	case r.Method == http.MethodPost:
		s.hash, s.size = digest.Canonical.Digester(), 0
	case r.Method == http.MethodPatch && !s.chunks:
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	default:
		n, err := io.CopyBuffer(s.hash.Hash(), struct{ io.Reader }{r.Body}, make([]byte, 64<<10))
		s.size += n
		if err != nil {
			return
		}
	}
	w.Header().Set("Location", "/v2/shop/blobs/uploads/one")
	w.Header().Set("Range", fmt.Sprintf("0-%d", max(s.size-1, 0)))
	if r.Method != http.MethodPut {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	w.Header().Set("Docker-Content-Digest", s.hash.Digest().String())
	w.WriteHeader(http.StatusCreated)
}

// endless is content of any size that is nowhere in memory. It notes how much
// memory is in use while it is read.
type endless struct {
	left, most int64
	reads      int
}

func (e *endless) Read(p []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), e.left, 64<<10)]
	for i := range p {
		p[i] = byte(e.left-int64(i)) ^ byte((e.left-int64(i))>>16)
	}
	e.left -= int64(len(p))
	if e.reads++; e.reads%64 == 0 {
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		e.most = max(e.most, int64(stats.HeapInuse))
	}
	return len(p), nil
}

// Memory does not grow with the blob, in chunks and without.
func TestUploadIsBoundedInMemory(t *testing.T) {
	const size, chunk, bound = 300 << 20, 4 << 20, 64 << 20
	hash := sha256.New()
	if _, err := io.Copy(hash, &endless{left: size}); err != nil {
		t.Fatal(err)
	}
	desc := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayer, Digest: digest.NewDigest(digest.SHA256, hash), Size: size}
	for _, chunks := range []bool{true, false} {
		server := httptest.NewServer(&sink{chunks: chunks})
		defer server.Close()
		dst, err := client(t, registry.Settings{ChunkSize: chunk}).Create(t.Context(), location(t, "oci://"+strings.TrimPrefix(server.URL, "http://")+"/shop"))
		if err != nil {
			t.Fatal(err)
		}
		runtime.GC()
		content := &endless{left: size}
		if err := dst.Push(t.Context(), desc, content); err != nil {
			t.Fatal(err)
		}
		if content.most > bound {
			t.Errorf("chunks %v: %d MiB were in use", chunks, content.most>>20)
		}
	}
}
