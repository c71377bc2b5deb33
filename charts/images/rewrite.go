package images

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"waybill/internal/ref"
)

// A Rewriter puts other references in the place of those that manifests name:
// the image of a container, and anywhere else a whole text that is a reference
// and the value of --flag=reference. Where a text holds YAML or JSON, as that of
// a ConfigMap does, the whole texts in it count; in a command for a shell, the
// values of flags. Never another part of a longer text, and never a text just
// because of its key.
type Rewriter struct {
	// Locate gives the reference to use in place of a normalised one.
	Locate func(normalized string) (reference string, ok bool)
	// PullSecret is the name of a Secret that pods pull with: it is added to
	// pods' specs and to ServiceAccounts. Empty: none is.
	PullSecret string

	Changes []Change
	Unknown []Use // images of containers that Locate does not know
	Stuck   []Use // known images in parts that have no place for a digest
	Left    []Use // known images that are named inside of longer texts, which stay
	Similar []Use // texts elsewhere that read as references and that Locate does not know

	// Namespaces are those of objects with pods, as they are written, "" for
	// the Helm release's own.
	Namespaces []string

	place     place
	namespace string // of the object at hand
	nesting   int    // of maps and lists
	secret    bool   // the object at hand is a Secret: its texts are told to nobody
}

// A Change is one reference that was put in the place of another, or, without
// From, the pull secret that was added.
type Change struct {
	Object, Template, Path string
	From, To               string // the whole texts
}

// separator is the line between the documents of a manifest.
var separator = regexp.MustCompile(`(?m)^---(?:[ \t].*)?\r?\n?`)

// Rewrite rewrites a manifest of any number of documents that came from a
// template. Documents in which nothing changes keep every byte; of the others
// comments, order and the spelling of all other values stay. The error is of
// YAML that does not parse.
func (r *Rewriter) Rewrite(template, manifest string) (string, error) {
	var out strings.Builder
	end := 0
	for _, at := range append(separator.FindAllStringIndex(manifest, -1), []int{len(manifest), len(manifest)}) {
		document, err := r.document(template, manifest[end:at[0]])
		if err != nil {
			return "", err
		}
		out.WriteString(document)
		out.WriteString(manifest[at[0]:at[1]])
		end = at[1]
	}
	return out.String(), nil
}

func (r *Rewriter) document(template, text string) (string, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		return "", fmt.Errorf("reading a document of %s: %w", template, err)
	}
	if len(doc.Content) == 0 {
		return text, nil
	}
	before := len(r.Changes)
	r.object(template, doc.Content[0])
	if len(r.Changes) == before {
		return text, nil
	}
	var out strings.Builder
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(&doc); err != nil {
		return "", fmt.Errorf("writing a document of %s: %w", template, err)
	}
	return out.String(), encoder.Close()
}

// object rewrites one object, or each item of a list of objects.
func (r *Rewriter) object(template string, node *yaml.Node) {
	kind, apiVersion := scalar(child(node, "kind")), scalar(child(node, "apiVersion"))
	if items := child(node, "items"); strings.HasSuffix(kind, "List") && items != nil && items.Kind == yaml.SequenceNode {
		for _, item := range items.Content {
			r.object(template, item)
		}
		return
	}
	name := scalar(child(child(node, "metadata"), "name"))
	r.place = place{object: kind + "/" + name, template: template, kind: inObject}
	r.namespace = scalar(child(child(node, "metadata"), "namespace"))
	r.secret = kind == "Secret" && apiVersion == "v1"
	switch {
	case kind == "ServiceAccount" && apiVersion == "v1" && r.PullSecret != "":
		r.attach(node, "")
	case kind == "CustomResourceDefinition":
		r.place.kind = inSchema
	case (kind == "ConfigMap" || kind == "Secret") && apiVersion == "v1":
		r.place.kind = inConfig
		if r.secret {
			r.encoded(child(node, "data"))
		}
	case isCustom(apiVersion):
		r.place.kind = inResource
		r.tabled(node, apiVersion, kind)
	}
	r.walk(node, "", "")
	r.leftIn(node, Object{APIVersion: apiVersion, Kind: kind, Name: name, Template: template})
}

func (r *Rewriter) walk(node *yaml.Node, key, path string) {
	if r.nesting == maxNesting {
		return
	}
	r.nesting++
	defer func() { r.nesting-- }()
	switch node.Kind {
	case yaml.MappingNode:
		r.mapping(node, key, path)
	case yaml.SequenceNode:
		r.sequence(node, key, path)
	case yaml.ScalarNode:
		r.text(node, key, path)
	}
}

