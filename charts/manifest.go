package charts

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/registry"
)

// Media types of a chart in a registry, as Helm has them
// (https://helm.sh/docs/topics/registries/).
const (
	MediaTypeConfig     = registry.ConfigMediaType
	MediaTypeContent    = registry.ChartLayerMediaType
	MediaTypeProvenance = registry.ProvLayerMediaType
)

// makeManifest writes the manifest that helm push would write for the archive,
// less the one thing that makes two pushes differ: the time of creation.
func (c *Chart) makeManifest(meta *chart.Metadata, provenance []byte) error {
	config, err := json.Marshal(meta)
	if err != nil {
		return err
	}
	c.blobs = map[digest.Digest][]byte{}
	layers := []ocispec.Descriptor{c.addBlob(MediaTypeContent, c.archive)}
	if len(provenance) > 0 {
		layers = append(layers, c.addBlob(MediaTypeProvenance, provenance))
	}
	slices.SortFunc(layers, func(a, b ocispec.Descriptor) int { // as helm push
		return strings.Compare(string(a.Digest), string(b.Digest))
	})
	manifest, err := json.Marshal(ocispec.Manifest{
		Versioned:   specs.Versioned{SchemaVersion: 2},
		Config:      c.addBlob(MediaTypeConfig, config),
		Layers:      layers,
		Annotations: annotations(meta),
	})
	if err != nil {
		return err
	}
	c.descriptor = c.addBlob(ocispec.MediaTypeImageManifest, manifest)
	c.Manifest = c.descriptor.Digest
	return nil
}

func (c *Chart) addBlob(mediaType string, data []byte) ocispec.Descriptor {
	desc := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
	c.blobs[desc.Digest] = data
	return desc
}

// annotations are those Helm derives from Chart.yaml: its own annotations, and
// over them what the OCI image specification has words for. Title and version
// cannot be set by the chart's annotations.
func annotations(meta *chart.Metadata) map[string]string {
	all := map[string]string{}
	set := func(key, value string) {
		if strings.TrimSpace(value) != "" {
			all[key] = value
		}
	}
	set(ocispec.AnnotationDescription, meta.Description)
	set(ocispec.AnnotationURL, meta.Home)
	if len(meta.Sources) > 0 {
		set(ocispec.AnnotationSource, meta.Sources[0])
	}
	set(ocispec.AnnotationAuthors, authors(meta.Maintainers))
	maps.Copy(all, meta.Annotations)
	delete(all, ocispec.AnnotationTitle)
	delete(all, ocispec.AnnotationVersion)
	set(ocispec.AnnotationTitle, meta.Name)
	set(ocispec.AnnotationVersion, meta.Version)
	return all
}

func authors(maintainers []*chart.Maintainer) string {
	var list []string
	for _, m := range maintainers {
		text := m.Name
		if m.Email != "" {
			text += " (" + m.Email + ")"
		}
		list = append(list, text)
	}
	return strings.Join(list, ", ")
}
