package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Install brings the instance to what the request says. It plans first
// without the lease; when there is nothing to do, nothing is written and the
// outcome's status is [StatusUnchanged]. Otherwise it takes the lease, puts in
// order what a dead attempt left, plans again, and records every step.
//
// Errors before the first change are those of [Runner.Plan]. After it they are
// [*PartialError] and [*InterruptedError], both with the outcome, which is
// returned as well.
func (r *Runner) Install(ctx context.Context, req Request) (*Outcome, error) {
	a, err := r.analyse(ctx, &req, lookOptions{wait: req.namespaceWait()})
	var held *HeldError
	switch {
	case errors.As(err, &held) && req.LeaseWait > 0:
		// The lease is waited for, and everything is looked at again then.
	case err != nil:
		return nil, err
	case !a.plan.Change:
		return unchanged(a), nil
	}
	instance, err := req.instance()
	if err != nil {
		return nil, err
	}
	var out *Outcome
	job := hold{namespace: r.state(req.Site), instance: instance, wait: req.LeaseWait, createNamespace: true}
	err = r.holding(ctx, job, func(ctx context.Context, h *holding) error {
		out, err = r.installHeld(ctx, h, &req)
		return err
	})
	return out, err
}

// installHeld is Install once the lease is ours.
func (r *Runner) installHeld(ctx context.Context, h *holding, req *Request) (*Outcome, error) {
	healed, err := r.heal(ctx, h)
	if err != nil {
		return nil, fmt.Errorf("putting in order what the last attempt left: %w", err)
	}
	a, err := r.analyse(ctx, req, lookOptions{holding: true, wait: req.namespaceWait()})
	if err != nil {
		return nil, err
	}
	if !a.plan.Change {
		out := unchanged(a)
		out.Healed = healed
		return out, nil
	}
	t := &attempt{runner: r, hold: h, analysis: a, caps: a.caps, spent: map[string]time.Duration{}}
	t.outcome = &Outcome{
		Instance: a.instance, Release: a.plan.Release, Version: a.plan.Version, Bundle: a.plan.Bundle, Signer: a.plan.Signer,
		Revision: a.plan.Revision, Healed: healed, Warnings: a.plan.Warnings,
	}
	rec := t.firstRecord()
	data, err := rec.encode()
	for err == nil && len(data) > recordLimit/2 && rec.shrinkImages() {
		data, err = rec.encode()
	}
	if rec.ImagesLeftOut {
		t.outcome.Warnings = append(t.outcome.Warnings, fmt.Sprintf("the record has no room for the release's images; `apply images %s` will not know them", a.instance))
	}
	if err != nil {
		return nil, err
	}
	if len(data) > recordLimit*3/4 { // outcomes are still to come
		return nil, refused("record-size", fmt.Sprintf("the record would have %d bytes, most of it the site file; a Secret holds %d", len(data), recordLimit))
	}
	if t.record, err = a.store.create(ctx, rec); err != nil {
		return nil, err
	}
	t.mark = markOf(t.record.secret, t.outcome.Revision)
	return t.carryOut(ctx)
}

// markOf is what objects created by an attempt carry. The number alone comes
// again after an uninstall, so part of the record's identity goes with it.
func markOf(secret *corev1.Secret, revision int) string {
	mark := fmt.Sprintf("%s.v%d", secret.Labels[LabelInstance], revision)
	if uid := string(secret.UID); len(uid) >= 8 {
		mark += "." + uid[:8]
	}
	return mark
}

// unchanged is the outcome of an install that has nothing to do.
func unchanged(a *analysis) *Outcome {
	out := &Outcome{
		Instance: a.instance, Release: a.plan.Release, Version: a.plan.Version, Bundle: a.plan.Bundle, Signer: a.plan.Signer,
		Status: StatusUnchanged, Revision: a.plan.Revision - 1, Warnings: a.plan.Warnings, Components: []ComponentOutcome{},
	}
	for _, c := range a.plan.Components {
		out.Components = append(out.Components, ComponentOutcome{
			Name: c.Name, Action: c.Action, Outcome: untouchedOutcome(c.Action), HelmBefore: c.HelmRevision, HelmAfter: c.HelmRevision,
		})
	}
	return out
}

func untouchedOutcome(action string) string {
	if action == ActionUnchanged {
		return OutcomeUnchanged
	}
	return OutcomeKept
}

// firstRecord is the record as it is before the first step: what is known of
// each component from before, and which are still to come.
func (t *attempt) firstRecord() *Record {
	a, src := t.analysis, t.analysis.req.Source
	rec := &Record{
		APIVersion: recordAPIVersion, Kind: recordKind, Instance: a.instance, Revision: a.plan.Revision, Action: ActionInstall,
		Status: StatusRunning, Release: a.plan.Release, Version: a.plan.Version, Bundle: src.Bundle, ReleaseFile: src.ReleaseFile,
		Lock: src.LockFile, Location: src.Location, Signer: src.Signer, Verification: src.Verification, Site: a.plan.Site,
		SiteFile: string(a.req.SiteText), Selected: slices.Sorted(slices.Values(a.req.Components)), Holder: t.runner.holder,
		Started: t.runner.now().UTC(), ClusterVersion: a.caps.Version, ClusterDigest: a.caps.Digest,
	}
	for _, s := range a.subjects {
		rec.Components = append(rec.Components, s.entry(rec))
	}
	a.recordImages(rec)
	if old := a.record(); old != nil {
		rec.Namespaces, rec.PullSecrets = old.Namespaces, old.PullSecrets
		if rec.Site == "" {
			rec.Site = old.Site
		}
		for _, c := range old.Components {
			if a.left(&c) {
				c.Outcome = OutcomeKept
				rec.Components = append(rec.Components, c)
			}
		}
	}
	return rec
}

// entry is the component's part of a record that has just begun.
func (s *subject) entry(rec *Record) ComponentRecord {
	e := ComponentRecord{}
	if s.previous.touched() {
		e = *s.previous
	}
	e.Name, e.Stage, e.Started, e.Ended, e.Reason = s.Name, s.Stage, nil, nil, ""
	e.Needs = slices.Sorted(slices.Values(append(slices.Clone(s.Needs), s.planned.After...)))
	switch s.planned.Action {
	case ActionUnchanged:
		e.Outcome, e.Version, e.Bundle = OutcomeUnchanged, rec.Version, rec.Bundle
		e.HelmBefore, e.HelmPending = e.HelmAfter, e.HelmAfter
		e.PullSecret, e.PodNamespaces = s.pullSecret, s.podNamespaces
	case ActionDisabled, ActionNotSelected:
		e.Outcome = OutcomeKept
		if !s.previous.touched() {
			e.Outcome, e.HelmRelease, e.Namespace = s.planned.Action, s.helmRelease, s.namespace
		}
	default:
		e.Outcome, e.HelmRelease, e.Namespace = OutcomeWaiting, s.helmRelease, s.namespace
		e.HelmBefore, e.HelmPending = s.planned.HelmRevision, s.planned.HelmRevision
	}
	return e
}
