package charts

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"helm.sh/helm/v3/pkg/kube"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// instanceLabel is on what belongs to an instance: Helm releases (see
// [Component.Labels]) and the namespaces made for them.
const instanceLabel = "waybill/instance"

// The home of a Helm release is its own namespace. Some charts have it among
// their objects, although Helm needs it to be there before the first of them.
// So it is made beforehand, handed over to the Helm release when the chart has
// it too, and never deleted with it: Helm's records are in it, and other
// components may be.

// isHome reports whether a target is the component's own namespace.
func (c Component) isHome(t target) bool {
	return t.groupKind() == "Namespace" && t.name() == c.Namespace
}

// mayAdopt reports whether a live namespace was made for the component's
// instance, or given to it by its label.
func (c Component) mayAdopt(live metav1.Object) bool {
	instance := c.Labels[instanceLabel]
	return instance != "" && live.GetLabels()[instanceLabel] == instance
}

// conflictOver is what to say of an object that exists and is not this Helm
// release's.
func (c Component) conflictOver(t target, live *unstructured.Unstructured) Conflict {
	conflict := Conflict{Kind: t.kind(), Namespace: t.namespace(), Name: t.name(), Owner: owner(live)}
	if instance := c.Labels[instanceLabel]; instance != "" && c.isHome(t) {
		conflict.Reason = fmt.Sprintf("exists, is among the chart's objects, and was not made for this instance; "+
			"`kubectl label namespace %s %s=%s` hands it over", t.name(), instanceLabel, instance)
	}
	return conflict
}

// adoptHome puts Helm's marks on the component's own namespace when the chart
// has it among its objects: without them Helm would refuse it.
func (c *Cluster) adoptHome(ctx context.Context, comp Component, targets []target) error {
	at := slices.IndexFunc(targets, comp.isHome)
	if at < 0 {
		return nil
	}
	client, err := c.objects(ctx)
	if err != nil {
		return err
	}
	home := client.Resource(namespaceResource)
	live, err := home.Get(ctx, comp.Namespace, metav1.GetOptions{})
	if err != nil {
		return c.explain("reading namespace "+comp.Namespace, err)
	}
	if ownedBy(live, comp.Namespace, comp.HelmRelease) || !comp.mayAdopt(live) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": live.GetResourceVersion(),
		"labels":          map[string]string{managedByLabel: managedByHelm},
		"annotations":     map[string]string{releaseNameAnnotation: comp.HelmRelease, releaseNamespaceAnnotation: comp.Namespace},
	}})
	if err != nil {
		return err
	}
	_, err = home.Patch(ctx, comp.Namespace, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	return c.explain("handing over namespace "+comp.Namespace, err)
}

// withoutHome leaves the Helm release's own namespace out of what is deleted.
func (k *kubeClient) withoutHome(resources kube.ResourceList) kube.ResourceList {
	home := Component{Namespace: k.namespace}
	var rest kube.ResourceList
	for _, info := range resources {
		object := &unstructured.Unstructured{Object: map[string]any{}}
		object.SetName(info.Name)
		if !home.isHome(target{object: object, mapping: info.Mapping}) {
			rest = append(rest, info)
		}
	}
	return rest
}
