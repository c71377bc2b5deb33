package rollout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What an image that runs is, as far as the record knows.
const (
	ImageOfBundle      = "bundle"
	ImageOfReplacement = "replacement" // of the site, in place of the bundle's
	ImageAllowed       = "allowed"     // by the site file's images.allow
	ImageForeign       = "foreign"     // none of these
	ImageUnknown       = "unknown"     // the record has no images to compare with
)

// Where a pod is from.
const (
	PodOfChart    = "chart"    // an object of a Helm release, or what Kubernetes made for it
	PodOfOperator = "operator" // started for a custom resource of a Helm release
	PodUnowned    = "unowned"  // no Helm release owns it: an operator, or a person, started it
)

// RunningImages is what runs of an instance.
type RunningImages struct {
	Instance   string             `json:"instance"`
	Release    string             `json:"release"`
	Version    string             `json:"version"`
	Bundle     digest.Digest      `json:"bundle,omitempty"`
	Known      bool               `json:"known"`   // whether the record has the bundle's images
	Foreign    int                `json:"foreign"` // how many containers run something else
	Replaced   []Replacement      `json:"replaced,omitempty"`
	Containers []RunningContainer `json:"containers"`
	Warnings   []string           `json:"warnings,omitempty"`
}

// RunningContainer is one container of a pod that has not ended.
type RunningContainer struct {
	Namespace string        `json:"namespace"`
	Pod       string        `json:"pod"`
	Container string        `json:"container"`
	Component string        `json:"component,omitempty"`
	Origin    string        `json:"origin"`
	Image     string        `json:"image"`             // as the pod asks for it
	ImageID   string        `json:"imageID,omitempty"` // as the node says it; empty while there is none
	Digest    digest.Digest `json:"digest,omitempty"`  // that the node names
	State     string        `json:"state"`
	Ending    bool          `json:"ending,omitempty"`    // its pod is being deleted, so it does not count as foreign
	Reference string        `json:"reference,omitempty"` // of the bundle's lock
}

// Images says what really runs of an instance, by what the nodes say. Errors
// are those of [Runner.History].
func (r *Runner) Images(ctx context.Context, name string) (*RunningImages, error) {
	latest, err := r.find(ctx, store{client: r.client, namespace: r.state(nil)}, name)
	if err != nil {
		return nil, err
	}
	rec := latest.record
	look := &podLook{runner: r, record: rec, known: knownImages(rec), owners: map[ObjectName]*ObjectOrigin{}, out: &RunningImages{
		Instance: rec.Instance, Release: rec.Release, Version: rec.Version, Bundle: rec.Bundle, Known: len(rec.Images) > 0,
		Replaced: rec.Replaced, Containers: []RunningContainer{},
	}}
	if !look.out.Known {
		look.warn("%s", whyUnknown(rec))
	}
	for _, namespace := range rec.podNamespaces() {
		if err := look.namespace(ctx, namespace); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(look.out.Containers, func(a, b RunningContainer) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Pod, b.Pod))
	})
	return look.out, nil
}

func whyUnknown(rec *Record) string {
	switch {
	case rec.ImagesLeftOut:
		return "the record has no room for the release's images, so what runs is listed and not compared"
	case rec.Bundle == "":
		return "the instance is from a release file without images, so what runs is listed and not compared"
	}
	return "the record has no images of the bundle: it holds charts only, or was installed by an earlier version, which the next install makes up for; what runs is listed and not compared"
}

// podNamespaces are those in which the instance may have pods.
func (r *Record) podNamespaces() []string {
	found := map[string]bool{}
	for _, namespace := range r.Namespaces {
		found[namespace] = true
	}
	for i := range r.Components {
		if c := &r.Components[i]; c.touched() {
			for _, namespace := range c.namespaces() {
				found[namespace] = true
			}
		}
	}
	return sortedKeys(found)
}

// podLook is a look at the pods of an instance.
type podLook struct {
	runner *Runner
	record *Record
	known  *knownSet
	owners map[ObjectName]*ObjectOrigin
	out    *RunningImages
}

func (l *podLook) warn(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(l.out.Warnings, text) {
		l.out.Warnings = append(l.out.Warnings, text)
	}
}

// pageOfPods is how many pods are asked for at a time.
const pageOfPods = 500

