package charts

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const someManifests = `-- one.yaml --
# kept as it is
apiVersion: v1
kind: ConfigMap
metadata:
    name: one   # odd spaces
data:
    template: "{{ .Values.nothing }} {{ end }} {{/* }}"
    number: 0123
    id: 12345678901
---
---
# nothing in this one
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: shops.example.com}
spec: {group: example.com}
...
--- # with a remark
apiVersion: v1
kind: Secret
metadata: {name: one}
stringData:
  key: |
    --- not a document
    -----BEGIN KEY-----
-- two.json --
{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "two"},
	"spec": {"clusterIP": "None"}}
{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "two"}}
`

func TestManifestsReachTheClusterAsWritten(t *testing.T) {
	dir := writeFolder(t, someManifests)
	src := Source{Name: "objects", Manifests: []string{"one.yaml", "./two.json"}}
	c, err := Resolve(context.Background(), dir, src, ResolveOptions{})
	if err != nil {
		t.Fatal(err)
	}
	rendered, err := c.Render(RenderOptions{HelmRelease: "rel", KubeVersion: "1.33.0"})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"ConfigMap":  "# kept as it is\napiVersion: v1\nkind: ConfigMap\nmetadata:\n    name: one   # odd spaces\ndata:\n    template: \"{{ .Values.nothing }} {{ end }} {{/* }}\"\n    number: 0123\n    id: 12345678901",
		"Secret":     "# with a remark\napiVersion: v1\nkind: Secret\nmetadata: {name: one}\nstringData:\n  key: |\n    --- not a document\n    -----BEGIN KEY-----",
		"Service":    "{\"apiVersion\": \"v1\", \"kind\": \"Service\", \"metadata\": {\"name\": \"two\"},\n\t\"spec\": {\"clusterIP\": \"None\"}}",
		"Deployment": "{\"apiVersion\": \"apps/v1\", \"kind\": \"Deployment\", \"metadata\": {\"name\": \"two\"}}",
	}
	got := map[string]string{}
	objects, err := renderedObjects(rendered.Manifest)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		_, text, _ := strings.Cut(o.Manifest, "\n") // Helm's remark about where it comes from
		got[o.Kind] = strings.TrimSpace(text)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(rendered.CRDs) != 1 || !strings.Contains(string(rendered.CRDs[0].Data), "shops.example.com") {
		t.Errorf("definitions: %v", rendered.CRDs)
	}
	wantNames := []string{
		"Chart.yaml", "crds/001-002-one.yaml", "manifests/001-001-one.yaml", "manifests/001-003-one.yaml", "manifests/002-001-two.yaml", "manifests/002-002-two.yaml",
		"templates/001-001-one.yaml", "templates/001-003-one.yaml", "templates/002-001-two.yaml", "templates/002-002-two.yaml",
	}
	if diff := cmp.Diff(wantNames, names(c)); diff != "" {
		t.Error(diff)
	}
	// Locks and bundles hold these: a change here makes them all stale.
	if c.Version() != "0.0.0-h25f63d52f544" || c.Name() != "objects" || c.Source != "one.yaml, ./two.json" || c.Files != "" {
		t.Errorf("it is %s %s from %q", c.Name(), c.Version(), c.Source)
	}
}

