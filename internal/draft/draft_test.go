package draft

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"go.yaml.in/yaml/v3"

	"waybill/bundle"
)

// release parses and checks a draft as every command does.
func release(t *testing.T, d *Draft) (*bundle.Release, string) {
	t.Helper()
	text, err := d.Text()
	if err != nil {
		t.Fatal(err)
	}
	r, err := bundle.ParseRelease("release.yaml", []byte(text))
	if err != nil {
		t.Fatalf("%v\nof\n%s", err, text)
	}
	if problems := r.Check(); len(problems) > 0 {
		t.Fatalf("%v\nof\n%s", problems, text)
	}
	return r, text
}

func TestExample(t *testing.T) {
	r, _ := release(t, Example())
	if len(r.Components) != 1 || !slices.Equal(r.Platforms, []string{"linux/amd64"}) {
		t.Errorf("the example is %+v", r)
	}
}

// commented is a key behind a "#", not a comment for reading.
var commented = regexp.MustCompile(`(?m)^#(\S|  )`)

// Every key that a release file may have stands in the draft, with an example
// that fits the schema: a key that is new to the schema fails here.
func TestEveryKeyStandsInTheDraft(t *testing.T) {
	_, text := release(t, Example())
	all := commented.ReplaceAllString(text, "$1")
	if _, err := bundle.ParseRelease("release.yaml", []byte(all)); err != nil {
		t.Errorf("with every key taken out of its comment: %v\n%s", err, all)
	}
	var doc any
	if err := yaml.Unmarshal([]byte(all), &doc); err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	addKeys(doc, "", have)
	raw, err := bundle.Schema("release")
	if err != nil {
		t.Fatal(err)
	}
	var schema map[string]any
	if err := json.Unmarshal(raw, &schema); err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{}
	addSchemaKeys(schema, schema, "", want)
	if len(want) < 40 {
		t.Fatalf("the schema has only the keys %v", slices.Sorted(maps.Keys(want)))
	}
	for _, key := range slices.Sorted(maps.Keys(want)) {
		// An image is a text or a mapping; one of the two places shows the mapping.
		if other, ok := strings.CutPrefix(key, "images[]."); ok && have["components[].images[]."+other] {
			continue
		}
		if !have[key] {
			t.Errorf("the draft lacks the key %s", key)
		}
	}
	if !strings.Contains(text, "#x-") {
		t.Error("the draft does not show keys of one's own")
	}
}

func addKeys(node any, path string, keys map[string]bool) {
	switch node := node.(type) {
	case map[string]any:
		for key, v := range node {
			at := strings.TrimPrefix(path+"."+key, ".")
			keys[at] = true
			addKeys(v, at, keys)
		}
	case []any:
		for _, v := range node {
			addKeys(v, path+"[]", keys)
		}
	}
}

func addSchemaKeys(root, node map[string]any, path string, keys map[string]bool) {
	if ref, ok := node["$ref"].(string); ok {
		node = root["$defs"].(map[string]any)[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any)
	}
	if properties, ok := node["properties"].(map[string]any); ok {
		for key, v := range properties {
			at := strings.TrimPrefix(path+"."+key, ".")
			keys[at] = true
			addSchemaKeys(root, v.(map[string]any), at, keys)
		}
	}
	if items, ok := node["items"].(map[string]any); ok {
		addSchemaKeys(root, items, path+"[]", keys)
	}
	for _, word := range []string{"anyOf", "oneOf", "allOf"} {
		alternatives, _ := node[word].([]any)
		for _, one := range alternatives {
			addSchemaKeys(root, one.(map[string]any), path, keys)
		}
	}
}

// unpack writes the files of a txtar archive and returns their folder and the
// archive.
func unpack(t *testing.T, name string) (string, *txtar.Archive) {
	t.Helper()
	archive, err := txtar.ParseFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, f := range archive.Files {
		path := filepath.Join(dir, filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir, archive
}

func file(archive *txtar.Archive, name string) string {
	for _, f := range archive.Files {
		if f.Name == name {
			return string(f.Data)
		}
	}
	return ""
}

// What is known of a chart or of Helm's list stands in the components, and the
// rest is noted.
func TestFrom(t *testing.T) {
	for name, from := range map[string]string{
		"umbrella.txtar": "umbrella", "helm2.txtar": "old/Chart.yaml", "helmlist.txtar": "list.json",
	} {
		t.Run(name, func(t *testing.T) {
			dir, archive := unpack(t, name)
			t.Chdir(dir)
			d, err := From(from)
			if err != nil {
				t.Fatal(err)
			}
			_, text := release(t, d)
			_, components, _ := strings.Cut(text, "components:\n")
			components, _, _ = strings.Cut(components, "\n# What else a component may say:")
			if diff := cmp.Diff(file(archive, "want.components"), components); diff != "" {
				t.Errorf("components (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(strings.TrimSpace(file(archive, "want.notes")), strings.Join(d.Notes, "\n")); diff != "" {
				t.Errorf("notes (-want +got):\n%s", diff)
			}
			if want := strings.TrimSpace(file(archive, "want.release")); want != d.Name+" "+d.Version {
				t.Errorf("the release is %s %s, want %s", d.Name, d.Version, want)
			}
		})
	}
}

func TestFromRefuses(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"a release file":       {"apiVersion: waybill/v1\nkind: Release\nname: x\nversion: 1.0.0\n", "is a release file already"},
		"a chart with nothing": {"name: x\nversion: 1.0.0\n", "has no dependencies"},
		"values":               {"replicas: 2\n", "is no Chart.yaml"},
		"no YAML":              {"a: [", "is neither YAML nor a JSON list"},
		"an empty list":        {"[]", "lists no Helm release"},
		"another list":         {`[{"name": "x"}]`, "lacks name, namespace or chart"},
		"a list of texts":      {`["x"]`, "is no list of Helm releases"},
		"nothing":              {"", "is no Chart.yaml"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := FromText(filepath.Join(t.TempDir(), "given"), []byte(tt.text))
			var unknown *UnknownError
			if !errors.As(err, &unknown) || !strings.Contains(err.Error(), tt.want) || unknown.UsageHint() == "" {
				t.Errorf("error is %v, want %s", err, tt.want)
			}
		})
	}
}

// Whatever names and texts were found, the draft is a release file.
func TestDraftsOfOddNames(t *testing.T) {
	list := `[
		{"name": "a", "namespace": "one", "chart": "a-b-1-2.0.0"}, {"name": "a", "namespace": "two", "chart": "c-v1.2.3-rc.1"},
		{"name": "a.b-c", "namespace": "two", "status": "deployed", "chart": "no-version"}, {"name": "a", "namespace": "four", "chart": "d-1.0.0+b"},
		{"name": "` + strings.Repeat("long", 13) + `x", "namespace": "two", "status": "failed\nx: y", "chart": "yes-1.10.0"},
		{"name": "` + strings.Repeat("long", 13) + `x", "namespace": "three", "status": "deployed", "chart": "yes-1.10.0"}]`
	d, err := FromText("list", []byte(list))
	if err != nil {
		t.Fatal(err)
	}
	r, _ := release(t, d)
	var got []string
	for _, c := range r.Components {
		got = append(got, c.Name+" "+c.Chart.Name+" "+c.Chart.Version)
	}
	want := []string{
		"a a-b-1 2.0.0", "a-two c v1.2.3-rc.1", "a-b-c no-version *", "a-four d 1.0.0+b",
		strings.Repeat("long", 13) + "x yes 1.10.0", strings.Repeat("long", 12) + "l-2 yes 1.10.0",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("components (-want +got):\n%s", diff)
	}
}
