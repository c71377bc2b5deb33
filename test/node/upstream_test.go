//go:build linux

package node

import (
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"waybill/internal/registrytest"
)

// upstream is the internet as the release engineer's machine sees it: a registry
// on the loopback that stands for all public ones.
type upstream struct {
	*registrytest.Server
	hosts []string // that it stands for
}

// newUpstream starts it with the images that testdata/release names. One of them
// is for two platforms. The caller closes it.
func newUpstream(t *testing.T, s *Site) *upstream {
	t.Helper()
	server, err := registrytest.Start(registrytest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	u := &upstream{Server: server, hosts: []string{"docker.io", "ghcr.io", "quay.io", "registry.k8s.io"}}
	u.push(t, "docker.io/harbour/web:1.0", twoPlatforms(t, s.image(t, "web", "web")))
	u.push(t, "quay.io/harbour/store:1.0", s.image(t, "web", "store"))
	u.push(t, "ghcr.io/harbour/migrate:1.0", s.image(t, "job", "migrate"))
	u.push(t, "registry.k8s.io/harbour/report:1.0", s.image(t, "job", "report"))
	u.push(t, "ghcr.io/harbour/check:1.0", s.image(t, "check", "check"))
	u.push(t, "ghcr.io/harbour/operator:1.0", s.image(t, "operator", "operator"))
	u.push(t, "ghcr.io/harbour/workload:1.0", s.image(t, "web", "workload"))
	return u
}

// overrides are the flags by which bundle reads all of the internet here.
func (u *upstream) overrides() (flags []string) {
	for _, host := range u.hosts {
		flags = append(flags, "--registry-override="+host+"="+u.Host+"/"+host)
	}
	return flags
}

func (u *upstream) push(t *testing.T, reference string, content remote.Taggable) {
	t.Helper()
	ref, err := name.ParseReference(u.Host + "/" + reference)
	if err != nil {
		t.Fatal(err)
	}
	switch content := content.(type) {
	case v1.ImageIndex:
		err = remote.WriteIndex(ref, content, remote.WithContext(t.Context()))
	case v1.Image:
		err = remote.Write(ref, content, remote.WithContext(t.Context()))
	}
	if err != nil {
		t.Fatalf("pushing %s: %v", reference, err)
	}
}

func (s *Site) image(t *testing.T, program, label string) Image {
	t.Helper()
	image, err := s.BuildImage(t.Context(), program, label)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// twoPlatforms is an index of an image and of one for machines of another kind.
func twoPlatforms(t *testing.T, image Image) v1.ImageIndex {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	other := config.DeepCopy()
	other.Architecture = map[string]string{"amd64": "arm64"}[config.Architecture]
	if other.Architecture == "" {
		other.Architecture = "amd64"
	}
	foreign, err := mutate.ConfigFile(image, other)
	if err != nil {
		t.Fatal(err)
	}
	return mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex),
		mutate.IndexAddendum{Add: foreign, Descriptor: v1.Descriptor{Platform: other.Platform()}},
		mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: config.Platform()}})
}
