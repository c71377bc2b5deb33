package charts

import (
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// A LargeNumber is a number that may not come out of templates as it went in.
type LargeNumber struct {
	Path  string
	Value string
	// Lost is whether digits are lost in any case: it fits into no 64-bit
	// integer. Otherwise it is an integer above 2^53, which prints well, but
	// loses digits in template functions that calculate or pass through JSON.
	Lost bool
}

func (n LargeNumber) String() string {
	if n.Lost {
		return fmt.Sprintf("%s: %s has more digits than a 64-bit integer holds and is changed; put it in quotes", n.Path, n.Value)
	}
	return fmt.Sprintf("%s: %s is above 2^53; templates that calculate with it or make JSON of it change its last digits; put it in quotes where the chart takes text", n.Path, n.Value)
}

// LargeNumbers lists the numbers of values that may lose digits, sorted by
// path. Numbers are [json.Number] or int64, as [Merge] leaves them.
func LargeNumbers(values map[string]any) []LargeNumber {
	var found []LargeNumber
	var walk func(v any, path string)
	walk = func(v any, path string) {
		switch v := v.(type) {
		case map[string]any:
			for _, key := range sortedKeys(v) {
				below := strings.ReplaceAll(key, ".", `\.`)
				if path != "" {
					below = path + "." + below
				}
				walk(v[key], below)
			}
		case []any:
			for i, item := range v {
				walk(item, fmt.Sprintf("%s[%d]", path, i))
			}
		case json.Number:
			if large, lost := isLarge(v.String()); large {
				found = append(found, LargeNumber{Path: path, Value: v.String(), Lost: lost})
			}
		case int64:
			if large, lost := isLarge(strconv.FormatInt(v, 10)); large {
				found = append(found, LargeNumber{Path: path, Value: strconv.FormatInt(v, 10), Lost: lost})
			}
		}
	}
	walk(values, "")
	return found
}

// isLarge is whether the text is an integer above 2^53, and whether it is too
// large for int64 as well.
func isLarge(text string) (large, lost bool) {
	if len(text) > 400 || strings.Contains(text, ".") { // no exponent of float64 needs more
		return false, false
	}
	f, ok := new(big.Float).SetPrec(2000).SetString(text)
	if !ok || !f.IsInt() {
		return false, false
	}
	i, _ := f.Int(nil)
	if i.CmpAbs(big.NewInt(exactFloat)) <= 0 {
		return false, false
	}
	return true, !i.IsInt64()
}

var (
	leadingZero = regexp.MustCompile(`^[-+]?0[0-9_]+$`)
	exponent    = regexp.MustCompile(`^[-+]?[0-9]+(?:\.[0-9]*)?[eE][-+]?[0-9]+$`)
	digitsOnly  = regexp.MustCompile(`^[-+]?[1-9][0-9]*$`)
)

// CheckNumbers reads the text of a values file for what YAML takes as a number
// of another value than it seems to have, because it is not in quotes: 0123
// (83), 12e3 (12000), integers that lose digits. The findings have line and
// column. Text that is no YAML has none; whoever reads its values says so.
func CheckNumbers(name string, text []byte) (findings []Finding) {
	defer func() {
		if recover() != nil { // of a parser over strange input
			findings = nil
		}
	}()
	file, err := parser.ParseBytes(text, 0)
	if err != nil {
		return nil
	}
	v := &numberVisitor{name: name}
	for _, doc := range file.Docs {
		if doc.Body != nil {
			ast.Walk(v, doc.Body)
		}
	}
	return v.found
}

type numberVisitor struct {
	name  string
	found []Finding
}

func (v *numberVisitor) Visit(n ast.Node) ast.Visitor {
	switch n := n.(type) {
	case *ast.MappingValueNode:
		if n.Value != nil {
			ast.Walk(v, n.Value)
		}
		return nil // keys are text whatever they look like
	case *ast.LiteralNode:
		return nil // a block of text
	case *ast.IntegerNode, *ast.FloatNode, *ast.StringNode:
		v.scalar(n)
	}
	return v
}

func (v *numberVisitor) scalar(n ast.Node) {
	t := n.GetToken()
	if t == nil || t.Type == token.SingleQuoteType || t.Type == token.DoubleQuoteType {
		return
	}
	text := strings.TrimSpace(t.Value)
	var message string
	switch {
	case leadingZero.MatchString(text), exponent.MatchString(text):
		read := readAs(text)
		if read == "" || read == text {
			return
		}
		message = fmt.Sprintf("%s without quotes is the number %s; put it in quotes if it is text", text, read)
	case digitsOnly.MatchString(text):
		large, lost := isLarge(text)
		if !large {
			return
		}
		message = LargeNumber{Path: strings.TrimPrefix(n.GetPath(), "$."), Value: text, Lost: lost}.String()
	default:
		return
	}
	v.found = append(v.found, Finding{
		Severity: Warning, Rule: RuleNumber, File: v.name,
		Line: t.Position.Line, Column: t.Position.Column,
		Path: strings.TrimPrefix(n.GetPath(), "$."), Message: message,
	})
}

// readAs is the number a scalar becomes, or nothing when it stays text.
func readAs(scalar string) string {
	values, err := parseValues([]byte("v: " + scalar))
	if err != nil {
		return ""
	}
	n, _ := values["v"].(json.Number)
	return n.String()
}