func (l *podLook) namespace(ctx context.Context, namespace string) error {
	opts := metav1.ListOptions{Limit: pageOfPods}
	for {
		pods, err := l.runner.client.CoreV1().Pods(namespace).List(ctx, opts)
		if err = clusterErr("listing the pods of namespace "+namespace, err); errors.Is(err, errForbidden) {
			l.warn("%v; they are left out", err)
			return nil
		} else if err != nil {
			return err
		}
		for i := range pods.Items {
			if err := l.pod(ctx, &pods.Items[i]); err != nil {
				return err
			}
		}
		if opts.Continue = pods.Continue; opts.Continue == "" {
			return nil
		}
	}
}

// pod adds the containers of a pod that is the instance's and has not ended.
func (l *podLook) pod(ctx context.Context, pod *corev1.Pod) error {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return nil
	}
	component, origin, err := l.origin(ctx, pod)
	if err != nil || origin == "" {
		return err
	}
	statuses := map[string]corev1.ContainerStatus{}
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses, pod.Status.EphemeralContainerStatuses) {
		statuses[s.Name] = s
	}
	add := func(name, image string) {
		one := RunningContainer{
			Namespace: pod.Namespace, Pod: pod.Name, Container: name, Component: component, Origin: origin, Image: image, ImageID: statuses[name].ImageID,
		}
		one.Digest = digestIn(one.ImageID)
		one.State, one.Reference = l.known.judge(one.Image, one.Digest)
		one.Ending = pod.DeletionTimestamp != nil
		if one.State == ImageForeign && !one.Ending {
			l.out.Foreign++
		}
		l.out.Containers = append(l.out.Containers, one)
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		add(c.Name, c.Image)
	}
	for _, c := range pod.Spec.EphemeralContainers {
		add(c.Name, c.Image)
	}
	return nil
}

// ownersFollowed bounds the chain of owners that is followed.
const ownersFollowed = 10

// origin follows a pod's owners to an object of one of the instance's Helm
// releases. An empty origin is a pod of somebody else.
func (l *podLook) origin(ctx context.Context, pod *corev1.Pod) (component, origin string, err error) {
	at := ObjectName{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name}
	origin = PodOfChart
	for range ownersFollowed {
		o, err := l.read(ctx, at)
		if err != nil {
			return "", "", err
		}
		if o == nil {
			break
		}
		if custom(at.APIVersion) {
			origin = PodOfOperator
		}
		if o.HelmRelease != "" {
			component := l.componentOf(o.HelmNamespace, o.HelmRelease)
			if component == "" {
				return "", "", nil // of somebody else's Helm release
			}
			return component, origin, nil
		}
		if instance, _, marked := strings.Cut(o.Mark, ".v"); marked {
			if instance != l.record.Instance {
				return "", "", nil
			}
			return "", origin, nil // of a hook
		}
		if o.Owner == nil {
			break
		}
		if at = *o.Owner; at.Kind == "Node" {
			return "", "", nil // a node's own
		}
	}
	if !l.counts(pod.Namespace) {
		return "", "", nil
	}
	return "", PodUnowned, nil
}

// read is Origin, remembered. An owner that may not be read is as one that is
// not there.
func (l *podLook) read(ctx context.Context, name ObjectName) (*ObjectOrigin, error) {
	if o, ok := l.owners[name]; ok {
		return o, nil
	}
	o, err := l.runner.charts.Origin(ctx, name)
	var away *ClusterError
	switch {
	case errors.As(err, &away) || ctx.Err() != nil:
		return nil, err
	case err != nil:
		l.warn("%v; what it owns is taken as nobody's", err)
	}
	l.owners[name] = o
	return o, nil
}

func (l *podLook) componentOf(namespace, helmRelease string) string {
	for _, c := range l.record.Components {
		if c.Namespace == namespace && c.HelmRelease == helmRelease {
			return c.Name
		}
	}
	return ""
}

// counts says whether pods that no Helm release owns are taken as the
// instance's: in its components' namespaces, but not in those that every
// cluster has for itself.
func (l *podLook) counts(namespace string) bool {
	if strings.HasPrefix(namespace, "kube-") {
		return false
	}
	return slices.Contains(l.record.Namespaces, namespace) ||
		slices.ContainsFunc(l.record.Components, func(c ComponentRecord) bool { return c.touched() && c.Namespace == namespace })
}

// custom says whether a kind is none of Kubernetes' own.
func custom(apiVersion string) bool {
	group, _, grouped := strings.Cut(apiVersion, "/")
	return grouped && strings.Contains(group, ".") && !strings.HasSuffix(group, ".k8s.io")
}
