// Package images finds the container images that Kubernetes objects name: in
// pods wherever they stand, arguments, environment, ConfigMaps, custom resources.
// It says of each how sure it is and why.
//
// It knows shapes and names of fields and nothing of charts, clusters or
// registries. No chart is known by name; what custom resources have in a way of
// their own is data, in kinds.yaml. Begin with [Finder].
package images

import (
	"encoding/base64"
	"strings"

	"sigs.k8s.io/yaml"

	"waybill/internal/ref"
)

// Confidence says how sure it is that a text names a container image that the
// chart runs.
type Confidence string

const (
	// Certain is a container of a pod, or what the chart itself lists as its images.
	Certain Confidence = "certain"
	// Recognised is a text that names an image by convention: --worker-image=…,
	// RELATED_IMAGE_…, an image field of a custom resource.
	Recognised Confidence = "recognised"
	// Candidate is any other text that reads as a reference. A person decides.
	Candidate Confidence = "candidate"
)

// A Use is one place where a chart names a container image.
type Use struct {
	Reference  string // as it is written, joined where it is written in parts
	Normalized string // as Docker means it
	Confidence Confidence
	Object     string // kind/name, or a file of the chart
	Path       string // the field in it; items of lists by their name
	Template   string // the template it comes from
	Reason     string // why it is taken for an image
	InParts    bool   // it stands in several fields (repository and tag, for one)
}

// An Object is what is looked through: one Kubernetes object.
type Object struct {
	APIVersion, Kind, Name string
	Template               string // where it comes from
	Content                map[string]any
}

// A Finder collects the uses of all that it is shown, in that order. The zero
// value is ready.
type Finder struct {
	Uses       []Use
	Containers int // how many containers with an image there were

	place place
}

// A place is an object or file, and what kind of text its fields are.
type place struct {
	object, template string
	kind             placeKind
}

type placeKind int

const (
	inObject   placeKind = iota // a field of an object the API server knows
	inResource                  // a field of a custom resource
	inConfig                    // text in a ConfigMap or Secret
	inPod                       // a field of a container: arguments, environment
	inSchema                    // a custom resource definition
	inValues                    // the chart's default values
)

// addParts adds a reference that stands in several fields.
func (f *Finder) addParts(reference string, sure Confidence, path, reason string) {
	before := len(f.Uses)
	f.add(reference, sure, path, reason+", in parts")
	for i := range f.Uses[before:] {
		f.Uses[before+i].InParts = true
	}
}

func (f *Finder) add(reference string, sure Confidence, path, reason string) {
	normalized, err := ref.Normalize(reference)
	if err != nil {
		return
	}
	f.Uses = append(f.Uses, Use{
		Reference: reference, Normalized: normalized, Confidence: sure,
		Object: f.place.object, Path: path, Template: f.place.template, Reason: reason,
	})
}

// Object looks through one object: pods wherever they stand, arguments,
// environment, ConfigMaps, Secrets, custom resources and their definitions.
func (f *Finder) Object(o Object) {
	f.place = place{object: o.Kind + "/" + o.Name, template: o.Template, kind: inObject}
	if items, ok := o.Content["items"].([]any); ok && strings.HasSuffix(o.Kind, "List") {
		for _, item := range items {
			f.item(o, item)
		}
		return
	}
	switch {
	case o.Kind == "CustomResourceDefinition":
		f.place.kind = inSchema
		f.schema(o.Content, "")
		return
	case o.Kind == "ConfigMap" && o.APIVersion == "v1", o.Kind == "Secret" && o.APIVersion == "v1":
		f.config(o)
		return
	case isCustom(o.APIVersion):
		f.place.kind = inResource
		f.known(o)
	}
	f.walk(o.Content, "", "")
}

// item looks through an item of a list of objects.
func (f *Finder) item(list Object, item any) {
	content, _ := item.(map[string]any)
	meta, _ := content["metadata"].(map[string]any)
	f.Object(Object{APIVersion: text(content, "apiVersion"), Kind: text(content, "kind"), Name: text(meta, "name"), Template: list.Template, Content: content})
}

// isCustom is whether an API group is not one of Kubernetes' own.
func isCustom(apiVersion string) bool {
	group, _, grouped := strings.Cut(apiVersion, "/")
	if !grouped {
		return false
	}
	return strings.Contains(group, ".") && !strings.HasSuffix(group, ".k8s.io") || crdGroup(group)
}

// crdGroup is a group below k8s.io that custom resources use.
func crdGroup(group string) bool {
	return strings.HasSuffix(group, ".x-k8s.io")
}

// config looks into the texts of a ConfigMap or Secret.
func (f *Finder) config(o Object) {
	f.place.kind = inConfig
	for _, field := range []string{"data", "stringData"} {
		texts, _ := o.Content[field].(map[string]any)
		for _, key := range sortedKeys(texts) {
			text, ok := texts[key].(string)
			if !ok {
				continue
			}
			if o.Kind == "Secret" && field == "data" {
				plain, err := base64.StdEncoding.DecodeString(text)
				if err != nil {
					continue
				}
				text = string(plain)
			}
			f.text(text, key, join(field, key))
		}
	}
	if meta, ok := o.Content["metadata"].(map[string]any); ok {
		f.walk(meta["annotations"], "annotations", "metadata.annotations")
	}
}

// List takes over a list of images that a chart carries itself.
func (f *Finder) List(file, path, reason string, references []string) {
	f.place = place{object: file, template: file}
	for _, reference := range references {
		f.add(reference, Certain, path, reason)
	}
}

// Values looks through a chart's default values; what it finds are candidates.
func (f *Finder) Values(file string, values map[string]any) {
	f.place = place{object: file, template: file, kind: inValues}
	f.walk(values, "", "")
}

// schema looks for images among the defaults of a definition.
func (f *Finder) schema(v any, path string) {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range sortedKeys(v) {
			here := join(path, key)
			text, ok := v[key].(string)
			if ok && key == "default" {
				f.leaf(text, lastProperty(path), here)
				continue
			}
			f.schema(v[key], here)
		}
	case []any:
		for i, item := range v {
			f.schema(item, index(path, item, i))
		}
	}
}

// lastProperty is the name of the property that a schema at path describes.
func lastProperty(path string) string {
	return path[strings.LastIndex(path, ".")+1:]
}

// parsed reads text as YAML or JSON when it is a map or a list there.
func parsed(text string) (any, bool) {
	if !strings.ContainsAny(text, ":[{-") {
		return nil, false
	}
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		return nil, false
	}
	switch v.(type) {
	case map[string]any, []any:
		return v, true
	}
	return nil, false
}
