package charts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage"
)

const (
	defaultTimeout    = 10 * time.Minute
	defaultHistoryMax = 10 // as Helm's command line
)

// A Component is one chart to be one Helm release.
type Component struct {
	Name        string // for messages
	Chart       *Chart
	HelmRelease string
	Namespace   string
	// Values are the effective ones, without the chart's defaults.
	Values map[string]any
	// Locate gives the reference to send in place of a normalised image
	// reference. Nil: references are sent as the chart writes them.
	Locate func(normalized string) (reference string, ok bool)
	// PullSecret is the name of a Secret that pods pull with. With Locate it is
	// added to every pod's spec and every ServiceAccount that is sent.
	PullSecret string
	// Coming are kinds that others will have brought before it is applied. Only a
	// preview looks at them.
	Coming []Coming
	// CRDs says what becomes of crds/: [CRDsUpgrade] (also when empty),
	// [CRDsCreate] or [CRDsSkip].
	CRDs string
	// Timeout bounds each hook and the wait for readiness, default 10m.
	Timeout time.Duration
	// Labels are put on the Helm release.
	Labels map[string]string
	// Mark tells the objects this attempt creates, see [MarkAnnotation].
	// Empty: they are not marked, and cannot be taken back.
	Mark string
	// HistoryMax is how many revisions Helm keeps, default 10.
	HistoryMax int
}

// ApplyOptions are for [Cluster.Apply]. The zero value is the careful one.
type ApplyOptions struct {
	// ReclaimPending marks a pending revision as failed and goes on. It is for
	// the caller that knows that whoever made it is dead; otherwise a pending
	// revision is a [*PendingError].
	ReclaimPending bool
}

func (c Component) title() string { return c.Namespace + "/" + c.HelmRelease }

func (c Component) timeout() time.Duration {
	if c.Timeout <= 0 {
		return defaultTimeout
	}
	return c.Timeout
}

func (c Component) historyMax() int {
	if c.HistoryMax <= 0 {
		return defaultHistoryMax
	}
	return c.HistoryMax
}

// failed wraps an error of a step, unless it says all of that by itself.
func (c Component) failed(step string, err error) error {
	var conflict *ConflictError
	var large *RecordTooLargeError
	var pending *PendingError
	var missing *MissingKindsError
	var helm *HelmError
	var unreachable *UnreachableError
	if errors.As(err, &unreachable) || errors.As(err, &missing) || errors.As(err, &conflict) || errors.As(err, &large) || errors.As(err, &pending) || errors.As(err, &helm) {
		return err
	}
	return &HelmError{Component: c.Name, HelmRelease: c.title(), Step: step, Err: err}
}

// Apply installs or upgrades one component and returns once it is ready. How
// it goes on is decided from the recorded states, see [decide]; before the
// first change the chart is rendered and checked against the cluster.
//
// The Helm revision is pending until everything is ready, then deployed. When
// anything fails, ctx ending included, it is failed when Apply returns; the
// objects stay as they are ([Cluster.TakeBack] and [Cluster.Rollback] put
// things back). The returned revision is the one that was made; its Number is
// zero when none was.
//
// Errors: [*ConflictError], [*RecordTooLargeError], [*MissingKindsError],
// [*PendingError] (nothing was changed); [*HelmError], which may hold a [*NotReadyError] or the cause
// ctx ended with; [*UnreachableError].
func (c *Cluster) Apply(ctx context.Context, comp Component, opts ApplyOptions) (Revision, error) {
	comp.Coming = nil // by now the cluster has them, or does not
	releases, err := c.reclaimed(ctx, comp, opts.ReclaimPending)
	if err != nil {
		return Revision{}, err
	}
	ready, err := c.inspect(ctx, comp, releases)
	if err != nil {
		return Revision{}, err
	}
	if err := ready.refusal(comp); err != nil {
		return Revision{}, err
	}
	if err := c.applyCRDs(ctx, comp, ready.crds); err != nil {
		return Revision{}, err
	}
	if err := c.adoptHome(ctx, comp, ready.targets); err != nil {
		return Revision{}, err
	}
	s, err := c.begin(ctx, comp)
	if err != nil {
		return Revision{}, err
	}
	step, run := "installing", s.install
	var from *release.Release // what Helm merges with
	if ready.step == StepUpgrade {
		step, run, from = "upgrading", s.upgrade, ready.base
	}
	s.kube.left = s.leftBehind(releases, from)
	return s.carryOut(ctx, step, run)
}

// reclaimed is the history of a component, with pending revisions marked
// failed when the caller allows it.
func (c *Cluster) reclaimed(ctx context.Context, comp Component, reclaim bool) ([]*release.Release, error) {
	releases, err := c.history(ctx, comp.Namespace, comp.HelmRelease)
	if err != nil {
		return nil, err
	}
	for i, rel := range releases {
		if !unfinished(rel.Info.Status) {
			continue
		}
		switch {
		case reclaim:
			why := fmt.Sprintf("was %s when whoever made it ended", rel.Info.Status)
			if err := c.Fail(ctx, comp.Namespace, comp.HelmRelease, rel.Version, why); err != nil {
				return nil, err
			}
			rel.SetStatus(release.StatusFailed, why)
		case i == len(releases)-1:
			return nil, &PendingError{Component: comp.Name, HelmRelease: comp.title(), Revision: revision(rel)}
		}
	}
	return releases, nil
}

