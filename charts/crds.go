package charts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// What becomes of the files of crds/.
const (
	CRDsUpgrade = "upgrade" // created, and brought up to what the chart has
	CRDsCreate  = "create"  // created when absent, else left alone
	CRDsSkip    = "skip"    // not looked at
)

// What happens to one file of crds/.
const (
	CRDCreate = "create"
	CRDUpdate = "update"
	CRDKeep   = "keep"
)

// crdTimeout is how long the API server may take to serve a new kind. It takes
// about a second.
const crdTimeout = time.Minute

func (c Component) kindsTimeout() time.Duration { return min(c.timeout(), crdTimeout) }

// A CRDChange is what applying would do to one object of crds/.
type CRDChange struct {
	Kind, Name string // Kind is CustomResourceDefinition, unless the chart misuses the folder
	Action     string // [CRDCreate], [CRDUpdate], or [CRDKeep] when nothing changes
	// Owner is the Helm release whose templates made it; it is then kept.
	Owner string
	// DropsStored are versions the cluster has objects stored in and the
	// chart's form no longer has. It is then refused.
	DropsStored []string
}

// A plannedCRD is one object of crds/ with what is to be done to it.
type plannedCRD struct {
	target
	change CRDChange
}

// planCRDs compares the files of crds/ with the cluster. It only reads.
func (c *Cluster) planCRDs(ctx context.Context, comp Component, files []File) ([]plannedCRD, error) {
	if err := knownPolicy(comp.CRDs); err != nil {
		return nil, comp.failed("reading the policy for CRDs", err)
	}
	if comp.CRDs == CRDsSkip {
		return nil, nil
	}
	var planned []plannedCRD
	for _, file := range files {
		targets, unserved, err := c.locate(ctx, string(file.Data), comp.Namespace)
		if err != nil {
			return nil, comp.failed("reading "+file.Name, err)
		}
		for _, object := range unserved {
			err := fmt.Errorf("the cluster does not serve %s %s", object.GetAPIVersion(), object.GetKind())
			return nil, comp.failed("reading "+file.Name, err)
		}
		for _, t := range targets {
			planned = append(planned, plannedCRD{target: t})
		}
	}
	if err := c.compareCRDs(ctx, comp, planned); err != nil {
		return nil, err
	}
	return planned, nil
}

func (c *Cluster) compareCRDs(ctx context.Context, comp Component, planned []plannedCRD) error {
	at := map[string]*plannedCRD{}
	var targets []target
	for i := range planned {
		if at[planned[i].key()] == nil {
			targets = append(targets, planned[i].target)
		}
		at[planned[i].key()] = &planned[i] // the last of two counts, as it does when they are sent
	}
	err := c.readEach(ctx, targets, func(t target, live *unstructured.Unstructured) error {
		change, err := crdChange(comp, t, live)
		if err != nil {
			return fmt.Errorf("comparing %s: %w", t.ref(), err)
		}
		at[t.key()].change = change
		return nil
	})
	if err != nil {
		return comp.failed("reading the CRDs of the cluster", err)
	}
	return nil
}

func knownPolicy(policy string) error {
	switch policy {
	case "", CRDsUpgrade, CRDsCreate, CRDsSkip:
		return nil
	}
	return fmt.Errorf("policy %q is none of %s, %s, %s", policy, CRDsUpgrade, CRDsCreate, CRDsSkip)
}

