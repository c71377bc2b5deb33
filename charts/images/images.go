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
	"unicode/utf8"

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
	Containers int   // how many containers of pods need an image
	Unreadable []Use // images of containers that are no references

	place    place
	around   surround // what maps around say of images
	nesting  int      // of maps and lists
	depth    int      // of structure within texts
	loose    bool     // among words of a longer text: no more than candidates
	artifact bool     // after words that ask for an artifact
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

// builtIn are Kubernetes' own API groups, beside those without a dot.
var builtIn = wordSet("admissionregistration apiextensions apiregistration authentication authorization certificates coordination discovery events " +
	"flowcontrol.apiserver internal.apiserver metrics networking node rbac.authorization resource scheduling storage storagemigration")

// isCustom is whether an API group is not one of Kubernetes' own.
func isCustom(apiVersion string) bool {
	group, _, grouped := strings.Cut(apiVersion, "/")
	if !grouped || !strings.Contains(group, ".") {
		return false
	}
	own, isOwn := strings.CutSuffix(group, ".k8s.io")
	return !isOwn || !builtIn[own]
}

// config looks into the texts of a ConfigMap or Secret.
func (f *Finder) config(o Object) {
	f.place.kind = inConfig
	for _, name := range []string{"data", "stringData", "binaryData"} {
		var texts []field
		values, _ := o.Content[name].(map[string]any)
		for _, key := range sortedKeys(values) {
			if text, ok := configText(values[key], name == "binaryData" || name == "data" && o.Kind == "Secret"); ok {
				texts = append(texts, field{key, text})
			}
		}
		done := f.partsOf(texts, "", func(main string) string { return join(name, main) })
		for _, text := range texts {
			if !done[text.key] {
				f.text(text.value, text.key, join(name, text.key))
			}
		}
	}
	if meta, ok := o.Content["metadata"].(map[string]any); ok {
		f.walk(meta["annotations"], "annotations", "metadata.annotations")
	}
}

// configText is a text of a ConfigMap or Secret, which may be encoded.
func configText(v any, encoded bool) (string, bool) {
	text, ok := v.(string)
	if !ok || !encoded {
		return text, ok
	}
	plain, err := base64.StdEncoding.DecodeString(text)
	return string(plain), err == nil && utf8.Valid(plain)
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

// schema looks for images among the defaults of a definition, those in parts
// included.
func (f *Finder) schema(v any, path string) {
	if f.nesting == maxNesting {
		return
	}
	f.nesting++
	defer func() { f.nesting-- }()
	switch v := v.(type) {
	case map[string]any:
		properties, _ := v["properties"].(map[string]any)
		f.partsOf(defaultsOf(properties), lastProperty(path), func(string) string { return path })
		for _, key := range sortedKeys(v) {
			here := join(path, key)
			if key == "default" && !strings.HasSuffix(path, "properties") {
				f.walk(v[key], lastProperty(path), here)
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

// defaultsOf are the default texts of properties.
func defaultsOf(properties map[string]any) []field {
	var fields []field
	for _, name := range sortedKeys(properties) {
		property, _ := properties[name].(map[string]any)
		if value, ok := textOf(property["default"]); ok {
			fields = append(fields, field{name, value})
		}
	}
	return fields
}

// lastProperty is the name of the property that a schema at path describes.
func lastProperty(path string) string {
	return path[strings.LastIndex(path, ".")+1:]
}
