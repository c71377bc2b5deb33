package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// failed puts a component in order that did not go well, as the policy says,
// and returns the cause, joined by what went wrong on the way back. A lost
// lease ends everything where it stands.
func (t *attempt) failed(ctx context.Context, s *subject, mark string, cause error) error {
	if err := lost(ctx); err != nil {
		return errors.Join(err, cause)
	}
	history, err := t.settle(ctx, s, fmt.Sprintf("attempt %d: %v", t.outcome.Revision, cause))
	if err != nil {
		return t.noteFailure(ctx, s, OutcomeFailed, cause, err)
	}
	newest := last(history)
	interrupted := ctx.Err() != nil
	outcome := OutcomeFailed
	if interrupted {
		outcome = OutcomeInterrupted
	}
	err = t.note(ctx, s.Name, func(c *ComponentRecord) {
		if newest.Number > c.HelmBefore || c.Version == "" {
			t.attempted(c, s)
		}
		ended := t.runner.now().UTC()
		c.Outcome, c.Reason, c.HelmAfter, c.HelmPending, c.Ended = outcome, cause.Error(), newest.Number, newest.Number, &ended
		c.Ready = c.Ready && newest.Number == c.HelmBefore
	})
	if err != nil {
		return errors.Join(cause, err)
	}
	if interrupted || t.analysis.policy == OnFailureLeave {
		return cause
	}
	if err := t.takeBack(ctx, s, mark, history, OutcomeFailed); err != nil {
		return t.noteFailure(ctx, s, OutcomeFailed, cause, fmt.Errorf("taking it back: %w", err))
	}
	return cause
}

// noteFailure writes down a failure and what came on top of it.
func (t *attempt) noteFailure(ctx context.Context, s *subject, outcome string, cause, further error) error {
	err := t.note(ctx, s.Name, func(c *ComponentRecord) {
		c.Outcome, c.Ready, c.Reason = outcome, false, fmt.Sprintf("%v; %v", cause, further)
	})
	return errors.Join(cause, further, err)
}

// settle makes sure that no Helm revision this attempt began stays pending,
// and returns the history. It works on after an interruption, for a while.
func (t *attempt) settle(ctx context.Context, s *subject, why string) ([]HelmRevision, error) {
	clean, cancel := detached(ctx, t.runner.cleanup)
	defer cancel()
	history, err := t.runner.charts.History(clean, s.namespace, s.helmRelease)
	if err != nil {
		return nil, fmt.Errorf("reading its Helm history: %w", err)
	}
	newest := last(history)
	if newest.Number <= s.planned.HelmRevision || !newest.pending() {
		return history, nil
	}
	if err := t.runner.charts.Fail(clean, s.namespace, s.helmRelease, newest.Number, why); err != nil {
		return nil, fmt.Errorf("marking Helm revision %d as failed: %w", newest.Number, err)
	}
	history[len(history)-1].Status = helmFailed
	return history, nil
}

// takeBack undoes what the attempt did to the component: an upgrade goes back
// to the last Helm revision that went well, of a first install everything that
// carries the mark is deleted.
func (t *attempt) takeBack(ctx context.Context, s *subject, mark string, history []HelmRevision, outcome string) error {
	newest, good := last(history), lastGood(history, s.planned.HelmRevision)
	if good == 0 {
		return t.takeBackFirst(ctx, s, mark, newest, outcome)
	}
	if newest.Number == s.planned.HelmRevision {
		return nil // Helm began nothing
	}
	if err := t.note(ctx, s.Name, func(c *ComponentRecord) { c.HelmPending = newest.Number + 1 }); err != nil {
		return err
	}
	revision, err := t.runner.charts.Rollback(ctx, s.helm(t.analysis.instance, mark), good)
	if err != nil {
		_, settleErr := t.settle(ctx, s, fmt.Sprintf("going back to revision %d: %v", good, err))
		return errors.Join(fmt.Errorf("going back to Helm revision %d: %w", good, err), settleErr)
	}
	t.runner.events(Event{Kind: EventTakenBack, Component: s.Name, Message: fmt.Sprintf("back to Helm revision %d, as revision %d", good, revision.Number)})
	return t.note(ctx, s.Name, func(c *ComponentRecord) {
		restore(c, s.previous, good)
		c.Outcome, c.HelmAfter, c.HelmPending = outcome, revision.Number, revision.Number
	})
}

// takeBackFirst undoes a first install. Its Helm revision stays, as failed.
func (t *attempt) takeBackFirst(ctx context.Context, s *subject, mark string, newest HelmRevision, outcome string) error {
	// First, so that a run killed in between does not leave it as ready.
	if err := t.note(ctx, s.Name, func(c *ComponentRecord) { c.Ready = false }); err != nil {
		return err
	}
	if err := t.runner.charts.TakeBack(ctx, s.helm(t.analysis.instance, mark)); err != nil {
		return fmt.Errorf("deleting what this attempt created: %w", err)
	}
	if newest.Status == helmDeployed && newest.Number > s.planned.HelmRevision {
		why := fmt.Sprintf("attempt %d: taken back", t.outcome.Revision)
		if err := t.runner.charts.Fail(ctx, s.namespace, s.helmRelease, newest.Number, why); err != nil {
			return fmt.Errorf("marking Helm revision %d as failed: %w", newest.Number, err)
		}
	}
	t.runner.events(Event{Kind: EventTakenBack, Component: s.Name, Message: "deleted what this attempt created"})
	return t.note(ctx, s.Name, func(c *ComponentRecord) {
		c.Outcome, c.Version, c.Bundle, c.Mark, c.Ready = outcome, "", "", "", false
	})
}

// restore puts into the entry what was known of the Helm revision that the
// component went back to.
func restore(c *ComponentRecord, previous *ComponentRecord, good int) {
	if previous == nil {
		c.Version, c.Bundle, c.Ready = "", "", false
		return
	}
	c.Version, c.Bundle, c.Mark = previous.Version, previous.Bundle, previous.Mark
	c.Chart, c.ChartVersion, c.ChartDigest = previous.Chart, previous.ChartVersion, previous.ChartDigest
	c.Values, c.Images, c.Cluster = previous.Values, previous.Images, previous.Cluster
	c.PullSecret, c.PodNamespaces = previous.PullSecret, previous.PodNamespaces
	c.Ready = previous.Ready && previous.HelmAfter == good
}

// takeBackAll undoes, last one first, the components of this attempt that
// went well, since another one did not.
func (t *attempt) takeBackAll(ctx context.Context, results map[string]*result) {
	for _, s := range slices.Backward(t.analysis.subjects) {
		res := results[s.Name]
		if res == nil || res.state != OutcomeDone {
			continue
		}
		if err := t.takeBackDone(ctx, s); err != nil {
			t.outcome.Warnings = append(t.outcome.Warnings, fmt.Sprintf("component %s: taking it back: %v", s.Name, err))
			t.runner.events(Event{Kind: EventWarning, Component: s.Name, Message: "taking it back: " + err.Error()})
		}
		if ctx.Err() != nil {
			return
		}
	}
}

func (t *attempt) takeBackDone(ctx context.Context, s *subject) error {
	history, err := t.settle(ctx, s, "taken back")
	if err != nil {
		return err
	}
	snapshot := t.record.snapshot()
	err = t.takeBack(ctx, s, snapshot.component(s.Name).Mark, history, OutcomeTakenBack)
	if err != nil {
		noteErr := t.note(ctx, s.Name, func(c *ComponentRecord) { c.Ready, c.Reason = false, "taking it back: "+err.Error() })
		return errors.Join(err, noteErr)
	}
	return nil
}
