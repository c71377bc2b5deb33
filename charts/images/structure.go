package images

import (
	"errors"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A number is a scalar of YAML that nobody quoted, as it is written.
type number string

// maxNodes bounds what is read of one text.
const maxNodes = 1 << 18

// parsed reads text as the YAML or JSON documents that are a map or a list; nil
// when it is anything else.
func parsed(text string) []any {
	if !strings.ContainsAny(text, ":[{-") {
		return nil
	}
	if strings.HasPrefix(strings.TrimSpace(text), "{") {
		text = strings.ReplaceAll(text, "\t", " ") // JSON may be indented so
	}
	var documents []any
	for decoder := yaml.NewDecoder(strings.NewReader(text)); ; {
		var document yaml.Node
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return documents
		}
		if err != nil {
			return nil
		}
		left := maxNodes
		for _, root := range document.Content {
			if root.Kind == yaml.MappingNode || root.Kind == yaml.SequenceNode {
				documents = append(documents, plain(root, &left))
			}
		}
	}
}

// plain is what a node says, with numbers as they are written. What left does
// not reach is left out: aliases may stand for more than there is memory.
func plain(node *yaml.Node, left *int) any {
	if *left--; *left < 0 {
		return nil
	}
	switch node.Kind {
	case yaml.AliasNode:
		return plain(node.Alias, left)
	case yaml.MappingNode:
		m := map[string]any{}
		for i := 0; i+1 < len(node.Content); i += 2 {
			m[node.Content[i].Value] = plain(node.Content[i+1], left)
		}
		return m
	case yaml.SequenceNode:
		list := []any{}
		for _, item := range node.Content {
			list = append(list, plain(item, left))
		}
		return list
	}
	switch node.ShortTag() {
	case "!!str":
		return node.Value
	case "!!int", "!!float":
		return number(node.Value)
	}
	return nil
}
