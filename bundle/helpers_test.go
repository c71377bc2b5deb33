package bundle

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
)

// A store is a strict place in memory: a manifest whose parts are missing is
// refused. It logs what is pushed.
type store struct {
	mu     sync.Mutex
	blobs  map[digest.Digest][]byte
	pushed []ocispec.Descriptor
}

func newStore() *store { return &store{blobs: map[digest.Digest][]byte{}} }

func (s *store) Exists(_ context.Context, desc ocispec.Descriptor) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, there := s.blobs[desc.Digest]
	return there, nil
}

func (s *store) Fetch(_ context.Context, desc ocispec.Descriptor) (io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	data, there := s.blobs[desc.Digest]
	if !there {
		return nil, fmt.Errorf("%s: %w", desc.Digest, errdef.ErrNotFound)
	}
	return io.NopCloser(bytes.NewReader(data)), nil
}

func (s *store) Push(_ context.Context, desc ocispec.Descriptor, r io.Reader) error {
	data, err := content.ReadAll(r, desc)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if isManifest(desc.MediaType) {
		children, err := successors(data, node{desc: desc})
		if err != nil {
			return err
		}
		for _, child := range children {
			if _, there := s.blobs[child.Digest]; !there {
				return fmt.Errorf("%s: its part %s is missing", desc.Digest, child.Digest)
			}
		}
	}
	s.blobs[desc.Digest] = data
	s.pushed = append(s.pushed, desc)
	return nil
}

// add puts content there without being strict, and returns its descriptor.
func (s *store) add(mediaType string, data []byte) ocispec.Descriptor {
	desc := content.NewDescriptorFromBytes(mediaType, data)
	s.blobs[desc.Digest] = data
	return desc
}

func (s *store) addJSON(t *testing.T, mediaType string, v any) ocispec.Descriptor {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return s.add(mediaType, data)
}

// A testChart is a chart's manifest and blobs in memory.
type testChart struct {
	*store
	desc   ocispec.Descriptor
	locked LockedChart
}

func (c testChart) Descriptor() ocispec.Descriptor { return c.desc }

// newChart makes a chart whose bytes depend on name, version and text only.
func newChart(name, version, text string) testChart {
	s := newStore()
	layer := s.add(MediaTypeHelmChart, []byte("not really a tgz: "+text))
	manifest := ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2},
		MediaType: ocispec.MediaTypeImageManifest,
		Config:    s.add(MediaTypeHelmConfig, fmt.Appendf(nil, `{"name":%q,"version":%q}`, name, version)),
		Layers:    []ocispec.Descriptor{layer},
	}
	data, err := json.Marshal(manifest)
	if err != nil {
		panic(err) // a manifest of plain fields always marshals
	}
	desc := s.add(ocispec.MediaTypeImageManifest, data)
	desc.ArtifactType = MediaTypeHelmConfig // as some sources say it; it must not reach the root
	return testChart{store: s, desc: desc, locked: LockedChart{
		Name: name, Version: version, Source: "charts/" + name, Inputs: digest.FromString(text), Content: layer.Digest, Manifest: desc.Digest,
	}}
}

// charts resolves components from a map; a component without a chart is an error.
type charts map[string]testChart

func (r charts) Resolve(_ context.Context, c Component, _ *LockedChart) (Resolved, error) {
	chart, ok := r[c.Name]
	if !ok {
		return Resolved{}, fmt.Errorf("%s is not there", c.Chart)
	}
	return Resolved{Locked: chart.locked, Chart: chart}, nil
}

func (r charts) Inputs(_ context.Context, c Component) (digest.Digest, error) {
	chart, ok := r[c.Name]
	if !ok {
		return "", fmt.Errorf("%s is not there", c.Chart)
	}
	return chart.locked.Inputs, nil
}

// testCharts are the charts of testdata/release.yaml. Two components share one.
func testCharts() charts {
	shared := newChart("app", "1.14.4", "the app")
	return charts{"db": newChart("db", "0.1.0+b.2", "the db"), "web": shared, "admin": shared, "rules": newChart("rules", "1.4.0", "the rules")}
}

func testSpec(t *testing.T) Spec {
	t.Helper()
	file := readTestdata(t, "release.yaml")
	rel, err := ParseRelease("release.yaml", file)
	if err != nil {
		t.Fatal(err)
	}
	lock, charts, err := MakeLock(t.Context(), rel, testCharts(), LockOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return Spec{
		ReleaseFile: file, Release: rel, Lock: lock, Charts: charts,
		ValuesFiles: map[string][]byte{"values/db.yaml": []byte("size: 10Gi\n"), "values/unused.yaml": []byte("a: b\n")},
		Annotations: map[string]string{ocispec.AnnotationSource: "https://git.example.com/shop", "com.example.team": "shop"},
	}
}

// built returns a store with the test bundle in it, and its root.
func built(t *testing.T) (*store, ocispec.Descriptor) {
	t.Helper()
	s := newStore()
	root, err := Build(t.Context(), s, testSpec(t), BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s, root
}
