package charts

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

// MarkAnnotation is put on objects when they are created, with the attempt
// that created them. It is on the live object only: what Helm records stays
// what the chart rendered.
const MarkAnnotation = "waybill/attempt"

// Helm's marks of ownership, unexported in helm.sh/helm/v3/pkg/action.
const (
	managedByLabel             = "app.kubernetes.io/managed-by"
	managedByHelm              = "Helm"
	releaseNameAnnotation      = "meta.helm.sh/release-name"
	releaseNamespaceAnnotation = "meta.helm.sh/release-namespace"
)

// atOnce is how many objects are read at the same time.
const atOnce = 8

// An ObjectRef names one object of a cluster.
type ObjectRef struct {
	APIVersion, Kind, Namespace, Name string
}

func (r ObjectRef) String() string { return objectName(r.Kind, r.Namespace, r.Name) }

func compareRefs(a, b ObjectRef) int {
	return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Namespace, b.Namespace),
		strings.Compare(a.Name, b.Name), strings.Compare(a.APIVersion, b.APIVersion))
}

// A target is an object of a manifest and where the cluster keeps its kind.
type target struct {
	object  *unstructured.Unstructured
	mapping *meta.RESTMapping
}

func (t target) kind() string      { return t.mapping.GroupVersionKind.Kind }
func (t target) groupKind() string { return t.mapping.GroupVersionKind.GroupKind().String() }
func (t target) namespace() string { return t.object.GetNamespace() }
func (t target) name() string      { return t.object.GetName() }

func (t target) ref() ObjectRef {
	return ObjectRef{APIVersion: t.object.GetAPIVersion(), Kind: t.kind(), Namespace: t.namespace(), Name: t.name()}
}

// key tells objects apart whatever version of their kind they were written in.
func (t target) key() string { return t.groupKind() + "/" + t.namespace() + "/" + t.name() }

// in is where the object is read and deleted.
func (t target) in(client dynamic.Interface) dynamic.ResourceInterface {
	if t.mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		return client.Resource(t.mapping.Resource).Namespace(t.namespace())
	}
	return client.Resource(t.mapping.Resource)
}

// parseObjects reads the documents of a manifest in their order. Empty ones
// are skipped, lists are taken apart.
func parseObjects(manifest string) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	docs := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(manifest)))
	for {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading the manifest: %w", err)
		}
		content, err := parseDocument(doc)
		if err != nil {
			return nil, fmt.Errorf("reading the manifest: %w", err)
		}
		if len(content) == 0 {
			continue
		}
		one, err := flatten(&unstructured.Unstructured{Object: content})
		if err != nil {
			return nil, err
		}
		objects = append(objects, one...)
	}
}

// parseDocument reads one YAML document. Its integers are int64, as the
// functions for unstructured objects want them.
func parseDocument(doc []byte) (map[string]any, error) {
	data, err := yaml.YAMLToJSON(bytes.TrimPrefix(doc, []byte("---\n")))
	if err != nil {
		return nil, err
	}
	var content map[string]any
	err = utiljson.Unmarshal(data, &content)
	return content, err
}

func flatten(object *unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	if !object.IsList() {
		return []*unstructured.Unstructured{object}, nil
	}
	var items []*unstructured.Unstructured
	err := object.EachListItem(func(item runtime.Object) error {
		one, ok := item.(*unstructured.Unstructured)
		if !ok {
			return fmt.Errorf("reading the manifest: an item of %s is no object", object.GetKind())
		}
		deeper, err := flatten(one)
		items = append(items, deeper...)
		return err
	})
	return items, err
}

// locate finds where the cluster keeps each object; objects without a
// namespace get the given one where their kind has namespaces. Objects of
// kinds the cluster does not serve come back separately.
func (c *Cluster) locate(ctx context.Context, manifest, namespace string) (found []target, unserved []*unstructured.Unstructured, err error) {
	objects, err := parseObjects(manifest)
	if err != nil {
		return nil, nil, err
	}
	for _, object := range objects {
		gvk := object.GroupVersionKind()
		mapping, err := await(ctx, func() (*meta.RESTMapping, error) {
			return c.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		})
		if meta.IsNoMatchError(err) {
			unserved = append(unserved, object)
			continue
		}
		if err != nil {
			return nil, nil, c.explain("finding kind "+gvk.Kind, err)
		}
		if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
			object.SetNamespace("")
		} else if object.GetNamespace() == "" {
			object.SetNamespace(namespace)
		}
		found = append(found, target{object: object, mapping: mapping})
	}
	return found, unserved, nil
}

// readEach reads the live form of each target and hands it on, nil when there
// is none. The calls of see come from several goroutines.
func (c *Cluster) readEach(ctx context.Context, targets []target, see func(t target, live *unstructured.Unstructured) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	client, err := c.objects(ctx)
	if err != nil {
		return err
	}
	for _, t := range targets {
		group.Go(func() error {
			live, err := t.in(client).Get(ctx, t.name(), metav1.GetOptions{})
			switch {
			case isGone(err):
				return see(t, nil)
			case err != nil:
				return c.explain("reading "+t.ref().String(), err)
			}
			return see(t, live)
		})
	}
	return group.Wait()
}

// ownedBy reports whether Helm's marks on a live object name this Helm release.
func ownedBy(live metav1.Object, namespace, helmRelease string) bool {
	annotations := live.GetAnnotations()
	return live.GetLabels()[managedByLabel] == managedByHelm &&
		annotations[releaseNameAnnotation] == helmRelease &&
		annotations[releaseNamespaceAnnotation] == namespace
}

// owner says in words whose a live object is, as far as its marks tell.
func owner(live metav1.Object) string {
	annotations := live.GetAnnotations()
	if name := annotations[releaseNameAnnotation]; name != "" {
		return "Helm release " + annotations[releaseNamespaceAnnotation] + "/" + name
	}
	if by := live.GetLabels()[managedByLabel]; by != "" {
		return "managed by " + by
	}
	var managers []string
	for _, field := range live.GetManagedFields() {
		if field.Subresource == "" && field.Manager != "" {
			managers = append(managers, field.Manager)
		}
	}
	if len(managers) == 0 {
		return ""
	}
	slices.Sort(managers)
	return "made by " + strings.Join(slices.Compact(managers), ", ")
}

// neverRemoved are the kinds that no taking back deletes: they hold what
// cannot be made again.
func neverRemoved(gk schema.GroupKind) bool {
	switch gk {
	case schema.GroupKind{Kind: "PersistentVolumeClaim"},
		schema.GroupKind{Kind: "PersistentVolume"},
		schema.GroupKind{Kind: "Namespace"},
		schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}:
		return true
	}
	return false
}
