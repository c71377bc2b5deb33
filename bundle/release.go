package bundle

import (
	"bytes"
	"encoding/json"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/invopop/jsonschema"
)

// DefaultTimeout is how long a component may take when the release file does not say.
const DefaultTimeout = 10 * time.Minute

// What happens to a chart's crds/ folder.
const (
	CRDsUpgrade = "upgrade" // created and kept up to date; the default
	CRDsCreate  = "create"  // created when absent, never changed
	CRDsSkip    = "skip"    // not touched
)

// The two shapes of a bundle whose images have several platforms.
const (
	ShapeNested = "nested" // upstream's indexes stand in the root as they are; the default
	ShapeFlat   = "flat"   // the platforms' manifests stand in the root
)

// A Release is the release file: what the release engineer writes. The zero
// value is not valid; [ParseRelease] makes one.
type Release struct {
	APIVersion string      `json:"apiVersion" jsonschema:"enum=waybill/v1" jsonschema_description:"The version of this document's format."`
	Kind       string      `json:"kind" jsonschema:"enum=Release" jsonschema_description:"What this document is."`
	Name       string      `json:"name" jsonschema:"maxLength=40,pattern=^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" jsonschema_description:"The release's name: a DNS label of at most 40 characters."`
	Version    string      `json:"version,omitempty" jsonschema:"maxLength=128,pattern=^(0|[1-9][0-9]*)[.](0|[1-9][0-9]*)[.](0|[1-9][0-9]*)(-(0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)([.](0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*))*)?([+][0-9a-zA-Z-]+([.][0-9a-zA-Z-]+)*)?$" jsonschema_description:"The release's version: semantic, without a leading v. lock --version and build --version may set it instead."`
	Kubernetes string      `json:"kubernetes,omitempty" jsonschema:"minLength=1" jsonschema_description:"The range of Kubernetes versions the release is made for; suffixes such as -eks or -gke do not count."`
	Render     *Render     `json:"render,omitempty" jsonschema_description:"The cluster versions and kinds that image discovery renders for."`
	Platforms  []string    `json:"platforms,omitempty" jsonschema:"uniqueItems=true,pattern=^[a-z0-9]+/[a-z0-9]+(/[a-z0-9.]+)?$" jsonschema_description:"The platforms images are packed for; absent: all that upstream offers."`
	Stages     []string    `json:"stages,omitempty" jsonschema:"uniqueItems=true,pattern=^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" jsonschema_description:"The stages in their order; when given, every component names one."`
	Components []Component `json:"components" jsonschema:"minItems=1,maxItems=2000" jsonschema_description:"The charts of the release, each installed as one Helm release."`
	Images     []ImageRef  `json:"images,omitempty" jsonschema_description:"Images and other OCI artifacts to carry that belong to no one component."`
	Artifact   string      `json:"artifact,omitempty" jsonschema:"pattern=^oci://.+@sha256:[0-9a-f]{64}$" jsonschema_description:"Where the bundle made from this release file is."`
	Shape      string      `json:"shape,omitempty" jsonschema:"enum=nested,enum=flat,default=nested" jsonschema_description:"nested keeps upstream's image indexes; flat puts the platforms' manifests into the root, for registries that refuse an index inside an index."`

	doc *document // where things stand in the file, for Check; nil for a Release made by hand
}

// Render lists the clusters that image discovery renders for.
type Render struct {
	KubeVersions []string `json:"kubeVersions,omitempty" jsonschema:"pattern=^v?[0-9]+[.][0-9]+([.][0-9]+)?$" jsonschema_description:"Kubernetes versions, as text."`
	APIVersions  []string `json:"apiVersions,omitempty" jsonschema_description:"Further API versions the cluster has, such as monitoring.coreos.com/v1."`
}

