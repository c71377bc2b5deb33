package bundle

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite golden files and docs/schema")

// golden compares got with a file, or rewrites the file with -update.
func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, got) {
		t.Errorf("%s is not current; run go test ./bundle -update\ngot:\n%s", path, got)
	}
}

func TestPublishedSchemas(t *testing.T) {
	for _, kind := range SchemaKinds() {
		schema, err := Schema(kind)
		if err != nil {
			t.Fatal(err)
		}
		golden(t, filepath.Join("..", "docs", "schema", kind+".json"), schema)
	}
	if _, err := Schema("chart"); err == nil || !strings.Contains(err.Error(), `"release"`) {
		t.Errorf("error for an unknown kind is %v", err)
	}
}

// A pattern without words would be shown to people as a regular expression, a
// key without a description as nothing.
func TestSchemasSpeakToPeople(t *testing.T) {
	for _, kind := range SchemaKinds() {
		text, err := Schema(kind)
		if err != nil {
			t.Fatal(err)
		}
		var schema any
		if err := decodeJSON(text, &schema); err != nil {
			t.Fatal(err)
		}
		checkWords(t, kind, schema)
	}
}

func checkWords(t *testing.T, at string, schema any) {
	switch node := schema.(type) {
	case map[string]any:
		if pattern, ok := node["pattern"].(string); ok && strings.HasPrefix(patternWords(pattern), "of the form") {
			t.Errorf("%s: pattern %s has no words", at, pattern)
		}
		if properties, ok := node["properties"].(map[string]any); ok && node["type"] == "object" {
			for key, property := range properties {
				if p, _ := property.(map[string]any); p["description"] == nil {
					t.Errorf("%s: key %s has no description", at, key)
				}
			}
		}
		for key, child := range node {
			checkWords(t, at+"/"+key, child)
		}
	case []any:
		for _, child := range node {
			checkWords(t, at, child)
		}
	}
}
