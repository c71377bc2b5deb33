package charts

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// An Origin is what an object says of where it is from.
type Origin struct {
	HelmRelease, HelmNamespace string     // by Helm's annotations, empty for none
	Mark                       string     // [MarkAnnotation]
	Owner                      *ObjectRef // what controls it, else the first of its owners; nil for none
}

// Origin reads one object. Nil: it is not there, or of a kind that the cluster
// does not serve. Errors: [*UnreachableError] and what the cluster says.
func (c *Cluster) Origin(ctx context.Context, ref ObjectRef) (*Origin, error) {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", ref, err)
	}
	mapping, err := await(ctx, func() (*meta.RESTMapping, error) {
		return c.mapper.RESTMapping(gv.WithKind(ref.Kind).GroupKind(), gv.Version)
	})
	if meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, c.explain("reading "+ref.String(), err)
	}
	client, err := c.objects(ctx)
	if err != nil {
		return nil, err
	}
	namespace := ref.Namespace
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		namespace = ""
	}
	object, err := client.Resource(mapping.Resource).Namespace(namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, c.explain("reading "+ref.String(), err)
	}
	annotations := object.GetAnnotations()
	return &Origin{
		HelmRelease: annotations[releaseNameAnnotation], HelmNamespace: annotations[releaseNamespaceAnnotation],
		Mark: annotations[MarkAnnotation], Owner: ownerOf(object.GetOwnerReferences(), ref.Namespace),
	}, nil
}

func ownerOf(owners []metav1.OwnerReference, namespace string) *ObjectRef {
	var found *metav1.OwnerReference
	for i := range owners {
		if found == nil || owners[i].Controller != nil && *owners[i].Controller {
			found = &owners[i]
		}
	}
	if found == nil {
		return nil
	}
	return &ObjectRef{APIVersion: found.APIVersion, Kind: found.Kind, Namespace: namespace, Name: found.Name}
}
