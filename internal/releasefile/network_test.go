package releasefile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"

	"waybill/charts"
	"waybill/internal/registrytest"
	"waybill/registry"
)

// A memory is a place for a bundle.
type memory struct {
	mu    sync.Mutex
	blobs map[digest.Digest][]byte
}

func newMemory() *memory { return &memory{blobs: map[digest.Digest][]byte{}} }

func (m *memory) Exists(_ context.Context, desc ocispec.Descriptor) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.blobs[desc.Digest] != nil, nil
}

func (m *memory) Fetch(_ context.Context, desc ocispec.Descriptor) (io.ReadCloser, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	data, ok := m.blobs[desc.Digest]
	if !ok {
		return nil, fmt.Errorf("%s: %w", desc.Digest, errdef.ErrNotFound)
	}
	return io.NopCloser(bytes.NewReader(data)), nil
}

func (m *memory) Push(_ context.Context, desc ocispec.Descriptor, r io.Reader) error {
	data, err := content.ReadAll(r, desc)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.blobs[desc.Digest] = data
	return err
}

// noNetwork fails the test that asks it.
type noNetwork struct{ t *testing.T }

func (n noNetwork) Get(_ context.Context, _, url string) (io.ReadCloser, error) {
	n.t.Errorf("%s was asked for", url)
	return nil, errors.New("no network")
}

func (n noNetwork) Repository(_ context.Context, name string) (charts.Repository, error) {
	n.t.Errorf("%s was asked for", name)
	return nil, errors.New("no network")
}

func (n noNetwork) Git(_ context.Context, url string) (charts.GitAccess, error) {
	n.t.Errorf("%s was asked for", url)
	return charts.GitAccess{}, errors.New("no network")
}

func (n noNetwork) RepositoryURL(_ context.Context, name string) (string, error) {
	n.t.Errorf("%s was asked for", name)
	return "", errors.New("no network")
}

// The errors of the registry's room keep their types, and have the names that the
// room charts asks for.
func TestNetworkErrors(t *testing.T) {
	server := registrytest.New(t, registrytest.Options{Fault: func(r *http.Request) *registrytest.Fault {
		switch r.URL.Path {
		case "/forbidden.tgz":
			return &registrytest.Fault{Status: http.StatusForbidden}
		case "/login.tgz":
			return &registrytest.Fault{Status: http.StatusUnauthorized}
		case "/absent.tgz":
			return &registrytest.Fault{Status: http.StatusNotFound}
		}
		return nil
	}})
	client, err := registry.NewClient(registry.Settings{Retry: -1})
	if err != nil {
		t.Fatal(err)
	}
	network := Network(client)
	for _, tt := range []struct {
		path                        string
		forbidden, denied, notFound bool
	}{
		{"/forbidden.tgz", true, true, false},
		{"/login.tgz", false, true, false},
		{"/absent.tgz", false, false, true},
	} {
		_, err := network.Get(t.Context(), server.URL, server.URL+tt.path)
		var denied *registry.DeniedError
		if errors.Is(err, charts.ErrForbidden) != tt.forbidden || errors.As(err, &denied) != tt.denied || errors.Is(err, errdef.ErrNotFound) != tt.notFound {
			t.Errorf("%s: error is %v", tt.path, err)
		}
	}
	repository, err := network.Repository(t.Context(), server.Host+"/charts/web")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := repository.Resolve(t.Context(), "1.0.0"); !errors.Is(err, errdef.ErrNotFound) {
		t.Errorf("tag: error is %v", err)
	}
	if _, err := network.Repository(t.Context(), "no host"); err == nil {
		t.Error("a name that is none was opened")
	}
	if _, err := network.RepositoryURL(t.Context(), "bitnami"); !errors.Is(err, errdef.ErrNotFound) {
		t.Errorf("repository's name: error is %v", err)
	}
	if access, err := network.Git(t.Context(), "https://git.example/shop.git"); err != nil || access.Transport == nil {
		t.Errorf("git: %+v, %v", access, err)
	}
}
