package charts

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/release"
	helmtime "helm.sh/helm/v3/pkg/time"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

var everyStatus = []release.Status{
	release.StatusDeployed, release.StatusSuperseded, release.StatusFailed, release.StatusUninstalled, release.StatusUninstalling,
	release.StatusPendingInstall, release.StatusPendingUpgrade, release.StatusPendingRollback, release.StatusUnknown,
}

// put records revisions with the given statuses, as if others had left them.
func (o *onCluster) put(helmRelease string, chart *Chart, statuses ...release.Status) {
	o.t.Helper()
	store, err := o.store(o.config, o.namespace)
	if err != nil {
		o.t.Fatal(err)
	}
	loaded, _, err := chart.prepare(nil)
	if err != nil {
		o.t.Fatal(err)
	}
	for i, status := range statuses {
		err := store.Create(&release.Release{
			Name: helmRelease, Namespace: o.namespace, Version: i + 1, Chart: loaded,
			Manifest: refer("v1", "ConfigMap", "old-"+helmRelease),
			Info:     &release.Info{Status: status, FirstDeployed: helmtime.Now(), LastDeployed: helmtime.Now()},
		})
		if err != nil {
			o.t.Fatal(err)
		}
	}
}

func TestApplyGoesOnFromEveryHistory(t *testing.T) {
	o := newOnCluster(t)
	chart := packedChart(t, "1.0.0", map[string]string{
		"templates/settings.yaml": strings.ReplaceAll(settingsTemplate, "name: settings", "name: {{ .Release.Name }}"),
	})
	var histories [][]release.Status
	for _, first := range everyStatus {
		histories = append(histories, []release.Status{first})
		for _, second := range everyStatus {
			histories = append(histories, []release.Status{first, second})
		}
	}
	for _, history := range append(histories, nil) {
		var words []string
		for _, status := range history {
			words = append(words, strings.ReplaceAll(status.String(), "pending-", "p-"))
		}
		name := strings.Join(append(words, "next"), "-")
		t.Run(name, func(t *testing.T) {
			o.put(name, chart, history...)
			comp := o.component(chart)
			comp.HelmRelease = name
			stuck := len(history) > 0 && unfinished(history[len(history)-1])
			if stuck {
				_, err := o.Apply(t.Context(), comp, ApplyOptions{})
				var pending *PendingError
				if !errors.As(err, &pending) || pending.Revision.Number != len(history) {
					t.Fatalf("without leave to reclaim: %v, want a pending error naming revision %d", err, len(history))
				}
			}
			revision, err := o.Apply(t.Context(), comp, ApplyOptions{ReclaimPending: true})
			if err != nil {
				t.Fatal(err)
			}
			if revision.Number != len(history)+1 {
				t.Errorf("made revision %d after %d", revision.Number, len(history))
			}
			after, err := o.History(t.Context(), o.namespace, name)
			if err != nil {
				t.Fatal(err)
			}
			for i, was := range after {
				last := i == len(after)-1
				if (was.Status == "deployed") != last || was.Pending() {
					t.Errorf("revision %d of %d is %s", was.Number, len(after), was.Status)
				}
			}
		})
	}
}

func TestApplyMarksAndRecords(t *testing.T) {
	o := newOnCluster(t)
	comp := o.component(packedChart(t, "1.0.0", map[string]string{
		"templates/settings.yaml": settingsTemplate,
		"templates/hook.yaml":     strings.ReplaceAll(settingsTemplate, "name: settings", `name: hook, annotations: {helm.sh/hook: pre-install}`),
	}))
	comp.Values = map[string]any{"colour": "blue"}
	revision := o.apply(comp)
	want := []ObjectRef{
		{APIVersion: "v1", Kind: "ConfigMap", Namespace: o.namespace, Name: "hook"},
		{APIVersion: "v1", Kind: "ConfigMap", Namespace: o.namespace, Name: "settings"},
	}
	if diff := cmp.Diff(want, revision.Created); diff != "" {
		t.Error(diff)
	}
	for _, name := range []string{"hook", "settings"} {
		live := &unstructured.Unstructured{Object: o.live(refer("v1", "ConfigMap", name))}
		if got := live.GetAnnotations()[MarkAnnotation]; got != "attempt-1" {
			t.Errorf("%s is marked %q", name, got)
		}
		if got := live.GetManagedFields()[0].Manager; got != "helm" {
			t.Errorf("%s was written by %q, want helm", name, got)
		}
	}
	releases, err := o.history(t.Context(), o.namespace, "shop")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(releases[0].Manifest+releases[0].Hooks[0].Manifest, MarkAnnotation) {
		t.Error("the mark is in Helm's record")
	}
	history, err := o.History(t.Context(), o.namespace, "shop")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(comp.Labels, history[0].Labels); diff != "" {
		t.Error(diff)
	}
	// An upgrade marks only what it creates.
	comp.Mark = "attempt-2"
	comp.Chart = packedChart(t, "1.1.0", map[string]string{
		"templates/settings.yaml": settingsTemplate,
		"templates/more.yaml":     strings.ReplaceAll(settingsTemplate, "settings", "more"),
	})
	o.apply(comp)
	for name, mark := range map[string]string{"settings": "attempt-1", "more": "attempt-2"} {
		live := &unstructured.Unstructured{Object: o.live(refer("v1", "ConfigMap", name))}
		if got := live.GetAnnotations()[MarkAnnotation]; got != mark {
			t.Errorf("%s is marked %q, want %q", name, got, mark)
		}
	}
}

