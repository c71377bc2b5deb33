package charts

import (
	"slices"
	"strings"
	"testing"
)

// Who is rendered next asks for kinds without looking at the cluster anew, and finds those that were brought just now,
// wherever the chart has them.
func TestKindsAreKnownOnceTheirChartIsApplied(t *testing.T) {
	for name, path := range map[string]string{"in crds": "crds/widget.yaml", "in templates": "templates/widget.yaml"} {
		t.Run(name, func(t *testing.T) {
			o := newOnCluster(t)
			group := o.namespace + ".example.com"
			defer o.deleteCRDs("widgets." + group)
			o.wantKind(group+"/v1/Widget", false)
			comp := o.component(packedChart(t, "1.0.0", map[string]string{path: crd(group, "Widget", "", "v1")}))
			o.apply(comp)
			o.wantKind(group+"/v1/Widget", true)

			comp.Chart = packedChart(t, "1.1.0", map[string]string{path: crd(group, "Widget", "", "v1", "v2")})
			o.apply(comp)
			o.wantKind(group+"/v2/Widget", true)
		})
	}
}

func TestKindsOfHooksAreKnownOnceTheirChartIsApplied(t *testing.T) {
	o := newOnCluster(t)
	group := o.namespace + ".example.com"
	defer o.deleteCRDs("widgets." + group)
	o.wantKind(group+"/v1/Widget", false)
	o.apply(o.component(packedChart(t, "1.0.0", map[string]string{
		"templates/widget.yaml": annotated(crd(group, "Widget", "", "v1"), "helm.sh/hook: post-install"),
		"templates/swept.yaml":  annotated(crd(group, "Gadget", "", "v1"), "helm.sh/hook: post-install, helm.sh/hook-delete-policy: hook-succeeded"),
		"templates/later.yaml":  annotated(crd(group, "Part", "", "v1"), "helm.sh/hook: post-upgrade"),
	})))
	o.wantKind(group+"/v1/Widget", true)
}

// A CRD may be there and not served yet: somebody else has just applied it.
func TestKindsThatAreThereAreAwaited(t *testing.T) {
	o := newOnCluster(t)
	group := o.namespace + ".example.com"
	defer o.deleteCRDs("widgets." + group)
	o.wantKind(group+"/v1/Widget", false)
	o.create(crd(group, "Widget", "", "v1"))
	o.apply(o.component(packedChart(t, "1.0.0", map[string]string{
		"crds/widget.yaml":   crd(group, "Widget", "", "v1"),
		"templates/one.yaml": "apiVersion: " + group + "/v1\nkind: Widget\nmetadata: {name: one}\n",
	})))
	o.wantKind(group+"/v1/Widget", true)
}

// annotated is an object of [crd] with annotations.
func annotated(object, annotations string) string {
	return strings.Replace(object, "metadata: {", "metadata: {annotations: {"+annotations+"}, ", 1)
}

// wantKind wants a kind to be among what is known of the cluster, or not.
func (o *onCluster) wantKind(kind string, want bool) {
	o.t.Helper()
	caps, err := o.Capabilities(o.t.Context())
	if err != nil {
		o.t.Fatal(err)
	}
	if got := slices.Contains(caps.APIVersions, kind); got != want {
		o.t.Errorf("%s is known: %t, want %t", kind, got, want)
	}
}