// A Component is one chart of a release, installed as one Helm release.
type Component struct {
	Name            string         `json:"name" jsonschema:"maxLength=53,pattern=^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" jsonschema_description:"The component's name: a DNS label of at most 53 characters, the key by which all else names it."`
	Stage           string         `json:"stage,omitempty" jsonschema_description:"The stage the component is installed in."`
	Chart           ChartSource    `json:"chart" jsonschema_description:"Where the chart comes from."`
	ReleaseName     string         `json:"releaseName,omitempty" jsonschema:"maxLength=53,pattern=^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$" jsonschema_description:"The Helm release's name, when it is not the component's."`
	Namespace       string         `json:"namespace" jsonschema:"maxLength=63,pattern=^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" jsonschema_description:"The namespace of the Helm release."`
	CreateNamespace bool           `json:"createNamespace,omitempty" jsonschema:"default=false" jsonschema_description:"Whether the namespace is made before the first component; one true serves all that use it."`
	Needs           []string       `json:"needs,omitempty" jsonschema:"uniqueItems=true" jsonschema_description:"Components that must be ready first; of the same stage or an earlier one."`
	ValuesFiles     []string       `json:"valuesFiles,omitempty" jsonschema:"minLength=1" jsonschema_description:"Values files, later ones winning; paths relative to this file."`
	Values          map[string]any `json:"values,omitempty" jsonschema_description:"Values, winning over valuesFiles."`
	Profiles        []Profile      `json:"profiles,omitempty" jsonschema_description:"Further value sets, of which a site may pick one."`
	Parameters      *Parameters    `json:"parameters,omitempty" jsonschema_description:"What a site may set; absent: everything."`
	CRDs            string         `json:"crds,omitempty" jsonschema:"enum=upgrade,enum=create,enum=skip,default=upgrade" jsonschema_description:"What happens to the chart's crds folder."`
	Timeout         Duration       `json:"timeout,omitempty" jsonschema_description:"How long the component may take to become ready; 10m when absent."`
	Images          []ImageRef     `json:"images,omitempty" jsonschema_description:"Images beyond those discovery finds."`
	IgnoreImages    []string       `json:"ignoreImages,omitempty" jsonschema:"minLength=1" jsonschema_description:"Patterns of texts that look like images and are none."`
}

// A ChartSource says where a chart comes from, in one of four ways:
// Repository with Name and Version; Path; Git with Ref and Path; Manifests.
type ChartSource struct {
	Repository string   `json:"repository,omitempty" jsonschema:"pattern=^(https?|oci)://." jsonschema_description:"A chart repository (https://) or a registry (oci://), joined with name as in Chart.yaml."`
	Name       string   `json:"name,omitempty" jsonschema:"minLength=1" jsonschema_description:"The chart's name in the repository."`
	Version    string   `json:"version,omitempty" jsonschema:"minLength=1" jsonschema_description:"The chart's version, exact or a range."`
	Path       string   `json:"path,omitempty" jsonschema:"minLength=1" jsonschema_description:"A chart folder or .tgz, relative to this file; with git, relative to the repository."`
	Git        string   `json:"git,omitempty" jsonschema:"minLength=1" jsonschema_description:"A git repository."`
	Ref        string   `json:"ref,omitempty" jsonschema:"minLength=1" jsonschema_description:"A tag, branch or commit of the git repository."`
	Manifests  []string `json:"manifests,omitempty" jsonschema:"minItems=1,minLength=1" jsonschema_description:"Files of Kubernetes objects, packed as a chart; paths relative to this file."`
}

// The kinds of chart source.
const (
	SourceRepository = "repository"
	SourcePath       = "path"
	SourceGit        = "git"
	SourceManifests  = "manifests"
)

// Kind returns which of the four ways the source uses, or "" when it uses none.
func (s ChartSource) Kind() string {
	switch {
	case s.Repository != "":
		return SourceRepository
	case s.Git != "":
		return SourceGit
	case len(s.Manifests) > 0:
		return SourceManifests
	case s.Path != "":
		return SourcePath
	}
	return ""
}

// String returns the names of a source's parts as a person would say them, and
// as the lock's source has them: the repository with the chart's name, the path,
// the repository with ref and path, or the files.
func (s ChartSource) String() string {
	switch s.Kind() {
	case SourceRepository:
		return strings.TrimSuffix(s.Repository, "/") + "/" + s.Name
	case SourceGit:
		return s.Git + "//" + strings.Trim(path.Clean("/"+s.Path), "/") + "@" + s.Ref
	case SourceManifests:
		return strings.Join(s.Manifests, ", ")
	}
	return s.Path
}

