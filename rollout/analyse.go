package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/Masterminds/semver/v3"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
)

// analysis is everything that is known before the first change.
type analysis struct {
	req        *Request
	instance   string
	policy     string // what happens on failure
	store      store
	components []*component
	subjects   []*subject // one for each component, in the same order
	caps       Capabilities
	images     *imageMap  // nil: references are kept
	pull       *pulling   // nil: the site has no pull secret
	latest     *stored    // newest record, nil for none
	held       *HeldError // who holds the lease, nil for nobody else
	plan       *Plan
}

// subject is a component of this attempt, or one that is only recorded, with
// what was found of it.
type subject struct {
	*component                  // nil for one that is only recorded
	previous   *ComponentRecord // nil when it is not recorded
	history    []HelmRevision
	planned    PlannedComponent
	preview    *Preview
	previewed  findings // of the last preview
	coming     []Coming // that the last preview took as there
	broken     error    // of a preview that could not be made
	same       bool     // as the record, but for the cluster
	// podNamespaces are those beside the component's own in which it has pods.
	podNamespaces []string
	refusals      []Refusal
	warnings      []string
	heal          *Heal
}

// lookOptions say how an analysis is made.
type lookOptions struct {
	holding bool          // the lease is ours
	wait    time.Duration // for namespaces that are being deleted
}

// record returns the newest record, nil for none.
func (a *analysis) record() *Record {
	if a.latest == nil {
		return nil
	}
	return a.latest.record
}

// analyse reads all that a plan needs, in the order of its checks: what the
// request says by itself, whether the cluster answers, whether it is a
// downgrade, who holds the lease, and then everything else, collected. The
// plan is returned with the last two errors too.
func (r *Runner) analyse(ctx context.Context, req *Request, opts lookOptions) (*analysis, error) {
	a, err := r.begin(ctx, req)
	if err != nil {
		return nil, err
	}
	if a.caps, err = r.charts.Capabilities(ctx, true); err != nil {
		return nil, err
	}
	if a.latest, err = a.store.latest(ctx, a.instance); err != nil {
		return nil, recordRefusal(err)
	}
	if err := a.checkDowngrade(); err != nil {
		return nil, err
	}
	if err := r.checkLease(ctx, a, opts); err != nil {
		return nil, err
	}
	a.startPlan()
	if err := r.checkCluster(ctx, a, opts); err != nil {
		return nil, err
	}
	return a, a.verdict()
}

// begin does what needs no cluster.
func (r *Runner) begin(_ context.Context, req *Request) (*analysis, error) {
	instance, err := req.instance()
	if err != nil {
		return nil, err
	}
	policy, err := req.onFailure()
	if err != nil {
		return nil, err
	}
	components, err := choose(req)
	if err != nil {
		return nil, err
	}
	return &analysis{
		req: req, instance: instance, policy: policy, components: components,
		store: store{client: r.client, namespace: r.state(req.Site)}, pull: req.pullSecret(),
	}, nil
}

// recordRefusal makes refusals of records that may not or cannot be read.
func recordRefusal(err error) error {
	var newer *NewerRecordError
	switch {
	case errors.As(err, &newer):
		return refused("newer-record", newer.Error())
	case errors.Is(err, errForbidden):
		return refused("rights", err.Error())
	}
	return err
}

func refused(code, message string) *RefusedError {
	return &RefusedError{Reasons: []Refusal{{Code: code, Message: message}}}
}

// checkDowngrade compares the release's version with the newest one that
// anything in the cluster stands from.
func (a *analysis) checkDowngrade() error {
	installed := a.record().installed()
	if installed == "" || a.req.AllowDowngrade {
		return nil
	}
	wanted := a.req.Source.Lock.Release.Version
	old, oldErr := semver.StrictNewVersion(installed)
	next, nextErr := semver.StrictNewVersion(wanted)
	if oldErr != nil || nextErr != nil || !next.LessThan(old) {
		return nil
	}
	return &DowngradeError{Instance: a.instance, Installed: installed, Wanted: wanted}
}

// installed returns the newest version that a component stands from, or "".
func (r *Record) installed() string {
	if r == nil {
		return ""
	}
	newest := ""
	var best *semver.Version
	for i := range r.Components {
		v, err := semver.StrictNewVersion(r.Components[i].Version)
		if err == nil && (best == nil || best.LessThan(v)) {
			best, newest = v, r.Components[i].Version
		}
	}
	return newest
}

