package registry

import (
	"encoding/json"
	"regexp"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Docker's names for what OCI calls an image manifest and an image index.
const (
	dockerManifest     = "application/vnd.docker.distribution.manifest.v2+json"
	dockerManifestList = "application/vnd.docker.distribution.manifest.list.v2+json"
	dockerImageConfig  = "application/vnd.docker.container.image.v1+json"
)

// Manifests of before, which lead to their parts in ways of their own.
const (
	dockerSchema1       = "application/vnd.docker.distribution.manifest.v1+json"
	dockerSchema1Signed = "application/vnd.docker.distribution.manifest.v1+prettyjws"
	ociArtifact         = "application/vnd.oci.artifact.manifest.v1+json"
)

func isSchema1(mediaType string) bool {
	return mediaType == dockerSchema1 || mediaType == dockerSchema1Signed
}

func isOldManifest(mediaType string) bool { return isSchema1(mediaType) || mediaType == ociArtifact }

func isManifest(mediaType string) bool {
	switch mediaType {
	case ocispec.MediaTypeImageManifest, ocispec.MediaTypeImageIndex, dockerManifest, dockerManifestList:
		return true
	}
	return false
}

// links is what this package reads of a manifest: where it leads. The bytes
// themselves are kept as they are.
type links struct {
	MediaType    string               `json:"mediaType"`
	ArtifactType string               `json:"artifactType"`
	Config       *ocispec.Descriptor  `json:"config"`
	Layers       []ocispec.Descriptor `json:"layers"`
	Manifests    []ocispec.Descriptor `json:"manifests"`
	Subject      *ocispec.Descriptor  `json:"subject"`
	Annotations  map[string]string    `json:"annotations"`
}

func readLinks(data []byte) (links, error) {
	var l links
	err := json.Unmarshal(data, &l)
	return l, err
}

// kind is the media type of a manifest that came without one.
func (l links) kind() string {
	switch {
	case isManifest(l.MediaType):
		return l.MediaType
	case l.Manifests != nil:
		return ocispec.MediaTypeImageIndex
	case l.Config != nil:
		return ocispec.MediaTypeImageManifest
	}
	return ""
}

// artifact is the type that the referrers API lists a manifest under.
func (l links) artifact() string {
	if l.ArtifactType == "" && l.Config != nil {
		return l.Config.MediaType
	}
	return l.ArtifactType
}

// blobs are config and layers.
func (l links) blobs() []ocispec.Descriptor {
	if l.Config == nil {
		return l.Layers
	}
	return append([]ocispec.Descriptor{*l.Config}, l.Layers...)
}

// attachmentName is a tag that hangs something on a digest: cosign's
// sha256-<hex>.sig, .att and .sbom, and sha256-<hex>, which the distribution
// specification's section "Referrers Tag Schema" takes for lists of referrers.
var attachmentName = regexp.MustCompile(`^(sha256-[0-9a-f]{64}|sha512-[0-9a-f]{128})(\.[a-z]+)?$`)

func isAttachment(tag string) bool { return attachmentName.MatchString(tag) }

// referrersTag is where referrers are listed when there is no API for them.
func referrersTag(desc ocispec.Descriptor) string {
	return strings.Replace(desc.Digest.String(), ":", "-", 1)
}
