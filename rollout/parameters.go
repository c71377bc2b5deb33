package rollout

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// checkParameters holds what the site sets against the schema of what a site
// may set. Everything the schema does not name is locked.
func (r *Runner) checkParameters(c *component) ([]Refusal, error) {
	if c.Parameters == nil || len(c.siteLayers) == 0 {
		return nil, nil
	}
	set, err := r.charts.Merge(c.siteLayers)
	if err != nil {
		return nil, &UsageError{Reason: fmt.Sprintf("component %s: merging the site's values: %v", c.Name, err)}
	}
	schema, err := compileParameters(c.Parameters.Schema)
	if err != nil {
		return nil, fmt.Errorf("component %s: compiling the schema of its parameters: %w", c.Name, err)
	}
	value, err := asJSON(set)
	if err != nil {
		return nil, fmt.Errorf("component %s: %w", c.Name, err)
	}
	var invalid *jsonschema.ValidationError
	if err := schema.Validate(value); errors.As(err, &invalid) {
		return parameterRefusals(c.Name, invalid), nil
	} else if err != nil {
		return nil, fmt.Errorf("component %s: checking its parameters: %w", c.Name, err)
	}
	return nil, nil
}

// compileParameters compiles the schema with all it does not name locked.
func compileParameters(schema map[string]any) (*jsonschema.Schema, error) {
	doc, err := asJSON(lock(schema, true))
	if err != nil {
		return nil, err
	}
	const url = "parameters.json"
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.UseLoader(nowhere{}) // a schema names no files
	if err := compiler.AddResource(url, doc); err != nil {
		return nil, err
	}
	return compiler.Compile(url)
}

// nowhere is a loader that finds nothing.
type nowhere struct{}

func (nowhere) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s: a schema of parameters stands alone", url)
}

// lock returns the schema with unevaluatedProperties false (JSON Schema
// 2020-12 core, 11.3) where it names properties and says nothing of others,
// and at the root always.
func lock(schema map[string]any, root bool) map[string]any {
	out := maps.Clone(schema)
	if out == nil {
		out = map[string]any{}
	}
	properties, named := out["properties"].(map[string]any)
	if named {
		locked := make(map[string]any, len(properties))
		for key, sub := range properties {
			if m, ok := sub.(map[string]any); ok {
				sub = lock(m, false)
			}
			locked[key] = sub
		}
		out["properties"] = locked
	}
	_, additional := out["additionalProperties"]
	_, unevaluated := out["unevaluatedProperties"]
	if (root || named) && !additional && !unevaluated {
		out["unevaluatedProperties"] = false
	}
	return out
}

// parameterRefusals turns the leaves of a validation error into refusals,
// sorted. They name places and keywords, never values: those may be secret.
func parameterRefusals(component string, invalid *jsonschema.ValidationError) []Refusal {
	messages := map[string]bool{}
	var walk func(*jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		for _, cause := range e.Causes {
			walk(cause)
		}
		if len(e.Causes) > 0 {
			return
		}
		messages[parameterMessage(e)] = true
	}
	walk(invalid)
	var refusals []Refusal
	for _, message := range slices.Sorted(maps.Keys(messages)) {
		refusals = append(refusals, Refusal{Code: "parameters", Component: component, Message: message})
	}
	return refusals
}

func parameterMessage(e *jsonschema.ValidationError) string {
	path := strings.Join(e.InstanceLocation, ".")
	if path == "" {
		path = "the site's values"
	}
	switch k := e.ErrorKind.(type) {
	case *kind.FalseSchema:
		return path + " is locked: the release does not let a site set it"
	case *kind.AdditionalProperties:
		return fmt.Sprintf("%s: locked, the release does not let a site set them: %s", path, strings.Join(k.Properties, ", "))
	case *kind.Type:
		return fmt.Sprintf("%s is %s, and the release asks for %s", path, k.Got, strings.Join(k.Want, " or "))
	case *kind.Required:
		return fmt.Sprintf("%s lacks %s", path, strings.Join(k.Missing, ", "))
	}
	return fmt.Sprintf("%s does not fit the release's schema (%s)", path, strings.Join(e.ErrorKind.KeywordPath(), "/"))
}

// asJSON returns the value as the schema library wants it: plain maps, lists
// and json.Number.
func asJSON(value any) (any, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encoding as JSON: %w", err)
	}
	return jsonschema.UnmarshalJSON(bytes.NewReader(text))
}
