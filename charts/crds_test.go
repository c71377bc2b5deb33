package charts

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// crd is a CustomResourceDefinition in a group of the test's own. The first of
// the versions is stored.
func crd(group, kind string, fields string, versions ...string) string {
	plural := strings.ToLower(kind) + "s"
	text := fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]s.%[2]s, creationTimestamp: null}
spec:
  group: %[2]s
  scope: Namespaced
  names: {kind: %[3]s, plural: %[1]s}
  versions:
`, plural, group, kind)
	for i, version := range versions {
		text += fmt.Sprintf(`  - name: %s
    served: true
    storage: %t
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {%s}}}}}
`, version, i == 0, fields)
	}
	return text + "status: {conditions: [], storedVersions: []}\n"
}

func (o *onCluster) deleteCRDs(names ...string) {
	client, err := o.objects(o.t.Context())
	if err != nil {
		o.t.Fatal(err)
	}
	for _, name := range names {
		targets, _, err := o.locate(o.t.Context(), refer("apiextensions.k8s.io/v1", "CustomResourceDefinition", name), "")
		if err != nil {
			o.t.Fatal(err)
		}
		if err := targets[0].in(client).Delete(o.t.Context(), name, metav1.DeleteOptions{}); err != nil && !isGone(err) {
			o.t.Error(err)
		}
	}
}

func TestCRDsComeBeforeTemplatesAndAreUpgraded(t *testing.T) {
	o := newOnCluster(t)
	group := o.namespace + ".example.com"
	names := []string{"widgets." + group, "gadgets." + group, "parts." + group}
	defer o.deleteCRDs(names...)
	widget := fmt.Sprintf("apiVersion: %s/v1\nkind: Widget\nmetadata: {name: one}\nspec: {size: 1%%s}\n", group)
	comp := o.component(packedChart(t, "1.0.0", map[string]string{
		"crds/widget.yaml":     crd(group, "Widget", "size: {type: integer}", "v1"),
		"templates/one.yaml":   fmt.Sprintf(widget, ""),
		"templates/check.yaml": `{{ if not (.Capabilities.APIVersions.Has "` + group + `/v1/Widget") }}{{ fail "templates came first" }}{{ end }}`,
	}))
	o.apply(comp)

	second := map[string]string{
		"crds/widget.yaml":             crd(group, "Widget", "size: {type: integer}, colour: {type: string}", "v1"),
		"crds/gadget.yaml":             crd(group, "Gadget", "", "v1"),
		"charts/part/Chart.yaml":       "apiVersion: v2\nname: part\nversion: 1.0.0\n",
		"charts/part/crds/part.yaml":   crd(group, "Part", "", "v1"),
		"templates/one.yaml":           fmt.Sprintf(widget, ", colour: red"),
		"templates/two.yaml":           fmt.Sprintf("apiVersion: %s/v1\nkind: Gadget\nmetadata: {name: two}\n", group),
		"charts/part/templates/p.yaml": fmt.Sprintf("apiVersion: %s/v1\nkind: Part\nmetadata: {name: three}\n", group),
	}
	comp.Chart = packedChart(t, "2.0.0", second)
	preview, err := o.Preview(t.Context(), comp)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, change := range preview.CRDs {
		got[change.Name] = change.Action
	}
	want := map[string]string{names[0]: CRDUpdate, names[1]: CRDCreate, names[2]: CRDCreate}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(preview.Missing) > 0 {
		t.Errorf("missing are %v, which the chart brings itself", preview.Missing)
	}
	o.apply(comp)
	live := &unstructured.Unstructured{Object: o.live(fmt.Sprintf(widget, ""))}
	if colour := textAt(live, "spec", "colour"); colour != "red" {
		t.Errorf("the new field is %q", colour)
	}
	if preview, err = o.Preview(t.Context(), comp); err != nil {
		t.Fatal(err)
	}
	for _, change := range preview.CRDs {
		if change.Action != CRDKeep {
			t.Errorf("%s would change again: %s", change.Name, change.Action)
		}
	}

	third := maps.Clone(second)
	third["crds/widget.yaml"] = crd(group, "Widget", "size: {type: integer}", "v2")
	comp.Chart = packedChart(t, "3.0.0", third)
	_, err = o.Apply(t.Context(), comp, ApplyOptions{})
	var conflict *ConflictError
	if !errors.As(err, &conflict) || !strings.Contains(err.Error(), "version v1") {
		t.Errorf("dropping a stored version: %v", err)
	}
	if err := o.Uninstall(t.Context(), comp); err != nil {
		t.Fatal(err)
	}
	if o.live(refer("apiextensions.k8s.io/v1", "CustomResourceDefinition", names[0])) == nil {
		t.Error("uninstall took a CRD of crds/ along")
	}
}

func TestCRDPolicies(t *testing.T) {
	existing := parseOne(t, crd("example.com", "Widget", "size: {type: integer}", "v1"))
	if err := unstructured.SetNestedStringSlice(existing.Object, []string{"v1"}, "status", "storedVersions"); err != nil {
		t.Fatal(err)
	}
	foreign := existing.DeepCopy()
	foreign.SetAnnotations(map[string]string{releaseNameAnnotation: "other", releaseNamespaceAnnotation: "elsewhere"})
	same, more := crd("example.com", "Widget", "size: {type: integer}", "v1"), crd("example.com", "Widget", "size: {type: string}", "v1")
	for name, test := range map[string]struct {
		policy, wanted string
		live           *unstructured.Unstructured
		want           CRDChange
	}{
		"absent":               {"", same, nil, CRDChange{Action: CRDCreate}},
		"absent, create":       {CRDsCreate, same, nil, CRDChange{Action: CRDCreate}},
		"same":                 {"", same, existing, CRDChange{Action: CRDKeep}},
		"other":                {CRDsUpgrade, more, existing, CRDChange{Action: CRDUpdate}},
		"other, create":        {CRDsCreate, more, existing, CRDChange{Action: CRDKeep}},
		"of another's":         {"", more, foreign, CRDChange{Action: CRDKeep, Owner: "Helm release elsewhere/other"}},
		"without what is kept": {"", crd("example.com", "Widget", "", "v2"), existing, CRDChange{Action: CRDUpdate, DropsStored: []string{"v1"}}},
	} {
		t.Run(name, func(t *testing.T) {
			wanted := target{object: parseOne(t, test.wanted), mapping: crdMapping()}
			got, err := crdChange(Component{CRDs: test.policy}, wanted, test.live)
			if err != nil {
				t.Fatal(err)
			}
			test.want.Kind, test.want.Name = "CustomResourceDefinition", "widgets.example.com"
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	if err := knownPolicy("replace"); err == nil {
		t.Error("an unknown policy was taken")
	}
}
