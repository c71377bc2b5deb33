package bundle

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// release makes a release of components given as name, stage and needs.
func release(stages []string, components ...Component) *Release {
	for i := range components {
		components[i].Chart, components[i].Namespace = ChartSource{Path: "x"}, "shop"
	}
	return &Release{APIVersion: APIVersion, Kind: KindRelease, Name: "shop", Version: "1.0.0", Stages: stages, Components: components}
}

func TestLevels(t *testing.T) {
	tests := []struct {
		name string
		rel  *Release
		want [][]string
	}{
		{"no needs", release(nil, Component{Name: "b"}, Component{Name: "a"}), [][]string{{"a", "b"}}},
		{"a chain", release(nil, Component{Name: "c", Needs: []string{"b"}}, Component{Name: "b", Needs: []string{"a"}}, Component{Name: "a"}),
			[][]string{{"a"}, {"b"}, {"c"}}},
		{"a diamond", release(nil, Component{Name: "d", Needs: []string{"c", "b"}}, Component{Name: "b", Needs: []string{"a"}}, Component{Name: "c", Needs: []string{"a"}}, Component{Name: "a"}),
			[][]string{{"a"}, {"b", "c"}, {"d"}}},
		{"stages", release([]string{"one", "two"}, Component{Name: "a", Stage: "two"}, Component{Name: "z", Stage: "one"}, Component{Name: "y", Stage: "one", Needs: []string{"z"}}, Component{Name: "b", Stage: "two", Needs: []string{"a"}}),
			[][]string{{"z"}, {"y"}, {"a"}, {"b"}}},
		{"an empty stage between", release([]string{"one", "two", "three"}, Component{Name: "a", Stage: "three"}, Component{Name: "z", Stage: "one"}),
			[][]string{{"z"}, {"a"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.rel.Levels()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("levels (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLevelsOfACycle(t *testing.T) {
	rel := release(nil, Component{Name: "a"}, Component{Name: "d", Needs: []string{"b"}}, Component{Name: "c", Needs: []string{"d"}}, Component{Name: "b", Needs: []string{"a", "c"}})
	_, err := rel.Levels()
	var cycle *CycleError
	if !errors.As(err, &cycle) {
		t.Fatalf("error is %v, want a CycleError", err)
	}
	if diff := cmp.Diff([]string{"b", "c", "d", "b"}, cycle.Path); diff != "" {
		t.Errorf("cycle (-want +got):\n%s", diff)
	}
	late := release([]string{"one", "two"}, Component{Name: "a", Stage: "one", Needs: []string{"b"}}, Component{Name: "b", Stage: "two"})
	if _, err := late.Levels(); !errors.As(err, &cycle) {
		t.Errorf("need of a later stage: error is %v, want a CycleError", err)
	}
}

func TestDependents(t *testing.T) {
	rel := release([]string{"one", "two"}, Component{Name: "a", Stage: "one"}, Component{Name: "b", Stage: "one", Needs: []string{"a"}}, Component{Name: "c", Stage: "two"}, Component{Name: "d", Stage: "two", Needs: []string{"c"}})
	for name, want := range map[string][]string{"a": {"b", "c", "d"}, "b": {"c", "d"}, "c": {"d"}, "d": nil, "unknown": nil} {
		if diff := cmp.Diff(want, rel.Dependents(name)); diff != "" {
			t.Errorf("dependents of %s (-want +got):\n%s", name, diff)
		}
	}
	for name, want := range map[string][]string{"a": nil, "b": {"a"}, "c": {"a", "b"}, "d": {"a", "b", "c"}, "unknown": nil} {
		if diff := cmp.Diff(want, rel.Dependencies(name)); diff != "" {
			t.Errorf("dependencies of %s (-want +got):\n%s", name, diff)
		}
	}
}

func TestCheck(t *testing.T) {
	tests := []struct {
		name, text string
		want       []string
	}{
		{"a name twice", component + "- name: db\n  chart: {path: z}\n  namespace: other\n", []string{`r:8:3: components[1].name: a component "db" is there already`}},
		{"a Helm release twice", component + "- name: two\n  releaseName: db\n  chart: {path: z}\n  namespace: shop\n", []string{
			`r:8:3: components[1]: component two would have the Helm release "db" in namespace "shop", which component db has`,
		}},
		{"one Helm release name in two namespaces", component + "- name: two\n  releaseName: db\n  chart: {path: z}\n  namespace: other\n", nil},
		{"unknown stage", "stages: [base, apps]\n" + component + "  stage: bsae\n- name: two\n  chart: {path: z}\n  namespace: shop\n", []string{
			`r:9:3: components[0].stage: component db names the unknown stage "bsae"; did you mean "base"?`,
			`r:10:3: components[1]: component two names no stage; there are base, apps`,
		}},
		{"stage without stages", component + "  stage: base\n", []string{`r:8:3: components[0].stage: component db names stage "base", and the release lists no stages`}},
		{"needs", "stages: [base, apps]\n" + component + "  stage: base\n  needs: [dbb, db, web]\n- {name: web, stage: apps, chart: {path: x}, namespace: shop}\n", []string{
			`r:10:11: components[0].needs[0]: component db needs the unknown component "dbb"; did you mean "db"?`,
			`r:10:16: components[0].needs[1]: component db needs itself`,
			`r:10:20: components[0].needs[2]: component db of stage "base" needs web of the later stage "apps"`,
		}},
		{"a cycle", component + "  needs: [web]\n- {name: web, needs: [db], chart: {path: x}, namespace: shop}\n", []string{
			`r:8:3: components[0].needs: components wait for each other: db needs web needs db`,
		}},
		{"ranges", "kubernetes: new\ncomponents:\n- name: db\n  chart: {repository: 'https://x.example', name: z, version: latest}\n  namespace: shop\n", []string{
			`r:4:1: kubernetes: "new" is no version or range of versions: improper constraint: "new"`,
			`r:7:53: components[0].chart.version: "latest" is no version or range of versions: improper constraint: "latest"`,
		}},
		{"profiles and parameters", component + "  profiles: [{name: ha, values: {}}, {name: ha, values: {}}]\n  parameters: {schema: {$ref: 'https://schemas.example/x.json'}}\n", []string{
			`r:8:39: components[0].profiles[1].name: component db has a profile "ha" already`,
			`r:9:16: components[0].parameters.schema: component db: not a JSON Schema: failing loading "https://schemas.example/x.json": refers to "https://schemas.example/x.json"; a schema must stand alone`,
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rel, err := ParseRelease("r", []byte(head+tt.text))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range rel.Check() {
				got = append(got, p.in("r"))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}
