package charts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"helm.sh/helm/v3/pkg/kube"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// A kubeClient is Helm's own client for one action, wrapped:
//
//   - what it creates gets [MarkAnnotation], hooks too, and is remembered;
//   - it stops when ctx ends, where Helm would go on;
//   - custom resources are merged three ways, as built-in kinds are;
//   - what an upgrade drops is deleted only when it belongs to this Helm
//     release, never a CRD, and in a rollback no claim;
//   - the Helm release's own namespace is never deleted;
//   - what failed revisions left behind is taken off;
//   - hooks are waited for with the reasons of their pods.
//
// What it does not override (Get, BuildTable, logs of hooks) is Helm's.
type kubeClient struct {
	*kube.Client
	ctx         context.Context // of the action: Helm's interface has no place for it
	objects     dynamic.Interface
	namespace   string
	helmRelease string
	mark        string
	keepsClaims bool                // what holds data is not dropped: this is a rollback
	left        []kube.ResourceList // of failed revisions, see leftBehind

	mu      sync.Mutex
	created []ObjectRef
	trouble error // the first error given to Helm, which may turn it into text
}

var (
	_ kube.Interface                    = (*kubeClient)(nil)
	_ kube.InterfaceExt                 = (*kubeClient)(nil)
	_ kube.InterfaceThreeWayMerge       = (*kubeClient)(nil)
	_ kube.InterfaceLogs                = (*kubeClient)(nil)
	_ kube.InterfaceDeletionPropagation = (*kubeClient)(nil)
	_ kube.InterfaceResources           = (*kubeClient)(nil)
)

// restGetter gives Helm the action's own configuration, and the discovery and
// mapping that all actions share.
type restGetter struct {
	cluster *Cluster
	config  *rest.Config
}

func (g restGetter) ToRESTConfig() (*rest.Config, error)           { return rest.CopyConfig(g.config), nil }
func (g restGetter) ToRESTMapper() (meta.RESTMapper, error)        { return g.cluster.mapper, nil }
func (g restGetter) ToRawKubeConfigLoader() clientcmd.ClientConfig { return g.cluster.loader }
func (g restGetter) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	return g.cluster.discovery, nil
}

func (c *Cluster) newKubeClient(ctx context.Context, getter restGetter, comp Component) (*kubeClient, error) {
	objects, err := dynamic.NewForConfig(getter.config)
	if err != nil {
		return nil, fmt.Errorf("making a client for the cluster: %w", err)
	}
	inner := kube.New(getter)
	inner.Namespace = comp.Namespace
	return &kubeClient{
		Client: inner, ctx: ctx, objects: objects,
		namespace: comp.Namespace, helmRelease: comp.HelmRelease, mark: comp.Mark,
	}, nil
}

// keep remembers an error whose type would be lost on its way through Helm.
// The first is the cause; later ones come from Helm's tidying up.
func (k *kubeClient) keep(err error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.trouble == nil {
		k.trouble = err
	}
	return err
}

func (k *kubeClient) firstTrouble() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.trouble
}

func (k *kubeClient) stopped() error { return context.Cause(k.ctx) }

func (k *kubeClient) IsReachable() error {
	_, err := await(k.ctx, func() (struct{}, error) { return struct{}{}, k.Client.IsReachable() })
	return err
}

func (k *kubeClient) Build(reader io.Reader, validate bool) (kube.ResourceList, error) {
	return await(k.ctx, func() (kube.ResourceList, error) { return k.Client.Build(reader, validate) })
}

func (k *kubeClient) Create(resources kube.ResourceList) (*kube.Result, error) {
	if err := k.stopped(); err != nil {
		return nil, err
	}
	for _, info := range resources {
		if err := k.putMark(info.Object); err != nil {
			return nil, err
		}
	}
	result, err := k.Client.Create(resources)
	for _, info := range resources {
		k.remember(info)
	}
	return result, k.keep(err)
}

