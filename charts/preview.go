package charts

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"helm.sh/helm/v3/pkg/release"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var namespaceResource = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

// A Preview is what [Cluster.Apply] would do with a component and what would
// stand in its way, found without one writing request.
type Preview struct {
	Step     Step
	Rendered *Rendered  // as it would be sent, with what lookup finds in the cluster
	Size     RecordSize // of the record Helm would keep
	// Conflicts are objects in the way, sorted.
	Conflicts []Conflict
	// CRDs is what would happen to the objects of crds/, in their order.
	CRDs []CRDChange
	// Provides are the kinds that CRDs of this chart serve, be they in crds/ or
	// in templates.
	Provides []Kind
	// Adds are those of them that the cluster does not serve yet.
	Adds []Kind
	// Follows are those of [Component.Coming] without whose kinds the chart
	// renders otherwise, or not at all.
	Follows []string
	// Missing are kinds that the chart uses and neither the cluster serves nor
	// its crds/ brings. Another component may provide them.
	Missing []Kind
	// MissingNamespaces do not exist and are not made by the chart;
	// EndingNamespaces are being deleted. The component's own is among them
	// when that is so. Namespaces that may not be read are in neither.
	MissingNamespaces, EndingNamespaces []string
	// Previous is the last deployed revision's manifest, and PreviousHooks
	// those of its hooks; both empty when there is none.
	Previous         string
	PreviousHooks    []Hook
	PreviousRevision int
	// Dropped are objects of the revision an upgrade starts from whose kinds
	// the cluster no longer serves: Helm cannot upgrade from it.
	Dropped []ObjectRef
	// Changed is whether the chart now renders otherwise than the last
	// deployed revision, leaving out what differs between two renderings of the
	// same inputs. It is true when there is none.
	Changed bool
	// Images is what becomes of the image references.
	Images Rewritten
	// Pending is the last revision when it is pending.
	Pending *Revision
}

// Preview renders a component against the cluster and finds what stands in
// the way. Errors: those of [Chart.Render], [*UnreachableError], [*HelmError].
func (c *Cluster) Preview(ctx context.Context, comp Component) (*Preview, error) {
	releases, err := c.history(ctx, comp.Namespace, comp.HelmRelease)
	if err != nil {
		return nil, err
	}
	found, err := c.inspect(ctx, comp, releases)
	if err != nil {
		return nil, err
	}
	preview := &Preview{
		Step: found.step, Rendered: found.rendered, Size: found.size, Conflicts: found.conflicts,
		Images: found.rendered.rewritten, Changed: true, Provides: found.provides(), Missing: found.missing(),
	}
	if preview.Adds, err = c.unserved(ctx, preview.Provides); err != nil {
		return nil, err
	}
	if preview.Follows, err = c.follows(ctx, comp, found); err != nil {
		return nil, err
	}
	for _, crd := range found.crds {
		preview.CRDs = append(preview.CRDs, crd.change)
	}
	if n := len(releases); n > 0 && unfinished(releases[n-1].Info.Status) {
		last := revision(releases[n-1])
		preview.Pending = &last
	}
	if preview.MissingNamespaces, preview.EndingNamespaces, err = c.namespaces(ctx, comp, found.targets); err != nil {
		return nil, err
	}
	return preview, c.compareWithLast(ctx, comp, found, preview)
}

// compareWithLast fills in what concerns the last deployed revision.
func (c *Cluster) compareWithLast(ctx context.Context, comp Component, found *inspection, preview *Preview) error {
	if found.base == nil {
		return nil
	}
	_, dropped, err := c.locate(ctx, found.base.Manifest, comp.Namespace)
	if err != nil {
		return comp.failed("reading the last revision", err)
	}
	for _, object := range dropped {
		preview.Dropped = append(preview.Dropped, ObjectRef{APIVersion: object.GetAPIVersion(), Kind: object.GetKind(), Namespace: object.GetNamespace(), Name: object.GetName()})
	}
	slices.SortFunc(preview.Dropped, compareRefs)
	if found.base.Info.Status != release.StatusDeployed {
		return nil
	}
	preview.Previous, preview.PreviousRevision = found.base.Manifest, found.base.Version
	previous := &Rendered{}
	previous.addHooks(found.base.Hooks)
	preview.PreviousHooks = previous.Hooks
	preview.Changed, err = c.changed(ctx, comp, found.base)
	return err
}

// An inspection is what was found out about a component before anything is
// changed.
type inspection struct {
	step      Step
	as        rendering
	base      *release.Release // what an upgrade starts from
	rendered  *Rendered
	size      RecordSize
	targets   []target                     // the manifest's and the hooks' objects of kinds the cluster serves
	unserved  []*unstructured.Unstructured // the other objects of the manifest; a hook may bring the kind of a later hook
	crds      []plannedCRD
	conflicts []Conflict
}

// inspect renders and reads.
func (c *Cluster) inspect(ctx context.Context, comp Component, releases []*release.Release) (*inspection, error) {
	found := &inspection{step: decide(statusesOf(releases)), as: rendering{revision: 1}, base: base(releases)}
	if found.step == StepUpgrade {
		found.as = rendering{revision: releases[len(releases)-1].Version + 1, upgrade: true}
	}
	var err error
	if found.rendered, err = c.render(ctx, comp, found.as); err != nil {
		return nil, err
	}
	if found.size, err = comp.Chart.RecordSize(found.rendered); err != nil {
		return nil, comp.failed("measuring the record", err)
	}
	if found.crds, err = c.planCRDs(ctx, comp, found.rendered.CRDs); err != nil {
		return nil, err
	}
	own, unserved, err := c.locate(ctx, found.rendered.Manifest, comp.Namespace)
	if err != nil {
		return nil, comp.failed("reading what was rendered", err)
	}
	hooks, _, err := c.locate(ctx, joinHooks(found.rendered.Hooks), comp.Namespace)
	if err != nil {
		return nil, comp.failed("reading the hooks that were rendered", err)
	}
	found.targets = slices.Concat(own, hooks)
	found.unserved = unserved
	if found.conflicts, err = c.conflicts(ctx, comp, found, own, hooks, releases); err != nil {
		return nil, comp.failed("looking for what is in the way", err)
	}
	return found, nil
}

