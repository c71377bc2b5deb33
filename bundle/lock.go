package bundle

import "github.com/opencontainers/go-digest"

// What a bundle carries.
const (
	PackedImages = "images" // charts and all images
	PackedCharts = "charts" // charts only
)

// A Lock is the outcome of resolving a release file: every name became a
// digest. [MakeLock] makes one, [Lock.Encode] writes it.
type Lock struct {
	APIVersion string        `json:"apiVersion" jsonschema:"enum=waybill/v1" jsonschema_description:"The version of this document's format."`
	Kind       string        `json:"kind" jsonschema:"enum=Lock" jsonschema_description:"What this document is."`
	Packed     string        `json:"packed" jsonschema:"enum=images,enum=charts" jsonschema_description:"What is locked and packed: charts and images, or charts only."`
	Release    LockedRelease `json:"release" jsonschema_description:"Which release this is the lock of."`
	Charts     []LockedChart `json:"charts" jsonschema_description:"One entry a component, sorted by component."`
	Images     []LockedImage `json:"images,omitempty" jsonschema_description:"One entry an image, sorted by digest."`
}

// LockedRelease names the release and its version.
type LockedRelease struct {
	Name    string `json:"name" jsonschema:"maxLength=40,pattern=^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" jsonschema_description:"The release's name."`
	Version string `json:"version" jsonschema:"maxLength=128,pattern=^(0|[1-9][0-9]*)[.](0|[1-9][0-9]*)[.](0|[1-9][0-9]*)(-(0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)([.](0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*))*)?([+][0-9a-zA-Z-]+([.][0-9a-zA-Z-]+)*)?$" jsonschema_description:"The release's version."`
}

// A LockedChart is the chart that one component's source became.
type LockedChart struct {
	Component string        `json:"component" jsonschema:"maxLength=53,pattern=^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" jsonschema_description:"The component's name."`
	Name      string        `json:"name" jsonschema:"minLength=1" jsonschema_description:"The chart's name as Chart.yaml has it."`
	Version   string        `json:"version" jsonschema:"minLength=1" jsonschema_description:"The chart's exact version as Chart.yaml has it."`
	Source    string        `json:"source" jsonschema:"minLength=1" jsonschema_description:"Where it came from, as the release file says it; with the commit for git."`
	Inputs    digest.Digest `json:"inputs" jsonschema:"pattern=^sha256:[0-9a-f]{64}$" jsonschema_description:"Digest of all that resolving depended on."`
	Content   digest.Digest `json:"content" jsonschema:"pattern=^sha256:[0-9a-f]{64}$" jsonschema_description:"Digest of the chart's .tgz."`
	Manifest  digest.Digest `json:"manifest" jsonschema:"pattern=^sha256:[0-9a-f]{64}$" jsonschema_description:"Digest of the chart's manifest."`
	Files     digest.Digest `json:"files,omitempty" jsonschema:"pattern=^sha256:[0-9a-f]{64}$" jsonschema_description:"Digest of the uncompressed tar; charts from a folder or git only."`

	Dependencies []LockedDependency `json:"dependencies,omitempty" jsonschema_description:"What was fetched and packed into its charts/, sorted; charts from a folder or git only."`
}

// A LockedDependency is a chart that was fetched and packed into the charts/ of
// a chart from a folder or git, so that the same is packed again.
type LockedDependency struct {
	Name       string        `json:"name" jsonschema:"minLength=1" jsonschema_description:"The dependency's name as its own Chart.yaml has it."`
	Version    string        `json:"version" jsonschema:"minLength=1" jsonschema_description:"The dependency's exact version as its own Chart.yaml has it."`
	Repository string        `json:"repository" jsonschema:"minLength=1" jsonschema_description:"Where it came from, as the parent's Chart.yaml says it."`
	Content    digest.Digest `json:"content" jsonschema:"pattern=^sha256:[0-9a-f]{64}$" jsonschema_description:"Digest of the dependency's .tgz."`
}

// A LockedImage is one image or other OCI artifact and the references that
// mean it. What is reached through an index of upstream and by itself too, or
// through several, is there once for each.
type LockedImage struct {
	Digest     digest.Digest `json:"digest" jsonschema:"pattern=^sha256:[0-9a-f]{64}$" jsonschema_description:"Digest of what is packed."`
	MediaType  string        `json:"mediaType" jsonschema:"minLength=1" jsonschema_description:"Media type of the manifest or index."`
	Size       int64         `json:"size" jsonschema:"minimum=0" jsonschema_description:"Size of the manifest or index in bytes."`
	Platforms  []string      `json:"platforms,omitempty" jsonschema_description:"The platforms packed, sorted."`
	References []string      `json:"references" jsonschema:"minItems=1" jsonschema_description:"The normalised references, sorted."`
	Spellings  []string      `json:"spellings,omitempty" jsonschema_description:"The references as charts and values write them, sorted."`
	Components []string      `json:"components,omitempty" jsonschema_description:"The components that use it, sorted; none: the release lists it."`
	Upstream   digest.Digest `json:"upstream,omitempty" jsonschema:"pattern=^sha256:[0-9a-f]{64}$" jsonschema_description:"Digest of upstream's index, when only some of its platforms are packed."`

	Manifests []LockedManifest `json:"manifests,omitempty" jsonschema_description:"The manifest of each platform of an index, sorted by platform: what a node may call the image it runs."`
}

// A LockedManifest is the manifest of one platform of an image index.
type LockedManifest struct {
	Platform string        `json:"platform" jsonschema:"minLength=1" jsonschema_description:"The platform, such as linux/amd64."`
	Digest   digest.Digest `json:"digest" jsonschema:"pattern=^sha256:[0-9a-f]{64}$" jsonschema_description:"Digest of the platform's manifest."`
}

// Chart returns the entry of the component.
func (l *Lock) Chart(component string) (LockedChart, bool) {
	for _, c := range l.Charts {
		if c.Component == component {
			return c, true
		}
	}
	return LockedChart{}, false
}