// putMark changes the object that is sent. The manifest that Helm records is
// text of its own and stays.
func (k *kubeClient) putMark(object runtime.Object) error {
	if k.mark == "" {
		return nil
	}
	accessor, err := meta.Accessor(object)
	if err != nil {
		return fmt.Errorf("marking an object: %w", err)
	}
	annotations := accessor.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[MarkAnnotation] = k.mark
	accessor.SetAnnotations(annotations)
	return nil
}

// remember notes an object that was created: Helm then has its live form.
func (k *kubeClient) remember(info *resource.Info) {
	accessor, err := meta.Accessor(info.Object)
	if err != nil || accessor.GetUID() == "" {
		return
	}
	gvk := info.Mapping.GroupVersionKind
	k.mu.Lock()
	defer k.mu.Unlock()
	k.created = append(k.created, ObjectRef{
		APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Namespace: info.Namespace, Name: accessor.GetName(),
	})
}

// Update brings the cluster from original to target, object by object in
// target's order, so that only what is created is marked.
func (k *kubeClient) Update(original, target kube.ResourceList, force bool) (*kube.Result, error) {
	result := &kube.Result{}
	var failed []error
	for _, info := range target {
		if err := k.stopped(); err != nil {
			return result, err
		}
		created, err := k.updateOne(original, info, force)
		switch {
		case err != nil && created:
			return result, k.keep(err) // as Helm: what cannot be created ends it
		case err != nil:
			failed = append(failed, err)
		case created:
			result.Created = append(result.Created, info)
		default:
			result.Updated = append(result.Updated, info)
		}
	}
	if len(failed) > 0 {
		return result, k.keep(errors.Join(failed...))
	}
	for _, info := range k.withoutHome(original.Difference(target)) {
		deleted, err := k.drop(info)
		if err != nil {
			return result, k.keep(err)
		}
		if deleted {
			result.Deleted = append(result.Deleted, info)
		}
	}
	return result, nil
}

func (k *kubeClient) UpdateThreeWayMerge(original, target kube.ResourceList, force bool) (*kube.Result, error) {
	return k.Update(original, target, force)
}

// updateOne creates the object when it is not there, and otherwise has Helm
// merge what it was, what it shall be, and what it is.
func (k *kubeClient) updateOne(original kube.ResourceList, info *resource.Info, force bool) (created bool, err error) {
	live, err := resource.NewHelper(info.Client, info.Mapping).Get(info.Namespace, info.Name)
	if err == nil {
		again, err := k.clearFailedJob(info, live)
		if err != nil {
			return false, err
		}
		if !again {
			if err := k.mergeLeft(info, force); err != nil {
				return false, err
			}
			_, err = k.Client.UpdateThreeWayMerge(onlyOf(original, info), kube.ResourceList{info}, force)
			return false, err
		}
	} else if !isGone(err) {
		return false, fmt.Errorf("reading %s: %w", infoName(info), err)
	}
	if _, err := k.Create(kube.ResourceList{info}); err != nil {
		return true, fmt.Errorf("creating %s: %w", infoName(info), err)
	}
	return true, nil
}

// clearFailedJob deletes a Job of this Helm release that has failed: it stays
// failed whatever is sent, so it is made again.
func (k *kubeClient) clearFailedJob(info *resource.Info, live runtime.Object) (bool, error) {
	job, ok := live.(*unstructured.Unstructured)
	if !ok || info.Mapping.GroupVersionKind.GroupKind().String() != "Job.batch" ||
		!finished(job).failed || !ownedBy(job, k.namespace, k.helmRelease) {
		return false, nil
	}
	doomed := []deleted{{target: target{object: job, mapping: info.Mapping}, uid: job.GetUID()}}
	if err := deleteObject(k.ctx, k.objects, doomed[0], metav1.DeletePropagationBackground); err != nil {
		return false, err
	}
	return true, waitGone(k.ctx, k.objects, doomed, time.Minute)
}