func TestHelmGoesOnFromWhatApplyRecorded(t *testing.T) {
	o := newOnCluster(t)
	comp := o.component(packedChart(t, "1.0.0", map[string]string{"templates/settings.yaml": settingsTemplate}))
	comp.Values = map[string]any{"colour": "blue"}
	o.apply(comp)
	comp.Values = map[string]any{"colour": "green"}
	o.apply(comp)

	config := &action.Configuration{}
	getter := restGetter{cluster: o.Cluster, config: o.config}
	if err := config.Init(getter, o.namespace, "secrets", func(string, ...any) {}); err != nil {
		t.Fatal(err)
	}
	config.KubeClient.(*kube.Client).Namespace = o.namespace // the command line sets it in the kubeconfig
	listed, err := action.NewList(config).Run()
	if err != nil || len(listed) != 1 || listed[0].Version != 2 || listed[0].Info.Status != release.StatusDeployed {
		t.Fatalf("list: %v, %v", listed, err)
	}
	values, err := action.NewGetValues(config).Run("shop")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"colour": "green"}, values); diff != "" {
		t.Error(diff)
	}
	back := action.NewRollback(config)
	back.Version = 1
	if err := back.Run("shop"); err != nil {
		t.Fatal(err)
	}
	if got := o.colour(); got != "blue" {
		t.Errorf("colour is %q after Helm's rollback", got)
	}
	comp.Values = map[string]any{"colour": "red"}
	o.apply(comp)
	if got, want := o.statuses(), "superseded superseded superseded deployed"; got != want {
		t.Errorf("history is %s, want %s", got, want)
	}
	if got := o.colour(); got != "red" {
		t.Errorf("colour is %q after another apply", got)
	}
}

func (o *onCluster) colour() string {
	colour, _, _ := unstructured.NestedString(o.live(refer("v1", "ConfigMap", "settings")), "data", "colour")
	return colour
}

func TestRevisionIsPendingWhileWaiting(t *testing.T) {
	o := newOnCluster(t)
	comp := o.component(packedChart(t, "1.0.0", map[string]string{"templates/web.yaml": webTemplate}))
	comp.Values = map[string]any{"pod": "never-ready"}
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := o.Apply(ctx, comp, ApplyOptions{})
		done <- err
	}()
	for o.live(refer("apps/v1", "Deployment", "web")) == nil {
		time.Sleep(50 * time.Millisecond)
	}
	time.Sleep(time.Second)
	if got := o.statuses(); got != "pending-install" {
		t.Errorf("history is %q while waiting", got)
	}
	stop := errors.New("somebody pressed the key")
	begun := time.Now()
	cancel(stop)
	err := <-done
	if took := time.Since(begun); took > 2*time.Second {
		t.Errorf("stopping took %s", took)
	}
	if !errors.Is(err, stop) {
		t.Errorf("apply said %v", err)
	}
	if got := o.statuses(); got != "failed" {
		t.Errorf("history is %q after stopping", got)
	}
}

