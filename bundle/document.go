package bundle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	goccy "github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/parser"
	"go.yaml.in/yaml/v3"
	k8syaml "sigs.k8s.io/yaml"
)

// Bounds on a document. They are far above what people write and far below
// what would hurt: a lock of 1,000 images is about 1 MiB.
const (
	maxDocumentBytes = 4 << 20
	maxExpandedBytes = 16 << 20 // after every alias is replaced by what it stands for
	maxProblems      = 100      // reported of one document
	maxNesting       = 500      // lists and mappings in each other
	maxPlacedNesting = 200      // of a text that goccy's parser is asked about; it takes memory with the square
)

// A document is a YAML text read twice: by sigs.k8s.io/yaml for its content,
// since that is what Helm reads (YAML 1.1), and as a tree of nodes for the
// places of keys and values. Both scanners descend from libyaml and agree on
// the structure.
type document struct {
	file  string // the name it was read by
	root  *yaml.Node
	value any // as JSON: map[string]any, []any, string, bool, json.Number, nil
	json  []byte
}

// readDocument reads one YAML document. Problems found before the schema is
// asked: size, encoding, syntax, several documents, duplicate keys, keys that
// are no text, aliases that expand too far.
func readDocument(data []byte) (*document, []Problem) {
	if len(data) > maxDocumentBytes {
		return nil, []Problem{{Message: fmt.Sprintf("is %d bytes long, more than %d", len(data), maxDocumentBytes)}}
	}
	if !utf8.Valid(data) {
		return nil, []Problem{{Message: "is not UTF-8 text"}}
	}
	root, problems := readNodes(data)
	if problems != nil {
		return nil, problems
	}
	if p := checkExpansion(root); p != nil {
		return nil, []Problem{*p}
	}
	if problems = checkKeys(root); len(problems) > 0 {
		return nil, problems[:min(len(problems), maxProblems)]
	}
	doc := &document{root: root}
	var err error
	if doc.json, err = k8syaml.YAMLToJSON(data); err != nil {
		return nil, []Problem{{Message: strings.TrimPrefix(err.Error(), "yaml: ")}}
	}
	if err := decodeJSON(doc.json, &doc.value); err != nil {
		return nil, []Problem{{Message: err.Error()}}
	}
	return doc, nil
}

// decodeJSON decodes with numbers kept as text.
func decodeJSON(data []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	return dec.Decode(into)
}

func readNodes(data []byte) (*yaml.Node, []Problem) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var first, second yaml.Node
	switch err := dec.Decode(&first); {
	case errors.Is(err, io.EOF):
		return emptyNode(), nil
	case err != nil:
		return nil, []Problem{syntaxProblem(data, err)}
	}
	switch err := dec.Decode(&second); {
	case errors.Is(err, io.EOF):
		return first.Content[0], nil
	case err != nil:
		return nil, []Problem{syntaxProblem(data, err)}
	}
	return nil, []Problem{{Line: second.Line, Column: second.Column, Message: "holds several documents; one file holds one"}}
}

// emptyNode stands for a text without any YAML in it: it is read as null.
func emptyNode() *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Line: 1, Column: 1}
}

// syntaxProblem reports a text that is no YAML. The error of the scanner has no
// place as data, so goccy's parser is asked for one, unless the text is nested
// so deep that this parser would take all memory.
func syntaxProblem(data []byte, err error) Problem {
	var goccyErr error
	if nesting(data) <= maxPlacedNesting {
		_, goccyErr = parser.ParseBytes(data, 0)
	}
	var syntax *goccy.SyntaxError
	if errors.As(goccyErr, &syntax) && syntax.Token != nil && syntax.Token.Position != nil {
		pos := syntax.Token.Position
		return Problem{Line: pos.Line, Column: pos.Column, Message: "not YAML: " + syntax.Message}
	}
	return Problem{Message: "not YAML: " + strings.TrimPrefix(err.Error(), "yaml: ")}
}

// nesting guesses, from above, how deep lists and mappings stand in each other:
// brackets that are open, and the longest run of "- " and "? " in a line.
func nesting(data []byte) int {
	deepest, open := 0, 0
	for line := range bytes.Lines(data) {
		deepest = max(deepest, bytes.Count(line, []byte("- "))+bytes.Count(line, []byte("? ")))
		for _, c := range line {
			switch c {
			case '[', '{':
				open++
				deepest = max(deepest, open)
			case ']', '}':
				open = max(open-1, 0)
			}
		}
	}
	return deepest
}

// checkExpansion bounds the size and the nesting of the document with all
// aliases replaced, and refuses an anchor that contains itself.
func checkExpansion(root *yaml.Node) *Problem {
	x := expansion{anchored: map[*yaml.Node]extent{}}
	if all := x.measure(root); x.problem == nil && all.size > maxExpandedBytes {
		x.problem = &Problem{Message: "its aliases expand to more than is allowed"}
	} else if x.problem == nil && all.depth > maxNesting {
		x.problem = &Problem{Message: fmt.Sprintf("is nested deeper than %d levels", maxNesting)}
	}
	return x.problem
}

// An expansion measures what a document becomes with its aliases replaced.
type expansion struct {
	anchored map[*yaml.Node]extent // size -1 while it is being measured
	problem  *Problem
}