func crdChange(comp Component, t target, live *unstructured.Unstructured) (CRDChange, error) {
	change := CRDChange{Kind: t.kind(), Name: t.name(), Action: CRDKeep}
	switch {
	case live == nil:
		change.Action = CRDCreate
		return change, nil
	case comp.CRDs == CRDsCreate, t.kind() != "CustomResourceDefinition":
		return change, nil
	}
	if live.GetAnnotations()[releaseNameAnnotation] != "" && !ownedBy(live, comp.Namespace, comp.HelmRelease) {
		change.Owner = owner(live)
		return change, nil
	}
	wanted, err := typedCRD(t.object)
	if err != nil {
		return change, err
	}
	existing, err := typedCRD(live)
	if err != nil {
		return change, err
	}
	for _, stored := range existing.Status.StoredVersions {
		if !slices.ContainsFunc(wanted.Spec.Versions, func(v apiextensions.CustomResourceDefinitionVersion) bool { return v.Name == stored }) {
			change.DropsStored = append(change.DropsStored, stored)
		}
	}
	if !sameCRD(wanted, existing) {
		change.Action = CRDUpdate
	}
	return change, nil
}

// typedCRD reads a CRD with the defaults the API server fills in.
func typedCRD(object *unstructured.Unstructured) (*apiextensions.CustomResourceDefinition, error) {
	scheme := runtime.NewScheme()
	if err := apiextensions.AddToScheme(scheme); err != nil {
		return nil, err
	}
	crd := &apiextensions.CustomResourceDefinition{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, crd); err != nil {
		return nil, err
	}
	scheme.Default(crd)
	return crd, nil
}

// sameCRD reports whether sending wanted would change nothing of existing. A
// certificate that somebody put into its conversion webhook stays.
func sameCRD(wanted, existing *apiextensions.CustomResourceDefinition) bool {
	spec := wanted.Spec.DeepCopy()
	if to, from := conversionClient(spec), conversionClient(&existing.Spec); to != nil && from != nil && len(to.CABundle) == 0 {
		to.CABundle = from.CABundle
	}
	return equality.Semantic.DeepEqual(*spec, existing.Spec) &&
		within(wanted.Labels, existing.Labels) && within(wanted.Annotations, existing.Annotations)
}

func conversionClient(spec *apiextensions.CustomResourceDefinitionSpec) *apiextensions.WebhookClientConfig {
	if spec.Conversion == nil || spec.Conversion.Webhook == nil {
		return nil
	}
	return spec.Conversion.Webhook.ClientConfig
}

func within(some, all map[string]string) bool {
	for key, value := range some {
		if found, ok := all[key]; !ok || found != value {
			return false
		}
	}
	return true
}

// crdConflicts are the planned CRDs that must not be applied.
func crdConflicts(planned []plannedCRD) []Conflict {
	var conflicts []Conflict
	for _, crd := range planned {
		if len(crd.change.DropsStored) > 0 {
			conflicts = append(conflicts, Conflict{Kind: crd.kind(), Name: crd.name(),
				Reason: "would lose version " + strings.Join(crd.change.DropsStored, ", ") + ", which the cluster has stored"})
		}
	}
	return conflicts
}

// applyCRDs sends the CRDs that change, waits until the kinds of all are
// served, and refreshes what is known of the cluster's kinds.
func (c *Cluster) applyCRDs(ctx context.Context, comp Component, planned []plannedCRD) error {
	var all, changing []target
	client, err := c.objects(ctx)
	if err != nil {
		return err
	}
	for _, crd := range planned {
		all = append(all, crd.target)
		if crd.change.Action == CRDKeep || crd.change.Action == "" {
			continue
		}
		changing = append(changing, crd.target)
		step := "applying " + crd.ref().String()
		if err := applyCRD(ctx, client, crd); err != nil {
			if isUnreachable(err) {
				return c.explain(who(comp.Name, comp.title())+": "+step, err)
			}
			return comp.failed(step, err)
		}
	}
	if len(changing) == 0 && c.knows(ctx, all) {
		return nil
	}
	err = (&waiter{client: client}).wait(ctx, changing, comp.kindsTimeout())
	if err == nil {
		err = c.awaitKinds(ctx, all, comp.kindsTimeout())
	}
	if err != nil {
		return comp.failed("waiting for the cluster to serve its CRDs", err)
	}
	return nil
}

