package charts

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// noise does not compress.
func noise(n int) string {
	r := rand.New(rand.NewSource(1))
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/"
	b := make([]byte, n)
	for i := range b {
		b[i] = letters[r.Intn(len(letters))]
	}
	return string(b)
}

func TestRecordSizeIsWhatHelmStores(t *testing.T) {
	c := fromText(t, shop+"-- files/notes.txt --\n"+noise(20_000)+"\n")
	rendered, err := c.Render(RenderOptions{Values: map[string]any{"id": json.Number("12345678901234567")}})
	if err != nil {
		t.Fatal(err)
	}
	size, err := c.RecordSize(rendered)
	if err != nil {
		t.Fatal(err)
	}
	client := fake.NewClientset()
	secrets := driver.NewSecrets(client.CoreV1().Secrets("default"))
	if err := secrets.Create("sh.helm.release.v1.shop.v1", withVersion(timeless(rendered.record))); err != nil {
		t.Fatal(err)
	}
	list, err := client.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("%d secrets, %v", len(list.Items), err)
	}
	if got := len(list.Items[0].Data["release"]); got != size.Bytes {
		t.Errorf("measured %d bytes, Helm stores %d", size.Bytes, got)
	}
}

func withVersion(r *release.Release) *release.Release {
	r.Version = 1
	return r
}

func TestLargeRecordsSayWhatIsLarge(t *testing.T) {
	tests := map[string]struct {
		files           string
		large, tooLarge bool
		advice          string
	}{
		"small":                {"", false, false, ""},
		"nearly":               {"-- stray.bin --\n" + noise(800_000) + "\n", true, false, "the chart does not need these to render, list them in its .helmignore: stray.bin ("},
		"too large":            {"-- stray.bin --\n" + noise(1_200_000) + "\n", true, true, "the chart does not need these to render, list them in its .helmignore: stray.bin ("},
		"read by its template": {"-- dash/a.json --\n" + noise(1_200_000) + "\n-- templates/d.yaml --\nkind: ConfigMap\ndata: {n: {{ len (.Files.Get \"dash/a.json\") }}}\n", true, true, "largest parts: dash/a.json ("},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := fromText(t, shop+test.files)
			rendered, err := c.Render(RenderOptions{})
			if err != nil {
				t.Fatal(err)
			}
			size, err := c.RecordSize(rendered)
			if err != nil {
				t.Fatal(err)
			}
			if size.Large() != test.large || size.TooLarge() != test.tooLarge {
				t.Errorf("%d bytes of %d: large %t, too large %t", size.Bytes, size.Limit, size.Large(), size.TooLarge())
			}
			if !strings.HasPrefix(size.Advice(), test.advice) || test.advice == "" && size.Advice() != "" {
				t.Errorf("got advice %q, want %q…", size.Advice(), test.advice)
			}
		})
	}
}

