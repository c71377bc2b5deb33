package charts

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "rewrite golden files")

// Each file of testdata/values is a chart, layers of values in the order of the
// file, and what the chart's templates make of them.
func TestValuesThroughTemplates(t *testing.T) {
	files, err := filepath.Glob("testdata/values/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files (%v)", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			chart := &txtar.Archive{}
			var layers []Layer
			want := -1
			for i, f := range archive.Files {
				kind, name, _ := strings.Cut(f.Name, "/")
				text := strings.TrimSuffix(string(f.Data), "\n")
				switch kind {
				case "file":
					layers = append(layers, Layer{Name: name, YAML: f.Data})
				case "set":
					layers = append(layers, Layer{Name: name, Set: text})
				case "target":
					layers = append(layers, Layer{Name: "secret", TargetPath: name, TargetValue: text})
				case "want":
					want = i
				default:
					chart.Files = append(chart.Files, f)
				}
			}
			got := renderText(t, fromText(t, string(txtar.Format(chart))), layers)
			if *update {
				archive.Files[want].Data = []byte(got)
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(string(archive.Files[want].Data), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func renderText(t *testing.T, c *Chart, layers []Layer) string {
	t.Helper()
	values, err := Merge(layers...)
	if err != nil {
		t.Fatal(err)
	}
	rendered, err := c.Render(RenderOptions{Values: values})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for line := range strings.Lines(rendered.Manifest) {
		if !strings.HasPrefix(line, "---") && !strings.HasPrefix(line, "# Source") && strings.TrimSpace(line) != "" {
			text.WriteString(line)
		}
	}
	return text.String()
}

func TestTargetPathIsReadAsFluxReadsIt(t *testing.T) {
	tests := map[string]struct {
		value string
		want  any
	}{
		"text":            {"hunter2", "hunter2"},
		"number":          {"12345678901234567", int64(12345678901234567)},
		"boolean":         {"true", true},
		"quoted number":   {`"123"`, "123"},
		"single quotes":   {`'true'`, "true"},
		"comma":           {`a\,b`, "a,b"},
		"list":            {"{a,b}", []any{"a", "b"}},
		"leading zero":    {"0123", "0123"},
		"null takes away": {"null", nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Merge(Layer{Values: map[string]any{"a": map[string]any{"x": "y"}}}, Layer{TargetPath: "a.key", TargetValue: test.value})
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]any{"a": map[string]any{"x": "y", "key": test.want}}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLayersThatCannotBeMergedAreNamed(t *testing.T) {
	tests := map[string]struct {
		layers []Layer
		layer  string
	}{
		"no YAML":                  {[]Layer{{Name: "values.yaml", YAML: []byte("a: [")}}, "values.yaml"},
		"a list":                   {[]Layer{{Name: "values.yaml", YAML: []byte("- a")}}, "values.yaml"},
		"no value":                 {[]Layer{{Name: "--set", Set: "a"}}, "--set"},
		"into text":                {[]Layer{{Values: map[string]any{"a": "text"}}, {Name: "--set", Set: "a.b=1"}}, "--set"},
		"a secret with a comma":    {[]Layer{{Name: "Secret aws", TargetPath: "a", TargetValue: "x,hunter2"}}, "Secret aws"},
		"a secret into text":       {[]Layer{{Values: map[string]any{"a": "hunter2"}}, {Name: "Secret aws", TargetPath: "a.b", TargetValue: "hunter2"}}, "Secret aws"},
		"a secret that is no list": {[]Layer{{Name: "Secret aws", TargetPath: "a", TargetValue: "{hunter2"}}, "Secret aws"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Merge(test.layers...)
			var layer *LayerError
			if !errors.As(err, &layer) || layer.Layer != test.layer {
				t.Fatalf("got %v, want a LayerError of %s", err, test.layer)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the secret is in the error: %v", err)
			}
		})
	}
}

func TestMergeLeavesItsInputAlone(t *testing.T) {
	values := map[string]any{"a": map[string]any{"b": json.Number("1"), "l": []any{"x"}}}
	before, err := json.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	merged, err := Merge(Layer{Values: values}, Layer{Set: "a.b=2,a.l[0]=y,a.c=3"})
	if err != nil {
		t.Fatal(err)
	}
	if after, _ := json.Marshal(values); string(after) != string(before) {
		t.Errorf("input became %s, was %s", after, before)
	}
	if got := merged["a"].(map[string]any)["b"]; got != int64(2) {
		t.Errorf("got %v, want 2", got)
	}
}

func TestEffectiveSaysWhoSetWhat(t *testing.T) {
	c := fromText(t, `
-- Chart.yaml --
apiVersion: v2
name: parent
version: 1.0.0
-- values.yaml --
kept: default
image: {tag: "1", repository: r}
gone: x
global: {a: default}
-- charts/sub/Chart.yaml --
apiVersion: v2
name: sub
version: 1.0.0
-- charts/sub/values.yaml --
size: 20161216
color: red
`)
	got, err := c.Effective(
		Layer{Name: "release values", YAML: []byte("image: {tag: '2'}\nsub: {color: blue}\nglobal: {b: 1}\n")},
		Layer{Name: "site values", YAML: []byte("gone: null\nlist: [1]\nempty: {}\n")},
		Layer{Name: "--set", Set: `image.tag=3,a\.b=c`},
	)
	if err != nil {
		t.Fatal(err)
	}
	want := []Leaf{
		{`a\.b`, "c", "--set"},
		{"empty", map[string]any{}, "site values"},
		{"global.a", "default", ChartDefaults},
		{"global.b", float64(1), "release values"},
		{"image.repository", "r", ChartDefaults},
		{"image.tag", int64(3), "--set"},
		{"kept", "default", ChartDefaults},
		{"list", []any{float64(1)}, "site values"},
		{"sub.color", "blue", "release values"},
		{"sub.global.a", "default", ChartDefaults},
		{"sub.global.b", float64(1), "release values"},
		{"sub.size", int64(20161216), SubchartDefaults},
	}
	if diff := cmp.Diff(want, got.Leaves); diff != "" {
		t.Error(diff)
	}
}
