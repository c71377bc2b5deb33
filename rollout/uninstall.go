package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"waybill/internal/near"
)

// UninstallRequest says what to remove.
type UninstallRequest struct {
	Instance string
	// Components are the ones to remove; none is the whole instance with its
	// records.
	Components []string
	DryRun     bool
	// Timeout is how long one component may take; 0 is ten minutes.
	Timeout   time.Duration
	LeaseWait time.Duration // as in [Request]
}

// Uninstall removes an instance, or the named components of one, in the
// reverse of the order they were installed in, one after the other. The first
// failure ends it. Namespaces stay; the outcome names those that were created
// for the instance. A dry run's outcome has the status [StatusPlanned].
//
// Errors: [*NotFoundError], [*UnknownError], [*HeldError], [*RefusedError]
// (a component that stays needs one that is to go; a Helm release is not
// ours), [*ClusterError], and after the first change [*PartialError] and
// [*InterruptedError].
func (r *Runner) Uninstall(ctx context.Context, req UninstallRequest) (*Outcome, error) {
	if req.Timeout <= 0 {
		req.Timeout = 10 * time.Minute
	}
	s := store{client: r.client, namespace: r.state(nil)}
	u, err := r.planUninstall(ctx, s, &req, false)
	if err != nil {
		return nil, err
	}
	if req.DryRun {
		return u.planned(), nil
	}
	if u.nothing() {
		out := u.planned()
		out.Status = StatusUnchanged
		return out, nil
	}
	var out *Outcome
	job := hold{namespace: s.namespace, instance: req.Instance, wait: req.LeaseWait}
	err = r.holding(ctx, job, func(ctx context.Context, h *holding) error {
		healed, err := r.heal(ctx, h)
		if err != nil {
			return fmt.Errorf("putting in order what the last attempt left: %w", err)
		}
		if u, err = r.planUninstall(ctx, s, &req, true); err != nil {
			return err
		}
		out, err = u.carryOut(ctx, h, healed)
		return err
	})
	return out, err
}

// uninstall is an uninstall that is planned.
type uninstall struct {
	runner *Runner
	req    *UninstallRequest
	store  store
	latest *stored
	whole  bool
	order  []string // components to remove, in this order

	hold    *holding
	record  *writer
	outcome *Outcome
	history map[string]HelmRevision // newest ones
}

// planUninstall finds out what there is to remove and what speaks against it.
func (r *Runner) planUninstall(ctx context.Context, s store, req *UninstallRequest, holding bool) (*uninstall, error) {
	latest, err := r.find(ctx, s, req.Instance)
	if err != nil {
		return nil, recordRefusal(err)
	}
	u := &uninstall{runner: r, req: req, store: s, latest: latest, whole: len(req.Components) == 0, history: map[string]HelmRevision{}}
	if err := u.choose(); err != nil {
		return nil, err
	}
	if !holding && !req.DryRun {
		l := r.leases(s.namespace)
		lease, err := l.look(ctx, req.Instance)
		if err != nil {
			return nil, recordRefusal(err)
		}
		if by := l.held(req.Instance, lease); by != nil && req.LeaseWait <= 0 {
			return nil, by
		}
	}
	return u, u.check(ctx)
}

// choose puts what is to be removed in order: the recorded order backwards.
func (u *uninstall) choose() error {
	var known []string
	for _, c := range u.latest.record.Components {
		if c.touched() {
			known = append(known, c.Name)
		}
	}
	for _, name := range u.req.Components {
		if u.latest.record.component(name) == nil {
			sorted := slices.Sorted(slices.Values(known))
			return &UnknownError{What: "component", Name: name, Nearest: near.Word(name, sorted), Known: sorted}
		}
	}
	for _, name := range reverseOrder(u.latest.record.Components) {
		if slices.Contains(known, name) && (u.whole || slices.Contains(u.req.Components, name)) {
			u.order = append(u.order, name)
		}
	}
	return nil
}

// reverseOrder returns the names so that none comes before one that needs it,
// otherwise the recorded order backwards. Components that are left over from
// an earlier release may stand anywhere in it.
func reverseOrder(components []ComponentRecord) []string {
	pending := slices.Clone(components)
	slices.Reverse(pending)
	var names []string
	for len(pending) > 0 {
		next := slices.IndexFunc(pending, func(c ComponentRecord) bool {
			return !slices.ContainsFunc(pending, func(o ComponentRecord) bool { return o.Name != c.Name && slices.Contains(o.Needs, c.Name) })
		})
		next = max(next, 0) // a circle, from two releases put together
		names = append(names, pending[next].Name)
		pending = slices.Delete(pending, next, next+1)
	}
	return names
}

