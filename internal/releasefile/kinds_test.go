package releasefile

import (
	"path/filepath"
	"slices"
	"testing"

	"waybill/bundle"
	"waybill/charts"
)

// A chart that asks for kinds of another component, or of its own crds/, names
// images only where they are.
func TestImagesThatTheReleasesOwnKindsBringAreFound(t *testing.T) {
	const definition = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: widgets.own.example}\nspec: {group: own.example, names: {kind: Widget, plural: widgets}, versions: [{name: v1, served: true}]}\n"
	pod := func(name, image string) string {
		return "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + "}\nspec: {containers: [{name: a, image: '" + image + "'}]}\n"
	}
	inRelease := func(policy string) *File {
		return mustRead(t, filepath.Join(write(t, map[string]string{
			"release.yaml": "apiVersion: waybill/v1\nkind: Release\nname: shop\nversion: 1.0.0\ncomponents:\n" +
				"- {name: crds, namespace: shop, crds: " + policy + ", chart: {path: crds}}\n" +
				"- {name: web, namespace: shop, chart: {path: web}}\n- {name: needy, namespace: shop, chart: {path: needy}}\n",
			"crds/Chart.yaml":          "apiVersion: v2\nname: crds\nversion: 1.0.0\n",
			"crds/crds/widgets.yaml":   definition,
			"crds/templates/pod.yaml":  pod("op", "quay.io/own/op:1"),
			"web/Chart.yaml":           "apiVersion: v2\nname: web\nversion: 1.0.0\n",
			"web/templates/pod.yaml":   pod("web", "quay.io/own/web:1") + "{{- if .Capabilities.APIVersions.Has \"own.example/v1\" }}\n---\n" + pod("agent", "quay.io/own/agent:1") + "{{- end }}\n",
			"needy/Chart.yaml":         "apiVersion: v2\nname: needy\nversion: 1.0.0\n",
			"needy/templates/pod.yaml": "{{- if not (.Capabilities.APIVersions.Has \"own.example/v1/Widget\") }}{{ fail \"no widgets\" }}{{ end }}\n" + pod("needy", "quay.io/own/needy:1"),
		}), "release.yaml"))
	}
	f := inRelease("upgrade")
	found, err := f.FindImages(packedFor(t, f), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, image := range found.Images {
		names = append(names, image.Reference)
	}
	if want := []string{"quay.io/own/agent:1", "quay.io/own/needy:1", "quay.io/own/op:1", "quay.io/own/web:1"}; !slices.Equal(names, want) {
		t.Errorf("found %q, want %q", names, want)
	}
	f = inRelease("skip") // nobody brings them
	if _, err := f.FindImages(packedFor(t, f), nil); err == nil {
		t.Error("a chart that wants kinds nobody brings is rendered")
	}
}

func packedFor(t *testing.T, f *File) map[string]bundle.Chart {
	t.Helper()
	packed := map[string]bundle.Chart{}
	for _, c := range f.Release.Components {
		chart, err := charts.Resolve(t.Context(), filepath.Dir(f.Path), charts.Source{Path: c.Chart.Path}, charts.ResolveOptions{})
		if err != nil {
			t.Fatal(err)
		}
		packed[c.Name] = chart
	}
	return packed
}
