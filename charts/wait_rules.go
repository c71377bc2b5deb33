package charts

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

var storageClasses = schema.GroupVersionResource{Group: "storage.k8s.io", Version: "v1", Resource: "storageclasses"}

// A state is what one look at an object says.
type state struct {
	ready  bool
	failed bool   // will not become ready as it stands
	final  bool   // and cannot recover
	claim  bool   // a volume claim that is not bound yet
	reason string // when not ready
}

func notYet(format string, args ...any) state { return state{reason: fmt.Sprintf(format, args...)} }

// readiness judges a live object. The rules are kstatus's, except where they
// let through what does not run, or wait for what never comes:
//
//   - what has replicas needs all of them ready, at the observed generation,
//     whatever its strategy tolerates; with none wanted it is ready;
//   - a Job must complete; a failed one has failed for good;
//   - a Pod must be ready or have succeeded;
//   - what is paused or suspended on purpose is ready.
//
// An unknown kind is ready when it exists, unless its status has the usual
// form: observedGeneration, and conditions Ready, Reconciling or Stalled.
func readiness(live *unstructured.Unstructured) (state, error) {
	if live.GetDeletionTimestamp() != nil {
		return notYet("is being deleted"), nil
	}
	switch live.GroupVersionKind().GroupKind() {
	case schema.GroupKind{Group: "apps", Kind: "Deployment"}:
		if flagAt(live, "spec", "paused") {
			return state{ready: observed(live)}, nil
		}
		return replicated(live)
	case schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}:
		return replicated(live)
	case schema.GroupKind{Group: "apps", Kind: "StatefulSet"}, schema.GroupKind{Group: "apps", Kind: "DaemonSet"}:
		if textAt(live, "spec", "updateStrategy", "type") == "OnDelete" {
			return onDelete(live), nil
		}
		return replicated(live)
	case schema.GroupKind{Kind: "ReplicationController"}:
		return onDelete(live), nil
	case schema.GroupKind{Group: "batch", Kind: "Job"}:
		if flagAt(live, "spec", "suspend") {
			return state{ready: true}, nil
		}
		return finished(live), nil
	case schema.GroupKind{Kind: "Pod"}:
		return running(live), nil
	case schema.GroupKind{Kind: "PersistentVolumeClaim"}:
		return bound(live), nil
	}
	return byKstatus(live)
}

// hookReadiness is the rule for hooks, Helm's own: Jobs and Pods must have
// finished well, everything else only be there.
func hookReadiness(live *unstructured.Unstructured) state {
	switch live.GroupVersionKind().GroupKind() {
	case schema.GroupKind{Group: "batch", Kind: "Job"}:
		return finished(live)
	case schema.GroupKind{Kind: "Pod"}:
		switch phase := textAt(live, "status", "phase"); phase {
		case "Succeeded":
			return state{ready: true}
		case "Failed":
			return state{failed: true, final: true, reason: "failed"}
		default:
			return notYet("has not finished (%s)", phase)
		}
	}
	return state{ready: true}
}

// byKstatus is the rule of sigs.k8s.io/cli-utils/pkg/kstatus.
func byKstatus(live *unstructured.Unstructured) (state, error) {
	result, err := status.Compute(live)
	if err != nil {
		return state{}, err
	}
	reason := result.Message
	if reason == "" {
		reason = "is " + strings.ToLower(result.Status.String())
		for _, condition := range result.Conditions {
			if condition.Reason != "" {
				reason += " (" + condition.Reason + ")"
			}
		}
	}
	return state{ready: result.Status == status.CurrentStatus, failed: result.Status == status.FailedStatus, reason: reason}, nil
}

// replicated is for the kinds of apps whose controller reports an observed
// generation. kstatus alone takes a StatefulSet that no controller has seen
// for complete.
func replicated(live *unstructured.Unstructured) (state, error) {
	if !observed(live) {
		return notYet("its controller has not seen it yet"), nil
	}
	if wanted, set := numberAt(live, "spec", "replicas"); set && wanted == 0 {
		left, _ := numberAt(live, "status", "replicas")
		return state{ready: left == 0, reason: fmt.Sprintf("%d replicas are still to go", left)}, nil
	}
	return byKstatus(live)
}

// onDelete is for what does not replace running pods by itself: the pods that
// run must be ready, old or new.
func onDelete(live *unstructured.Unstructured) state {
	if !observed(live) {
		return notYet("its controller has not seen it yet")
	}
	wanted, set := numberAt(live, "spec", "replicas")
	ready, _ := numberAt(live, "status", "readyReplicas")
	if live.GetKind() == "DaemonSet" {
		wanted, set = numberAt(live, "status", "desiredNumberScheduled")
		ready, _ = numberAt(live, "status", "numberReady")
	}
	if !set {
		wanted = 1
	}
	return state{ready: ready >= wanted, reason: fmt.Sprintf("Ready: %d/%d", ready, wanted)}
}

func finished(job *unstructured.Unstructured) state {
	for _, condition := range conditions(job) {
		if condition["status"] != "True" {
			continue
		}
		switch condition["type"] {
		case "Complete":
			return state{ready: true}
		case "Failed":
			return state{failed: true, final: true, reason: joined("failed", condition)}
		}
	}
	active, _ := numberAt(job, "status", "active")
	failed, _ := numberAt(job, "status", "failed")
	return notYet("has not completed (%d active, %d failed)", active, failed)
}

func running(pod *unstructured.Unstructured) state {
	switch phase := textAt(pod, "status", "phase"); phase {
	case "Succeeded":
		return state{ready: true}
	case "Failed":
		return state{failed: true, final: true, reason: "failed"}
	case "Running":
		for _, condition := range conditions(pod) {
			if condition["type"] == "Ready" && condition["status"] == "True" {
				return state{ready: true}
			}
		}
		return notYet("is running and not ready")
	default:
		return notYet("is %s", strings.ToLower(phase))
	}
}

func bound(claim *unstructured.Unstructured) state {
	switch phase := textAt(claim, "status", "phase"); phase {
	case "Bound":
		return state{ready: true}
	case "Lost":
		return state{failed: true, reason: "has lost its volume"}
	default:
		return state{claim: true, reason: "is not bound"}
	}
}

// observed reports whether the controller has seen this generation.
func observed(live *unstructured.Unstructured) bool {
	seen, found := numberAt(live, "status", "observedGeneration")
	return found && seen >= live.GetGeneration()
}

// conditions are the entries of status.conditions, as far as they are objects.
func conditions(live *unstructured.Unstructured) []map[string]any {
	list, _, _ := unstructured.NestedSlice(live.Object, "status", "conditions")
	return objectsIn(list)
}

func objectsIn(list []any) []map[string]any {
	var objects []map[string]any
	for _, item := range list {
		if object, ok := item.(map[string]any); ok {
			objects = append(objects, object)
		}
	}
	return objects
}

// joined is "what: reason: message" of a condition or a container's state.
func joined(what string, from map[string]any) string {
	for _, field := range []string{"reason", "message"} {
		if said, _ := from[field].(string); said != "" {
			what += ": " + strings.TrimSpace(said)
		}
	}
	return what
}

func textAt(live *unstructured.Unstructured, path ...string) string {
	found, _, _ := unstructured.NestedString(live.Object, path...)
	return found
}

func flagAt(live *unstructured.Unstructured, path ...string) bool {
	found, _, _ := unstructured.NestedBool(live.Object, path...)
	return found
}

func numberAt(live *unstructured.Unstructured, path ...string) (int64, bool) {
	found, set, err := unstructured.NestedInt64(live.Object, path...)
	return found, set && err == nil
}
