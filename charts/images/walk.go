package images

import (
	"fmt"
	"strings"
)

// maxNesting bounds maps and lists within each other: no object of a cluster
// comes near.
const maxNesting = 256

// walk looks through a value: pods by their shape, references in parts, then
// every text.
func (f *Finder) walk(v any, key, path string) {
	if f.nesting == maxNesting {
		return
	}
	f.nesting++
	defer func() { f.nesting-- }()
	switch v := v.(type) {
	case map[string]any:
		f.walkMap(v, key, path)
	case []any:
		f.walkList(v, key, path)
	case string:
		f.inner(v, key, path)
	}
}

func (f *Finder) walkMap(m map[string]any, key, path string) {
	if f.aContainer(m, key, path) {
		return
	}
	done := f.parts(m, key, path)
	around := f.around
	f.surround(m)
	for _, name := range sortedKeys(m) {
		here := join(path, name)
		list, isList := m[name].([]any)
		switch {
		case done[name]:
		case containerLists[name] && isContainers(m[name]):
			f.containersAt(list, here)
		case name == "volumes" && isList:
			f.volumes(list, here)
		case name == "openAPIV3Schema":
			f.schema(m[name], here)
		case (name == "value" || name == "default") && isText(m[name]) && firstText(m, "name", "key") != "":
			f.text(m[name].(string), firstText(m, "name", "key"), here) // a variable or parameter
		case isImageWord(key) && (isReference(m[name]) || isMap(m[name])):
			f.walk(m[name], key, here) // images: {agent: X}
		default:
			f.walk(m[name], name, here)
		}
	}
	f.around = around
}

// isReference is whether a value reads as a whole reference.
func isReference(v any) bool {
	s, ok := v.(string)
	return ok && readForm(strings.TrimSpace(s)) >= shortTagged
}

func isText(v any) bool {
	_, ok := v.(string)
	return ok
}

func isMap(v any) bool {
	_, ok := v.(map[string]any)
	return ok
}

// walkList looks through a list; one with flags is a command line.
func (f *Finder) walkList(list []any, key, path string) {
	for _, item := range list {
		if word, ok := item.(string); ok && strings.HasPrefix(word, "-") && f.place.kind != inObject {
			f.arguments(list, path)
			return
		}
	}
	for i, item := range list {
		f.walk(item, key, index(path, item, i))
	}
}

// surround remembers what a map says for the maps below it.
func (f *Finder) surround(m map[string]any) {
	if f.place.kind != inConfig && f.place.kind != inResource {
		return
	}
	for _, g := range groups(fieldsOf(m), false) {
		registry := g.fields[registryRole].value
		if (g.stem == "" || g.stem == "container") && (hasHost(registry+"/") || strings.HasPrefix(registry, "localhost")) {
			f.around = surround{registry: registry, tag: g.fields[tagRole].value}
		} else if tag := g.fields[tagRole].value; g.stem == "" && tag != "" && f.around.registry != "" {
			f.around.tag = tag // of the images below
		}
	}
	if base := text(m, "base"); hasHost(base) {
		f.around = surround{registry: base}
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
		f.containerAt(item.(map[string]any), index(path, item, i))
	}
}

// aContainer takes a map that is one container by its shape, outside of a list
// of containers: a step of a pipeline, the container of a workflow's template.
func (f *Finder) aContainer(m map[string]any, key, path string) bool {
	if f.place.kind != inResource || text(m, "image") == "" {
		return false
	}
	_, named := m["name"].(string)
	if !named && key != "container" && key != "script" {
		return false
	}
	for _, field := range []string{"command", "args", "env", "envFrom", "volumeMounts"} {
		if _, ok := m[field].([]any); ok {
			f.containerAt(m, path)
			return true
		}
	}
	if _, ok := m["script"].(string); ok || key == "script" {
		f.containerAt(m, path)
		return true
	}
	return false
}

// injected is what containers have for an image that a webhook puts there when
// the pod is made: no image, and no reason to miss one.
const injected = "auto"

func (f *Finder) containerAt(container map[string]any, path string) {
	image, _ := container["image"].(string)
	image = strings.TrimSpace(image)
	if f.place.kind == inObject && image != injected {
		f.Containers++
	}
	if image != "" && image != injected {
		f.addContainer(image, path+".image")
	}
	f.container(container, path)
}

func (f *Finder) addContainer(image, path string) {
	switch f.place.kind {
	case inValues:
		f.add(image, Candidate, path, f.where()+", the image of a container")
	case inConfig:
		if readForm(image) != noReference {
			f.add(image, Recognised, path, f.where()+", the image of a container")
		}
	default:
		if f.add(image, Certain, path, "the image of a container"); f.place.kind == inObject && readForm(image) == noReference {
			f.Unreadable = append(f.Unreadable, Use{Reference: image, Object: f.place.object, Path: path, Template: f.place.template})
		}
	}
}

