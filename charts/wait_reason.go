package charts

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	podResource   = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	eventResource = schema.GroupVersionResource{Version: "v1", Resource: "events"}
)

// explained is for how many objects reasons are looked up in pods and events;
// the rest is listed with what its own status says.
const explained = 20

// reasons says of each object why it is not ready: from its pods where it has
// some, else from its own status.
func (w *waiter) reasons(ctx context.Context, objects []*waiting) []Unready {
	ctx, cancel := context.WithTimeout(ctx, diagnose)
	defer cancel()
	slices.SortFunc(objects, func(a, b *waiting) int { return compareRefs(a.ref(), b.ref()) })
	found := make([]Unready, len(objects))
	for i, object := range objects {
		found[i] = Unready{Kind: object.kind(), Namespace: object.namespace(), Name: object.name(), Reason: object.last.reason}
		if i >= explained || object.namespace() == "" {
			continue
		}
		pods := w.podsOf(ctx, object.target)
		names := []string{object.name()}
		for _, pod := range pods {
			names = append(names, pod.GetName())
		}
		if why := podTrouble(pods); why != "" {
			found[i].Reason = strings.TrimPrefix(found[i].Reason+"; "+why, "; ")
		}
		found[i].LastEvent = w.lastEvent(ctx, object.namespace(), names)
	}
	return found
}

// podsOf lists the pods that an object runs, newest first, or the object
// itself when it is a pod. What cannot be read is left out: the wait has
// failed already.
func (w *waiter) podsOf(ctx context.Context, t target) []unstructured.Unstructured {
	live, err := t.in(w.client).Get(ctx, t.name(), metav1.GetOptions{})
	if err != nil {
		return nil
	}
	if live.GetKind() == "Pod" {
		return []unstructured.Unstructured{*live}
	}
	selector := podSelector(live)
	if selector == nil {
		return nil
	}
	list, err := w.client.Resource(podResource).Namespace(t.namespace()).List(ctx, metav1.ListOptions{LabelSelector: selector.String(), Limit: 100})
	if err != nil {
		return nil
	}
	slices.SortFunc(list.Items, func(a, b unstructured.Unstructured) int {
		return cmp.Or(b.GetCreationTimestamp().Compare(a.GetCreationTimestamp().Time), strings.Compare(a.GetName(), b.GetName()))
	})
	return list.Items
}

func podSelector(live *unstructured.Unstructured) labels.Selector {
	switch live.GetKind() {
	case "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job":
		raw, found, err := unstructured.NestedMap(live.Object, "spec", "selector")
		if !found || err != nil {
			return nil
		}
		var selector metav1.LabelSelector
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &selector); err != nil {
			return nil
		}
		parsed, err := metav1.LabelSelectorAsSelector(&selector)
		if err != nil {
			return nil
		}
		return parsed
	case "ReplicationController":
		set, _, _ := unstructured.NestedStringMap(live.Object, "spec", "selector")
		return labels.SelectorFromSet(set)
	}
	return nil
}

// podTrouble describes the first pod that has any.
func podTrouble(pods []unstructured.Unstructured) string {
	for i := range pods {
		if why := troubleOf(&pods[i]); why != "" {
			return "pod " + pods[i].GetName() + ": " + why
		}
	}
	return ""
}

func troubleOf(pod *unstructured.Unstructured) string {
	images := containerImages(pod)
	for _, field := range []string{"initContainerStatuses", "containerStatuses"} {
		list, _, _ := unstructured.NestedSlice(pod.Object, "status", field)
		for _, container := range objectsIn(list) {
			if why := containerTrouble(container); why != "" {
				name, _ := container["name"].(string)
				return fmt.Sprintf("container %s (image %s): %s", name, images[name], why)
			}
		}
	}
	for _, condition := range conditions(pod) {
		if condition["type"] == "PodScheduled" && condition["status"] == "False" {
			return joined("not scheduled", condition)
		}
	}
	if state := running(pod); !state.ready {
		return state.reason
	}
	return ""
}

// containerImages maps the names of a pod's containers to the images asked for.
func containerImages(pod *unstructured.Unstructured) map[string]string {
	images := map[string]string{}
	for _, field := range []string{"initContainers", "containers"} {
		list, _, _ := unstructured.NestedSlice(pod.Object, "spec", field)
		for _, container := range objectsIn(list) {
			name, _ := container["name"].(string)
			images[name], _ = container["image"].(string)
		}
	}
	return images
}

// containerTrouble reads a container status: why it waits, how it ended, or
// that it runs without being ready.
func containerTrouble(container map[string]any) string {
	current, _ := container["state"].(map[string]any)
	if waiting, ok := current["waiting"].(map[string]any); ok {
		reason, _ := waiting["reason"].(string)
		if reason == "" || reason == "ContainerCreating" || reason == "PodInitializing" {
			return ""
		}
		return strings.TrimPrefix(joined("", waiting), ": ")
	}
	if ended, ok := current["terminated"].(map[string]any); ok {
		code, _ := ended["exitCode"].(int64)
		if code == 0 {
			return ""
		}
		return strings.TrimPrefix(joined(fmt.Sprintf("ended with exit code %d", code), ended), ": ")
	}
	return ""
}

// lastEvent is the newest event about any of the named objects, a warning
// before anything else.
func (w *waiter) lastEvent(ctx context.Context, namespace string, names []string) string {
	list, err := w.client.Resource(eventResource).Namespace(namespace).List(ctx, metav1.ListOptions{Limit: 1000})
	if err != nil {
		return ""
	}
	var newest *unstructured.Unstructured
	for i := range list.Items {
		event := &list.Items[i]
		if !about(textAt(event, "involvedObject", "name"), names) {
			continue
		}
		if newest == nil || compareEvents(event, newest) > 0 {
			newest = event
		}
	}
	if newest == nil {
		return ""
	}
	return fmt.Sprintf("%s %s: %s", textAt(newest, "involvedObject", "kind"), textAt(newest, "reason"), strings.TrimSpace(textAt(newest, "message")))
}

// about reports whether an event's object is one of names, or was made by the
// first of them: a Deployment's troubles are told of its ReplicaSets.
func about(name string, names []string) bool {
	return slices.Contains(names, name) || strings.HasPrefix(name, names[0]+"-")
}

func compareEvents(a, b *unstructured.Unstructured) int {
	warning := func(e *unstructured.Unstructured) int {
		if textAt(e, "type") == "Warning" {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(warning(a), warning(b)), eventTime(a).Compare(eventTime(b)), strings.Compare(a.GetName(), b.GetName()))
}

func eventTime(event *unstructured.Unstructured) time.Time {
	for _, path := range [][]string{{"series", "lastObservedTime"}, {"lastTimestamp"}, {"eventTime"}, {"metadata", "creationTimestamp"}} {
		if at, err := time.Parse(time.RFC3339, textAt(event, path...)); err == nil {
			return at
		}
	}
	return time.Time{}
}