// checkLease looks who holds the lease. Somebody who has an attempt running
// ends the analysis: what there is to see changes as we look.
func (r *Runner) checkLease(ctx context.Context, a *analysis, opts lookOptions) error {
	if opts.holding {
		return nil
	}
	l := r.leases(a.store.namespace)
	lease, err := l.look(ctx, a.instance)
	if err != nil {
		return recordRefusal(err)
	}
	a.held = l.held(a.instance, lease)
	if a.held != nil && a.latest != nil && a.latest.record.Status == StatusRunning {
		return a.held
	}
	return nil
}

func (r *Runner) leases(namespace string) leases {
	return leases{client: r.client, namespace: namespace, holder: r.holder, now: r.now, times: r.times, events: r.events}
}

// startPlan makes the plan with what is known of the whole.
func (a *analysis) startPlan() {
	src := a.req.Source
	a.plan = &Plan{
		Instance: a.instance, Release: src.Release.Name, Version: src.Lock.Release.Version, Bundle: src.Bundle,
		ReleaseFile: src.ReleaseFile, Lock: src.LockFile,
		Location: src.Location, Signer: src.Signer, Verification: src.Verification, StateNamespace: a.store.namespace,
		Cluster: a.caps.Version, Installed: a.record().installed(), Revision: 1,
		Namespaces: []PlannedNamespace{}, Components: []PlannedComponent{},
	}
	if a.req.Site != nil {
		a.plan.Site = a.req.Site.Site
	}
	if a.latest != nil {
		a.plan.Revision = a.latest.record.Revision + 1
	}
}

// checkCluster collects everything that speaks against the plan.
func (r *Runner) checkCluster(ctx context.Context, a *analysis, opts lookOptions) error {
	a.checkIdentity()
	a.warnUnused()
	a.warnLeftOut()
	a.checkKubernetes()
	if err := r.checkPlatform(ctx, a); err != nil {
		return err
	}
	if err := r.prepareImages(ctx, a); err != nil {
		return err
	}
	spaces, err := r.checkNamespaces(ctx, a, opts.wait)
	if err != nil {
		return err
	}
	if err := r.examineAll(ctx, a); err != nil {
		return err
	}
	if err := r.foresee(ctx, a); err != nil {
		return err
	}
	a.checkKinds()
	a.checkNeeds()
	a.checkSpaces()
	if err := r.checkPullSecret(ctx, a); err != nil {
		return err
	}
	a.fillPlan()
	return r.checkRights(ctx, a, spaces)
}

func (a *analysis) refuse(code, format string, args ...any) {
	a.plan.Refusals = append(a.plan.Refusals, Refusal{Code: code, Message: fmt.Sprintf(format, args...)})
}

func (a *analysis) warn(format string, args ...any) {
	a.plan.Warnings = append(a.plan.Warnings, fmt.Sprintf(format, args...))
}

