package bundle

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/invopop/jsonschema"
	compiler "github.com/santhosh-tekuri/jsonschema/v6"
)

// SchemaKinds returns the kinds that [Schema] knows, sorted.
func SchemaKinds() []string { return []string{"lock", "policy", "release", "site"} }

// Schema returns the JSON Schema (2020-12) of a kind of document: release,
// lock, site or policy. It is made from the Go types and is the one that the
// parse functions refuse by.
func Schema(kind string) ([]byte, error) {
	var s *jsonschema.Schema
	r := &jsonschema.Reflector{Anonymous: true, ExpandedStruct: true}
	switch kind {
	case "release":
		s = r.Reflect(Release{})
		s.Title = "Waybill release file"
	case "lock":
		s = r.Reflect(Lock{})
		s.Title = "Waybill lock"
	case "site":
		s = r.Reflect(Site{})
		s.Title = "Waybill site file"
	case "policy":
		s = r.Reflect(policyFile{})
		s.Title = "Waybill policy file"
	default:
		return nil, fmt.Errorf("no schema %q; there are %s", kind, quoteAll(SchemaKinds()))
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(s); err != nil {
		return nil, fmt.Errorf("writing the schema of a %s: %w", kind, err)
	}
	return out.Bytes(), nil
}

// JSONSchemaExtend lets keys that begin with x- stand in a release file, for anchors.
func (Release) JSONSchemaExtend(s *jsonschema.Schema) { allowExtensions(s) }

// JSONSchemaExtend lets keys that begin with x- stand in a site file, for anchors.
func (Site) JSONSchemaExtend(s *jsonschema.Schema) { allowExtensions(s) }

func allowExtensions(s *jsonschema.Schema) {
	s.PatternProperties = map[string]*jsonschema.Schema{"^x-": jsonschema.TrueSchema}
}

// JSONSchemaExtend says that exactly one of the four ways is used.
func (ChartSource) JSONSchemaExtend(s *jsonschema.Schema) {
	only := func(keys ...string) *jsonschema.Schema {
		names := &jsonschema.Schema{}
		for _, k := range keys {
			names.Enum = append(names.Enum, k)
		}
		return &jsonschema.Schema{Required: keys, PropertyNames: names}
	}
	s.OneOf = []*jsonschema.Schema{only("repository", "name", "version"), only("path"), only("git", "ref", "path"), only("manifests")}
}

// JSONSchemaExtend says that a policy names somebody, or allows the unsigned.
func (VerifyBlock) JSONSchemaExtend(s *jsonschema.Schema) {
	unsigned := jsonschema.NewProperties()
	unsigned.Set("allowUnsigned", &jsonschema.Schema{Const: true})
	s.AnyOf = []*jsonschema.Schema{
		{Required: []string{"keys"}},
		{Required: []string{"identities"}},
		{Required: []string{"allowUnsigned"}, Properties: unsigned},
	}
}

// JSONSchemaExtend says that exactly one form of subject is given.
func (Identity) JSONSchemaExtend(s *jsonschema.Schema) {
	s.OneOf = []*jsonschema.Schema{{Required: []string{"subject"}}, {Required: []string{"subjectRegexp"}}}
}

// noLoader refuses every reference out of a schema: nothing is fetched or read.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("refers to %q; a schema must stand alone", url)
}

// compileSchema compiles a schema given as JSON values (numbers as json.Number).
func compileSchema(doc any) (*compiler.Schema, error) {
	const url = "waybill:schema"
	c := compiler.NewCompiler()
	c.DefaultDraft(compiler.Draft2020)
	c.UseLoader(noLoader{})
	if err := c.AddResource(url, doc); err != nil {
		return nil, err
	}
	return c.Compile(url)
}
