package bundle

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	compiler "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"go.yaml.in/yaml/v3"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"waybill/internal/near"
)

// parse reads a document of one kind into a value whose type the kind's schema
// was made from.
func parse(schemaKind, name string, data []byte, into any) (*document, error) {
	doc, problems := readDocument(data)
	if problems == nil {
		var err error
		if problems, err = doc.validate(schemaKind); err != nil {
			return nil, err
		}
	}
	if len(problems) == 0 {
		if err := decodeJSON(doc.json, into); err != nil {
			problems = []Problem{{Message: err.Error()}}
		}
	}
	if len(problems) > 0 {
		return nil, &FileError{File: name, Problems: problems}
	}
	doc.file = name
	return doc, nil
}

// validate holds the document against the schema of a kind.
func (d *document) validate(schemaKind string) ([]Problem, error) {
	text, err := Schema(schemaKind)
	if err != nil {
		return nil, err
	}
	var schemaDoc any
	if err := decodeJSON(text, &schemaDoc); err != nil {
		return nil, fmt.Errorf("reading the schema of a %s: %w", schemaKind, err)
	}
	schema, err := compileSchema(schemaDoc)
	if err != nil {
		return nil, fmt.Errorf("compiling the schema of a %s: %w", schemaKind, err)
	}
	var invalid *compiler.ValidationError
	switch err := schema.Validate(d.value); {
	case err == nil:
		return nil, nil
	case !errors.As(err, &invalid):
		return nil, err
	}
	v := validation{doc: d, schema: schemaDoc}
	v.collect(invalid)
	return v.sorted(), nil
}

// A validation turns the tree of a schema's complaints into problems.
type validation struct {
	doc      *document
	schema   any
	problems []Problem
	choices  []Problem       // complaints about a choice; left out where a more exact one exists
	exact    map[string]bool // the paths of mappings with unknown keys
}

func (v *validation) collect(e *compiler.ValidationError) {
	if len(v.problems) >= maxProblems {
		return
	}
	switch k := e.ErrorKind.(type) {
	case *kind.AdditionalProperties:
		for _, key := range slices.Sorted(slices.Values(k.Properties))[:min(len(k.Properties), maxProblems)] {
			v.unknownKey(e, key)
		}
	case *kind.Required:
		for _, key := range k.Missing {
			v.add(e, fmt.Sprintf("key %q is missing", key))
		}
	case *kind.AnyOf, *kind.OneOf:
		v.choice(e)
	case *kind.Schema, *kind.Group, *kind.AllOf, *kind.Reference:
		for _, cause := range e.Causes {
			v.collect(cause)
		}
	default:
		v.add(e, v.words(e))
	}
}

func (v *validation) add(e *compiler.ValidationError, message string) {
	p := v.doc.problem(e.InstanceLocation, message)
	if _, value := v.doc.find(e.InstanceLocation); value != nil && value.Kind == yaml.ScalarNode {
		p.Line, p.Column = value.Line, value.Column
	}
	v.problems = append(v.problems, p)
}

func (v *validation) unknownKey(e *compiler.ValidationError, key string) {
	message := fmt.Sprintf("unknown key %q", key)
	if meant := near.Word(key, v.knownKeys(e.SchemaURL)); meant != "" {
		message += fmt.Sprintf("; did you mean %q?", meant)
	}
	p := v.doc.problem(append(slices.Clone(e.InstanceLocation), key), message)
	p.Path = pathText(e.InstanceLocation)
	v.problems = append(v.problems, p)
	if v.exact == nil {
		v.exact = map[string]bool{}
	}
	v.exact[p.Path] = true
}

// choice reports that none, or more than one, of several forms fits.
func (v *validation) choice(e *compiler.ValidationError) {
	if strings.HasSuffix(e.SchemaURL, "/$defs/ImageRef") {
		v.imageRef(e)
		return
	}
	v.choices = append(v.choices, v.doc.problem(e.InstanceLocation, choiceWords(e.SchemaURL)))
}

// imageRef reports what is wrong with the form that was chosen, text or mapping.
func (v *validation) imageRef(e *compiler.ValidationError) {
	for _, cause := range e.Causes {
		flat := leaves(cause)
		for _, leaf := range flat {
			if k, ok := leaf.ErrorKind.(*kind.Type); ok && len(leaf.InstanceLocation) == len(e.InstanceLocation) {
				if k.Got != "string" && k.Got != "object" {
					v.add(e, "want a reference as text or a mapping with ref, got "+v.got(leaf, k.Got))
					return
				}
				flat = nil // the form that was not chosen
			}
		}
		for _, leaf := range flat {
			v.collect(leaf)
		}
	}
}

func leaves(e *compiler.ValidationError) []*compiler.ValidationError {
	if len(e.Causes) == 0 {
		return []*compiler.ValidationError{e}
	}
	var all []*compiler.ValidationError
	for _, cause := range e.Causes {
		all = append(all, leaves(cause)...)
	}
	return all
}