// A session is one action on one Helm release, with Helm's configuration made
// for it alone: it must not be shared.
type session struct {
	cluster *Cluster
	comp    Component
	kube    *kubeClient
	records *heldRecords
	config  *action.Configuration
	last    *lastRequest
}

// begin makes a session. Its requests to the cluster end with ctx, except
// those for Helm's records, which have a time limit instead.
func (c *Cluster) begin(ctx context.Context, comp Component) (*session, error) {
	last := &lastRequest{}
	getter := restGetter{cluster: c, config: bind(ctx, c.config, last)}
	client, err := c.newKubeClient(ctx, getter, comp)
	if err != nil {
		return nil, err
	}
	store, err := c.store(c.config, comp.Namespace)
	if err != nil {
		return nil, err
	}
	caps, err := c.capabilities(ctx)
	if err != nil {
		return nil, err
	}
	records := &heldRecords{Driver: store.Driver, labels: comp.Labels, rewriting: comp.rewriting()}
	releases := storage.Init(records)
	releases.MaxHistory = comp.historyMax()
	return &session{
		cluster: c, comp: comp, kube: client, records: records, last: last,
		config: &action.Configuration{
			RESTClientGetter: getter,
			Releases:         releases,
			KubeClient:       client,
			Capabilities:     caps,
			Log:              func(string, ...any) {},
			HookOutputFunc:   func(_, _, _ string) io.Writer { return io.Discard },
		},
	}, nil
}

// carryOut runs a Helm action, waits until its objects are ready, and records
// how it ended.
func (s *session) carryOut(ctx context.Context, step string, run func() error) (Revision, error) {
	err := s.explain(step, run())
	if err == nil {
		err = s.explain("removing what failed revisions left", s.dropLeft())
	}
	if err == nil {
		step, err = "waiting", s.waitReady(ctx)
		err = s.explain(step, err)
	}
	made, recordErr := s.finish(err)
	if made == nil {
		return Revision{}, err
	}
	rev := revision(made)
	rev.Created = slices.SortedFunc(slices.Values(s.kube.created), compareRefs)
	if err == nil && recordErr != nil {
		err = s.comp.failed("recording", recordErr)
	}
	return rev, err
}

// waitReady waits for the objects of the revision that Helm has just sent, and
// then for the kinds that it brought, in its templates and hooks: who comes
// next asks for them, or has objects of them.
func (s *session) waitReady(ctx context.Context) error {
	sent := s.records.sent()
	targets, _, err := s.cluster.locate(ctx, sent.Manifest, s.comp.Namespace)
	if err != nil {
		return err
	}
	if err := (&waiter{client: s.kube.objects}).wait(ctx, targets, s.comp.timeout()); err != nil {
		return err
	}
	all, err := s.cluster.recorded(ctx, sent, true)
	if err != nil {
		return err
	}
	crds := slices.DeleteFunc(all, func(t target) bool { return t.groupKind() != crdGroupKind })
	if len(crds) == 0 {
		return nil
	}
	return s.cluster.awaitKinds(ctx, crds, s.comp.kindsTimeout())
}

// install runs Helm's install. Helm's own context is never given: on its end
// Helm would return and go on installing behind our back. The session's client
// stops instead, so that when Helm returns, it has stopped.
func (s *session) install() error {
	loaded, values, err := s.comp.Chart.prepare(s.comp.Values)
	if err != nil {
		return err
	}
	install := action.NewInstall(s.config)
	install.ReleaseName, install.Namespace = s.comp.HelmRelease, s.comp.Namespace
	install.Replace = true // over uninstalled and failed revisions; without any it changes nothing
	install.SkipCRDs = true
	install.Timeout = s.comp.timeout()
	install.Labels = s.comp.Labels
	install.PostRenderer = s.records.rewriting
	_, err = runInstall(install, loaded, values)
	return err
}

// upgrade runs Helm's upgrade, see install for its context.
func (s *session) upgrade() (err error) {
	loaded, values, err := s.comp.Chart.prepare(s.comp.Values)
	if err != nil {
		return err
	}
	upgrade := action.NewUpgrade(s.config)
	upgrade.Namespace = s.comp.Namespace
	upgrade.ResetValues = true // or Helm takes the old values when there are none now
	upgrade.SkipCRDs = true
	upgrade.Timeout = s.comp.timeout()
	upgrade.MaxHistory = s.comp.historyMax()
	upgrade.Labels = s.comp.Labels
	upgrade.PostRenderer = s.records.rewriting
	defer recoverAs(&err, "executing templates")
	_, err = upgrade.Run(s.comp.HelmRelease, loaded, values)
	return err
}

// explain finds the type of an error that Helm may have turned into text, and
// names component and step.
func (s *session) explain(step string, err error) error {
	if err == nil {
		return nil
	}
	if stop := s.kube.stopped(); stop != nil {
		return s.comp.failed(step, stop)
	}
	if trouble := s.kube.firstTrouble(); trouble != nil {
		err = trouble
	} else if lost := s.last.failure(); lost != nil && !isUnreachable(err) {
		err = lost
	}
	if isUnreachable(err) {
		return &UnreachableError{Server: s.cluster.config.Host, Step: who(s.comp.Name, s.comp.title()) + ": " + step, Err: err}
	}
	return s.comp.failed(step, err)
}
