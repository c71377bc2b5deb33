package charts

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/release"
)

func TestPreviewOnlyReads(t *testing.T) {
	o := newOnCluster(t)
	o.create(strings.ReplaceAll(settingsTemplate, `{{ .Values.colour | default "red" | quote }}`, "white"))
	o.create("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: given}\ndata: {word: found}\n")
	comp := o.component(packedChart(t, "1.0.0", map[string]string{
		"templates/settings.yaml": settingsTemplate,
		"templates/looked.yaml":   "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: looked}\ndata: {word: {{ (lookup \"v1\" \"ConfigMap\" .Release.Namespace \"given\").data.word | quote }}}\n",
		"templates/far.yaml":      "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: far, namespace: nowhere}\n",
		"templates/widget.yaml":   "apiVersion: example.com/v1\nkind: Unheard\nmetadata: {name: w}\n",
		"crds/crd.yaml":           crd(o.namespace+".example.com", "Widget", "", "v1"),
	}))
	o.config.UserAgent = "preview of " + o.namespace // told apart from tests beside this one
	begun := time.Now()
	preview, err := o.Preview(t.Context(), comp)
	if err != nil {
		t.Fatal(err)
	}
	writes, err := o.under.Writes(t.Context(), begun)
	if err != nil {
		t.Fatal(err)
	}
	for _, request := range writes {
		if request.UserAgent == o.config.UserAgent {
			t.Errorf("preview sent %s %s", request.Verb, request.URI)
		}
	}
	if preview.Step != StepInstall || !preview.Changed || preview.Size.Bytes == 0 {
		t.Errorf("step %s, changed %t, %d bytes", preview.Step, preview.Changed, preview.Size.Bytes)
	}
	if !strings.Contains(preview.Rendered.Manifest, `word: "found"`) {
		t.Error("lookup did not look into the cluster")
	}
	conflicts := []Conflict{{Kind: "ConfigMap", Namespace: o.namespace, Name: "settings", Owner: "made by somebody"}}
	if diff := cmp.Diff(conflicts, preview.Conflicts); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]Kind{{"example.com/v1", "Unheard"}}, preview.Missing); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]Kind{{o.namespace + ".example.com/v1", "Widget"}}, preview.Provides); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"nowhere"}, preview.MissingNamespaces); diff != "" {
		t.Error(diff)
	}
}

func TestPreviewTellsWhetherSomethingChanged(t *testing.T) {
	o := newOnCluster(t)
	files := map[string]string{
		"templates/settings.yaml": settingsTemplate,
		"templates/secret.yaml":   "apiVersion: v1\nkind: Secret\nmetadata: {name: secret}\nstringData: {word: {{ randAlphaNum 12 }}, how: {{ if .Release.IsInstall }}install{{ else }}upgrade{{ end }}, at: {{ .Release.Revision | quote }}}\n",
		"templates/hook.yaml":     strings.ReplaceAll(settingsTemplate, "name: settings", `name: hook, annotations: {helm.sh/hook: pre-upgrade}`),
	}
	comp := o.component(packedChart(t, "1.0.0", files))
	for _, colour := range []string{"red", "blue"} {
		comp.Values = map[string]any{"colour": colour}
		o.apply(comp)
		for value, want := range map[string]bool{colour: false, "green": true} {
			comp.Values = map[string]any{"colour": value}
			preview, err := o.Preview(t.Context(), comp)
			if err != nil {
				t.Fatal(err)
			}
			if preview.Changed != want {
				t.Errorf("%s is deployed, %s is wanted: changed is %t", colour, value, preview.Changed)
			}
			if preview.PreviousRevision == 0 || !strings.Contains(preview.Previous, "settings") || len(preview.PreviousHooks) != 1 {
				t.Errorf("previous is revision %d, %d hooks", preview.PreviousRevision, len(preview.PreviousHooks))
			}
		}
	}
}

func TestDiffersLeavesOutWhatIsNeverTheSame(t *testing.T) {
	config := func(name, data string) string {
		return fmt.Sprintf("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {%s}\n", name, data)
	}
	for name, test := range map[string]struct {
		old, one, two string
		want          bool
	}{
		"same":                  {config("a", "x: 1"), config("a", "x: 1"), config("a", "x: 1"), false},
		"other value":           {config("a", "x: 1"), config("a", "x: 2"), config("a", "x: 2"), true},
		"random value":          {config("a", "x: 1, y: r1"), config("a", "x: 1, y: r2"), config("a", "x: 1, y: r3"), false},
		"other beside random":   {config("a", "x: 1, y: r1"), config("a", "x: 2, y: r2"), config("a", "x: 2, y: r3"), true},
		"field gone":            {config("a", "x: 1, y: 2"), config("a", "x: 1"), config("a", "x: 1"), true},
		"field gone by random":  {config("a", "x: 1, y: r1, z: 1"), config("a", "x: 1, y: r2"), config("a", "x: 1, y: r3"), true},
		"object more":           {config("a", "x: 1"), config("a", "x: 1") + config("b", "x: 1"), config("a", "x: 1") + config("b", "x: 1"), true},
		"object less":           {config("a", "x: 1") + config("b", "x: 1"), config("a", "x: 1"), config("a", "x: 1"), true},
		"random name":           {config("r1", "x: 1"), config("r2", "x: 1"), config("r3", "x: 1"), false},
		"random name, one more": {config("r1", "x: 1") + config("b", "x: 1"), config("r2", "x: 1"), config("r3", "x: 1"), true},
		"list":                  {config("a", "x: [1, 2]"), config("a", "x: [1, 3]"), config("a", "x: [1, 3]"), true},
		"random in a list":      {config("a", "x: [1, r1]"), config("a", "x: [1, r2]"), config("a", "x: [1, r3]"), false},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := differs(&release.Release{Manifest: test.old}, &release.Release{Manifest: test.one}, &release.Release{Manifest: test.two})
			if err != nil {
				t.Fatal(err)
			}
			if got != test.want {
				t.Errorf("differs is %t", got)
			}
		})
	}
}