// check collects what speaks against it.
func (u *uninstall) check(ctx context.Context) error {
	var refusals []Refusal
	for _, c := range u.latest.record.Components {
		if !c.touched() || slices.Contains(u.order, c.Name) || u.whole {
			continue
		}
		for _, need := range c.Needs {
			if slices.Contains(u.order, need) {
				refusals = append(refusals, Refusal{Code: "needed", Component: need, Message: fmt.Sprintf("component %s needs it and stays; name both", c.Name)})
			}
		}
	}
	for _, name := range u.order {
		c := u.latest.record.component(name)
		history, err := u.runner.charts.History(ctx, c.Namespace, c.HelmRelease)
		if err != nil {
			return fmt.Errorf("component %s: reading its Helm history: %w", name, err)
		}
		newest := last(history)
		u.history[name] = newest
		if newest.Number == 0 || newest.Status == helmUninstalled {
			continue
		}
		reason := ownerRefusal(newest, u.req.Instance, name)
		if reason == "" && newest.pending() && !c.names(newest.Number) {
			reason = fmt.Sprintf("is %s in revision %d, begun by somebody else", newest.Status, newest.Number)
		}
		if reason != "" {
			refusals = append(refusals, Refusal{Code: "helm-release", Component: name, Message: fmt.Sprintf(
				"Helm release %s in namespace %s %s", c.HelmRelease, c.Namespace, reason)})
		}
	}
	if len(refusals) > 0 {
		return &RefusedError{Reasons: refusals}
	}
	return nil
}

// nothing says whether named components are all gone already.
func (u *uninstall) nothing() bool { return !u.whole && len(u.order) == 0 }

// planned is the outcome of a dry run.
func (u *uninstall) planned() *Outcome {
	rec := u.latest.record
	out := &Outcome{
		Instance: rec.Instance, Release: rec.Release, Version: rec.Version, Bundle: rec.Bundle, Signer: rec.Signer,
		Status: StatusPlanned, Revision: rec.Revision, NamespacesLeft: rec.Namespaces, Components: []ComponentOutcome{},
	}
	for _, name := range u.order {
		out.Components = append(out.Components, ComponentOutcome{
			Name: name, Action: ActionUninstall, Outcome: OutcomeWaiting, HelmBefore: u.history[name].Number,
		})
	}
	return out
}

// carryOut records the attempt, removes, and ends the record or, with the
// whole instance gone, all records.
func (u *uninstall) carryOut(ctx context.Context, h *holding, healed []Heal) (*Outcome, error) {
	u.hold = h
	rec := *u.latest.record
	rec.Revision, rec.Action, rec.Status, rec.Reason = rec.Revision+1, ActionUninstall, StatusRunning, ""
	rec.Holder, rec.Started, rec.Ended, rec.Selected = u.runner.holder, u.runner.now().UTC(), nil, u.req.Components
	rec.Components = slices.Clone(rec.Components)
	for i := range rec.Components {
		c := &rec.Components[i]
		c.Reason, c.Started, c.Ended = "", nil, nil
		if slices.Contains(u.order, c.Name) {
			c.Outcome = OutcomeWaiting
		} else if c.touched() {
			c.Outcome = OutcomeKept
		}
	}
	var err error
	if u.record, err = u.store.create(ctx, &rec); err != nil {
		return nil, err
	}
	u.outcome = u.planned()
	u.outcome.Revision, u.outcome.Healed = rec.Revision, healed
	var first error
	for i := range u.outcome.Components {
		one := &u.outcome.Components[i]
		if first != nil || ctx.Err() != nil {
			one.Outcome, one.Reason = OutcomeSkipped, "not begun"
			continue
		}
		if err := u.remove(ctx, one); err != nil {
			first = fmt.Errorf("component %s: %w", one.Name, err)
		}
	}
	if first == nil && ctx.Err() == nil {
		first = u.runner.dropPullSecrets(ctx, u.record, u.update)
	}
	return u.end(ctx, first)
}

