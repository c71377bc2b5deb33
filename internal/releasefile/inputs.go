package releasefile

import (
	"encoding/json"

	"github.com/opencontainers/go-digest"

	"waybill/bundle"
)

// withImages adds to the digest of what a chart depends on all that the search
// for its images depends on.
func (r *Resolver) withImages(c bundle.Component, chart digest.Digest) (digest.Digest, error) {
	if !r.opts.Images {
		return chart, nil
	}
	files := map[string]digest.Digest{}
	for _, name := range c.ValuesFiles {
		files[name] = digest.FromBytes(r.opts.Values[name])
	}
	release := r.release
	all, err := json.Marshal(struct {
		Chart                  digest.Digest
		HelmRelease, Namespace string
		Files                  map[string]digest.Digest
		FileNames              []string
		Values                 map[string]any
		Profiles               []bundle.Profile
		Images, ReleaseImages  []bundle.ImageRef
		Ignore, Platforms      []string
		Kubernetes, Shape      string
		Render                 *bundle.Render
	}{
		chart, c.HelmRelease(), c.Namespace, files, c.ValuesFiles, c.Values, c.Profiles,
		c.Images, release.Images, c.IgnoreImages, release.Platforms, release.Kubernetes, release.Shape, release.Render,
	})
	if err != nil {
		return "", err
	}
	return digest.FromString("waybill component inputs v1\n" + string(all)), nil
}
