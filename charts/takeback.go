package charts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/releaseutil"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/retry"
)

// customFirst is how long custom resources may take to go before their
// controllers are deleted too.
const customFirst = 30 * time.Second

var claimResource = schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}

// A deleted is an object that was, or is to be, deleted: this very one, when
// it has a UID, and no other of the same name.
type deleted struct {
	target
	uid types.UID
}

// TakeBack undoes a failed first install: it deletes the objects of the Helm
// release that carry comp.Mark, so those this attempt created and no others,
// and waits until they are gone. Volume claims, CRDs and namespaces stay, and
// so does the revision, failed. Run again it goes on where it was.
//
// Used of comp: HelmRelease, Namespace, Mark, Timeout. Errors:
// [*NotGoneError] in a [*HelmError], [*UnreachableError].
func (c *Cluster) TakeBack(ctx context.Context, comp Component) error {
	if comp.Mark == "" {
		return comp.failed("taking back", errors.New("no mark is given to tell its objects by"))
	}
	releases, err := c.history(ctx, comp.Namespace, comp.HelmRelease)
	if err != nil {
		return err
	}
	var targets []target
	for _, rel := range releases {
		found, err := c.recorded(ctx, rel, true)
		if err != nil {
			return comp.failed("taking back", err)
		}
		targets = append(targets, found...)
	}
	marked := func(live *unstructured.Unstructured) bool { return live.GetAnnotations()[MarkAnnotation] == comp.Mark }
	if err := c.remove(ctx, targets, marked, comp.timeout()); err != nil {
		return comp.failed("taking back", err)
	}
	return nil
}

// recorded are the objects of a revision that the cluster serves, with or
// without those of its hooks.
func (c *Cluster) recorded(ctx context.Context, rel *release.Release, hooks bool) ([]target, error) {
	manifest := rel.Manifest
	for _, hook := range rel.Hooks {
		if hooks {
			manifest += "\n---\n" + hook.Manifest
		}
	}
	targets, _, err := c.locate(ctx, manifest, rel.Namespace)
	return targets, err
}

// remove deletes the live objects that ours accepts and waits until they are
// gone: custom resources first, since their controllers may have to agree,
// then the rest in the reverse of the order in which Helm installs. What is
// [neverRemoved] is not looked at.
func (c *Cluster) remove(ctx context.Context, targets []target, ours func(live *unstructured.Unstructured) bool, timeout time.Duration) error {
	client, err := c.objects(ctx)
	if err != nil {
		return err
	}
	found, err := c.findLive(ctx, targets, ours)
	if err != nil {
		return err
	}
	builtIn := func(d deleted) bool { return scheme.Scheme.Recognizes(d.mapping.GroupVersionKind) }
	var custom, rest []deleted
	for _, object := range found {
		if builtIn(object) {
			rest = append(rest, object)
		} else {
			custom = append(custom, object)
		}
	}
	if err := deleteAll(ctx, client, custom); err != nil {
		return err
	}
	var lingering *NotGoneError
	if err := waitGone(ctx, client, custom, min(customFirst, timeout)); err != nil && !errors.As(err, &lingering) {
		return err
	}
	if err := deleteAll(ctx, client, rest); err != nil {
		return err
	}
	return waitGone(ctx, client, found, timeout)
}

// findLive reads the targets and keeps those that ours accepts, in the order
// of deletion.
func (c *Cluster) findLive(ctx context.Context, targets []target, ours func(live *unstructured.Unstructured) bool) ([]deleted, error) {
	var once []target
	seen := map[string]bool{}
	for _, t := range targets {
		if !neverRemoved(t.mapping.GroupVersionKind.GroupKind()) && !seen[t.key()] && t.name() != "" {
			seen[t.key()] = true
			once = append(once, t)
		}
	}
	var mu sync.Mutex
	var found []deleted
	err := c.readEach(ctx, once, func(t target, live *unstructured.Unstructured) error {
		if live != nil && ours(live) {
			mu.Lock()
			defer mu.Unlock()
			found = append(found, deleted{target: t, uid: live.GetUID()})
		}
		return nil
	})
	slices.SortFunc(found, func(a, b deleted) int {
		if order := uninstallOrder(a.kind()) - uninstallOrder(b.kind()); order != 0 {
			return order
		}
		return compareRefs(a.ref(), b.ref())
	})
	return found, err
}

func uninstallOrder(kind string) int {
	if at := slices.Index(releaseutil.UninstallOrder, kind); at >= 0 {
		return at
	}
	return -1
}

func deleteAll(ctx context.Context, client dynamic.Interface, objects []deleted) error {
	for _, object := range objects {
		if err := keepClaims(ctx, client, object); err != nil {
			return err
		}
		if err := deleteObject(ctx, client, object, metav1.DeletePropagationForeground); err != nil {
			return err
		}
	}
	return nil
}

// keepClaims has the claims of a StatefulSet outlive it, also when it asks for
// them to be deleted with it. Its controller lets claims go only while their
// pods are ready, so the ownership is taken off here.
func keepClaims(ctx context.Context, client dynamic.Interface, object deleted) error {
	if object.groupKind() != "StatefulSet.apps" {
		return nil
	}
	set, err := object.in(client).Get(ctx, object.name(), metav1.GetOptions{})
	if isGone(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", object.ref(), err)
	}
	if textAt(set, "spec", "persistentVolumeClaimRetentionPolicy", "whenDeleted") != "Delete" {
		return nil
	}
	patch := []byte(`{"spec":{"persistentVolumeClaimRetentionPolicy":{"whenDeleted":"Retain"}}}`)
	if _, err := object.in(client).Patch(ctx, object.name(), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager}); err != nil {
		return fmt.Errorf("keeping the claims of %s: %w", object.ref(), err)
	}
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		return disown(ctx, client.Resource(claimResource).Namespace(object.namespace()), object.uid)
	})
	if err != nil {
		return fmt.Errorf("keeping the claims of %s: %w", object.ref(), err)
	}
	return nil
}

// disown takes an owner off the objects it owns.
func disown(ctx context.Context, client dynamic.ResourceInterface, uid types.UID) error {
	list, err := client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range list.Items {
		owners := list.Items[i].GetOwnerReferences()
		others := slices.DeleteFunc(slices.Clone(owners), func(owner metav1.OwnerReference) bool { return owner.UID == uid })
		if len(others) == len(owners) {
			continue
		}
		list.Items[i].SetOwnerReferences(others)
		if _, err := client.Update(ctx, &list.Items[i], metav1.UpdateOptions{FieldManager: fieldManager}); err != nil && !isGone(err) {
			return err
		}
	}
	return nil
}

// deleteObject deletes this one object and no later one of the same name.
// That it is gone already is well.
func deleteObject(ctx context.Context, client dynamic.Interface, object deleted, policy metav1.DeletionPropagation) error {
	opts := metav1.DeleteOptions{PropagationPolicy: &policy}
	if object.uid != "" {
		opts.Preconditions = &metav1.Preconditions{UID: &object.uid}
	}
	err := object.in(client).Delete(ctx, object.name(), opts)
	if err == nil || isGone(err) || apierrors.IsConflict(err) {
		return nil
	}
	return fmt.Errorf("deleting %s: %w", object.ref(), err)
}

// kept reports whether an object asks to stay when its Helm release goes.
func kept(live metav1.Object) bool {
	return strings.EqualFold(strings.TrimSpace(live.GetAnnotations()[kube.ResourcePolicyAnno]), kube.KeepPolicy)
}