// drop deletes what the new manifest no longer has, by the rules of Helm's
// upgrade: not what asks to be kept. Unlike Helm it says when it could not.
func (k *kubeClient) drop(info *resource.Info) (bool, error) {
	t := target{mapping: info.Mapping, object: &unstructured.Unstructured{Object: map[string]any{}}}
	t.object.SetNamespace(info.Namespace)
	t.object.SetName(info.Name)
	live, err := t.in(k.objects).Get(k.ctx, info.Name, metav1.GetOptions{})
	if isGone(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading %s: %w", infoName(info), err)
	}
	gk := info.Mapping.GroupVersionKind.GroupKind()
	if gk.Kind == "CustomResourceDefinition" || k.keepsClaims && neverRemoved(gk) ||
		kept(live) || !ownedBy(live, k.namespace, k.helmRelease) {
		return false, nil
	}
	if k.keepsClaims {
		if err := keepClaims(k.ctx, k.objects, deleted{target: t, uid: live.GetUID()}); err != nil {
			return false, err
		}
	}
	return true, deleteObject(k.ctx, k.objects, deleted{target: t, uid: live.GetUID()}, metav1.DeletePropagationBackground)
}

func (k *kubeClient) Delete(resources kube.ResourceList) (*kube.Result, []error) {
	return k.DeleteWithPropagationPolicy(resources, metav1.DeletePropagationBackground)
}

func (k *kubeClient) DeleteWithPropagationPolicy(resources kube.ResourceList, policy metav1.DeletionPropagation) (*kube.Result, []error) {
	if err := k.stopped(); err != nil {
		return nil, []error{err}
	}
	result, errs := k.Client.DeleteWithPropagationPolicy(k.withoutHome(resources), policy)
	if len(errs) > 0 {
		_ = k.keep(errors.Join(errs...)) // Helm drops them from what uninstall says
	}
	return result, errs
}

// WatchUntilReady is Helm's wait for hooks.
func (k *kubeClient) WatchUntilReady(resources kube.ResourceList, timeout time.Duration) error {
	w := waiter{client: k.objects, hook: true}
	return k.keep(w.wait(k.ctx, targetsOf(resources), timeout))
}

func (k *kubeClient) WaitForDelete(resources kube.ResourceList, timeout time.Duration) error {
	var gone []deleted
	for _, t := range targetsOf(k.withoutHome(resources)) {
		gone = append(gone, deleted{target: t})
	}
	return k.keep(waitGone(k.ctx, k.objects, gone, timeout))
}

// Wait is not used: Helm's Wait is off, and the wait follows the action.
func (k *kubeClient) Wait(resources kube.ResourceList, timeout time.Duration) error {
	return k.keep((&waiter{client: k.objects}).wait(k.ctx, targetsOf(resources), timeout))
}

// WaitWithJobs is Wait, which has Jobs complete in any case.
func (k *kubeClient) WaitWithJobs(resources kube.ResourceList, timeout time.Duration) error {
	return k.Wait(resources, timeout)
}

// WaitAndGetCompletedPodPhase is used by no action that is run here.
func (k *kubeClient) WaitAndGetCompletedPodPhase(name string, timeout time.Duration) (corev1.PodPhase, error) {
	return await(k.ctx, func() (corev1.PodPhase, error) { return k.Client.WaitAndGetCompletedPodPhase(name, timeout) })
}

// onlyOf is the entry of a list that is the same object, as a list.
func onlyOf(list kube.ResourceList, info *resource.Info) kube.ResourceList {
	if one := list.Get(info); one != nil {
		return kube.ResourceList{one}
	}
	return nil
}

func infoName(info *resource.Info) string {
	return objectName(info.Mapping.GroupVersionKind.Kind, info.Namespace, info.Name)
}

// targetsOf are Helm's resources as targets. Hooks that a generated name was
// made for have it by then.
func targetsOf(resources kube.ResourceList) []target {
	var targets []target
	for _, info := range resources {
		object := &unstructured.Unstructured{Object: map[string]any{}}
		if full, ok := info.Object.(*unstructured.Unstructured); ok {
			object = full.DeepCopy()
		}
		object.SetNamespace(info.Namespace)
		object.SetName(info.Name)
		targets = append(targets, target{object: object, mapping: info.Mapping})
	}
	return targets
}
