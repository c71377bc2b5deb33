package charts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Rollback makes a new revision of an earlier one, with Helm's rollback, and
// returns once it is ready. CRDs are not touched. Revisions, waiting and
// errors are as in [Cluster.Apply]; a pending last revision is a
// [*PendingError], see [Cluster.Fail].
//
// Used of comp: all but Chart and Values.
func (c *Cluster) Rollback(ctx context.Context, comp Component, number int) (Revision, error) {
	if _, err := c.reclaimed(ctx, comp, false); err != nil {
		return Revision{}, err
	}
	s, err := c.begin(ctx, comp)
	if err != nil {
		return Revision{}, err
	}
	s.kube.keepsClaims = true
	return s.carryOut(ctx, fmt.Sprintf("rolling back to revision %d", number), func() error {
		rollback := action.NewRollback(s.config)
		rollback.Version = number
		rollback.Timeout = comp.timeout()
		rollback.MaxHistory = comp.historyMax()
		return rollback.Run(comp.HelmRelease)
	})
}

// Uninstall removes the Helm release as Helm does, waits until its objects are
// gone, and removes its history. What stays is what stays with Helm: objects
// that ask to be kept, the CRDs of crds/, the claims of StatefulSets; and the Helm
// release's own namespace. A Helm release that is not there is no error, and a cut-off uninstall goes on.
//
// Used of comp: HelmRelease, Namespace, Timeout. Errors: [*HelmError], which
// may hold a [*NotGoneError] or a [*NotReadyError] of a hook;
// [*UnreachableError].
func (c *Cluster) Uninstall(ctx context.Context, comp Component) error {
	releases, err := c.history(ctx, comp.Namespace, comp.HelmRelease)
	if err != nil || len(releases) == 0 {
		return err
	}
	s, err := c.begin(ctx, comp)
	if err != nil {
		return err
	}
	return s.explain("uninstalling", s.uninstall(ctx, releases))
}

// uninstall keeps the history until everything is gone: Helm drops it earlier,
// and then nobody knows what was left.
func (s *session) uninstall(ctx context.Context, releases []*release.Release) error {
	var left []target // with what only earlier revisions have: left over from a failed upgrade
	for _, rel := range releases {
		targets, err := s.cluster.recorded(ctx, rel, false)
		if err != nil {
			return err
		}
		left = append(left, targets...)
	}
	records := s.records.Driver
	if releases[len(releases)-1].Info.Status != release.StatusUninstalled {
		s.config.Releases.Driver = records // nothing to hold back
		uninstall := action.NewUninstall(s.config)
		uninstall.KeepHistory = true
		uninstall.Wait = true // for deletion, by our own wait
		uninstall.DeletionPropagation = "foreground"
		uninstall.Timeout = s.comp.timeout()
		if _, err := uninstall.Run(s.comp.HelmRelease); err != nil {
			return err
		}
	}
	ours := func(live *unstructured.Unstructured) bool {
		return ownedBy(live, s.comp.Namespace, s.comp.HelmRelease) && !kept(live)
	}
	if err := s.cluster.remove(ctx, left, ours, s.comp.timeout()); err != nil {
		return err
	}
	for _, rel := range releases {
		if _, err := records.Delete(recordKey(rel)); err != nil && !errors.Is(err, driver.ErrReleaseNotFound) {
			return fmt.Errorf("removing the record of revision %d: %w", rel.Version, err)
		}
	}
	return nil
}

// UninstallObjects lists the live objects that [Cluster.Uninstall] would
// remove, sorted. It only reads. A Helm release that is not there has none.
func (c *Cluster) UninstallObjects(ctx context.Context, comp Component) ([]ObjectRef, error) {
	releases, err := c.history(ctx, comp.Namespace, comp.HelmRelease)
	if err != nil {
		return nil, err
	}
	last := map[string]bool{}
	var targets []target
	for _, rel := range slices.Backward(releases) {
		found, err := c.recorded(ctx, rel, false)
		if err != nil {
			return nil, comp.failed("reading what was installed", err)
		}
		for _, t := range found {
			if !slices.ContainsFunc(targets, func(o target) bool { return o.key() == t.key() }) {
				targets = append(targets, t)
			}
			if rel == releases[len(releases)-1] {
				last[t.key()] = true
			}
		}
	}
	var mu sync.Mutex
	var objects []ObjectRef
	err = c.readEach(ctx, targets, func(t target, live *unstructured.Unstructured) error {
		goes := last[t.key()] && !comp.isHome(t) || !neverRemoved(t.mapping.GroupVersionKind.GroupKind())
		if live == nil || kept(live) || !goes || !last[t.key()] && !ownedBy(live, comp.Namespace, comp.HelmRelease) {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		objects = append(objects, t.ref())
		return nil
	})
	slices.SortFunc(objects, compareRefs)
	return objects, err
}
