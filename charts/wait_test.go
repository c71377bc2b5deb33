package charts

import (
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func parseOne(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	objects, err := parseObjects(manifest)
	if err != nil || len(objects) != 1 {
		t.Fatalf("%d objects, %v", len(objects), err)
	}
	return objects[0]
}

func TestReadiness(t *testing.T) {
	const deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {generation: 2}\n"
	const set = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {generation: 1}\n"
	const available = "{type: Available, status: \"True\"}, {type: Progressing, status: \"True\", reason: NewReplicaSetAvailable}"
	const custom = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {generation: 3}\n"
	for name, test := range map[string]struct{ manifest, want string }{
		"deployment that may have all unavailable": {deployment + "spec: {replicas: 1}\nstatus: {observedGeneration: 2, replicas: 1, updatedReplicas: 1, unavailableReplicas: 1, conditions: [" + available + "]}", "open"},
		"deployment of an old generation":          {deployment + "spec: {replicas: 1}\nstatus: {observedGeneration: 1, replicas: 1, updatedReplicas: 1, readyReplicas: 1, availableReplicas: 1, conditions: [" + available + "]}", "open"},
		"deployment that runs":                     {deployment + "spec: {replicas: 1}\nstatus: {observedGeneration: 2, replicas: 1, updatedReplicas: 1, readyReplicas: 1, availableReplicas: 1, conditions: [" + available + "]}", "ready"},
		"deployment that wants none":               {deployment + "spec: {replicas: 0}\nstatus: {observedGeneration: 2}", "ready"},
		"deployment nobody has seen":               {deployment + "spec: {replicas: 0}", "open"},
		"deployment that is paused":                {deployment + "spec: {replicas: 1, paused: true}\nstatus: {observedGeneration: 2}", "ready"},
		"deployment beyond its deadline":           {deployment + "spec: {replicas: 1}\nstatus: {observedGeneration: 2, conditions: [{type: Progressing, status: \"False\", reason: ProgressDeadlineExceeded}]}", "failed"},
		"stateful set nobody has seen":             {set + "spec: {replicas: 0}", "open"},
		"stateful set by hand, not ready":          {set + "spec: {replicas: 2, updateStrategy: {type: OnDelete}}\nstatus: {observedGeneration: 1, replicas: 2, readyReplicas: 1}", "open"},
		"stateful set by hand, ready":              {set + "spec: {replicas: 2, updateStrategy: {type: OnDelete}}\nstatus: {observedGeneration: 1, replicas: 2, readyReplicas: 2}", "ready"},
		"job that runs":                            {"apiVersion: batch/v1\nkind: Job\nstatus: {startTime: \"2026-01-01T00:00:00Z\", active: 1}", "open"},
		"job that completed":                       {"apiVersion: batch/v1\nkind: Job\nstatus: {conditions: [{type: Complete, status: \"True\"}]}", "ready"},
		"job that failed":                          {"apiVersion: batch/v1\nkind: Job\nstatus: {conditions: [{type: Failed, status: \"True\", reason: BackoffLimitExceeded}]}", "failed for good"},
		"job that is suspended":                    {"apiVersion: batch/v1\nkind: Job\nspec: {suspend: true}", "ready"},
		"pod that failed":                          {"apiVersion: v1\nkind: Pod\nstatus: {phase: Failed}", "failed for good"},
		"pod that runs unready":                    {"apiVersion: v1\nkind: Pod\nstatus: {phase: Running, conditions: [{type: Ready, status: \"False\"}]}", "open"},
		"claim that is bound":                      {"apiVersion: v1\nkind: PersistentVolumeClaim\nstatus: {phase: Bound}", "ready"},
		"claim that is not":                        {"apiVersion: v1\nkind: PersistentVolumeClaim\nstatus: {phase: Pending}", "open"},
		"custom resource without status":           {custom, "ready"},
		"custom resource that says it is ready":    {custom + "status: {observedGeneration: 3, conditions: [{type: Ready, status: \"True\"}]}", "ready"},
		"custom resource that says it is not":      {custom + "status: {conditions: [{type: Ready, status: \"False\", reason: Busy}]}", "open"},
		"custom resource of an old generation":     {custom + "status: {observedGeneration: 2, conditions: [{type: Ready, status: \"True\"}]}", "open"},
		"custom resource in a form of its own":     {custom + "status: {phase: Whatever}", "ready"},
		"custom resource that is stalled":          {custom + "status: {conditions: [{type: Stalled, status: \"True\"}]}", "failed"},
		"what is being deleted":                    {"apiVersion: v1\nkind: ConfigMap\nmetadata: {deletionTimestamp: \"2026-01-01T00:00:00Z\"}", "open"},
		"crd that is not established":              {"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition", "open"},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := readiness(parseOne(t, test.manifest))
			if err != nil {
				t.Fatal(err)
			}
			got := "open"
			switch {
			case found.ready:
				got = "ready"
			case found.final:
				got = "failed for good"
			case found.failed:
				got = "failed"
			}
			if got != test.want {
				t.Errorf("%s (%s), want %s", got, found.reason, test.want)
			}
			if !found.ready && found.reason == "" {
				t.Error("no reason is given")
			}
		})
	}
}