func TestCancelWhileAHookRuns(t *testing.T) {
	o := newOnCluster(t)
	comp := o.component(packedChart(t, "1.0.0", map[string]string{
		"templates/job.yaml":      jobTemplate("prepare", `"helm.sh/hook": pre-install`),
		"templates/settings.yaml": settingsTemplate,
	}))
	comp.Values = map[string]any{"job": "hang"}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	begun := time.Now()
	_, err := o.Apply(ctx, comp, ApplyOptions{})
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("stopping took %s", took-3*time.Second)
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("apply said %v", err)
	}
	if got := o.statuses(); got != "failed" {
		t.Errorf("history is %q", got)
	}
	time.Sleep(time.Second)
	if o.live(refer("v1", "ConfigMap", "settings")) != nil {
		t.Error("Helm went on after apply returned")
	}
}

func TestHookThatFails(t *testing.T) {
	o := newOnCluster(t)
	comp := o.component(packedChart(t, "1.0.0", map[string]string{
		"templates/job.yaml":      jobTemplate("prepare", `"helm.sh/hook": pre-install`),
		"templates/settings.yaml": settingsTemplate,
	}))
	comp.Values = map[string]any{"job": "crash"}
	begun := time.Now()
	_, err := o.Apply(t.Context(), comp, ApplyOptions{})
	var unready *NotReadyError
	if !errors.As(err, &unready) || len(unready.Objects) != 1 || unready.Objects[0].Kind != "Job" {
		t.Fatalf("apply said %v, want the hook's Job named", err)
	}
	if time.Since(begun) > 20*time.Second {
		t.Errorf("a failed Job was waited for: %s", time.Since(begun))
	}
	if !strings.Contains(err.Error(), `component "shop"`) || !strings.Contains(unready.Objects[0].Reason, "example.com/work:1") {
		t.Errorf("message does not name component and image: %v", err)
	}
	if got := o.statuses(); got != "failed" {
		t.Errorf("history is %q", got)
	}
	comp.Values = nil
	o.apply(comp)
	if got := o.statuses(); got != "failed deployed" {
		t.Errorf("history is %q after the repair", got)
	}
}

func TestFailedUpgradeAndRollback(t *testing.T) {
	o := newOnCluster(t)
	comp := o.component(packedChart(t, "1.0.0", map[string]string{"templates/web.yaml": webTemplate}))
	o.apply(comp)
	comp.Mark, comp.Timeout = "attempt-2", 3*time.Second
	comp.Values = map[string]any{"pod": "crash"}
	comp.Chart = packedChart(t, "1.1.0", map[string]string{"templates/web.yaml": webTemplate, "templates/settings.yaml": settingsTemplate})
	revision, err := o.Apply(t.Context(), comp, ApplyOptions{})
	var unready *NotReadyError
	if !errors.As(err, &unready) || revision.Number != 2 || revision.Status != "failed" {
		t.Fatalf("apply said %v and made revision %d (%s)", err, revision.Number, revision.Status)
	}
	if got := o.statuses(); got != "deployed failed" {
		t.Errorf("history is %q after the failed upgrade", got)
	}
	comp.Timeout, comp.Mark = 30*time.Second, "attempt-3"
	if revision, err = o.Rollback(t.Context(), comp, 1); err != nil {
		t.Fatal(err)
	}
	if revision.Number != 3 || o.statuses() != "superseded failed deployed" {
		t.Errorf("revision %d, history %q after rolling back", revision.Number, o.statuses())
	}
	if o.live(refer("v1", "ConfigMap", "settings")) != nil {
		t.Error("what the failed upgrade brought is still there")
	}
}