// A Profile is a named set of values that a site may pick.
type Profile struct {
	Name   string         `json:"name" jsonschema:"maxLength=63,pattern=^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" jsonschema_description:"The profile's name."`
	Values map[string]any `json:"values" jsonschema_description:"The profile's values, winning over the component's."`
}

// Parameters says what a site may set. All else is locked.
type Parameters struct {
	Schema map[string]any `json:"schema" jsonschema_description:"A JSON Schema (2020-12) of the values a site may set."`
}

// An ImageRef is an image named in the release file: as text, or as a mapping
// with ref, platforms and reason.
type ImageRef struct {
	Ref       string   `json:"ref" jsonschema:"minLength=1" jsonschema_description:"The image's reference."`
	Platforms []string `json:"platforms,omitempty" jsonschema:"uniqueItems=true,pattern=^[a-z0-9]+/[a-z0-9]+(/[a-z0-9.]+)?$" jsonschema_description:"The platforms to carry of this image."`
	Reason    string   `json:"reason,omitempty" jsonschema_description:"Why it is listed."`
}

// UnmarshalJSON reads both forms.
func (i *ImageRef) UnmarshalJSON(data []byte) error {
	if bytes.HasPrefix(data, []byte(`"`)) {
		*i = ImageRef{}
		return json.Unmarshal(data, &i.Ref)
	}
	type plain ImageRef
	return json.Unmarshal(data, (*plain)(i))
}

// JSONSchemaExtend adds the text form to the schema.
func (ImageRef) JSONSchemaExtend(s *jsonschema.Schema) {
	mapping := *s
	*s = jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "string", MinLength: mapping.Properties.Value("ref").MinLength}, &mapping}}
}

// A Duration is a time span written as text, such as 10m or 1h30m.
type Duration time.Duration

// UnmarshalJSON reads the text form ([time.ParseDuration]).
func (d *Duration) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	parsed, err := time.ParseDuration(text)
	*d = Duration(parsed)
	return err
}

// MarshalJSON writes the text form.
func (d Duration) MarshalJSON() ([]byte, error) {
	return json.Marshal(time.Duration(d).String())
}

// JSONSchema describes the text form. Six digits are enough for eleven years of minutes.
func (Duration) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Pattern: `^([0-9]{1,6}([.][0-9]{1,9})?(ms|s|m|h)){1,4}$`}
}

// HelmRelease returns the name of the component's Helm release.
func (c *Component) HelmRelease() string {
	if c.ReleaseName != "" {
		return c.ReleaseName
	}
	return c.Name
}

// CRDPolicy returns what happens to the chart's CRDs, the default filled in.
func (c *Component) CRDPolicy() string {
	if c.CRDs == "" {
		return CRDsUpgrade
	}
	return c.CRDs
}

// ReadyTimeout returns how long the component may take, the default filled in.
func (c *Component) ReadyTimeout() time.Duration {
	if c.Timeout == 0 {
		return DefaultTimeout
	}
	return time.Duration(c.Timeout)
}

// Profile returns the values of the named profile.
func (c *Component) Profile(name string) (map[string]any, bool) {
	for _, p := range c.Profiles {
		if p.Name == name {
			return p.Values, true
		}
	}
	return nil, false
}

// Component returns the component of that name, or an [UnknownComponentError].
func (r *Release) Component(name string) (*Component, error) {
	for i := range r.Components {
		if r.Components[i].Name == name {
			return &r.Components[i], nil
		}
	}
	return nil, &UnknownComponentError{Name: name, Known: r.ComponentNames()}
}

// ComponentNames returns the names of all components, sorted.
func (r *Release) ComponentNames() []string {
	names := make([]string, len(r.Components))
	for i, c := range r.Components {
		names[i] = c.Name
	}
	slices.Sort(names)
	return names
}

// ValuesFilePaths returns every values file the release names, as it names
// them, sorted and each once. They are keys of a bundle's values files.
func (r *Release) ValuesFilePaths() []string {
	var paths []string
	for _, c := range r.Components {
		paths = append(paths, c.ValuesFiles...)
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}
