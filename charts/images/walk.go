package images

import (
	"fmt"
	"strings"
)

// walk looks through a value: pods by their shape, references in parts, then
// every text.
func (f *Finder) walk(v any, key, path string) {
	switch v := v.(type) {
	case map[string]any:
		f.walkMap(v, key, path)
	case []any:
		for i, item := range v {
			f.walk(item, key, index(path, item, i))
		}
	case string:
		f.leaf(v, key, path)
	}
}

func (f *Finder) walkMap(m map[string]any, key, path string) {
	parts := f.parts(m, key, path)
	for _, name := range sortedKeys(m) {
		here := join(path, name)
		switch {
		case parts[name]:
		case containerLists[name] && isContainers(m[name]):
			f.containersAt(m[name].([]any), here)
		case name == "volumes":
			f.volumes(m[name], here)
		case name == "openAPIV3Schema":
			f.schema(m[name], here)
		default:
			f.walk(m[name], name, here)
		}
	}
}

// The fields of a pod's spec that hold containers.
var containerLists = map[string]bool{"containers": true, "initContainers": true, "ephemeralContainers": true}

// isContainers is whether a list is one of containers: they have names.
func isContainers(v any) bool {
	list, ok := v.([]any)
	if !ok || len(list) == 0 {
		return false
	}
	for _, item := range list {
		container, ok := item.(map[string]any)
		if !ok {
			return false
		}
		if _, named := container["name"].(string); !named {
			return false
		}
	}
	return true
}

func (f *Finder) containersAt(list []any, path string) {
	for i, item := range list {
		container := item.(map[string]any)
		here := index(path, item, i)
		if image, ok := container["image"].(string); ok {
			f.Containers++
			f.add(strings.TrimSpace(image), Certain, here+".image", "the image of a container")
		}
		f.container(container, here)
	}
}

// container looks at what a container is told: its arguments and environment.
func (f *Finder) container(container map[string]any, path string) {
	before := f.place.kind
	f.place.kind = inPod
	for _, field := range []string{"command", "args"} {
		words, _ := container[field].([]any)
		f.arguments(words, join(path, field))
	}
	env, _ := container["env"].([]any)
	for i, item := range env {
		variable, _ := item.(map[string]any)
		name, _ := variable["name"].(string)
		if value, ok := variable["value"].(string); ok {
			f.text(value, name, index(join(path, "env"), item, i)+".value")
		}
	}
	f.environmentParts(env, join(path, "env"))
	f.place.kind = before
}

// volumes finds images that are mounted, Kubernetes 1.31 and later.
func (f *Finder) volumes(v any, path string) {
	list, _ := v.([]any)
	for i, item := range list {
		volume, _ := item.(map[string]any)
		image, _ := volume["image"].(map[string]any)
		here := index(path, item, i)
		if reference, ok := image["reference"].(string); ok {
			f.add(reference, Certain, here+".image.reference", "the image of a volume")
			continue
		}
		f.walk(item, "volumes", here)
	}
}

// arguments looks at command and args: --flag=value, --flag value, and texts
// for a shell.
func (f *Finder) arguments(words []any, path string) {
	flag := ""
	for i, item := range words {
		word, ok := item.(string)
		if !ok {
			flag = ""
			continue
		}
		here := fmt.Sprintf("%s[%d]", path, i)
		name, value, assigned := strings.Cut(word, "=")
		switch {
		case strings.HasPrefix(word, "-") && !strings.ContainsAny(name, " \t\n"):
			flag = name
			if assigned {
				f.text(value, name, here)
				flag = ""
			}
		case assigned && isWord(name):
			f.text(value, name, here) // NAME=VALUE, as env(1) and helm --set take it
			flag = ""
		default:
			f.text(word, flag, here)
			flag = ""
		}
	}
}

// text looks at a text that may hold structure: YAML, JSON, or words for a shell.
func (f *Finder) text(text, key, path string) {
	if f.leaf(text, key, path) {
		return
	}
	if v, ok := parsed(text); ok {
		f.walk(v, "", path)
		return
	}
	for _, w := range words(text) {
		f.leaf(w.value, w.key, path)
	}
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// index names an item of a list by its name, else by its place.
func index(path string, item any, i int) string {
	if m, ok := item.(map[string]any); ok {
		if name, ok := m["name"].(string); ok && name != "" {
			return fmt.Sprintf("%s[%s]", path, name)
		}
	}
	return fmt.Sprintf("%s[%d]", path, i)
}
