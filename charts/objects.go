package charts

import (
	"fmt"
	"strings"

	"helm.sh/helm/v3/pkg/releaseutil"
	"sigs.k8s.io/yaml"
)

// An Object is one document of a rendered manifest.
type Object struct {
	Template   string // the template it comes from
	APIVersion string
	Kind       string
	Namespace  string // as written, empty when it is not
	Name       string
	Manifest   string         // its text
	Content    map[string]any // its text, read
}

// Title names the object in messages: kind and name.
func (o Object) Title() string { return o.Kind + "/" + o.Name }

// renderedObjects splits a manifest as Helm records it.
func renderedObjects(manifest string) ([]Object, error) {
	var objects []Object
	split := releaseutil.SplitManifests(manifest)
	for i := range len(split) {
		text := split[fmt.Sprintf("manifest-%d", i)]
		object := Object{Template: sourceOf(text), Manifest: text}
		if err := yaml.Unmarshal([]byte(text), &object.Content); err != nil {
			return nil, fmt.Errorf("reading what %s rendered: %w", object.Template, err)
		}
		if len(object.Content) == 0 {
			continue
		}
		object.APIVersion, _ = object.Content["apiVersion"].(string)
		object.Kind, _ = object.Content["kind"].(string)
		if meta, ok := object.Content["metadata"].(map[string]any); ok {
			object.Namespace, _ = meta["namespace"].(string)
			object.Name, _ = meta["name"].(string)
		}
		objects = append(objects, object)
	}
	return objects, nil
}

// sourceOf reads the comment Helm puts over each document.
func sourceOf(text string) string {
	for line := range strings.Lines(text) {
		if source, ok := strings.CutPrefix(strings.TrimSpace(line), "# Source: "); ok {
			return source
		}
	}
	return ""
}
