package charts

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/releaseutil"
	"helm.sh/helm/v3/pkg/storage"
	"helm.sh/helm/v3/pkg/storage/driver"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// recordTimeout bounds one reading or writing of a Helm record. Writing the
// end of an action does not end with the action's context: a revision must
// not stay pending because its action was cancelled.
const recordTimeout = 15 * time.Second

// A Revision is one entry of a Helm release's history.
type Revision struct {
	Number int
	// Status is Helm's: deployed, superseded, failed, uninstalled,
	// uninstalling, pending-install, pending-upgrade, pending-rollback, unknown.
	Status string
	// Chart and Version are the chart's.
	Chart, Version string
	// Labels are those given to [Cluster.Apply], without Helm's own.
	Labels      map[string]string
	Updated     time.Time
	Description string
	// Created are the objects that the call which returned this revision
	// created, sorted. A revision read from history has none.
	Created []ObjectRef
}

// Pending reports whether somebody is, or died while, at work on the Helm
// release.
func (r Revision) Pending() bool { return unfinished(release.Status(r.Status)) }

// unfinished are the statuses that Helm leaves only through the process that
// set them. Helm's own IsPending leaves out an uninstall that was cut off,
// after which Helm can neither install nor upgrade.
func unfinished(status release.Status) bool {
	return status.IsPending() || status == release.StatusUninstalling || status == release.StatusUnknown || status == ""
}

// History lists what Helm has recorded of a Helm release, oldest first. A Helm
// release nobody knows has no revisions and no error.
func (c *Cluster) History(ctx context.Context, namespace, helmRelease string) ([]Revision, error) {
	releases, err := c.history(ctx, namespace, helmRelease)
	if err != nil {
		return nil, err
	}
	revisions := make([]Revision, len(releases))
	for i, rel := range releases {
		revisions[i] = revision(rel)
	}
	return revisions, nil
}

// Fail marks a revision as failed, so that Helm and [Cluster.Apply] can go on
// from there: a pending one whose maker the caller knows to be dead, or a
// deployed one that was taken back. A revision that is failed already stays as
// it is; of any other status it is an error.
func (c *Cluster) Fail(ctx context.Context, namespace, helmRelease string, number int, why string) error {
	releases, err := c.history(ctx, namespace, helmRelease)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(releases, func(rel *release.Release) bool { return rel.Version == number })
	if at < 0 {
		return fmt.Errorf("no revision %d of Helm release %s/%s", number, namespace, helmRelease)
	}
	rel := releases[at]
	switch {
	case rel.Info.Status == release.StatusFailed:
		return nil
	case !unfinished(rel.Info.Status) && rel.Info.Status != release.StatusDeployed:
		return fmt.Errorf("revision %d of Helm release %s/%s is %s, neither pending nor deployed", number, namespace, helmRelease, rel.Info.Status)
	}
	rel.SetStatus(release.StatusFailed, why)
	store, err := c.store(c.config, namespace)
	if err != nil {
		return err
	}
	return c.explain(fmt.Sprintf("marking revision %d of Helm release %s/%s as failed", number, namespace, helmRelease), store.Update(rel))
}

// history reads the Helm records of a Helm release, oldest first.
func (c *Cluster) history(ctx context.Context, namespace, helmRelease string) ([]*release.Release, error) {
	store, err := c.store(bind(ctx, c.config, nil), namespace)
	if err != nil {
		return nil, err
	}
	releases, err := store.History(helmRelease)
	if errors.Is(err, driver.ErrReleaseNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, c.explain(fmt.Sprintf("reading the history of Helm release %s/%s", namespace, helmRelease), err)
	}
	releaseutil.SortByRevision(releases)
	return releases, nil
}

// store is Helm's storage in Secrets of a namespace.
func (c *Cluster) store(config *rest.Config, namespace string) (*storage.Storage, error) {
	config = rest.CopyConfig(config)
	config.Timeout = recordTimeout
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for Helm's records: %w", err)
	}
	return storage.Init(driver.NewSecrets(clients.CoreV1().Secrets(namespace))), nil
}

func revision(rel *release.Release) Revision {
	rev := Revision{Number: rel.Version, Status: rel.Info.Status.String(), Labels: ownLabels(rel.Labels), Description: rel.Info.Description}
	rev.Updated = rel.Info.LastDeployed.Time
	if rel.Chart != nil && rel.Chart.Metadata != nil {
		rev.Chart, rev.Version = rel.Chart.Metadata.Name, rel.Chart.Metadata.Version
	}
	return rev
}

// ownLabels leaves out the labels that Helm's storage uses for itself.
func ownLabels(labels map[string]string) map[string]string {
	own := maps.Clone(labels)
	for _, name := range driver.GetSystemLabels() {
		delete(own, name)
	}
	return own
}

// A Step is how [Cluster.Apply] goes on from a history.
type Step string

const (
	// StepInstall makes the first revision, or the first after an uninstall
	// that kept the history.
	StepInstall Step = "install"
	// StepReplace installs again over first installs that all failed.
	StepReplace Step = "replace"
	// StepUpgrade goes on from what once was deployed.
	StepUpgrade Step = "upgrade"
)

// decide is the one table from recorded states to the next step. It looks at
// the revisions since the last uninstall: what was before is gone. Pending
// revisions must have been decided by then; it takes them for failed.
//
//	none                                  install
//	only failed                           replace
//	deployed or superseded among them     upgrade
func decide(statuses []release.Status) Step {
	for i := len(statuses) - 1; i >= 0; i-- {
		if statuses[i] == release.StatusUninstalled {
			statuses = statuses[i+1:]
			break
		}
	}
	if len(statuses) == 0 {
		return StepInstall
	}
	for _, status := range statuses {
		if status == release.StatusDeployed || status == release.StatusSuperseded {
			return StepUpgrade
		}
	}
	return StepReplace
}

func statusesOf(releases []*release.Release) []release.Status {
	statuses := make([]release.Status, len(releases))
	for i, rel := range releases {
		statuses[i] = rel.Info.Status
	}
	return statuses
}

// base is the revision whose manifest an upgrade starts from: the newest
// deployed one, else the last, as Helm chooses it. It is nil where there is
// nothing to start from.
func base(releases []*release.Release) *release.Release {
	if decide(statusesOf(releases)) == StepInstall {
		return nil
	}
	for _, rel := range slices.Backward(releases) {
		if rel.Info.Status == release.StatusDeployed {
			return rel
		}
	}
	return releases[len(releases)-1]
}
