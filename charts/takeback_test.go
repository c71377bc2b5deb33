package charts

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestForeignObjectsStopAnInstall(t *testing.T) {
	o := newOnCluster(t)
	o.create(strings.ReplaceAll(settingsTemplate, `{{ .Values.colour | default "red" | quote }}`, "white"))
	o.create(claimTemplate)
	settings, claim := o.live(refer("v1", "ConfigMap", "settings")), o.live(refer("v1", "PersistentVolumeClaim", "data"))
	comp := o.component(packedChart(t, "1.0.0", map[string]string{
		"templates/settings.yaml": settingsTemplate, "templates/claim.yaml": claimTemplate, "templates/web.yaml": webTemplate,
	}))
	_, err := o.Apply(t.Context(), comp, ApplyOptions{})
	var conflict *ConflictError
	if !errors.As(err, &conflict) {
		t.Fatalf("apply said %v", err)
	}
	want := []Conflict{
		{Kind: "ConfigMap", Namespace: o.namespace, Name: "settings", Owner: "made by somebody"},
		{Kind: "PersistentVolumeClaim", Namespace: o.namespace, Name: "data"},
	}
	got := conflict.Conflicts
	got[1].Owner = "" // controllers have written to it as well
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if o.statuses() != "" || o.live(refer("apps/v1", "Deployment", "web")) != nil {
		t.Errorf("something was begun: history %q", o.statuses())
	}
	if err := o.TakeBack(t.Context(), comp); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(settings, o.live(refer("v1", "ConfigMap", "settings"))); diff != "" {
		t.Error(diff)
	}
	after := o.live(refer("v1", "PersistentVolumeClaim", "data"))
	if diff := cmp.Diff(steady(claim), steady(after)); diff != "" {
		t.Error(diff)
	}
}

// steady is an object without what controllers write to it.
func steady(object map[string]any) map[string]any {
	copied := &unstructured.Unstructured{Object: object}
	copied = copied.DeepCopy()
	return map[string]any{"uid": string(copied.GetUID()), "access": copied.Object["spec"].(map[string]any)["accessModes"]}
}

func TestFailedFirstInstallIsTakenBack(t *testing.T) {
	o := newOnCluster(t)
	o.create(refer("v1", "ConfigMap", "neighbour"))
	neighbour := o.live(refer("v1", "ConfigMap", "neighbour"))
	comp := o.component(packedChart(t, "1.0.0", map[string]string{
		"templates/settings.yaml": settingsTemplate,
		"templates/claim.yaml":    claimTemplate,
		"templates/web.yaml":      webTemplate,
		"templates/hook.yaml":     strings.ReplaceAll(settingsTemplate, "name: settings", `name: hook, annotations: {helm.sh/hook: pre-install}`),
	}))
	comp.Values, comp.Timeout = map[string]any{"pod": "crash"}, 4*time.Second
	_, err := o.Apply(t.Context(), comp, ApplyOptions{})
	var unready *NotReadyError
	if !errors.As(err, &unready) {
		t.Fatalf("apply said %v", err)
	}
	said := unready.Objects[0]
	if len(unready.Objects) != 1 || said.Kind != "Deployment" || unready.After != comp.Timeout {
		t.Errorf("unready are %v", unready.Objects)
	}
	for _, word := range []string{"CrashLoopBackOff", "example.com/web:1.27"} {
		if !strings.Contains(said.Reason, word) {
			t.Errorf("reason %q does not say %s", said.Reason, word)
		}
	}
	if !strings.Contains(said.LastEvent, "Back-off") {
		t.Errorf("last event is %q", said.LastEvent)
	}
	claim := o.live(refer("v1", "PersistentVolumeClaim", "data"))

	comp.Timeout = 30 * time.Second
	for range 2 { // the second time there is nothing left to do
		if err := o.TakeBack(t.Context(), comp); err != nil {
			t.Fatal(err)
		}
		for _, manifest := range []string{refer("apps/v1", "Deployment", "web"), refer("v1", "ConfigMap", "settings"), refer("v1", "ConfigMap", "hook")} {
			if o.live(manifest) != nil {
				t.Errorf("still there:\n%s", manifest)
			}
		}
	}
	if got := o.statuses(); got != "failed" {
		t.Errorf("history is %q", got)
	}
	if diff := cmp.Diff(neighbour, o.live(refer("v1", "ConfigMap", "neighbour"))); diff != "" {
		t.Error(diff)
	}

	comp.Values, comp.Mark = nil, "attempt-2"
	o.apply(comp)
	if got := o.statuses(); got != "failed deployed" {
		t.Errorf("history is %q after the repair", got)
	}
	if diff := cmp.Diff(steady(claim), steady(o.live(refer("v1", "PersistentVolumeClaim", "data")))); diff != "" {
		t.Errorf("the claim did not survive: %s", diff)
	}
}

func TestTakeBackLeavesWhatAnotherAttemptMade(t *testing.T) {
	o := newOnCluster(t)
	comp := o.component(packedChart(t, "1.0.0", map[string]string{"templates/settings.yaml": settingsTemplate}))
	o.apply(comp)
	comp.Mark = "another"
	if err := o.TakeBack(t.Context(), comp); err != nil {
		t.Fatal(err)
	}
	if o.live(refer("v1", "ConfigMap", "settings")) == nil {
		t.Error("an object of another attempt was deleted")
	}
	comp.Mark = ""
	if err := o.TakeBack(t.Context(), comp); err == nil {
		t.Error("taking back without a mark was no error")
	}
}

func TestTakeBackKeepsTheClaimsOfAStatefulSet(t *testing.T) {
	o := newOnCluster(t)
	comp := o.component(packedChart(t, "1.0.0", map[string]string{"templates/set.yaml": `apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete}
  selector: {matchLabels: {app: db}}
  volumeClaimTemplates:
    - metadata: {name: data}
      spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
  template:
    metadata: {labels: {app: db}, annotations: {waybill.test/pod: never-ready}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: db, image: "example.com/db:1"}]
`}))
	comp.Timeout = 3 * time.Second
	if _, err := o.Apply(t.Context(), comp, ApplyOptions{}); err == nil {
		t.Fatal("it became ready")
	}
	claim := refer("v1", "PersistentVolumeClaim", "data-db-0")
	before := o.live(claim)
	comp.Timeout = 30 * time.Second
	if err := o.TakeBack(t.Context(), comp); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Second) // for a garbage collector that thought otherwise
	after := o.live(claim)
	if before == nil || after == nil || cmp.Diff(steady(before), steady(after)) != "" {
		t.Errorf("the claim was %v, is %v", before, after)
	}
	if o.live(refer("apps/v1", "StatefulSet", "db")) != nil {
		t.Error("the set is still there")
	}
}