func TestPodTrouble(t *testing.T) {
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: web-0}\nspec: {initContainers: [{name: first, image: example.com/first:1}], containers: [{name: web, image: example.com/web:1}]}\n"
	for name, test := range map[string]struct{ status, want string }{
		"image that is not there": {
			"status: {phase: Pending, containerStatuses: [{name: web, state: {waiting: {reason: ImagePullBackOff, message: no such image}}}]}",
			"pod web-0: container web (image example.com/web:1): ImagePullBackOff: no such image",
		},
		"init container that fails": {
			"status: {phase: Pending, initContainerStatuses: [{name: first, state: {terminated: {exitCode: 3, reason: Error}}}], containerStatuses: [{name: web, state: {waiting: {reason: PodInitializing}}}]}",
			"pod web-0: container first (image example.com/first:1): ended with exit code 3: Error",
		},
		"no room": {
			"status: {phase: Pending, conditions: [{type: PodScheduled, status: \"False\", reason: Unschedulable, message: 0/1 nodes}]}",
			"pod web-0: not scheduled: Unschedulable: 0/1 nodes",
		},
		"running": {"status: {phase: Running}", "pod web-0: is running and not ready"},
		"ready":   {"status: {phase: Running, conditions: [{type: Ready, status: \"True\"}]}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := podTrouble([]unstructured.Unstructured{*parseOne(t, pod+test.status)})
			if got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

func TestWaitOnACluster(t *testing.T) {
	for name, test := range map[string]struct {
		values  map[string]any
		files   map[string]string
		unready string // kind of what is not ready, empty for success
		fast    bool   // fails before the time-out
	}{
		"no replicas":        {map[string]any{"replicas": 0}, map[string]string{"templates/a.yaml": webTemplate}, "", false},
		"slow pods":          {map[string]any{"pod": "slow=2s"}, map[string]string{"templates/a.yaml": webTemplate}, "", false},
		"pod never ready":    {map[string]any{"pod": "never-ready"}, map[string]string{"templates/a.yaml": webTemplate}, "Deployment", false},
		"job that completes": {nil, map[string]string{"templates/a.yaml": jobTemplate("work", "")}, "", false},
		"job that fails":     {map[string]any{"job": "crash"}, map[string]string{"templates/a.yaml": jobTemplate("work", "")}, "Job", true},
		"job that hangs":     {map[string]any{"job": "hang"}, map[string]string{"templates/a.yaml": jobTemplate("work", "")}, "Job", false},
		"claim nobody binds": {nil, map[string]string{"templates/a.yaml": claimTemplate}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOnCluster(t)
			comp := o.component(packedChart(t, "1.0.0", test.files))
			comp.Values, comp.Timeout = test.values, 8*time.Second
			begun := time.Now()
			_, err := o.Apply(t.Context(), comp, ApplyOptions{})
			if test.unready == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			var unready *NotReadyError
			if !errors.As(err, &unready) || len(unready.Objects) != 1 || unready.Objects[0].Kind != test.unready {
				t.Fatalf("apply said %v, want %s not ready", err, test.unready)
			}
			if early := time.Since(begun) < comp.Timeout; early != test.fast {
				t.Errorf("failed after %s of %s", time.Since(begun), comp.Timeout)
			}
		})
	}
}
