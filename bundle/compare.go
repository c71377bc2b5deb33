package bundle

import (
	"encoding/json"
	"reflect"
	"slices"
)

// maxDifferences bounds what is said of two release files that differ.
const maxDifferences = 10

// Differences returns where another release file says something else, as paths:
// "version", "component web: values.replicas". How it is written, free keys and
// the link to the bundle (artifact) do not count. Nil when there is nothing.
func (r *Release) Differences(other *Release) []string {
	a, b := r.plain(), other.plain()
	mine, others := byName(a), byName(b)
	delete(a, "components")
	delete(b, "components")
	found := differingPaths(a, b, nil)
	for _, name := range slices.Compact(slices.Sorted(slices.Values(append(sortedKeys(mine), sortedKeys(others)...)))) {
		one, here := mine[name]
		two, there := others[name]
		if !here || !there {
			found = append(found, "component "+name)
			continue
		}
		for _, path := range differingPaths(one, two, nil) {
			found = append(found, "component "+name+": "+path)
		}
	}
	if reordered := slices.Equal(r.order(), other.order()); !reordered && len(found) == 0 {
		found = append(found, "the order of components")
	}
	return found[:min(len(found), maxDifferences)]
}

func (r *Release) order() []string {
	names := make([]string, len(r.Components))
	for i, c := range r.Components {
		names[i] = c.Name
	}
	return names
}

// plain is the release as JSON values, without the link to its bundle.
func (r *Release) plain() map[string]any {
	without := *r
	without.Artifact = ""
	var value map[string]any
	data, err := json.Marshal(without)
	if err == nil {
		err = decodeJSON(data, &value)
	}
	if err != nil {
		panic(err) // what was read from JSON can be written as JSON
	}
	return value
}

func byName(release map[string]any) map[string]any {
	components := map[string]any{}
	list, _ := release["components"].([]any)
	for _, c := range list {
		if component, ok := c.(map[string]any); ok {
			name, _ := component["name"].(string)
			components[name] = component
		}
	}
	return components
}

// differingPaths walks mappings; everything else is compared whole.
func differingPaths(a, b any, path []string) []string {
	m, isMap := a.(map[string]any)
	n, areMaps := b.(map[string]any)
	if !isMap || !areMaps {
		if reflect.DeepEqual(a, b) {
			return nil
		}
		return []string{pathText(path)}
	}
	var found []string
	for _, key := range slices.Compact(slices.Sorted(slices.Values(append(sortedKeys(m), sortedKeys(n)...)))) {
		found = append(found, differingPaths(m[key], n[key], append(path[:len(path):len(path)], key))...)
	}
	return found
}
