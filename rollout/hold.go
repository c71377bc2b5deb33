package rollout

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// hold says which lease is wanted.
type hold struct {
	namespace, instance string
	wait                time.Duration
	createNamespace     bool // the state namespace may have to be made first
}

// holding is the time during which the lease is ours.
type holding struct {
	hold
	parent context.Context // the caller's
	ctx    context.Context // ends with ErrLeaseLost as its cause when the lease is lost
	fail   context.CancelCauseFunc
	dead   *HeldError // the dead holder it was taken from, nil for none
	keeper *keeper
	gone   bool // the lease was deleted with the rest of the instance
}

// lost returns why the lease is no longer ours, nil while it is.
func (h *holding) lost() error {
	if cause := context.Cause(h.ctx); errors.Is(cause, ErrLeaseLost) {
		return cause
	}
	return nil
}

// interrupted says whether the caller ended the work.
func (h *holding) interrupted() bool { return h.parent.Err() != nil && h.lost() == nil }

// detached returns a context that outlives an interruption, but not for long
// and not a lost lease: for writing down what happened.
func (h *holding) detached(limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(h.ctx), limit)
	stop := context.AfterFunc(h.ctx, func() {
		if h.lost() != nil {
			cancel()
		}
	})
	return ctx, func() { stop(); cancel() }
}

// holding takes the lease, does the work and gives the lease back.
func (r *Runner) holding(ctx context.Context, job hold, work func(*holding) error) error {
	if job.createNamespace {
		if err := r.ensureStateNamespace(ctx, job.namespace); err != nil {
			return err
		}
	}
	l := r.leases(job.namespace)
	lease, dead, err := l.acquire(ctx, job.instance, job.wait)
	if errors.Is(err, errForbidden) {
		return refused("rights", err.Error())
	}
	if err != nil {
		return err
	}
	if dead != nil {
		r.events(Event{Kind: EventLease, Message: fmt.Sprintf("took the lease of %s, last renewed %s", dead.Holder, dead.Renewed.UTC().Format(time.RFC3339))})
	}
	h := &holding{hold: job, parent: ctx, dead: dead}
	h.ctx, h.fail = context.WithCancelCause(ctx)
	defer h.fail(nil)
	h.keeper = l.keep(lease, h.fail)
	err = work(h)
	if h.gone {
		return err
	}
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.cleanup)
	defer cancel()
	if releaseErr := h.keeper.release(clean); releaseErr != nil {
		r.events(Event{Kind: EventWarning, Message: fmt.Sprintf("%v; it runs out by itself", releaseErr)})
	}
	return err
}

// ensureStateNamespace creates the namespace of records and lease when it is
// absent. Without the right to look it is taken to be there.
func (r *Runner) ensureStateNamespace(ctx context.Context, name string) error {
	ns, err := r.settled(ctx, name, 0)
	if errors.Is(err, errForbidden) || (err == nil && ns != nil) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = r.createNamespace(ctx, name, "")
	if errors.Is(err, errForbidden) {
		return refused("rights", err.Error())
	}
	return err
}

// heal puts in order what attempts left that nobody works on any more: Helm
// revisions they began and never ended are failed, and the record of a dead
// attempt says so. Running it again does no harm.
func (r *Runner) heal(h *holding) ([]Heal, error) {
	s := store{client: r.client, namespace: h.namespace}
	latest, err := s.latest(h.ctx, h.instance)
	if err != nil {
		return nil, recordRefusal(err)
	}
	if latest == nil {
		return nil, nil
	}
	rec := latest.record
	why := fmt.Sprintf("attempt %d by %s was cut short", rec.Revision, rec.Holder)
	var healed []Heal
	for i := range rec.Components {
		heal, err := r.healComponent(h, &rec.Components[i], why)
		if err != nil {
			return healed, err
		}
		if heal != nil {
			healed = append(healed, *heal)
		}
	}
	if rec.Status != StatusRunning {
		return healed, nil
	}
	err = s.open(latest).update(h.ctx, func(rec *Record) {
		ended := r.now().UTC()
		rec.Status, rec.Reason, rec.Ended = StatusInterrupted, why, &ended
		for i := range rec.Components {
			if c := &rec.Components[i]; c.Outcome == OutcomeRunning {
				c.Outcome, c.Reason, c.Ready = OutcomeInterrupted, why, false
			} else if c.Outcome == OutcomeWaiting {
				c.Outcome, c.Reason = OutcomeSkipped, why
			}
		}
	})
	if err == nil {
		r.events(Event{Kind: EventHealed, Message: why + "; going on from there"})
	}
	return healed, err
}

// healComponent fails the Helm revision that the entry began when it is still
// pending.
func (r *Runner) healComponent(h *holding, c *ComponentRecord, why string) (*Heal, error) {
	if c.HelmPending <= c.HelmBefore {
		return nil, nil
	}
	history, err := r.charts.History(h.ctx, c.Namespace, c.HelmRelease)
	if err != nil {
		return nil, fmt.Errorf("component %s: reading its Helm history: %w", c.Name, err)
	}
	newest := last(history)
	if !newest.pending() || !c.names(newest.Number) || ownerRefusal(newest, h.instance, c.Name) != "" {
		return nil, nil
	}
	if err := r.charts.Fail(h.ctx, c.Namespace, c.HelmRelease, newest.Number, why); err != nil {
		return nil, fmt.Errorf("component %s: marking Helm revision %d as failed: %w", c.Name, newest.Number, err)
	}
	r.events(Event{Kind: EventHealed, Component: c.Name, Message: fmt.Sprintf("Helm revision %d was %s and is failed now", newest.Number, newest.Status)})
	return &Heal{Component: c.Name, HelmRelease: c.HelmRelease, Namespace: c.Namespace, HelmRevision: newest.Number, Status: newest.Status}, nil
}
