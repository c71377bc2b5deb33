package cluster

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// conditionOf is the status and reason of one of a pod's conditions.
func conditionOf(status corev1.PodStatus, kind corev1.PodConditionType) (corev1.ConditionStatus, string) {
	for _, c := range status.Conditions {
		if c.Type == kind {
			return c.Status, c.Reason
		}
	}
	return "", ""
}

func TestStatus(t *testing.T) {
	begun := time.Date(2025, 1, 2, 3, 4, 5, 0, time.UTC)
	const always, never = corev1.RestartPolicyAlways, corev1.RestartPolicyNever
	for name, test := range map[string]struct {
		annotation string
		restart    corev1.RestartPolicy
		after      time.Duration
		phase      corev1.PodPhase
		ready      corev1.ConditionStatus
		reason     string
		again      time.Duration
	}{
		"runs":                    {"", always, 0, corev1.PodRunning, corev1.ConditionTrue, "", 0},
		"succeeds":                {"", never, 0, corev1.PodSucceeded, corev1.ConditionFalse, "PodCompleted", 0},
		"crashes":                 {"crash", always, 0, corev1.PodRunning, corev1.ConditionFalse, "ContainersNotReady", 0},
		"fails":                   {"crash", never, 0, corev1.PodFailed, corev1.ConditionFalse, "PodFailed", 0},
		"hangs":                   {"hang", always, time.Hour, corev1.PodPending, corev1.ConditionFalse, "ContainersNotReady", 0},
		"hangs once":              {"hang", never, time.Hour, corev1.PodPending, corev1.ConditionFalse, "ContainersNotReady", 0},
		"never ready":             {"never-ready", always, time.Hour, corev1.PodRunning, corev1.ConditionFalse, "ContainersNotReady", 0},
		"never done":              {"never-ready", never, time.Hour, corev1.PodRunning, corev1.ConditionFalse, "ContainersNotReady", 0},
		"slow, in between":        {"slow=5s", always, 2 * time.Second, corev1.PodRunning, corev1.ConditionFalse, "ContainersNotReady", 3 * time.Second},
		"slow, in the end":        {"slow=5s", always, 5 * time.Second, corev1.PodRunning, corev1.ConditionTrue, "", 0},
		"slow once, in between":   {"slow=5s", never, 2 * time.Second, corev1.PodRunning, corev1.ConditionFalse, "ContainersNotReady", 3 * time.Second},
		"slow once, in the end":   {"slow=5s", never, 6 * time.Second, corev1.PodSucceeded, corev1.ConditionFalse, "PodCompleted", 0},
		"slow without a duration": {"slow", always, 0, corev1.PodPending, corev1.ConditionFalse, "ContainersNotReady", 0},
		"an unknown word":         {"explode", always, 0, corev1.PodPending, corev1.ConditionFalse, "ContainersNotReady", 0},
	} {
		t.Run(name, func(t *testing.T) {
			start := metav1.NewTime(begun)
			pod := &corev1.Pod{
				Spec:   corev1.PodSpec{RestartPolicy: test.restart, Containers: []corev1.Container{{Name: "main", Image: "app:1"}}},
				Status: corev1.PodStatus{StartTime: &start},
			}
			status, again := parseBehaviour(test.annotation).status(pod, "10.78.0.2", metav1.NewTime(begun.Add(test.after)))
			ready, reason := conditionOf(status, corev1.PodReady)
			if status.Phase != test.phase || ready != test.ready || reason != test.reason || again != test.again {
				t.Errorf("phase %s, ready %s (%s), again after %s", status.Phase, ready, reason, again)
			}
		})
	}
}

func TestReadinessGateIsWaitedFor(t *testing.T) {
	const gate = "example.com/attached"
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		RestartPolicy:  corev1.RestartPolicyAlways,
		Containers:     []corev1.Container{{Name: "main", Image: "app:1"}},
		ReadinessGates: []corev1.PodReadinessGate{{ConditionType: gate}},
	}}
	pod.Status, _ = behaviour{}.status(pod, "10.78.0.2", metav1.Now())
	if ready, reason := conditionOf(pod.Status, corev1.PodReady); ready != corev1.ConditionFalse || reason != "ReadinessGatesNotReady" {
		t.Errorf("gate closed: ready %s (%s)", ready, reason)
	}
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: gate, Status: corev1.ConditionTrue})
	pod.Status, _ = behaviour{}.status(pod, "10.78.0.2", metav1.Now())
	if ready, reason := conditionOf(pod.Status, corev1.PodReady); ready != corev1.ConditionTrue {
		t.Errorf("gate open: ready %s (%s)", ready, reason)
	}
}

func TestInitContainers(t *testing.T) {
	sidecar := corev1.ContainerRestartPolicyAlways
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		RestartPolicy:  corev1.RestartPolicyAlways,
		InitContainers: []corev1.Container{{Name: "init", Image: "init:1"}, {Name: "sidecar", Image: "proxy:1", RestartPolicy: &sidecar}},
		Containers:     []corev1.Container{{Name: "main", Image: "app@sha256:0123"}},
	}}
	status, _ := behaviour{}.status(pod, "10.78.0.2", metav1.Now())
	if state := status.InitContainerStatuses[0].State; state.Terminated == nil || state.Terminated.ExitCode != 0 {
		t.Errorf("init container: %+v", state)
	}
	if s := status.InitContainerStatuses[1]; s.State.Running == nil || !s.Ready {
		t.Errorf("sidecar: %+v", s)
	}
	if id := status.ContainerStatuses[0].ImageID; id != "app@sha256:0123" {
		t.Errorf("image id %q is not what was asked for", id)
	}
}

func TestStatusOfAStageIsWrittenOnce(t *testing.T) {
	for _, annotation := range []string{"", "crash", "hang", "never-ready"} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyAlways, Containers: []corev1.Container{{Name: "main", Image: "app:1"}}}}
		pod.Status, _ = parseBehaviour(annotation).status(pod, "10.78.0.2", metav1.Now())
		n := &node{} // without a client: a write would be a panic
		status, _ := parseBehaviour(annotation).status(pod, "10.78.0.2", metav1.NewTime(time.Now().Add(time.Minute)))
		if changed, err := n.write(t.Context(), pod, status); changed || err != nil {
			t.Errorf("%q: changed %v, %v", annotation, changed, err)
		}
	}
}
