package charts

import (
	"encoding/json"
	"strings"
)

// addSchema learns the properties of a chart's values.schema.json. A schema
// that does not parse teaches nothing; Helm refuses it when it renders.
func addSchema(node *keyNode, text []byte) {
	if len(text) == 0 {
		return
	}
	var root map[string]any
	if json.Unmarshal(text, &root) != nil {
		return
	}
	s := schemaReader{root: root, seen: map[schemaVisit]bool{}}
	s.properties(node, root, true)
}

type schemaReader struct {
	root  map[string]any
	seen  map[schemaVisit]bool
	depth int // schemas may contain themselves
}

type schemaVisit struct {
	ref  string
	node *keyNode
}

// read learns one schema (JSON Schema, sections 10.2 and 10.3.2 of the 2020-12
// core). Only what is said counts: without additionalProperties the listed
// properties are the known ones, although the schema would let others pass.
func (s *schemaReader) read(node *keyNode, schema any) {
	const deepest = 30
	if s.depth >= deepest {
		node.open = true
		return
	}
	s.depth++
	defer func() { s.depth-- }()
	switch schema := schema.(type) {
	case bool:
		node.open = node.open || schema
	case map[string]any:
		s.properties(node, schema, false)
	}
}

func (s *schemaReader) properties(node *keyNode, schema map[string]any, top bool) {
	if ref, ok := schema["$ref"].(string); ok {
		s.follow(node, ref)
	}
	properties, listed := schema["properties"].(map[string]any)
	for key, sub := range properties {
		s.read(node.child(key), sub)
	}
	// At the top, where templates read keys by name, schemas that allow more
	// are made by generators and say nothing about use.
	if !top && allowsMore(schema) {
		node.open = true
	}
	combined := s.combined(node, schema)
	if !top && !listed && !combined && mayBeObject(schema) && schema["additionalProperties"] == nil {
		node.open = true // an object of which nothing is said
	}
}

func allowsMore(schema map[string]any) bool {
	if patterns, ok := schema["patternProperties"].(map[string]any); ok && len(patterns) > 0 {
		return true
	}
	switch more := schema["additionalProperties"].(type) {
	case bool:
		return more
	case map[string]any:
		return true
	}
	return false
}

// combined reads the schemas that apply at the same place.
func (s *schemaReader) combined(node *keyNode, schema map[string]any) bool {
	found := schema["$ref"] != nil
	for _, word := range []string{"allOf", "anyOf", "oneOf"} {
		list, _ := schema[word].([]any)
		for _, sub := range list {
			s.read(node, sub)
			found = true
		}
	}
	for _, word := range []string{"if", "then", "else"} {
		if sub, ok := schema[word].(map[string]any); ok {
			s.read(node, sub)
			found = true
		}
	}
	return found
}

// follow reads what a reference within the document names; what lies elsewhere
// is not fetched and so allows anything.
func (s *schemaReader) follow(node *keyNode, ref string) {
	visit := schemaVisit{ref: ref, node: node}
	if s.seen[visit] {
		return
	}
	s.seen[visit] = true
	const mostVisits = 20_000
	pointer, local := strings.CutPrefix(ref, "#")
	if !local || len(s.seen) > mostVisits {
		node.open = true
		return
	}
	var at any = s.root
	for part := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if part == "" {
			continue
		}
		part = strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~")
		table, ok := at.(map[string]any)
		if !ok {
			node.open = true
			return
		}
		at = table[part]
	}
	if at == nil {
		node.open = true
		return
	}
	s.read(node, at)
}

func mayBeObject(schema map[string]any) bool {
	for _, word := range []string{"enum", "const"} {
		if schema[word] != nil {
			return false
		}
	}
	switch kind := schema["type"].(type) {
	case nil:
		return true
	case string:
		return kind == "object"
	case []any:
		for _, k := range kind {
			if k == "object" {
				return true
			}
		}
	}
	return false
}