// refusal is the reason not to begin, if any.
func (f *inspection) refusal(comp Component) error {
	if f.size.TooLarge() {
		return &RecordTooLargeError{Component: comp.Name, HelmRelease: comp.title(), Size: f.size}
	}
	if missing := f.missing(); len(missing) > 0 {
		return &MissingKindsError{Component: comp.Name, HelmRelease: comp.title(), Kinds: missing}
	}
	if len(f.conflicts) > 0 {
		return &ConflictError{Component: comp.Name, HelmRelease: comp.title(), Conflicts: f.conflicts}
	}
	return nil
}

func (f *inspection) provides() []Kind {
	var all []*unstructured.Unstructured
	for _, t := range f.targets {
		all = append(all, t.object)
	}
	for _, crd := range f.crds {
		all = append(all, crd.object)
	}
	return kindsOf(all)
}

// missing are the kinds that Helm would not find: it looks them all up before
// it creates the first object, so a CRD among the templates or hooks comes too
// late.
func (f *inspection) missing() []Kind {
	var first []*unstructured.Unstructured
	for _, crd := range f.crds {
		first = append(first, crd.object)
	}
	own := kindsOf(first)
	missing := map[Kind]bool{}
	for _, object := range f.unserved {
		kind := Kind{APIVersion: object.GetAPIVersion(), Kind: object.GetKind()}
		if !slices.Contains(own, kind) {
			missing[kind] = true
		}
	}
	return slices.SortedFunc(maps.Keys(missing), compareKinds)
}

func (k Kind) groupVersionKind() schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(k.APIVersion, k.Kind)
}

func joinHooks(hooks []Hook) string {
	texts := make([]string, len(hooks))
	for i, hook := range hooks {
		texts[i] = hook.Manifest
	}
	return strings.Join(texts, "\n---\n")
}

// conflicts finds the objects that would be created, exist, and are not this
// Helm release's. Hooks carry no marks of Helm: one that exists is ours when a
// revision has recorded it or an attempt has marked it.
func (c *Cluster) conflicts(ctx context.Context, comp Component, found *inspection, own, hooks []target, releases []*release.Release) ([]Conflict, error) {
	known := map[string]bool{}
	if found.step == StepUpgrade {
		if err := c.addKeys(ctx, known, found.base.Manifest, comp.Namespace); err != nil {
			return nil, comp.failed("reading the last revision", err)
		}
	}
	for _, rel := range releases {
		for _, hook := range rel.Hooks {
			if err := c.addKeys(ctx, known, hook.Manifest, comp.Namespace); err != nil {
				return nil, comp.failed("reading the hooks of the last revision", err)
			}
		}
	}
	isHook := map[string]bool{}
	for _, hook := range hooks {
		isHook[hook.key()] = true
	}
	var mu sync.Mutex
	conflicts := crdConflicts(found.crds)
	unknown := slices.DeleteFunc(slices.Concat(own, hooks), func(t target) bool { return known[t.key()] || t.name() == "" })
	err := c.readEach(ctx, unknown, func(t target, live *unstructured.Unstructured) error {
		if live == nil || ownedBy(live, comp.Namespace, comp.HelmRelease) || comp.isHome(t) && comp.mayAdopt(live) {
			return nil
		}
		annotations := live.GetAnnotations()
		if isHook[t.key()] && annotations[releaseNameAnnotation] == "" && annotations[MarkAnnotation] != "" {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		conflicts = append(conflicts, comp.conflictOver(t, live))
		return nil
	})
	slices.SortFunc(conflicts, func(a, b Conflict) int {
		return compareRefs(ObjectRef{Kind: a.Kind, Namespace: a.Namespace, Name: a.Name}, ObjectRef{Kind: b.Kind, Namespace: b.Namespace, Name: b.Name})
	})
	return conflicts, err
}

func (c *Cluster) addKeys(ctx context.Context, keys map[string]bool, manifest, namespace string) error {
	targets, _, err := c.locate(ctx, manifest, namespace)
	for _, t := range targets {
		keys[t.key()] = true
	}
	return err
}

// namespaces finds which of the namespaces in use are not there, or are going.
func (c *Cluster) namespaces(ctx context.Context, comp Component, targets []target) (missing, ending []string, err error) {
	used := map[string]bool{comp.Namespace: true}
	made := map[string]bool{}
	for _, t := range targets {
		if t.namespace() != "" {
			used[t.namespace()] = true
		}
		if t.groupKind() == "Namespace" {
			made[t.name()] = true
		}
	}
	client, err := c.objects(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(used)) {
		live, err := client.Resource(namespaceResource).Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsForbidden(err):
		case isGone(err):
			if !made[name] {
				missing = append(missing, name)
			}
		case err != nil:
			return nil, nil, c.explain("reading namespace "+name, err)
		case live.GetDeletionTimestamp() != nil:
			ending = append(ending, name)
		}
	}
	return missing, ending, nil
}
