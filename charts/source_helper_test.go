package charts

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"waybill/internal/registrytest"
	"waybill/registry"
)

// clientNetwork is the network the programs use: the room registry's client.
type clientNetwork struct{ *registry.Client }

func (n clientNetwork) Get(ctx context.Context, base, url string) (io.ReadCloser, error) {
	rc, err := n.Client.Get(ctx, base, url)
	var denied *registry.DeniedError
	if errors.As(err, &denied) && denied.Status == http.StatusForbidden {
		err = fmt.Errorf("%w: %w", ErrForbidden, err)
	}
	return rc, err
}

func (n clientNetwork) Repository(ctx context.Context, name string) (Repository, error) {
	return n.Client.Repository(ctx, name)
}

func (n clientNetwork) Git(ctx context.Context, url string) (GitAccess, error) {
	a, err := n.Client.Git(ctx, url)
	return GitAccess{
		Transport: a.Transport, Username: a.Username, Password: a.Password, CABundle: a.CABundle,
		ClientCert: a.ClientCert, ClientKey: a.ClientKey, InsecureSkipTLS: a.InsecureSkipTLS, Proxy: a.Proxy,
	}, err
}

func (n clientNetwork) RepositoryURL(_ context.Context, name string) (string, error) {
	return n.Client.RepositoryURL(name)
}

// network is a client whose home is a folder of the test's own.
func network(t testing.TB, change ...func(*registry.Settings)) Network {
	t.Helper()
	settings := registry.Settings{Home: t.TempDir(), Retry: -1}
	for _, fn := range change {
		fn(&settings)
	}
	client, err := registry.NewClient(settings)
	if err != nil {
		t.Fatal(err)
	}
	return clientNetwork{client}
}

// A fileServer is a chart repository: files by path, and faults by path.
type fileServer struct {
	*httptest.Server
	mu    sync.Mutex
	files map[string][]byte
	codes map[string]int // answered instead
	log   []string       // paths asked for
}

func newFileServer(t testing.TB) *fileServer {
	t.Helper()
	s := &fileServer{files: map[string][]byte{}, codes: map[string]int{}}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *fileServer) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, r.URL.RequestURI())
	if code := s.codes[r.URL.Path]; code != 0 {
		w.WriteHeader(code)
		return
	}
	data, ok := s.files[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream") // a page that says what it is does not get past the transport
	_, _ = w.Write(data)
}

// asked counts requests for a path.
func (s *fileServer) asked(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, line := range s.log {
		if line == path {
			n++
		}
	}
	return n
}

// addChart serves an archive and returns its entry of an index.
func (s *fileServer) addChart(c *Chart) string {
	name := fmt.Sprintf("%s-%s.tgz", c.Name(), c.Version())
	s.files["/"+name] = c.Archive()
	return fmt.Sprintf("  - name: %s\n    version: %s\n    urls: [%s]\n    digest: %s\n", c.Name(), c.Version(), name, c.Content.Encoded())
}

// serveIndex serves an index of the charts, which must come grouped by name.
func (s *fileServer) serveIndex(all ...*Chart) {
	text, last := "apiVersion: v1\nentries:\n", ""
	for _, c := range all {
		if c.Name() != last {
			text += "  " + c.Name() + ":\n"
			last = c.Name()
		}
		text += s.addChart(c)
	}
	s.files["/index.yaml"] = []byte(text + "generated: \"2024-01-01T00:00:00Z\"\n")
}

// versionOf is a small chart of that version.
func versionOf(t testing.TB, name, version string) *Chart {
	t.Helper()
	return fromText(t, fmt.Sprintf("-- Chart.yaml --\napiVersion: v2\nname: %s\nversion: %s\n-- templates/it.yaml --\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {version: %q}\n", name, version, name, version))
}

// pushChart puts a chart into a registry, under its version as a tag or under
// another.
func pushChart(t testing.TB, reg *registrytest.Server, repository string, c *Chart, tags ...string) {
	t.Helper()
	if len(tags) == 0 {
		tags = []string{strings.ReplaceAll(c.Version(), "+", "_")}
	}
	var manifest []byte
	for d, data := range c.blobs {
		if d == c.Manifest {
			manifest = data
			continue
		}
		pushBlob(t, reg, repository, ocispec.Descriptor{Digest: d}, data)
	}
	for _, tag := range tags {
		pushManifest(t, reg, repository, tag, ocispec.MediaTypeImageManifest, manifest)
	}
}

// pushArchive puts any bytes into a registry as if they were a chart.
func pushArchive(t testing.TB, reg *registrytest.Server, repository, tag string, tgz []byte) {
	t.Helper()
	config := []byte("{}")
	describe := func(mediaType string, data []byte) ocispec.Descriptor {
		desc := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
		pushBlob(t, reg, repository, desc, data)
		return desc
	}
	layer := describe(MediaTypeContent, tgz)
	layer.Annotations = map[string]string{ocispec.AnnotationTitle: "../../../x"} // never a path
	manifest, err := json.Marshal(ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2},
		Config:    describe(MediaTypeConfig, config), Layers: []ocispec.Descriptor{layer},
	})
	if err != nil {
		t.Fatal(err)
	}
	pushManifest(t, reg, repository, tag, ocispec.MediaTypeImageManifest, manifest)
}

func pushBlob(t testing.TB, reg *registrytest.Server, repository string, desc ocispec.Descriptor, data []byte) {
	t.Helper()
	resp := send(t, http.MethodPost, reg.URL+"/v2/"+repository+"/blobs/uploads/", "", nil)
	where := resp.Header.Get("Location")
	if strings.HasPrefix(where, "/") {
		where = reg.URL + where
	}
	separator := "?"
	if strings.Contains(where, "?") {
		separator = "&"
	}
	send(t, http.MethodPut, where+separator+"digest="+desc.Digest.String(), "application/octet-stream", data)
}

func pushManifest(t testing.TB, reg *registrytest.Server, repository, tag, mediaType string, data []byte) {
	t.Helper()
	send(t, http.MethodPut, reg.URL+"/v2/"+repository+"/manifests/"+tag, mediaType, data)
}

func send(t testing.TB, method, url, contentType string, body []byte) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode >= http.StatusBadRequest {
		text, _ := io.ReadAll(resp.Body)
		t.Fatalf("%s %s: %s %s", method, url, resp.Status, text)
	}
	return resp
}

// snapshot lists a folder's files with their content.
func snapshot(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		all[name] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// pemOf is a certificate as files hold it.
func pemOf(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}