func TestLint(t *testing.T) {
	chart := func(version, template string) string {
		return "-- Chart.yaml --\napiVersion: v2\nname: shop\nversion: " + version + "\n-- templates/a.yaml --\n" + template
	}
	const labelled = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  labels: {version: %s}\n"
	long := "1.0.0-" + strings.Repeat("a", 60)
	tests := map[string]struct {
		chart string
		want  []string
	}{
		"a good chart": {chart("1.0.0", fmt.Sprintf(labelled, "{{ .Chart.Version }}")), nil},
		"build metadata in a label": {chart("1.0.0+b.5", fmt.Sprintf(labelled, `"{{ .Chart.Version }}"`)),
			[]string{`error label shop/templates/a.yaml: ConfigMap/a: label version: "1.0.0+b.5" is no label value: a valid label must be an empty string or consist of alphanumeric characters`}},
		"a long version in a label": {chart(long, fmt.Sprintf(labelled, `"{{ .Chart.Version }}"`)),
			[]string{`error label shop/templates/a.yaml: ConfigMap/a: label version: "` + long + `" is no label value: must be no more than 63`}},
		"a number in a pod's label": {chart("1.0.0", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {template: {metadata: {labels: {id: 356136738}}}}\n"),
			[]string{`error label shop/templates/a.yaml: Deployment/a: label id: 3.56136738e+08 is no text`}},
		"a hook's label": {chart("1.0.0", "apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: {hot: true}, annotations: {helm.sh/hook: test}}\n"),
			[]string{`error label shop/templates/a.yaml: Pod/a: label hot: true is no text`}},
		"a CRD describes labels": {chart("1.0.0", "kind: CustomResourceDefinition\nspec: {versions: [{schema: {openAPIV3Schema: {properties: {selector: {matchLabels: {type: object, x: 1}}}}}}]}\n"), nil},
		"does not render": {chart("1.0.0", `{{ required "give a name" .Values.name }}`),
			[]string{"error render rendering chart shop 1.0.0 for Kubernetes v1.28.0: execution error at (shop/templates/a.yaml:1:3): give a name", "error render rendering chart shop 1.0.0 for Kubernetes v1.37.0: execution"}},
		"no tag":        {chart("1.0.0-"+strings.Repeat("a", 130), "{}"), []string{"error version Chart.yaml: version "}},
		"large default": {chart("1.0.0", "{}\n") + "-- values.yaml --\na: [{b: 12345678901234567}]\n", []string{"warning number values.yaml: a[0].b: 12345678901234567 is above 2^53"}},
		"other version vendored": {"-- Chart.yaml --\napiVersion: v2\nname: shop\nversion: 1.0.0\ndependencies: [{name: db, version: 2.x, repo: x}]\n-- charts/db/Chart.yaml --\napiVersion: v2\nname: db\nversion: 1.0.0\n",
			[]string{`warning dependency Chart.yaml: dependency db: unknown key "repo", did you mean "repository"?`, "warning dependency Chart.yaml: dependency db asks for version 2.x, charts/ holds 1.0.0"}},
		"large record": {chart("1.0.0", "{}\n") + "-- stray.bin --\n" + noise(1_200_000) + "\n", []string{"error record the record Helm keeps of chart shop 1.0.0 is "}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			found := fromText(t, test.chart).Lint(LintOptions{})
			var got []string
			for i, f := range found {
				text := fmt.Sprintf("%s %s %s", f.Severity, f.Rule, f)
				if i < len(test.want) && strings.HasPrefix(text, test.want[i]) {
					text = test.want[i]
				}
				got = append(got, text)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLargeNumbers(t *testing.T) {
	values, err := Merge(
		Layer{YAML: []byte("edge: 9007199254740992\nover: 9007199254740993\nmost: 9223372036854775807\nlost: 9223372036854775808\nneg: -9007199254740993\nbig: 1e30\nfraction: 1.5\ntext: \"9223372036854775808\"\n")},
		Layer{Set: "a.b[0]=12345678901234567"},
	)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, n := range LargeNumbers(values) {
		got = append(got, fmt.Sprintf("%s %t", n.Path, n.Lost))
	}
	want := []string{"a.b[0] false", "big true", "lost true", "most false", "neg false", "over false"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Charts that people use every day have no errors, but for what is so.
func TestRealChartsLint(t *testing.T) {
	dir, list := realCharts(t)
	for _, entry := range list {
		if !entry.renders() {
			continue
		}
		t.Run(entry.Name, func(t *testing.T) {
			t.Parallel()
			values, err := Merge(setLayers(entry.Render.Set)...)
			if err != nil {
				t.Fatal(err)
			}
			c := openFile(t, filepath.Join(dir, entry.File))
			for _, f := range c.Lint(LintOptions{Renders: []RenderOptions{{HelmRelease: "rel", Namespace: "ns", KubeVersion: "1.33.0", Values: values}}}) {
				if f.Rule == RuleRecord && f.Severity == Warning {
					t.Log(f) // fluent-operator's CRDs do fill two thirds of a Secret
					continue
				}
				t.Errorf("%s %s: %s", f.Severity, f.Rule, f)
			}
		})
	}
}
