package bundle

import (
	"errors"
	"fmt"
	"regexp"
	"slices"

	compiler "github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// CheckParameters returns what the component's parameters forbid in the values
// a site sets (all its layers merged): values that do not fit the schema, and
// values the schema does not speak of, which are locked. Nil when a site may set
// everything. The error is for a schema that does not compile, which
// [Release.Check] finds too.
func (c *Component) CheckParameters(values map[string]any) ([]Problem, error) {
	if c.Parameters == nil {
		return nil, nil
	}
	schema, err := compileSchema(c.Parameters.Schema)
	if err != nil {
		return nil, fmt.Errorf("compiling the parameters of component %s: %w", c.Name, err)
	}
	problems := lockedValues(c.Parameters.Schema, values, nil)
	var invalid *compiler.ValidationError
	if err := schema.Validate(values); errors.As(err, &invalid) {
		for _, leaf := range leaves(invalid) {
			problems = append(problems, Problem{
				Path:    pathText(leaf.InstanceLocation),
				Message: leaf.ErrorKind.LocalizedString(message.NewPrinter(language.English)),
			})
		}
	} else if err != nil {
		return nil, fmt.Errorf("checking values of component %s: %w", c.Name, err)
	}
	return problems, nil
}

// lockedValues finds the keys that no properties keyword on their way names. A
// level that names no properties at all leaves everything below it to the schema.
func lockedValues(schema map[string]any, values map[string]any, path []string) []Problem {
	properties, hasProperties := schema["properties"].(map[string]any)
	if !hasProperties && len(path) > 0 {
		return nil
	}
	var problems []Problem
	for _, key := range sortedKeys(values) {
		here := slices.Concat(path, []string{key})
		below, named := properties[key]
		if !named && !openTo(schema, key) {
			problems = append(problems, Problem{Path: pathText(here), Message: "the release locks it: its parameters do not name it"})
			continue
		}
		belowSchema, isSchema := below.(map[string]any)
		belowValues, isMapping := values[key].(map[string]any)
		if isSchema && isMapping {
			problems = append(problems, lockedValues(belowSchema, belowValues, here)...)
		}
	}
	return problems
}

// openTo reports whether a level of the schema speaks of a key other than by
// properties.
func openTo(schema map[string]any, key string) bool {
	for _, keyword := range []string{"$ref", "allOf", "anyOf", "oneOf"} {
		if _, there := schema[keyword]; there {
			return true
		}
	}
	if additional, there := schema["additionalProperties"]; there && additional != false {
		return true
	}
	patterns, _ := schema["patternProperties"].(map[string]any)
	for pattern := range patterns {
		if re, err := regexp.Compile(pattern); err == nil && re.MatchString(key) {
			return true
		}
	}
	return false
}
