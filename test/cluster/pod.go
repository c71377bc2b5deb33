package cluster

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PodAnnotation on a pod says what becomes of it. Without it the pod runs and is Ready, or, when it is not to be
// restarted always (a Job's pod), succeeds. Its values:
//
//	crash         restarts in vain (CrashLoopBackOff), never Ready; a pod that is not restarted always fails
//	hang          stays Pending, its containers are being created
//	never-ready   runs and is not Ready; one that is not restarted always runs on
//	slow=5s       as without, but only after that time
//
// An annotation may be changed while the pod lives. Any other value is an error that the pod shows as
// CreateContainerConfigError.
const PodAnnotation = "waybill.test/pod"

// A fate is what becomes of a pod's containers.
type fate int

const (
	works fate = iota
	crashes
	hangs
	neverReady
)

// behaviour is the annotation, understood.
type behaviour struct {
	fate   fate
	slow   time.Duration // before a working pod is ready or done
	reason string        // why a hanging pod's containers wait
	event  *warning      // what a kubelet would warn of, nil where all is well
}

type warning struct{ reason, message string }

func parseBehaviour(annotation string) behaviour {
	word, value, _ := strings.Cut(annotation, "=")
	switch word {
	case "":
		return behaviour{}
	case "crash":
		return behaviour{fate: crashes, event: &warning{"BackOff", "Back-off restarting failed container"}}
	case "hang":
		return behaviour{fate: hangs, reason: "ContainerCreating", event: &warning{"FailedCreatePodSandBox", "Failed to create pod sandbox"}}
	case "never-ready":
		return behaviour{fate: neverReady, event: &warning{"Unhealthy", "Readiness probe failed: connection refused"}}
	case "slow":
		if slow, err := time.ParseDuration(value); err == nil {
			return behaviour{slow: slow}
		}
	}
	return behaviour{fate: hangs, reason: "CreateContainerConfigError", event: &warning{
		"Failed", fmt.Sprintf("annotation %s: %q is none of crash, hang, never-ready, slow=DURATION", PodAnnotation, annotation),
	}}
}

// finished reports whether a pod's phase is one that nothing follows.
func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// status is what the pod's status is to be now, and the time after which it is to be asked for again, zero for never.
// The same pod at the same stage gets the same status.
func (b behaviour) status(pod *corev1.Pod, ip string, now metav1.Time) (status corev1.PodStatus, again time.Duration) {
	once := pod.Spec.RestartPolicy != corev1.RestartPolicyAlways
	begun := now
	if pod.Status.StartTime != nil {
		begun = *pod.Status.StartTime
	}
	rest := b.slow - now.Sub(begun.Time)
	switch {
	case b.fate == hangs:
		return b.pending(pod, now), 0
	case b.fate == crashes && once:
		return failed(pod, ip, now), 0
	case b.fate == crashes:
		return crashing(pod, ip, now), 0
	case b.fate == neverReady:
		return running(pod, ip, now, false), 0
	case rest > 0:
		return running(pod, ip, now, false), rest
	case once:
		return ended(pod, ip, now, corev1.PodSucceeded, terminated(0, "Completed", begun, now)), 0
	}
	return running(pod, ip, now, true), 0
}

// pending is the status of a pod that was scheduled and whose containers do not come to be.
func (b behaviour) pending(pod *corev1.Pod, now metav1.Time) corev1.PodStatus {
	status := begin(pod, corev1.PodPending, "", now)
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: b.reason}}
	if b.reason != "ContainerCreating" {
		waiting.Waiting.Message = b.event.message
	}
	status.InitContainerStatuses = containers(pod, pod.Spec.InitContainers, waiting, false)
	status.ContainerStatuses = containers(pod, pod.Spec.Containers, waiting, false)
	setConditions(pod, &status, len(pod.Spec.InitContainers) == 0, notReady, now)
	return status
}

// running is the status of a pod whose containers run.
func running(pod *corev1.Pod, ip string, now metav1.Time, ready bool) corev1.PodStatus {
	status := begin(pod, corev1.PodRunning, ip, now)
	state := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: *status.StartTime}}
	status.InitContainerStatuses = initDone(pod, state, *status.StartTime)
	status.ContainerStatuses = containers(pod, pod.Spec.Containers, state, ready)
	unready := notReady
	if ready {
		unready = ""
	}
	setConditions(pod, &status, true, unready, now)
	return status
}

// crashing is the status of a pod whose containers end again and again.
func crashing(pod *corev1.Pod, ip string, now metav1.Time) corev1.PodStatus {
	status := begin(pod, corev1.PodRunning, ip, now)
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
		Reason: "CrashLoopBackOff", Message: "back-off 5m0s restarting failed container",
	}}
	status.InitContainerStatuses = initDone(pod, corev1.ContainerState{
		Running: &corev1.ContainerStateRunning{StartedAt: *status.StartTime},
	}, *status.StartTime)
	status.ContainerStatuses = containers(pod, pod.Spec.Containers, waiting, false)
	for i := range status.ContainerStatuses {
		status.ContainerStatuses[i].RestartCount = 5
		status.ContainerStatuses[i].LastTerminationState = terminated(1, "Error", *status.StartTime, *status.StartTime)
	}
	setConditions(pod, &status, true, notReady, now)
	return status
}

