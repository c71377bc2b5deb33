package registry_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"waybill/registry"
)

// drainRegistry takes blobs and manifests and keeps only their digests.
type drainRegistry struct {
	mu   sync.Mutex
	open map[string]hash.Hash
	size map[string]int64
	held map[string]int64
	data map[string][]byte // of manifests
}

func (d *drainRegistry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	name := path.Base(r.URL.Path)
	manifest := strings.Contains(r.URL.Path, "/manifests/")
	switch {
	case r.Method == http.MethodPost:
		name = fmt.Sprint(len(d.open))
		d.open[name] = sha256.New()
		w.Header().Set("Location", "/v2/mirror/blobs/uploads/"+name)
		w.WriteHeader(http.StatusAccepted)
	case (r.Method == http.MethodPatch || r.Method == http.MethodPut) && !manifest:
		d.take(w, r, name, d.open[name])
	case r.Method == http.MethodPut:
		data, _ := io.ReadAll(r.Body)
		name = digest.FromBytes(data).String()
		d.held[name], d.data[name] = int64(len(data)), data
		w.Header().Set("Docker-Content-Digest", name)
		w.WriteHeader(http.StatusCreated)
	case d.held[name] > 0:
		w.Header().Set("Docker-Content-Digest", name)
		w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
		w.Header().Set("Content-Length", fmt.Sprint(d.held[name]))
		if r.Method == http.MethodGet {
			_, _ = w.Write(d.data[name])
		}
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// take reads a body without keeping others from theirs.
func (d *drainRegistry) take(w http.ResponseWriter, r *http.Request, name string, into hash.Hash) {
	d.mu.Unlock()
	n, err := io.CopyBuffer(into, struct{ io.Reader }{r.Body}, make([]byte, 32<<10))
	d.mu.Lock()
	d.size[name] += n
	got := digest.NewDigestFromEncoded(digest.SHA256, hex.EncodeToString(into.Sum(nil)))
	switch want := r.URL.Query().Get("digest"); {
	case err != nil:
	case r.Method == http.MethodPatch:
		w.Header().Set("Location", "/v2/mirror/blobs/uploads/"+name)
		w.WriteHeader(http.StatusAccepted)
	case want != got.String():
		w.WriteHeader(http.StatusBadRequest)
	default:
		d.held[want] = d.size[name]
		w.Header().Set("Docker-Content-Digest", want)
		w.WriteHeader(http.StatusCreated)
	}
}

// made gives blobs that are nowhere, and the manifest that names them.
type made struct {
	manifest []byte
	blobs    map[string]int64
}

func (m *made) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := path.Base(r.URL.Path)
	switch size := m.blobs[name]; {
	case size > 0:
		w.Header().Set("Content-Length", fmt.Sprint(size))
		_, _ = io.CopyBuffer(struct{ io.Writer }{w}, &endless{left: size}, make([]byte, 32<<10))
	case strings.Contains(r.URL.Path, "/manifests/") && (name == "1" || name == digest.FromBytes(m.manifest).String()):
		w.Header().Set("Content-Type", ocispec.MediaTypeImageManifest)
		w.Header().Set("Docker-Content-Digest", digest.FromBytes(m.manifest).String())
		w.Header().Set("Content-Length", fmt.Sprint(len(m.manifest)))
		_, _ = w.Write(m.manifest)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// What a copy holds does not grow with the size of blobs, nor much with their
// number: eight large ones at a time.
func TestCopyIsBoundedInMemory(t *testing.T) {
	const size, bound = 20 << 20, 40 << 20
	source := &made{blobs: map[string]int64{}}
	var layers []piece
	for i := range int64(8) {
		sum := sha256.New()
		if _, err := io.Copy(sum, &endless{left: size + i}); err != nil {
			t.Fatal(err)
		}
		desc := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: digest.NewDigest(digest.SHA256, sum), Size: size + i}
		source.blobs[desc.Digest.String()] = desc.Size
		layers = append(layers, piece{desc: desc})
	}
	source.manifest = image(t, layers[0], "", nil, layers[1:]...).data
	from, to := httptest.NewServer(source), httptest.NewServer(&drainRegistry{open: map[string]hash.Hash{}, size: map[string]int64{}, held: map[string]int64{}, data: map[string][]byte{}})
	defer from.Close()
	defer to.Close()

	stop, most := make(chan struct{}), make(chan int64)
	go func() { most <- mostInUse(stop) }()
	result, err := carry(t.Context(), client(t, registry.Settings{}), location(t, "oci://"+strings.TrimPrefix(from.URL, "http://")+"/shop:1"), location(t, "oci://"+strings.TrimPrefix(to.URL, "http://")+"/mirror"), "1", registry.CopyOptions{})
	close(stop)
	if n := <-most; n > bound {
		t.Errorf("%d MiB were in use", n>>20)
	}
	if err != nil || result.Copied.Objects != 9 {
		t.Errorf("copied %d objects, %v", result.Copied.Objects, err)
	}
}

// mostInUse looks at the heap until it is stopped.
func mostInUse(stop chan struct{}) int64 {
	runtime.GC()
	most := int64(0)
	for {
		select {
		case <-stop:
			return most
		case <-time.After(5 * time.Millisecond):
		}
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		most = max(most, int64(stats.HeapInuse))
	}
}
