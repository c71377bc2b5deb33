package charts

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	"github.com/rogpeppe/go-internal/diff"
	"sigs.k8s.io/yaml"
)

// Diff is what would change in the objects and hooks of the last deployed
// revision, as a unified diff, object by object. The values in a Secret are
// replaced by the beginning of a digest that salt goes into, which should be
// random: that one changes is seen, what it is cannot be guessed. Empty when
// nothing would change.
func (p *Preview) Diff(salt string) (string, error) {
	before, err := diffable(p.Previous, p.PreviousHooks, salt)
	if err != nil {
		return "", err
	}
	after, err := diffable(p.Rendered.Manifest, p.Rendered.Hooks, salt)
	if err != nil {
		return "", err
	}
	names := maps.Clone(before)
	maps.Copy(names, after)
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(names)) {
		text.Write(diff.Diff("deployed "+name, []byte(before[name]), "planned "+name, []byte(after[name])))
	}
	return text.String(), nil
}

// diffable returns the text of every object by its name.
func diffable(manifest string, hooks []Hook, salt string) (map[string]string, error) {
	objects, err := renderedObjects(manifest + "\n---\n" + joinHooks(hooks))
	if err != nil {
		return nil, err
	}
	texts := map[string]string{}
	for _, o := range objects {
		text := strings.TrimSpace(o.Manifest) + "\n"
		if o.Kind == "Secret" {
			if text, err = maskSecret(o.Content, salt); err != nil {
				return nil, err
			}
		}
		texts[objectName(o.Kind, o.Namespace, o.Name)] += text // a name that is there twice is shown twice
	}
	return texts, nil
}

func maskSecret(content map[string]any, salt string) (string, error) {
	masked := maps.Clone(content)
	for _, field := range []string{"data", "stringData"} {
		values, ok := content[field].(map[string]any)
		if !ok {
			continue
		}
		hidden := map[string]any{}
		for key, value := range values {
			hidden[key] = "masked (" + digest.FromString(salt + fmt.Sprint(value)).Encoded()[:12] + ")"
		}
		masked[field] = hidden
	}
	text, err := yaml.Marshal(masked)
	return string(text), err
}
