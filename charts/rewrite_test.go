package charts

import (
	"fmt"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/release"
)

const relocated = "site.example/r@sha256:"

// relocate leads every reference of example.com to one digest.
func relocate(digit string) func(string) (string, bool) {
	return func(reference string) (string, bool) {
		return relocated + strings.Repeat(digit, 64), strings.HasPrefix(reference, "example.com/")
	}
}

const widgetDefinition = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]s.%[2]s}
spec:
  group: %[2]s
  names: {kind: Widget, plural: %[1]s}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {image: {type: string}, helper: {type: string, default: "example.com/helper:1"}}}
`

// imageChart names images in every place that is sent: a template, a custom
// resource, a hook, a test and crds/.
func imageChart(t *testing.T, group string) *Chart {
	t.Helper()
	return packedChart(t, "1.0.0", map[string]string{
		"crds/widgets.yaml":   fmt.Sprintf(widgetDefinition, "widgets", group),
		"templates/web.yaml":  webTemplate,
		"templates/one.yaml":  "apiVersion: " + group + "/v1\nkind: Widget\nmetadata: {name: one}\nspec: {image: 'example.com/widget:2'}\n",
		"templates/hook.yaml": jobTemplate("before", "helm.sh/hook: 'pre-install,pre-upgrade', helm.sh/hook-delete-policy: before-hook-creation"),
		"templates/test.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: check, annotations: {helm.sh/hook: test}}\nspec: {restartPolicy: Never, containers: [{name: t, image: 'example.com/test:1'}]}\n",
	})
}

func TestApplySendsAndRecordsRewrittenImages(t *testing.T) {
	o := newOnCluster(t)
	group := o.namespace + ".example"
	comp := o.component(imageChart(t, group))
	comp.Locate = relocate("1")
	preview, err := o.Preview(t.Context(), comp)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(preview.Images.Changes); n != 5 || len(preview.Images.Unknown) != 0 {
		t.Errorf("the preview changes %d references, want 5: %+v", n, preview.Images)
	}
	o.apply(comp)
	for what, want := range map[string]string{
		refer("apps/v1", "Deployment", "web"):                                          relocated + strings.Repeat("1", 64),
		refer("batch/v1", "Job", "before"):                                             relocated + strings.Repeat("1", 64),
		refer(group+"/v1", "Widget", "one"):                                            relocated + strings.Repeat("1", 64),
		refer("apiextensions.k8s.io/v1", "CustomResourceDefinition", "widgets."+group): relocated + strings.Repeat("1", 64),
	} {
		live := fmt.Sprint(o.live(what))
		if !strings.Contains(live, want) || strings.Contains(live, "example.com/") {
			t.Errorf("in the cluster is %s", live)
		}
	}
	record := o.record("shop", 1)
	all := record.Manifest
	for _, hook := range record.Hooks {
		all += hook.Manifest
	}
	if got := strings.Count(all, relocated); got != 4 || strings.Contains(all, "example.com/") {
		t.Errorf("Helm recorded %d rewritten references, want 4:\n%s", got, all)
	}
	if preview, err = o.Preview(t.Context(), comp); err != nil || preview.Changed {
		t.Errorf("a second time it changes: %v", err)
	}
}

// Another registry changes the live objects, custom resources included, and
// going back brings the recorded references.
func TestImagesMoveAndComeBack(t *testing.T) {
	o := newOnCluster(t)
	group := o.namespace + ".example"
	comp := o.component(imageChart(t, group))
	o.apply(comp) // as the chart writes them
	comp.Locate = relocate("2")
	preview, err := o.Preview(t.Context(), comp)
	if err != nil || !preview.Changed {
		t.Fatalf("going from kept to rewritten references changes nothing: %v", err)
	}
	o.apply(comp)
	widget := refer(group+"/v1", "Widget", "one")
	if live := fmt.Sprint(o.live(widget)); !strings.Contains(live, relocated) {
		t.Errorf("the custom resource is %s", live)
	}
	comp.Locate = nil
	if _, err := o.Rollback(t.Context(), comp, 1); err != nil {
		t.Fatal(err)
	}
	if live := fmt.Sprint(o.live(widget)); !strings.Contains(live, "example.com/widget:2") {
		t.Errorf("after going back the custom resource is %s", live)
	}
}

// A plain helm rollback runs the recorded hooks, which are rewritten.
func TestPlainHelmRollbackRunsRewrittenHooks(t *testing.T) {
	o := newOnCluster(t)
	chart := packedChart(t, "1.0.0", map[string]string{
		"templates/settings.yaml": settingsTemplate,
		"templates/hook.yaml":     jobTemplate("after", "helm.sh/hook: post-rollback"),
	})
	comp := o.component(chart)
	comp.Locate = relocate("3")
	o.apply(comp)
	comp.Values = map[string]any{"colour": "blue"}
	o.apply(comp)
	session, err := o.begin(t.Context(), comp)
	if err != nil {
		t.Fatal(err)
	}
	session.config.Releases.Driver = session.records.Driver // Helm's own
	rollback := action.NewRollback(session.config)
	rollback.Version, rollback.Timeout = 1, comp.Timeout
	if err := rollback.Run("shop"); err != nil {
		t.Fatal(err)
	}
	if live := fmt.Sprint(o.live(refer("batch/v1", "Job", "after"))); !strings.Contains(live, relocated) {
		t.Errorf("the hook ran as %s", live)
	}
}

// record is what Helm keeps of a revision.
func (o *onCluster) record(helmRelease string, revision int) *release.Release {
	o.t.Helper()
	store, err := o.store(o.config, o.namespace)
	if err != nil {
		o.t.Fatal(err)
	}
	rel, err := store.Get(helmRelease, revision)
	if err != nil {
		o.t.Fatal(err)
	}
	return rel
}

func TestRenderRewritesWithoutACluster(t *testing.T) {
	rendered, err := imageChart(t, "shop.example").Render(RenderOptions{Locate: relocate("4")})
	if err != nil {
		t.Fatal(err)
	}
	all := rendered.Manifest + string(rendered.CRDs[0].Data)
	for _, hook := range append(rendered.Hooks, rendered.Tests...) {
		all += hook.Manifest
	}
	if got := strings.Count(all, relocated); got != 5 || strings.Contains(all, "example.com/") {
		t.Errorf("%d references are rewritten, want 5:\n%s", got, all)
	}
}