func choiceWords(schemaURL string) string {
	switch {
	case strings.HasSuffix(schemaURL, "/$defs/ChartSource"):
		return "want exactly one of: repository with name and version; path; git with ref and path; manifests"
	case strings.HasSuffix(schemaURL, "/$defs/Identity"):
		return "want exactly one of: subject; subjectRegexp"
	default:
		return "names nobody: want keys, identities or allowUnsigned: true"
	}
}

func (v *validation) sorted() []Problem {
	for _, p := range v.choices {
		if !v.exact[p.Path] {
			v.problems = append(v.problems, p)
		}
	}
	sortProblems(v.problems)
	return v.problems
}

func sortProblems(problems []Problem) {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Message, b.Message))
	})
}

// knownKeys returns the keys that the schema at a location knows.
func (v *validation) knownKeys(schemaURL string) []string {
	_, pointer, _ := strings.Cut(schemaURL, "#")
	at := v.schema
	for _, step := range strings.Split(strings.Trim(pointer, "/"), "/") {
		switch node := at.(type) {
		case map[string]any:
			if next, ok := node[step]; ok {
				at = next
			}
		case []any:
			if i, err := strconv.Atoi(step); err == nil && i < len(node) {
				at = node[i]
			}
		}
	}
	node, _ := at.(map[string]any)
	properties, _ := node["properties"].(map[string]any)
	known := make([]string, 0, len(properties))
	for key := range properties {
		known = append(known, key)
	}
	slices.Sort(known)
	return known
}

// words says one complaint about a value.
func (v *validation) words(e *compiler.ValidationError) string {
	switch k := e.ErrorKind.(type) {
	case *kind.Type:
		return v.typeWords(e, k)
	case *kind.Enum:
		return enumWords(k)
	case *kind.Pattern:
		return fmt.Sprintf("%q is not %s", withoutLogin(k.Got), patternWords(k.Want))
	case *kind.MinLength:
		return "is empty"
	case *kind.MaxLength:
		return fmt.Sprintf("is %d characters long, more than %d", k.Got, k.Want)
	case *kind.MinItems:
		return "is empty: want at least one entry"
	case *kind.MaxItems:
		return fmt.Sprintf("has %d entries, more than %d", k.Got, k.Want)
	case *kind.UniqueItems:
		return fmt.Sprintf("entries %d and %d are the same", k.Duplicates[0]+1, k.Duplicates[1]+1)
	case *kind.Minimum:
		return fmt.Sprintf("want %s or more, got %s", k.Want.RatString(), k.Got.RatString())
	case *kind.Maximum:
		return fmt.Sprintf("want %s or less, got %s", k.Want.RatString(), k.Got.RatString())
	}
	return e.ErrorKind.LocalizedString(message.NewPrinter(language.English))
}

func (v *validation) typeWords(e *compiler.ValidationError, k *kind.Type) string {
	wanted := make([]string, len(k.Want))
	for i, w := range k.Want {
		wanted[i] = typeName(w)
	}
	want := strings.Join(wanted, " or ")
	_, value := v.doc.find(e.InstanceLocation)
	if k.Got == "null" && len(e.InstanceLocation) == 0 {
		return "is empty: want " + want
	}
	if k.Got == "null" {
		return fmt.Sprintf("is empty: want %s, or leave the key out", want)
	}
	text := fmt.Sprintf("want %s, got %s", want, v.got(e, k.Got))
	if want == "text" && value != nil && value.Kind == yaml.ScalarNode {
		text += fmt.Sprintf(": quote it: %q", value.Value)
	}
	return text
}

// got names a value by its type, and by what the file says for it.
func (v *validation) got(e *compiler.ValidationError, jsonType string) string {
	_, value := v.doc.find(e.InstanceLocation)
	if value == nil || value.Kind != yaml.ScalarNode || jsonType == "null" {
		return typeName(jsonType)
	}
	if jsonType == "string" {
		return fmt.Sprintf("the text %q", withoutLogin(value.Value))
	}
	return strings.Replace(typeName(jsonType), "a ", "the ", 1) + " " + value.Value
}

func typeName(jsonType string) string {
	switch jsonType {
	case "string":
		return "text"
	case "object":
		return "a mapping"
	case "array":
		return "a list"
	case "integer":
		return "a whole number"
	case "boolean":
		return "a boolean"
	case "null":
		return "nothing"
	}
	return "a " + jsonType
}

func enumWords(k *kind.Enum) string {
	known := make([]string, len(k.Want))
	for i, w := range k.Want {
		known[i] = fmt.Sprint(w)
	}
	got, err := json.Marshal(k.Got)
	if err != nil {
		got = fmt.Append(nil, k.Got)
	}
	if len(known) == 1 {
		return fmt.Sprintf("want %q, got %s", known[0], got)
	}
	text := fmt.Sprintf("want one of %s, got %s", quoteAll(known), got)
	if meant := near.Word(fmt.Sprint(k.Got), known); meant != "" {
		text += fmt.Sprintf("; did you mean %q?", meant)
	}
	return text
}
