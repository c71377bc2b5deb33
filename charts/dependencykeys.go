package charts

import (
	"fmt"
	"slices"

	"sigs.k8s.io/yaml"

	"waybill/internal/near"
	"waybill/internal/tarball"
)

// An UnknownDependencyKey is a key of a dependency entry that Helm does not
// know and therefore ignores.
type UnknownDependencyKey struct {
	File       string // Chart.yaml or requirements.yaml
	Dependency string // its name, or its place when it has none
	Key        string
	Nearest    string // what was probably meant, may be empty
}

func (k UnknownDependencyKey) String() string {
	text := fmt.Sprintf("%s: dependency %s: unknown key %q", k.File, k.Dependency, k.Key)
	if k.Nearest != "" {
		text += fmt.Sprintf(", did you mean %q?", k.Nearest)
	}
	return text
}

// dependencyKeys are those of chart.Dependency.
var dependencyKeys = []string{"name", "version", "repository", "condition", "tags", "enabled", "import-values", "alias"}

// otherWords are what people write instead, too far away for spelling.
var otherWords = map[string]string{
	"url": "repository", "repo": "repository", "registry": "repository", "source": "repository",
	"chart": "name", "chartName": "name", "ver": "version", "tag": "version", "as": "alias", "when": "condition",
}

// unknownDependencyKeys reads the dependency entries of a chart's own files (not
// of its subcharts) for keys Helm ignores, in the order of the files.
func unknownDependencyKeys(files []tarball.File) []UnknownDependencyKey {
	var found []UnknownDependencyKey
	for _, f := range files {
		if f.Name != "Chart.yaml" && f.Name != "requirements.yaml" {
			continue
		}
		var doc struct {
			Dependencies []map[string]any `json:"dependencies"`
		}
		if yaml.Unmarshal(f.Data, &doc) != nil {
			continue // Helm's loader has its say about it
		}
		for i, entry := range doc.Dependencies {
			name, ok := entry["name"].(string)
			if !ok {
				name = fmt.Sprintf("number %d", i+1)
			}
			for _, key := range sortedKeys(entry) {
				if slices.Contains(dependencyKeys, key) {
					continue
				}
				nearest, ok := otherWords[key]
				if !ok {
					nearest = near.Word(key, dependencyKeys)
				}
				found = append(found, UnknownDependencyKey{File: f.Name, Dependency: name, Key: key, Nearest: nearest})
			}
		}
	}
	return found
}
