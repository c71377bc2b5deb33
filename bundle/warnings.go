package bundle

import (
	"fmt"
	"math/big"
	"regexp"
	"strconv"

	"go.yaml.in/yaml/v3"
	k8syaml "sigs.k8s.io/yaml"
)

var (
	leadingZero = regexp.MustCompile(`^[-+]?0[0-9_]+$`)
	exponent    = regexp.MustCompile(`^[-+]?[0-9]+[eE][-+]?[0-9]+$`)
	wholeNumber = regexp.MustCompile(`^[-+]?[0-9]+$`)
)

// NumberWarnings returns the unquoted numbers of a YAML text (a release, site or
// values file) that often were meant as text, or that lose digits in a template:
// 0123, which Helm reads as 83; 1e10; whole numbers above 2^53. A text that does
// not parse has no warnings; the parse functions say what is wrong with it.
func NumberWarnings(data []byte) []Problem {
	doc, problems := readDocument(data)
	if problems != nil {
		return nil
	}
	var warnings []Problem
	walkScalars(doc.root, nil, func(n *yaml.Node, path []string) {
		if message := numberWarning(n); message != "" {
			warnings = append(warnings, Problem{Line: n.Line, Column: n.Column, Path: pathText(path), Message: message})
		}
	})
	return warnings
}

// walkScalars calls f for every scalar value, anchors where they stand and
// aliases not at all.
func walkScalars(n *yaml.Node, path []string, f func(*yaml.Node, []string)) {
	at := func(step string) []string { return append(path[:len(path):len(path)], step) }
	switch n.Kind {
	case yaml.ScalarNode:
		f(n, path)
	case yaml.SequenceNode:
		for i, entry := range n.Content {
			walkScalars(entry, at(strconv.Itoa(i)), f)
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			text, _ := keyText(n.Content[i])
			walkScalars(n.Content[i+1], at(text), f)
		}
	}
}

func numberWarning(n *yaml.Node) string {
	text := n.Value
	if n.Style != 0 { // quoted, a block, or tagged
		return ""
	}
	if leadingZero.MatchString(text) || exponent.MatchString(text) {
		read, err := k8syaml.YAMLToJSON([]byte(text))
		if err != nil || string(read) == strconv.Quote(text) {
			return ""
		}
		return fmt.Sprintf("%s is read as the number %s, as Helm does: quote it if it is text", text, read)
	}
	if wholeNumber.MatchString(text) {
		number, ok := new(big.Int).SetString(text, 10)
		if ok && !number.IsInt64() {
			return fmt.Sprintf("%s has more digits than a 64-bit integer holds and loses some, as in Helm: quote it if it is text", text)
		}
		if limit := new(big.Int).Lsh(big.NewInt(1), 53); ok && number.CmpAbs(limit) > 0 {
			return fmt.Sprintf("%s is above 2^53: a template that calculates with it loses digits; quote it if it is text", text)
		}
	}
	return ""
}