// An extent is how large and how deep a node is with its aliases replaced.
type extent struct {
	size  int64
	depth int
}

func (x *expansion) measure(n *yaml.Node) extent {
	if n.Kind == yaml.AliasNode {
		found, seen := x.anchored[n.Alias]
		if seen && found.size < 0 && x.problem == nil {
			x.problem = &Problem{Line: n.Line, Column: n.Column, Message: fmt.Sprintf("anchor %q contains itself", n.Value)}
		}
		return extent{max(found.size, 0), found.depth}
	}
	if n.Anchor != "" {
		x.anchored[n] = extent{size: -1}
	}
	all := extent{size: int64(len(n.Value)) + 16}
	for _, child := range n.Content {
		below := x.measure(child)
		all.size = min(all.size+below.size, maxExpandedBytes+1)
		all.depth = max(all.depth, below.depth+1)
	}
	if n.Anchor != "" {
		x.anchored[n] = all
	}
	return all
}

// checkKeys finds duplicate keys and keys that are no text, everywhere.
func checkKeys(n *yaml.Node) []Problem {
	var problems []Problem
	if n.Kind == yaml.MappingNode {
		seen := map[string]*yaml.Node{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			if isMerge(key) {
				continue
			}
			text, ok := keyText(key)
			switch first := seen[text]; {
			case !ok:
				problems = append(problems, problemAt(key, "a key must be text"))
			case first != nil:
				problems = append(problems, problemAt(key, fmt.Sprintf("key %q is there twice, first on line %d", text, first.Line)))
			default:
				seen[text] = key
			}
		}
	}
	for _, child := range n.Content {
		problems = append(problems, checkKeys(child)...)
	}
	return problems
}

func problemAt(n *yaml.Node, message string) Problem {
	return Problem{Line: n.Line, Column: n.Column, Message: message}
}

func isMerge(key *yaml.Node) bool { return key.ShortTag() == "!!merge" }

// keyText returns a key as the content has it: an unquoted yes is the key
// "true", 0x10 the key "16".
func keyText(key *yaml.Node) (string, bool) {
	for key.Kind == yaml.AliasNode {
		key = key.Alias
	}
	if key.Kind != yaml.ScalarNode {
		return "", false
	}
	if key.Style != 0 || plainText(key.Value) {
		return key.Value, true
	}
	var m map[string]any
	if err := k8syaml.Unmarshal([]byte("{? "+key.Value+" : 0}"), &m); err != nil || len(m) != 1 {
		return key.Value, key.ShortTag() != "!!null"
	}
	for text := range m {
		return text, true
	}
	return "", false
}

// plainText reports whether an unquoted scalar is certainly text: no number,
// and no word that YAML 1.1 reads as a boolean or as null.
func plainText(s string) bool {
	if s == "" || !(s[0] >= 'a' && s[0] <= 'z' || s[0] >= 'A' && s[0] <= 'Z') {
		return false
	}
	switch strings.ToLower(s) {
	case "y", "n", "yes", "no", "on", "off", "true", "false", "null":
		return false
	}
	return true
}

// find returns the key and the value at a path of keys and list positions. The
// key is nil for the root and for entries of a list. What is not there is
// answered with the nearest thing above it.
func (d *document) find(path []string) (key, value *yaml.Node) {
	value = d.root
	for _, step := range path {
		value = target(value)
		nextKey, next := child(value, step)
		if next == nil {
			return key, value
		}
		key, value = nextKey, next
	}
	return key, value
}

func target(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

func child(n *yaml.Node, step string) (key, value *yaml.Node) {
	switch n.Kind {
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(n.Content) {
			return nil, n.Content[i]
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if text, _ := keyText(n.Content[i]); text == step && !isMerge(n.Content[i]) {
				return n.Content[i], n.Content[i+1]
			}
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			if isMerge(n.Content[i]) {
				if key, value := mergedChild(n.Content[i+1], step); value != nil {
					return key, value
				}
			}
		}
	}
	return nil, nil
}

// mergedChild looks for a key in what << names: a mapping or a list of them.
func mergedChild(n *yaml.Node, step string) (key, value *yaml.Node) {
	n = target(n)
	if n.Kind != yaml.SequenceNode {
		return child(n, step)
	}
	for _, source := range n.Content {
		if key, value := child(target(source), step); value != nil {
			return key, value
		}
	}
	return nil, nil
}

// problem places a message at a path: at its key when there is one.
func (d *document) problem(path []string, message string) Problem {
	p := Problem{Path: pathText(path), Message: message}
	if d == nil {
		return p
	}
	key, value := d.find(path)
	if key == nil {
		key = value
	}
	p.Line, p.Column = key.Line, key.Column
	return p
}

// pathText writes a path as people do: components[2].chart.version.
func pathText(path []string) string {
	var b strings.Builder
	for _, step := range path {
		switch {
		case step != "" && strings.Trim(step, "0123456789") == "":
			b.WriteString("[" + step + "]")
		case b.Len() > 0:
			b.WriteString("." + step)
		default:
			b.WriteString(step)
		}
	}
	return b.String()
}