func (r *Rewriter) sequence(node *yaml.Node, key, path string) {
	if r.place.kind != inObject && slices.ContainsFunc(node.Content, func(item *yaml.Node) bool { return strings.HasPrefix(scalar(item), "-") }) {
		r.arguments(node, path)
		return
	}
	for i, item := range node.Content {
		r.walk(item, key, itemPath(path, item, i))
	}
}

func (r *Rewriter) mapping(node *yaml.Node, key, path string) {
	done, pod := r.parts(node, key, path), false
	for i := 0; i+1 < len(node.Content); i += 2 {
		name, value := node.Content[i].Value, node.Content[i+1]
		here := join(path, name)
		switch {
		case done[name]:
		case containerLists[name] && isContainerList(value):
			for i, item := range value.Content {
				r.container(item, itemPath(here, item, i))
			}
			if name == "containers" {
				pod = true
			}
		case name == "volumes" && value.Kind == yaml.SequenceNode:
			r.volumes(value, here)
		case r.place.kind != inSchema && givenName(node, name, value) != "":
			r.walk(value, givenName(node, name, value), here)
		case name == "default" && r.place.kind == inSchema:
			r.walk(value, lastProperty(path), here)
		default:
			r.walk(value, name, here)
		}
	}
	if pod {
		r.attachToPod(node, path)
	}
}

func (r *Rewriter) container(node *yaml.Node, path string) {
	if image := child(node, "image"); image != nil {
		r.image(image, path+".image")
	}
	before := r.place.kind
	r.place.kind = inPod
	for i := 0; i+1 < len(node.Content); i += 2 {
		name, value := node.Content[i].Value, node.Content[i+1]
		switch name {
		case "image":
		case "command", "args":
			r.arguments(value, join(path, name))
		case "env":
			r.environment(value, join(path, name))
		default:
			r.walk(value, name, join(path, name))
		}
	}
	r.place.kind = before
}

// image rewrites what a node pulls: it must be known.
func (r *Rewriter) image(node *yaml.Node, path string) {
	written := strings.TrimSpace(node.Value)
	if written == injected {
		return
	}
	normalized, err := ref.Normalize(written)
	if err != nil {
		normalized = written
	}
	if to, ok := r.Locate(normalized); ok {
		r.change(node, to, path)
		return
	}
	r.Unknown = append(r.Unknown, r.use(written, normalized, Certain, path))
}

func (r *Rewriter) volumes(node *yaml.Node, path string) {
	for i, item := range node.Content {
		here := itemPath(path, item, i)
		if reference := child(child(item, "image"), "reference"); reference != nil {
			r.image(reference, here+".image.reference")
			continue
		}
		r.walk(item, "volumes", here)
	}
}

func (r *Rewriter) arguments(node *yaml.Node, path string) {
	if node.Kind != yaml.SequenceNode {
		return
	}
	flag := ""
	for i, item := range node.Content {
		here := fmt.Sprintf("%s[%d]", path, i)
		name, value, assigned := strings.Cut(item.Value, "=")
		if assigned && !strings.ContainsAny(name, " \t\n") {
			to, ok := r.locate(value, name, here)
			if !ok {
				to, ok = r.several(value, name, here)
			}
			if ok {
				r.change(item, name+"="+to, here)
				flag = ""
				continue
			}
		}
		if r.text(item, flag, here); item.Kind == yaml.ScalarNode && strings.ContainsAny(item.Value, " \t\n") {
			item.Value = r.shellFlags(item.Value, here)
		}
		flag = ""
		if strings.HasPrefix(item.Value, "-") && !assigned {
			flag = item.Value
		}
	}
}

func (r *Rewriter) environment(node *yaml.Node, path string) {
	if node.Kind != yaml.SequenceNode {
		return
	}
	done := r.environmentParts(node, path)
	for i, item := range node.Content {
		name := scalar(child(item, "name"))
		if value := child(item, "value"); value != nil && !done[name] {
			r.text(value, name, itemPath(path, item, i)+".value")
		}
	}
}

func (r *Rewriter) change(node *yaml.Node, to, path string) {
	if node.Value == to {
		return
	}
	r.note(path, node.Value, to)
	if node.Value = to; node.Tag == "!!null" {
		node.Tag = "!!str"
	}
}

func (r *Rewriter) note(path, from, to string) {
	if r.secret {
		from, to = hiddenText, hiddenText
	}
	r.Changes = append(r.Changes, Change{Object: r.place.object, Template: r.place.template, Path: path, From: from, To: to})
}

// hiddenText stands for texts of Secrets.
const hiddenText = "(secret)"

func (r *Rewriter) use(written, normalized string, sure Confidence, path string) Use {
	if r.secret {
		written, normalized = hiddenText, hiddenText
	}
	return Use{Reference: written, Normalized: normalized, Confidence: sure, Object: r.place.object, Path: path, Template: r.place.template}
}