// container looks at what a container is told: its arguments and environment.
func (f *Finder) container(container map[string]any, path string) {
	before := f.place.kind
	if before != inValues {
		f.place.kind = inPod
	}
	for _, field := range []string{"command", "args"} {
		words, _ := container[field].([]any)
		f.arguments(words, join(path, field))
	}
	if script := text(container, "script"); script != "" {
		f.text(script, "", join(path, "script"))
	}
	env, _ := container["env"].([]any)
	done := f.environmentParts(env, join(path, "env"))
	for i, item := range env {
		variable, _ := item.(map[string]any)
		name, _ := variable["name"].(string)
		if value, ok := variable["value"].(string); ok && !done[name] {
			f.text(value, name, index(join(path, "env"), item, i)+".value")
		}
	}
	f.place.kind = before
}

// volumes finds images that are mounted, Kubernetes 1.31 and later.
func (f *Finder) volumes(list []any, path string) {
	for i, item := range list {
		volume, _ := item.(map[string]any)
		image, _ := volume["image"].(map[string]any)
		here := index(path, item, i)
		if reference, ok := image["reference"].(string); ok {
			f.addContainer(reference, here+".image.reference")
			continue
		}
		f.walk(item, "volumes", here)
	}
}

// arguments looks at command and args: --flag=value, --flag value, and texts
// for a shell. Words that ask for an artifact make what follows one.
func (f *Finder) arguments(words []any, path string) {
	var flags []field
	places := map[string]string{}
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
				flags, places[name] = append(flags, field{name, value}), here
				f.text(value, name, here)
				flag = ""
			}
		case assigned && isWord(name):
			f.text(value, name, here) // NAME=VALUE, as env(1) and helm --set take it
			flag = ""
		default:
			if flag != "" {
				flags, places[flag] = append(flags, field{flag, word}), here
			}
			f.text(word, flag, here)
			f.artifact = f.artifact || flag == "" && namesArtifact(word) && readForm(word) == bareName
			flag = ""
		}
	}
	f.artifact = false
	f.partsOf(flags, "", func(main string) string { return places[main] })
}

// text looks at a text that may hold structure: YAML, JSON, or words for a shell.
func (f *Finder) text(text, key, path string) {
	if f.leaf(text, key, path) {
		return
	}
	if f.structure(text, path) {
		return
	}
	var assigned []field
	for _, w := range words(text) {
		if w.key != "" {
			assigned = append(assigned, field(w))
		}
		if form := readForm(w.value); w.key == "" || namesImage(key) && !namesImage(w.key) {
			if w.key = key; namesImage(key) && form < shortTagged && form != numbered {
				continue // a word of a sentence
			}
		}
		f.leaf(w.value, w.key, path)
	}
	if !strings.Contains(text, "\n") {
		return
	}
	for _, section := range sections(assigned) {
		f.partsOf(section, "", func(string) string { return path })
	}
}

// sections cuts fields where a key comes again.
func sections(fields []field) [][]field {
	var cut [][]field
	begin, seen := 0, map[string]bool{}
	for i, one := range fields {
		if seen[one.key] {
			cut = append(cut, fields[begin:i])
			begin, seen = i, map[string]bool{}
		}
		seen[one.key] = true
	}
	return append(cut, fields[begin:])
}

// maxDepth bounds texts that hold structure that holds texts.
const maxDepth = 4

// structure looks through a text that is YAML or JSON.
func (f *Finder) structure(text, path string) bool {
	if f.depth == maxDepth {
		return false
	}
	documents := parsed(text)
	before := *f
	f.depth++
	if strings.Contains(text, "\n") || strings.HasPrefix(strings.TrimSpace(text), "{") {
		f.loose = false // no line of prose that happens to have a colon
	}
	for _, document := range documents {
		f.walk(document, "", path)
	}
	f.depth, f.loose = before.depth, before.loose
	return len(documents) > 0
}

// inner looks at a text inside of an object or of other structure: prose is no
// place for images, and words of longer texts are no more than candidates where
// no key says image.
func (f *Finder) inner(text, key, path string) {
	if isProse(key) || f.place.kind == inObject && f.depth == 0 && !strings.ContainsAny(text, "{\n") {
		f.leaf(text, key, path)
		return
	}
	if f.leaf(text, key, path) {
		return
	}
	loose := f.loose
	f.loose = f.loose || f.place.kind == inResource || f.place.kind == inObject
	f.text(text, key, path)
	f.loose = loose
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