func TestManifestsInputs(t *testing.T) {
	dir := writeFolder(t, someManifests)
	src := Source{Name: "objects", Manifests: []string{"one.yaml"}}
	first, err := Resolve(context.Background(), dir, src, ResolveOptions{})
	if err != nil {
		t.Fatal(err)
	}
	again, err := Inputs(context.Background(), dir, src)
	if err != nil || again != first.Inputs {
		t.Errorf("inputs are %s (%v), resolving says %s", again, err, first.Inputs)
	}
	f, err := os.OpenFile(filepath.Join(dir, "one.yaml"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("# more\n"); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := Resolve(context.Background(), dir, src, ResolveOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if first.Inputs == second.Inputs || first.Version() == second.Version() {
		t.Error("other content has the same inputs or the same version")
	}
}

func TestManifestsThatCannotBePacked(t *testing.T) {
	const good = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
	tests := map[string]struct{ text, err string }{
		"no YAML":                       {good + "---\napiVersion: v1\nkind: [\n", `manifests "it.yaml", line 6: did not find expected node content`},
		"bad indentation":               {good + "---\na: 1\n  b: 2\n", `manifests "it.yaml", line 6: mapping values are not allowed in this context`},
		"a key twice":                   {good + "---\nkind: A\nkind: B\n", `manifests "it.yaml", line 6: mapping key "kind" already defined at line 5`},
		"no kind":                       {good + "---\n# remark\napiVersion: v1\nmetadata: {name: a}\n", `manifests "it.yaml", line 6: the object has no kind`},
		"no apiVersion":                 {"kind: ConfigMap\nmetadata: {name: a}\n", `manifests "it.yaml", line 1: the ConfigMap has no apiVersion`},
		"no name":                       {"\n\napiVersion: v1\nkind: ConfigMap\n", `manifests "it.yaml", line 3: the ConfigMap has no metadata.name`},
		"a name that is made":           {"apiVersion: v1\nkind: Pod\nmetadata: {generateName: a-}\n", `manifests "it.yaml", line 1: the Pod has generateName; it needs a name to be found again`},
		"kind that is a list":           {"apiVersion: v1\nkind: [a]\nmetadata: {name: a}\n", `manifests "it.yaml", line 2: cannot unmarshal !!seq into string`},
		"a list of objects":             {"apiVersion: v1\nkind: List\nitems:\n- kind: Pod\n", `manifests "it.yaml", line 1: a List holds several objects; write each as a document of its own`},
		"a bare list":                   {good + "---\n- a\n", `manifests "it.yaml", line 5: is no object: it is a list`},
		"a text":                        {"hello\n", `manifests "it.yaml", line 1: is no object: it is the text "hello"`},
		"a web page":                    {"<html>\n", `manifests "it.yaml", line 1: is no object: it is the text "<html>"`},
		"nothing":                       {"", `manifests "it.yaml": holds no object`},
		"nothing but remarks":           {"# a\n---\n---\n", `manifests "it.yaml": holds no object`},
		"not text":                      {good + "\x00\x01", `manifests "it.yaml", line 4: is no text`},
		"an object twice":               {good + "---\n" + good, `manifests "it.yaml", line 5: ConfigMap a is there already ("it.yaml", line 1)`},
		"an alias of another document":  {good + "---\nkind: *a\n", `manifests "it.yaml", line 5: unknown anchor 'a' referenced`},
		"text of a chart's template":    {"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}\n", `manifests "it.yaml", line 4: a key is a list or a map; text for a template ({{ }}) means nothing here`},
		"an object twice, in one group": {"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a, namespace: b}\n---\napiVersion: apps/v1beta1\nkind: Deployment\nmetadata: {name: a, namespace: b}\n", `manifests "it.yaml", line 5: Deployment.apps b/a is there already ("it.yaml", line 1)`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "it.yaml"), []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := Resolve(context.Background(), dir, Source{Name: "objects", Manifests: []string{"it.yaml"}}, ResolveOptions{})
			var manifest *ManifestError
			if !errors.As(err, &manifest) {
				t.Fatalf("got %v, want a ManifestError", err)
			}
			if !strings.HasPrefix(err.Error(), test.err) {
				t.Errorf("got  %v\nwant %s", err, test.err)
			}
		})
	}
}

func TestManifestsThatAreNotThere(t *testing.T) {
	dir := writeFolder(t, "-- there/it.yaml --\n")
	for path, want := range map[string]string{
		"gone.yaml": `chart path "gone.yaml": no such file (looked at DIR/gone.yaml); manifests are files of Kubernetes objects; paths are relative to the release file`,
		"there":     `chart path "there": is a folder (looked at DIR/there); manifests are files of Kubernetes objects; paths are relative to the release file`,
	} {
		_, err := Resolve(context.Background(), dir, Source{Name: "objects", Manifests: []string{path}}, ResolveOptions{})
		var source *SourceError
		if !errors.As(err, &source) {
			t.Fatalf("got %v, want a SourceError", err)
		}
		if diff := cmp.Diff(want, strings.ReplaceAll(err.Error(), dir, "DIR")); diff != "" {
			t.Error(diff)
		}
	}
}

// Whatever a file is called, nothing of the name leads anywhere.
func TestNamesOfManifestFiles(t *testing.T) {
	dir := writeFolder(t, "-- a/b c/{{ x }}.yaml --\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n-- a/..yaml --\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n")
	c, err := Resolve(context.Background(), filepath.Join(dir, "a"), Source{Name: "objects", Manifests: []string{"../a/b c/{{ x }}.yaml", "..yaml"}}, ResolveOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"Chart.yaml", "manifests/001-001-x.yaml", "manifests/002-001-objects.yaml", "templates/001-001-x.yaml", "templates/002-001-objects.yaml"}
	if diff := cmp.Diff(want, names(c)); diff != "" {
		t.Error(diff)
	}
	if _, err := c.Render(RenderOptions{HelmRelease: "rel"}); err != nil {
		t.Error(err)
	}
}
