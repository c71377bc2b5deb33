package images

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// child is the value of a key of a mapping, nil when there is none.
func child(node *yaml.Node, key string) *yaml.Node {
	if node == nil || node.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == key {
			return node.Content[i+1]
		}
	}
	return nil
}

func scalar(node *yaml.Node) string {
	if node == nil || node.Kind != yaml.ScalarNode {
		return ""
	}
	return node.Value
}

func itemPath(path string, item *yaml.Node, i int) string {
	if name := scalar(child(item, "name")); name != "" {
		return fmt.Sprintf("%s[%s]", path, name)
	}
	return fmt.Sprintf("%s[%d]", path, i)
}

// isContainerList is [isContainers] of nodes.
func isContainerList(node *yaml.Node) bool {
	if node.Kind != yaml.SequenceNode || len(node.Content) == 0 {
		return false
	}
	for _, item := range node.Content {
		if name := child(item, "name"); name == nil || name.Kind != yaml.ScalarNode {
			return false
		}
	}
	return true
}

// givenName is the name of the variable or parameter whose value or default
// stands under key, empty for none.
func givenName(node *yaml.Node, key string, value *yaml.Node) string {
	if key != "value" && key != "default" || value.Kind != yaml.ScalarNode {
		return ""
	}
	if name := scalar(child(node, "name")); name != "" {
		return name
	}
	return scalar(child(node, "key"))
}
