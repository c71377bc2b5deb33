package charts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A manifestDocument is the text of one YAML or JSON document, as it stands in
// its file.
type manifestDocument struct {
	text []byte
	line int // where it begins
}

// splitManifests cuts a file into its documents, without changing any.
func splitManifests(name string, data []byte) ([]manifestDocument, error) {
	data = bytes.TrimPrefix(data, utf8BOM)
	if text := bytes.TrimSpace(data); len(text) > 0 && text[0] == '{' {
		if documents, err := splitJSON(data); err == nil {
			return documents, nil
		}
	}
	if at := bytes.IndexByte(data, 0); at >= 0 {
		return nil, &ManifestError{File: name, Line: 1 + bytes.Count(data[:at], []byte("\n")), Reason: "is no text"}
	}
	return splitYAML(data), nil
}

// splitJSON cuts JSON objects that follow each other.
func splitJSON(data []byte) ([]manifestDocument, error) {
	var documents []manifestDocument
	dec := json.NewDecoder(bytes.NewReader(data))
	for {
		before := dec.InputOffset()
		var text json.RawMessage
		err := dec.Decode(&text)
		if errors.Is(err, io.EOF) {
			return documents, nil
		}
		if err != nil {
			return nil, err
		}
		begin := before + int64(len(data[before:])-len(bytes.TrimLeft(data[before:], " \t\r\n")))
		documents = append(documents, manifestDocument{text, 1 + bytes.Count(data[:begin], []byte("\n"))})
	}
}

// splitYAML cuts at the lines that begin or end a document
// (https://yaml.org/spec/1.2.2/#91-documents). No content can stand there.
func splitYAML(data []byte) []manifestDocument {
	var documents []manifestDocument
	begin, line := 0, 1
	at, number := 0, 1
	end := func(next, nextLine int) {
		documents = append(documents, manifestDocument{data[begin:at], line})
		begin, line = next, nextLine
	}
	for text := range bytes.Lines(data) {
		switch marker := documentMarker(text); {
		case marker == "---" && len(bytes.TrimSpace(text)) > len(marker):
			end(at+len(marker), number) // what stands behind it belongs to the document
		case marker != "":
			end(at+len(text), number+1)
		}
		at, number = at+len(text), number+1
	}
	end(at, number)
	return documents
}

// documentMarker is --- or ... when the line is one.
func documentMarker(line []byte) string {
	for _, marker := range []string{"---", "..."} {
		rest, ok := bytes.CutPrefix(line, []byte(marker))
		if ok && (len(rest) == 0 || bytes.IndexByte([]byte(" \t\r\n"), rest[0]) >= 0) {
			return marker
		}
	}
	return ""
}

// A manifestObject is what packing needs to know of an object.
type manifestObject struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	Metadata   struct {
		Name         string `yaml:"name"`
		GenerateName string `yaml:"generateName"`
		Namespace    string `yaml:"namespace"`
	} `yaml:"metadata"`
	Items []yaml.Node `yaml:"items"`
	line  int
}

// key tells objects apart, in words.
func (o *manifestObject) key() string {
	group, _, _ := strings.Cut(o.APIVersion, "/")
	text := o.Kind
	if group != o.APIVersion {
		text += "." + group
	}
	if o.Metadata.Namespace != "" {
		return text + " " + o.Metadata.Namespace + "/" + o.Metadata.Name
	}
	return text + " " + o.Metadata.Name
}

// isDefinition is whether the object brings a kind.
func (o *manifestObject) isDefinition() bool {
	return o.Kind == "CustomResourceDefinition" && strings.HasPrefix(o.APIVersion, "apiextensions.k8s.io/")
}

// object reads the document, nil when nothing is in it.
func (d manifestDocument) object(file string) (*manifestObject, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(d.text, &root); err != nil {
		return nil, d.yamlError(file, err)
	}
	if root.Kind == 0 || len(root.Content) == 0 || root.Content[0].Tag == "!!null" {
		return nil, nil
	}
	top := root.Content[0]
	object := &manifestObject{line: d.line + top.Line - 1}
	if top.Kind != yaml.MappingNode {
		return nil, &ManifestError{File: file, Line: object.line, Reason: "is no object: " + nodeWords(top)}
	}
	if key := oddKey(top); key != nil {
		return nil, &ManifestError{File: file, Line: d.line + key.Line - 1, Reason: "a key is a list or a map; text for a template ({{ }}) means nothing here"}
	}
	var all map[string]any
	if err := top.Decode(&all); err != nil { // finds keys that are there twice
		return nil, d.yamlError(file, err)
	}
	if err := top.Decode(object); err != nil {
		return nil, d.yamlError(file, err)
	}
	if reason := object.wrong(); reason != "" {
		return nil, &ManifestError{File: file, Line: object.line, Reason: reason}
	}
	return object, nil
}

// wrong says why an object cannot be packed, or nothing.
func (o *manifestObject) wrong() string {
	switch {
	case o.Kind == "":
		return "the object has no kind"
	case o.APIVersion == "":
		return fmt.Sprintf("the %s has no apiVersion", o.Kind)
	case strings.HasSuffix(o.Kind, "List") && o.Items != nil:
		return fmt.Sprintf("a %s holds several objects; write each as a document of its own", o.Kind)
	case o.Metadata.Name == "" && o.Metadata.GenerateName != "":
		return fmt.Sprintf("the %s has generateName; it needs a name to be found again", o.Kind)
	case o.Metadata.Name == "":
		return fmt.Sprintf("the %s has no metadata.name", o.Kind)
	}
	return ""
}

// oddKey is the first key that is no text, as {{ }} makes them.
func oddKey(node *yaml.Node) *yaml.Node {
	for i, child := range node.Content {
		isKey := node.Kind == yaml.MappingNode && i%2 == 0
		if isKey && (child.Kind == yaml.MappingNode || child.Kind == yaml.SequenceNode) {
			return child
		}
		if odd := oddKey(child); odd != nil {
			return odd
		}
	}
	return nil
}

// nodeWords says what a document is that is no mapping.
func nodeWords(node *yaml.Node) string {
	switch node.Kind {
	case yaml.SequenceNode:
		return "it is a list"
	case yaml.AliasNode:
		return "it is an alias"
	}
	text := node.Value
	const most = 30
	if len(text) > most {
		text = text[:most] + "…"
	}
	return fmt.Sprintf("it is the text %q", text)
}

// yamlError says at which line of the file what is wrong.
func (d manifestDocument) yamlError(file string, err error) error {
	text := err.Error()
	var mistyped *yaml.TypeError
	if errors.As(err, &mistyped) && len(mistyped.Errors) > 0 {
		text = mistyped.Errors[0]
	}
	e := &ManifestError{File: file, Line: d.line, Reason: strings.TrimPrefix(text, "yaml: "), Err: err}
	at := yamlLine.FindStringSubmatch(text)
	if at == nil {
		return e
	}
	e.Line, e.Reason = d.fileLine(at[1]), strings.TrimPrefix(text, at[0])
	e.Reason = otherLine.ReplaceAllStringFunc(e.Reason, func(words string) string {
		return fmt.Sprintf("at line %d", d.fileLine(words[len("at line "):]))
	})
	return e
}

// fileLine is a line of the document, counted in its file.
func (d manifestDocument) fileLine(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return d.line
	}
	return d.line + n - 1
}

// otherLine is a second line that the parser names.
var otherLine = regexp.MustCompile(`at line \d+`)

// yamlLine is where the parser says it saw a fault.
var yamlLine = regexp.MustCompile(`^(?:yaml: )?line (\d+): `)