// failed is the status of a pod whose containers ended with an error for good.
func failed(pod *corev1.Pod, ip string, now metav1.Time) corev1.PodStatus {
	begun := now
	if pod.Status.StartTime != nil {
		begun = *pod.Status.StartTime
	}
	return ended(pod, ip, now, corev1.PodFailed, terminated(1, "Error", begun, now))
}

// ended is the status of a pod in one of the two phases that nothing follows.
func ended(pod *corev1.Pod, ip string, now metav1.Time, phase corev1.PodPhase, state corev1.ContainerState) corev1.PodStatus {
	status := begin(pod, phase, ip, now)
	status.InitContainerStatuses = initDone(pod, state, *status.StartTime)
	status.ContainerStatuses = containers(pod, pod.Spec.Containers, state, false)
	unready := "PodFailed"
	if phase == corev1.PodSucceeded {
		unready = "PodCompleted"
	}
	setConditions(pod, &status, true, unready, now)
	return status
}

// begin is the part of a status that all have in common.
func begin(pod *corev1.Pod, phase corev1.PodPhase, ip string, now metav1.Time) corev1.PodStatus {
	status := *pod.Status.DeepCopy()
	status.Phase = phase
	status.ObservedGeneration = pod.Generation
	if status.StartTime == nil {
		status.StartTime = &now
	}
	status.HostIP, status.HostIPs = nodeIP, []corev1.HostIP{{IP: nodeIP}}
	if ip != "" {
		status.PodIP, status.PodIPs = ip, []corev1.PodIP{{IP: ip}}
	}
	return status
}

// initDone are the statuses of init containers: done, or as the main containers when they run beside them.
func initDone(pod *corev1.Pod, state corev1.ContainerState, at metav1.Time) []corev1.ContainerStatus {
	statuses := containers(pod, pod.Spec.InitContainers, terminated(0, "Completed", at, at), true)
	for i, c := range pod.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			statuses[i] = containers(pod, []corev1.Container{c}, state, state.Running != nil)[0]
		}
	}
	return statuses
}

// containers are the statuses of containers that are all in one state.
func containers(pod *corev1.Pod, specs []corev1.Container, state corev1.ContainerState, ready bool) []corev1.ContainerStatus {
	var statuses []corev1.ContainerStatus
	for _, c := range specs {
		started := state.Running != nil
		status := corev1.ContainerStatus{Name: c.Name, State: state, Ready: ready, Started: &started, Image: c.Image}
		if state.Waiting == nil || state.Waiting.Reason == "CrashLoopBackOff" {
			status.ImageID = imageID(c.Image)
			status.ContainerID = fmt.Sprintf("waybill://%x", sha256.Sum256([]byte(string(pod.UID)+"/"+c.Name)))
		}
		statuses = append(statuses, status)
	}
	return statuses
}

// imageID is the image by digest, as container runtimes report it: the digest that was asked for, else one that stands
// for the name, since nothing is pulled.
func imageID(image string) string {
	name, _, found := strings.Cut(image, "@")
	if found {
		return image
	}
	return fmt.Sprintf("%s@sha256:%x", name, sha256.Sum256([]byte(image)))
}

func terminated(code int32, reason string, from, to metav1.Time) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: code, Reason: reason, StartedAt: from, FinishedAt: to,
	}}
}

// notReady is why a pod is not Ready while its containers are not.
const notReady = "ContainersNotReady"

// setConditions sets the conditions a kubelet owns; unready is why the containers are not ready, empty when they are. A
// pod is Ready when its containers are and all its readiness gates, which others set, are true.
func setConditions(pod *corev1.Pod, status *corev1.PodStatus, initialized bool, unready string, now metav1.Time) {
	set := func(kind corev1.PodConditionType, is bool, why string) {
		condition := corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, ObservedGeneration: pod.Generation}
		if !is {
			condition.Status, condition.Reason = corev1.ConditionFalse, why
		}
		setCondition(status, now, condition)
	}
	set(corev1.PodScheduled, true, "")
	set(corev1.PodReadyToStartContainers, status.PodIP != "", "")
	set(corev1.PodInitialized, initialized, "ContainersNotInitialized")
	set(corev1.ContainersReady, unready == "", unready)
	if unready == "" && gated(pod, status) {
		unready = "ReadinessGatesNotReady"
	}
	set(corev1.PodReady, unready == "", unready)
}

// gated reports whether a readiness gate of the pod is not true.
func gated(pod *corev1.Pod, status *corev1.PodStatus) bool {
	open := map[corev1.PodConditionType]bool{}
	for _, c := range status.Conditions {
		open[c.Type] = c.Status == corev1.ConditionTrue
	}
	return slices.ContainsFunc(pod.Spec.ReadinessGates, func(gate corev1.PodReadinessGate) bool { return !open[gate.ConditionType] })
}

// setCondition sets one condition, with the time at which it last became so.
func setCondition(status *corev1.PodStatus, now metav1.Time, condition corev1.PodCondition) {
	for i, c := range status.Conditions {
		if c.Type != condition.Type {
			continue
		}
		condition.LastTransitionTime = c.LastTransitionTime
		if c.Status != condition.Status {
			condition.LastTransitionTime = now
		}
		status.Conditions[i] = condition
		return
	}
	condition.LastTransitionTime = now
	status.Conditions = append(status.Conditions, condition)
}