// examineAll looks at every component, several at a time.
func (r *Runner) examineAll(ctx context.Context, a *analysis) error {
	for _, c := range a.components {
		a.subjects = append(a.subjects, &subject{component: c, previous: a.record().component(c.Name)})
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(a.req.concurrency())
	for _, s := range a.subjects {
		group.Go(func() error {
			if err := r.examine(ctx, a, s); err != nil {
				return fmt.Errorf("component %s: %w", s.Name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// warnUnrecorded says when Helm has releases of the instance and there is no
// record of it: the records may be kept in another namespace.
func (a *analysis) warnUnrecorded() {
	if a.record() == nil && slices.ContainsFunc(a.subjects, func(s *subject) bool { return s.planned.Action == ActionUpgrade }) {
		a.warn("Helm has releases of instance %s, and namespace %s has no record of it; when its records are kept elsewhere, name that namespace (--state-namespace)",
			a.instance, a.plan.StateNamespace)
	}
}

// warnLeftOut names the images that nodes can't pull whole from the bundle.
func (a *analysis) warnLeftOut() {
	for _, image := range a.req.Source.LeftOut {
		a.warn("%s", image)
	}
}

// fillPlan puts what was found into the plan, in the order of the components,
// and those that are only recorded behind.
func (a *analysis) fillPlan() {
	for _, s := range a.subjects {
		a.plan.Components = append(a.plan.Components, s.planned)
		a.plan.Refusals = append(append(a.plan.Refusals, s.refusals...), s.previewed.refusals...)
		a.plan.Warnings = append(append(a.plan.Warnings, s.warnings...), s.previewed.warnings...)
		if s.heal != nil {
			a.plan.Heals = append(a.plan.Heals, *s.heal)
		}
	}
	a.warnUnrecorded()
	if rec := a.record(); rec != nil {
		for i := range rec.Components {
			if old := &rec.Components[i]; a.left(old) {
				a.plan.Components = append(a.plan.Components, PlannedComponent{
					Name: old.Name, Stage: old.Stage, Needs: old.Needs, Action: ActionLeft, HelmRelease: old.HelmRelease, Namespace: old.Namespace,
					Reasons: []string{"no longer in the release; it stays until it is uninstalled by name"}, HelmRevision: old.HelmAfter,
				})
			}
		}
	}
	a.plan.Reasons = a.reasons()
	a.plan.Change = len(a.plan.Reasons) > 0 || slices.ContainsFunc(a.plan.Components, func(c PlannedComponent) bool { return changes(c.Action) })
}

// left says whether a recorded component is no longer in the release and
// still in the cluster.
func (a *analysis) left(old *ComponentRecord) bool {
	return old.touched() && !slices.ContainsFunc(a.components, func(c *component) bool { return c.Name == old.Name })
}

// reasons says what, beyond the components, makes this attempt another one
// than the last.
func (a *analysis) reasons() []string {
	rec, src := a.record(), a.req.Source
	if rec == nil {
		return append([]string{"nothing is installed yet"}, a.pullReasons()...)
	}
	var reasons []string
	if rec.Status != StatusDone {
		reasons = append(reasons, "the last attempt was not finished")
	} else if rec.Action != ActionInstall {
		reasons = append(reasons, "the last attempt was an "+rec.Action)
	}
	if reason := otherSource(rec, src); reason != "" {
		reasons = append(reasons, reason)
	}
	if a.unrecordedImages() {
		reasons = append(reasons, "its images are not recorded yet")
	}
	if rec.SiteFile != string(a.req.SiteText) {
		reasons = append(reasons, "another site file")
	}
	for _, n := range a.plan.Namespaces {
		if n.Create {
			reasons = append(reasons, "namespace "+n.Name+" is absent")
		}
	}
	return append(reasons, a.pullReasons()...)
}

// otherSource says what is another source than the recorded one, "" for nothing.
func otherSource(rec *Record, src Source) string {
	same := rec.ReleaseFile == src.ReleaseFile && rec.Lock == src.LockFile
	switch {
	case rec.Bundle == src.Bundle && same:
		return ""
	case rec.Bundle == "" && src.Bundle == "":
		return "another release file or lock"
	case rec.Bundle == "":
		return "from a bundle, no longer from a release file"
	case src.Bundle == "":
		return "from a release file, no longer from a bundle"
	}
	return "another bundle"
}

// verdict is the error that the analysis ends with.
func (a *analysis) verdict() error {
	switch {
	case a.held != nil && (a.plan.Change || len(a.plan.Refusals) > 0):
		return a.held
	case len(a.plan.Refusals) > 0:
		return &RefusedError{Reasons: a.plan.Refusals}
	}
	return nil
}

// Plan says what an install of the request would do. It reads only, and takes
// no lease. Errors, in the order they are looked for: [*UsageError] and
// [*UnknownError], [*ClusterError], [*DowngradeError], [*HeldError] (only when
// something would change), [*RefusedError]; with the last two the plan is
// returned as far as it got, it may be nil.
func (r *Runner) Plan(ctx context.Context, req Request) (*Plan, error) {
	a, err := r.analyse(ctx, &req, lookOptions{})
	if a == nil {
		return nil, err
	}
	return a.plan, err
}

// terminating says whether a namespace is being deleted.
func terminating(ns *corev1.Namespace) bool {
	return ns.DeletionTimestamp != nil || ns.Status.Phase == corev1.NamespaceTerminating
}