func TestUninstall(t *testing.T) {
	o := newOnCluster(t)
	comp := o.component(packedChart(t, "1.0.0", map[string]string{
		"templates/web.yaml":      webTemplate,
		"templates/settings.yaml": strings.ReplaceAll(settingsTemplate, "name: settings", "name: settings, annotations: {helm.sh/resource-policy: keep}"),
	}))
	o.apply(comp)
	objects, err := o.UninstallObjects(t.Context(), comp)
	if err != nil {
		t.Fatal(err)
	}
	want := []ObjectRef{{APIVersion: "apps/v1", Kind: "Deployment", Namespace: o.namespace, Name: "web"}}
	if diff := cmp.Diff(want, objects); diff != "" {
		t.Error(diff)
	}
	for range 2 { // the second time there is nothing left to do
		if err := o.Uninstall(t.Context(), comp); err != nil {
			t.Fatal(err)
		}
	}
	if o.statuses() != "" || o.live(refer("apps/v1", "Deployment", "web")) != nil {
		t.Errorf("left: history %q", o.statuses())
	}
	if o.live(refer("v1", "ConfigMap", "settings")) == nil {
		t.Error("what asked to be kept is gone")
	}
	pods, err := o.clients.CoreV1().Pods(o.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(pods.Items) > 0 {
		t.Errorf("%d pods are left: %v", len(pods.Items), err)
	}
}

func TestUninstallThatIsCutOffGoesOn(t *testing.T) {
	o := newOnCluster(t)
	comp := o.component(packedChart(t, "1.0.0", map[string]string{
		"templates/settings.yaml": strings.ReplaceAll(settingsTemplate, "name: settings", "name: settings, finalizers: [example.com/hold]"),
	}))
	o.apply(comp)
	comp.Timeout = 2 * time.Second
	err := o.Uninstall(t.Context(), comp)
	var there *NotGoneError
	if !errors.As(err, &there) || !strings.Contains(err.Error(), "example.com/hold") {
		t.Fatalf("uninstall said %v, want the finalizer named", err)
	}
	patch := []byte(`{"metadata":{"finalizers":null}}`)
	if _, err := o.clients.CoreV1().ConfigMaps(o.namespace).Patch(t.Context(), "settings", "application/merge-patch+json", patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := o.Uninstall(t.Context(), comp); err != nil {
		t.Fatal(err)
	}
	if got := o.statuses(); got != "" {
		t.Errorf("history is %q", got)
	}
}

func TestRollbackDropsNoClaim(t *testing.T) {
	o := newOnCluster(t)
	comp := o.component(packedChart(t, "1.0.0", map[string]string{"templates/settings.yaml": settingsTemplate}))
	o.apply(comp)
	comp.Chart = packedChart(t, "1.1.0", map[string]string{
		"templates/settings.yaml": settingsTemplate, "templates/claim.yaml": claimTemplate,
		"templates/more.yaml": strings.ReplaceAll(settingsTemplate, "name: settings", "name: more"),
	})
	o.apply(comp)
	if _, err := o.Rollback(t.Context(), comp, 1); err != nil {
		t.Fatal(err)
	}
	if o.live(refer("v1", "ConfigMap", "more")) != nil {
		t.Error("what the newer revision brought is still there")
	}
	if o.live(refer("v1", "PersistentVolumeClaim", "data")) == nil {
		t.Error("a claim was deleted by a rollback")
	}
}

func TestRecordThatIsTooLargeLeavesNoTrace(t *testing.T) {
	o := newOnCluster(t)
	noise := make([]byte, 1300<<10)
	if _, err := rand.Read(noise); err != nil {
		t.Fatal(err)
	}
	comp := o.component(packedChart(t, "1.0.0", map[string]string{
		"templates/settings.yaml": settingsTemplate, "stray.bin": string(noise),
		"crds/crd.yaml": crd(o.namespace+".example.com", "Widget", "", "v1"),
	}))
	_, err := o.Apply(t.Context(), comp, ApplyOptions{})
	var large *RecordTooLargeError
	if !errors.As(err, &large) || len(large.Size.Largest) == 0 || large.Size.Largest[0].Name != "stray.bin" {
		t.Fatalf("apply said %v", err)
	}
	if o.statuses() != "" || o.live(refer("v1", "ConfigMap", "settings")) != nil ||
		o.live(refer("apiextensions.k8s.io/v1", "CustomResourceDefinition", "widgets."+o.namespace+".example.com")) != nil {
		t.Error("something was begun")
	}
}

func TestMissingKindsAreFoundBeforeTheFirstChange(t *testing.T) {
	o := newOnCluster(t)
	comp := o.component(packedChart(t, "1.0.0", map[string]string{
		"templates/settings.yaml": settingsTemplate,
		"templates/widget.yaml":   "apiVersion: example.com/v1\nkind: Unheard\nmetadata: {name: w}\n",
		"crds/crd.yaml":           crd(o.namespace+".example.com", "Widget", "", "v1"),
	}))
	_, err := o.Apply(t.Context(), comp, ApplyOptions{})
	var missing *MissingKindsError
	if !errors.As(err, &missing) || !strings.Contains(err.Error(), "example.com/v1 Unheard") {
		t.Fatalf("apply said %v", err)
	}
	if o.statuses() != "" || o.live(refer("apiextensions.k8s.io/v1", "CustomResourceDefinition", "widgets."+o.namespace+".example.com")) != nil {
		t.Error("something was begun")
	}
}