// knows reports whether the kinds of CRDs are among those known of the cluster.
// One that somebody else has just applied is there and may not be served yet.
func (c *Cluster) knows(ctx context.Context, crds []target) bool {
	known, err := await(ctx, func() (bool, error) { return c.serves(kindsOf(objectsOf(crds))) })
	return err == nil && known
}

func applyCRD(ctx context.Context, client dynamic.Interface, crd plannedCRD) error {
	object := crd.object.DeepCopy()
	unstructured.RemoveNestedField(object.Object, "status")
	unstructured.RemoveNestedField(object.Object, "metadata", "creationTimestamp")
	if crd.kind() != "CustomResourceDefinition" {
		_, err := crd.in(client).Create(ctx, object, metav1.CreateOptions{FieldManager: fieldManager})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	}
	data, err := object.MarshalJSON()
	if err != nil {
		return err
	}
	force := true // the fields a chart's CRD has are the chart's
	_, err = crd.in(client).Patch(ctx, crd.name(), types.ApplyPatchType, data, metav1.PatchOptions{FieldManager: fieldManager, Force: &force})
	return err
}

// awaitKinds refreshes what is known of the cluster's kinds until discovery
// shows each version that those of the CRDs that exist serve. That they are
// established is another moment, some before.
func (c *Cluster) awaitKinds(ctx context.Context, crds []target, timeout time.Duration) error {
	live, err := c.existing(ctx, crds)
	if err != nil {
		return err
	}
	kinds := kindsOf(live)
	limit, cancel := context.WithTimeoutCause(ctx, timeout, errors.New("they are there, but not in discovery"))
	defer cancel()
	for {
		c.Refresh()
		visible, err := await(limit, func() (bool, error) { return c.serves(kinds) })
		if err != nil && limit.Err() != nil {
			return context.Cause(limit)
		}
		if err == nil && visible {
			return nil
		}
		select {
		case <-limit.Done():
			return context.Cause(limit)
		case <-time.After(pollFirst):
		}
	}
}

// existing are the live forms of those of the targets that are there.
func (c *Cluster) existing(ctx context.Context, targets []target) ([]*unstructured.Unstructured, error) {
	var mu sync.Mutex
	var found []*unstructured.Unstructured
	err := c.readEach(ctx, targets, func(_ target, live *unstructured.Unstructured) error {
		if live != nil {
			mu.Lock()
			defer mu.Unlock()
			found = append(found, live)
		}
		return nil
	})
	return found, err
}

func (c *Cluster) serves(kinds []Kind) (bool, error) {
	for _, kind := range kinds {
		gvk := kind.groupVersionKind()
		_, err := c.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		if meta.IsNoMatchError(err) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

// A Kind is a kind at one version of its group.
type Kind struct{ APIVersion, Kind string }

func compareKinds(a, b Kind) int {
	return cmp.Or(strings.Compare(a.APIVersion, b.APIVersion), strings.Compare(a.Kind, b.Kind))
}

const crdGroupKind = "CustomResourceDefinition.apiextensions.k8s.io"

func objectsOf(targets []target) []*unstructured.Unstructured {
	objects := make([]*unstructured.Unstructured, len(targets))
	for i, t := range targets {
		objects[i] = t.object
	}
	return objects
}

// kindsOf are the kinds that the CRDs among the objects serve, sorted.
func kindsOf(objects []*unstructured.Unstructured) []Kind {
	kinds := map[Kind]bool{}
	for _, object := range objects {
		if object.GroupVersionKind().GroupKind().String() != crdGroupKind {
			continue
		}
		group, kind := textAt(object, "spec", "group"), textAt(object, "spec", "names", "kind")
		versions, _, _ := unstructured.NestedSlice(object.Object, "spec", "versions")
		for _, version := range objectsIn(versions) {
			if name, _ := version["name"].(string); version["served"] == true {
				kinds[Kind{APIVersion: group + "/" + name, Kind: kind}] = true
			}
		}
	}
	return slices.SortedFunc(maps.Keys(kinds), compareKinds)
}
