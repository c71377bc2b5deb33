package charts

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"helm.sh/helm/v3/pkg/chart"
	"oras.land/oras-go/v2/errdef"

	"waybill/internal/tarball"
)

// A Chart is a Helm chart in memory: its archive as packed, and the OCI
// manifest under which registries keep it. It never changes once made, so it
// may be used from several goroutines.
type Chart struct {
	// Content is the digest of the archive (the .tgz).
	Content digest.Digest
	// Manifest is the digest of the chart's OCI manifest.
	Manifest digest.Digest
	// Files is the digest of the uncompressed tar we packed. It is empty for a
	// chart that came as an archive.
	Files digest.Digest
	// Inputs is the digest of everything resolving depended on: the source as
	// written and the files or bytes found there. It is empty after [Open].
	Inputs digest.Digest
	// Source is where the chart came from, as it was written, without
	// credentials: a path, a repository and the chart's name, the names of
	// manifests, or URL//PATH@REF#COMMIT of a git repository. It is empty after
	// [Open].
	Source string
	// Dependencies are those that were fetched and packed into the chart, in
	// the order of its Chart.yaml.
	Dependencies []PinnedDependency
	// Warnings are facts about how it was found that somebody should know.
	Warnings []string

	archive    []byte
	files      []tarball.File // of the archive, checked
	meta       Metadata
	descriptor ocispec.Descriptor
	blobs      map[digest.Digest][]byte // manifest, config, archive, provenance
	missing    []Dependency             // declared in Chart.yaml, not in charts/
	known      func() (*keyNode, error) // what it knows of values, worked out once
}

// Metadata is what Chart.yaml says, as far as others need it.
type Metadata struct {
	Name, Version, AppVersion string
	APIVersion                string // v1 or v2
	Type                      string // application or library
	KubeVersion               string // the range of Kubernetes versions it wants, may be empty
	Description               string
	Deprecated                bool
	Dependencies              []Dependency
}

// A Dependency is one entry of the dependencies in Chart.yaml, or in the
// requirements.yaml of older charts.
type Dependency struct {
	Name, Alias         string
	Version, Repository string
	Condition           string
	Tags                []string
}

// Key is the key under which the parent's values configure the dependency.
func (d Dependency) Key() string {
	if d.Alias != "" {
		return d.Alias
	}
	return d.Name
}

// Name is the chart's name.
func (c *Chart) Name() string { return c.meta.Name }

// Version is the chart's version as Chart.yaml has it, build metadata included.
func (c *Chart) Version() string { return c.meta.Version }

// Metadata is what Chart.yaml says.
func (c *Chart) Metadata() Metadata { return c.meta }

// Archive is the chart's .tgz. The caller must not change it.
func (c *Chart) Archive() []byte { return c.archive }

// Descriptor names the chart's OCI manifest: media type, digest and size.
func (c *Chart) Descriptor() ocispec.Descriptor { return c.descriptor }

// Fetch returns the manifest or a blob the manifest names. Anything else is
// [errdef.ErrNotFound].
func (c *Chart) Fetch(_ context.Context, desc ocispec.Descriptor) (io.ReadCloser, error) {
	data, ok := c.blobs[desc.Digest]
	if !ok {
		return nil, fmt.Errorf("chart %s %s: %s: %w", c.Name(), c.Version(), desc.Digest, errdef.ErrNotFound)
	}
	return io.NopCloser(bytes.NewReader(data)), nil
}

// load makes a Helm chart of the caller's own: Helm changes charts while it
// works with them, so every action takes a new one. The integers of its
// default values are whole (see [helmValues]), its dependencies sorted.
// Nothing of the values is decided: see [Chart.prepare].
func (c *Chart) load() (*chart.Chart, error) { return loadFiles(c.files) }
