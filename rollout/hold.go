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

// holding is the time during which the lease is ours. The work has a context
// of its own, which ends when the caller's does, and, with a [*gaveUp] as its
// cause, when fail is called.
type holding struct {
	hold
	fail   func(error)
	keeper *keeper
	gone   bool // the lease was deleted with the rest of the instance
}

// gaveUp is the cause of a context that we ended ourselves: the lease is lost,
// or the record cannot be written.
type gaveUp struct{ err error }

func (g *gaveUp) Error() string { return g.err.Error() }

func (g *gaveUp) Unwrap() error { return g.err }

// lost returns why the lease is no longer ours, nil while it is.
func lost(ctx context.Context) error {
	if cause := context.Cause(ctx); errors.Is(cause, ErrLeaseLost) {
		return cause
	}
	return nil
}

// interrupted says whether the caller ended the work.
func interrupted(ctx context.Context) bool {
	var ours *gaveUp
	return ctx.Err() != nil && !errors.As(context.Cause(ctx), &ours)
}

// detached returns a context that outlives an interruption, but not for long
// and not a lost lease: for writing down what happened.
func detached(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	stop := context.AfterFunc(ctx, func() {
		if lost(ctx) != nil {
			cancel()
		}
	})
	return clean, func() { stop(); cancel() }
}

// holding takes the lease, does the work and gives the lease back.
func (r *Runner) holding(ctx context.Context, job hold, work func(context.Context, *holding) error) error {
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
	held, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	h := &holding{hold: job, fail: func(err error) { cancel(&gaveUp{err}) }}
	h.keeper = l.keep(lease, h.fail)
	err = work(held, h)
	if h.gone {
		return err
	}
	clean, done := context.WithTimeout(context.WithoutCancel(ctx), r.cleanup)
	defer done()
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
func (r *Runner) heal(ctx context.Context, h *holding) ([]Heal, error) {
	s := store{client: r.client, namespace: h.namespace}
	latest, err := s.latest(ctx, h.instance)
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
		heal, err := r.healComponent(ctx, h, &rec.Components[i], why)
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
	err = s.open(latest).update(ctx, func(rec *Record) {
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
func (r *Runner) healComponent(ctx context.Context, h *holding, c *ComponentRecord, why string) (*Heal, error) {
	if c.HelmPending <= c.HelmBefore {
		return nil, nil
	}
	history, err := r.charts.History(ctx, c.Namespace, c.HelmRelease)
	if err != nil {
		return nil, fmt.Errorf("component %s: reading its Helm history: %w", c.Name, err)
	}
	newest := last(history)
	if !newest.pending() || !c.names(newest.Number) || ownerRefusal(newest, h.instance, c.Name) != "" {
		return nil, nil
	}
	if err := r.charts.Fail(ctx, c.Namespace, c.HelmRelease, newest.Number, why); err != nil {
		return nil, fmt.Errorf("component %s: marking Helm revision %d as failed: %w", c.Name, newest.Number, err)
	}
	r.events(Event{Kind: EventHealed, Component: c.Name, Message: fmt.Sprintf("Helm revision %d was %s and is failed now", newest.Number, newest.Status)})
	return &Heal{Component: c.Name, HelmRelease: c.HelmRelease, Namespace: c.Namespace, HelmRevision: newest.Number, Status: newest.Status}, nil
}