// remove removes one component.
func (u *uninstall) remove(ctx context.Context, one *ComponentOutcome) error {
	begun := time.Now()
	newest := u.history[one.Name]
	err := u.note(ctx, one.Name, func(c *ComponentRecord) {
		started := u.runner.now().UTC()
		c.Outcome, c.Ready, c.Started = OutcomeRunning, false, &started
		c.HelmBefore, c.HelmPending = max(newest.Number-1, 0), newest.Number
	})
	if err != nil {
		return err
	}
	u.runner.events(Event{Kind: EventBegun, Component: one.Name, Message: ActionUninstall})
	c := u.latest.record.component(one.Name)
	err = u.runner.charts.Uninstall(ctx, HelmComponent{
		Name: c.Name, HelmRelease: c.HelmRelease, Namespace: c.Namespace, Timeout: u.req.Timeout, Mark: c.Mark,
		Labels: map[string]string{LabelInstance: u.req.Instance, LabelComponent: c.Name},
	})
	spent := time.Since(begun)
	one.Outcome, one.Seconds = OutcomeUninstalled, spent.Round(time.Millisecond).Seconds()
	if err != nil {
		one.Outcome, one.Reason, one.HelmAfter = OutcomeFailed, err.Error(), one.HelmBefore
		if interrupted(ctx) {
			one.Outcome = OutcomeInterrupted
		}
		u.runner.events(Event{Kind: EventFailed, Component: one.Name, Message: err.Error(), Duration: spent})
	} else {
		u.runner.events(Event{Kind: EventDone, Component: one.Name, Message: "uninstalled", Duration: spent})
	}
	noteErr := u.note(ctx, one.Name, func(c *ComponentRecord) {
		ended := u.runner.now().UTC()
		c.Outcome, c.Reason, c.Ended = one.Outcome, one.Reason, &ended
		if one.Outcome == OutcomeUninstalled {
			c.Version, c.Bundle, c.Mark, c.HelmBefore, c.HelmPending, c.HelmAfter = "", "", "", one.HelmBefore, 0, 0
		}
	})
	return errors.Join(err, noteErr)
}

func (u *uninstall) note(ctx context.Context, name string, change func(*ComponentRecord)) error {
	return u.update(ctx, func(rec *Record) { change(rec.component(name)) })
}

func (u *uninstall) update(ctx context.Context, change func(*Record)) error {
	if err := lost(ctx); err != nil {
		return err
	}
	clean, cancel := detached(ctx, u.runner.cleanup)
	defer cancel()
	err := u.record.update(clean, change)
	if err != nil {
		u.hold.fail(err)
	}
	return err
}

// end writes the last state, or removes the records of an instance that is
// gone.
func (u *uninstall) end(ctx context.Context, first error) (*Outcome, error) {
	status, reason := StatusDone, ""
	switch {
	case interrupted(ctx):
		status, reason = StatusInterrupted, "interrupted"
	case first == nil && ctx.Err() != nil:
		first = context.Cause(ctx)
		fallthrough
	case first != nil:
		status, reason = StatusFailed, first.Error()
	}
	u.outcome.Status = status
	if status == StatusDone && u.whole {
		if err := u.removeState(ctx); err != nil {
			return u.outcome, &PartialError{Outcome: u.outcome, Err: err}
		}
		return u.outcome, nil
	}
	err := u.update(ctx, func(rec *Record) {
		ended := u.runner.now().UTC()
		rec.Status, rec.Reason, rec.Ended = status, reason, &ended
		for i := range rec.Components {
			if c := &rec.Components[i]; c.Outcome == OutcomeWaiting {
				c.Outcome, c.Reason = OutcomeSkipped, "not begun: "+strings.TrimSpace(reason)
			}
		}
	})
	switch {
	case status == StatusInterrupted:
		return u.outcome, &InterruptedError{Outcome: u.outcome}
	case first != nil:
		return u.outcome, &PartialError{Outcome: u.outcome, Err: first}
	case err != nil:
		return u.outcome, &PartialError{Outcome: u.outcome, Err: err}
	}
	return u.outcome, nil
}

// removeState deletes the instance's records, the oldest first so that the
// newest tells the truth until the end, and the lease.
func (u *uninstall) removeState(ctx context.Context) error {
	if err := lost(ctx); err != nil {
		return err
	}
	clean, cancel := detached(ctx, u.runner.cleanup)
	defer cancel()
	if err := u.store.prune(clean, u.req.Instance, 0); err != nil {
		return err
	}
	u.hold.gone = true
	return u.hold.keeper.remove(clean)
}
