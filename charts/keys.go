package charts

import (
	"fmt"
	"slices"
	"strings"

	"waybill/internal/near"
)

// An UnknownKey is a key of somebody's values that the chart does nothing
// with: most often a key spelt wrongly.
type UnknownKey struct {
	Layer   string // where it was set
	Path    string // "image.repostory"
	Nearest string // the path that was probably meant, may be empty
}

func (k UnknownKey) String() string {
	text := fmt.Sprintf("%s: unknown key %q", k.Layer, k.Path)
	if k.Nearest != "" {
		text += fmt.Sprintf(", did you mean %q?", k.Nearest)
	}
	return text
}

// CheckKeys looks for keys the chart does not know, layer by layer and sorted
// within each. A chart knows what its values.schema.json describes, what its
// values.yaml sets or shows in a comment, and what its templates read, for
// itself and for its subcharts. Where a chart takes maps whole (an empty map
// or null as the default, toYaml, range, additionalProperties) any key goes.
// In doubt a key is known: the check is for typing errors, not a schema.
//
// The error is a [*LayerError] or an [*InvalidError].
func (c *Chart) CheckKeys(layers ...Layer) ([]UnknownKey, error) {
	known, err := c.known()
	if err != nil {
		return nil, err
	}
	var unknown []UnknownKey
	for _, layer := range layers {
		values, err := Merge(layer)
		if err != nil {
			return nil, err
		}
		check := keyCheck{layer: layer.Name, root: known}
		check.values(values, known, nil, nil)
		unknown = append(unknown, check.found...)
	}
	return unknown, nil
}

type keyCheck struct {
	layer string
	root  *keyNode
	found []UnknownKey
}

// values compares one map with what is known at its place. Documented are the
// names the charts on the way here mention in comments.
func (k *keyCheck) values(values map[string]any, known *keyNode, path []string, documented []map[string]bool) {
	if known.documented != nil {
		documented = append(documented[:len(documented):len(documented)], known.documented)
	}
	if known.open {
		return
	}
	for _, key := range sortedKeys(values) {
		here := slices.Concat(path, []string{key})
		child, ok := known.children[key]
		if !ok {
			if !mentioned(key, documented) {
				k.found = append(k.found, UnknownKey{Layer: k.layer, Path: strings.Join(here, "."), Nearest: k.nearest(key, known, path)})
			}
			continue
		}
		// A key with nothing known below it takes what it is given.
		if below, ok := values[key].(map[string]any); ok && len(child.children) > 0 {
			k.values(below, child, here, documented)
		}
	}
}

func mentioned(key string, documented []map[string]bool) bool {
	for _, names := range documented {
		if names[key] {
			return true
		}
	}
	return false
}

// nearest is the sibling spelt most like the key, else the place where the
// very key is known.
func (k *keyCheck) nearest(key string, known *keyNode, path []string) string {
	siblings := sortedKeys(known.children)
	word := exchanged(key, siblings)
	if word == "" {
		word = near.Word(key, siblings)
	}
	if word != "" {
		return strings.Join(append(path[:len(path):len(path)], word), ".")
	}
	return strings.Join(k.root.find(key), ".")
}

// exchanged finds the word from which key differs by two neighbouring letters
// that changed places, the most common slip, which spelling distance counts as
// two.
func exchanged(key string, known []string) string {
	for i := range len(key) - 1 {
		word := key[:i] + key[i+1:i+2] + key[i:i+1] + key[i+2:]
		if _, ok := slices.BinarySearch(known, word); ok && word != key {
			return word
		}
	}
	return ""
}

// A keyNode is one place in a chart's values and what is known about it.
type keyNode struct {
	open       bool                // any key may stand here
	chartRoot  bool                // here begin the values of a chart
	children   map[string]*keyNode // known keys
	documented map[string]bool     // at a chart's root: names in the comments of its values.yaml
}

// child is the node below, which is known from now on.
func (n *keyNode) child(key string) *keyNode {
	if n.children == nil {
		n.children = map[string]*keyNode{}
	}
	c, ok := n.children[key]
	if !ok {
		c = &keyNode{}
		n.children[key] = c
	}
	return c
}

func (n *keyNode) at(path ...string) *keyNode {
	for _, key := range path {
		n = n.child(key)
	}
	return n
}

// find is the path of a key of this name, the shortest, the first of several.
func (n *keyNode) find(key string) []string {
	type step struct {
		node *keyNode
		path []string
	}
	const deepest = 6
	for queue := []step{{node: n}}; len(queue) > 0; queue = queue[1:] {
		p := queue[0]
		if len(p.path) > deepest {
			return nil
		}
		if _, ok := p.node.children[key]; ok {
			return append(p.path, key)
		}
		for _, name := range sortedKeys(p.node.children) {
			path := slices.Concat(p.path, []string{name})
			queue = append(queue, step{node: p.node.children[name], path: path})
		}
	}
	return nil
}
