package rollout

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
)

// attempt is an install that has its record and carries it out.
type attempt struct {
	runner   *Runner
	hold     *holding
	analysis *analysis
	record   *writer
	mark     string // of objects that this attempt creates
	outcome  *Outcome
	caps     Capabilities // what the renderings of this attempt are known to agree with

	mu    sync.Mutex
	spent map[string]time.Duration
}

// carryOut creates the namespaces, runs the components and ends the record.
func (t *attempt) carryOut(ctx context.Context) (*Outcome, error) {
	if err := t.namespaces(ctx); err != nil {
		return t.end(ctx, nil, err)
	}
	if err := t.pullSecrets(ctx); err != nil {
		return t.end(ctx, nil, err)
	}
	results := t.run(ctx, t.analysis.subjects)
	failures := t.failures(results)
	if len(failures) == 0 && ctx.Err() == nil {
		failures = t.followKinds(ctx, results)
	}
	if len(failures) > 0 && t.analysis.policy == OnFailureRollback && ctx.Err() == nil {
		t.takeBackAll(ctx, results)
	}
	if len(failures) == 0 && ctx.Err() == nil {
		if err := t.runner.dropPullSecrets(ctx, t.record, t.update); err != nil {
			failures = append(failures, err)
		}
	}
	return t.end(ctx, results, failures...)
}

// failures are those of the components, in their order.
func (t *attempt) failures(results map[string]*result) []error {
	var failures []error
	for _, s := range t.analysis.subjects {
		if res := results[s.Name]; res != nil && res.state == OutcomeFailed {
			failures = append(failures, res.err)
		}
	}
	return failures
}

// namespaces creates what the plan found absent, before the first component.
func (t *attempt) namespaces(ctx context.Context) error {
	for _, n := range t.analysis.plan.Namespaces {
		if !n.Create || n.Name == t.analysis.store.namespace {
			continue
		}
		made, err := t.runner.createNamespace(ctx, n.Name, t.analysis.instance)
		if err != nil {
			return err
		}
		if !made {
			continue
		}
		t.outcome.Namespaces = append(t.outcome.Namespaces, n.Name)
		err = t.update(ctx, func(rec *Record) {
			rec.Namespaces = slices.Compact(slices.Sorted(slices.Values(append(rec.Namespaces, n.Name))))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// run carries out those of the components that change.
func (t *attempt) run(ctx context.Context, subjects []*subject) map[string]*result {
	stages := t.analysis.req.Source.Release.Stages
	var tasks []task
	for _, s := range subjects {
		if s.planned.Action == ActionUnchanged {
			t.runner.events(Event{Kind: EventUnchanged, Component: s.Name})
		}
		if !changes(s.planned.Action) {
			continue
		}
		tasks = append(tasks, task{
			name: s.Name, stage: slices.Index(stages, s.Stage), after: append(slices.Clone(s.Needs), s.planned.After...),
			run: func(ctx context.Context) error { return t.apply(ctx, s) },
		})
	}
	sched := &schedule{
		tasks: tasks, concurrency: t.analysis.req.concurrency(), goOn: t.analysis.policy == OnFailureContinue,
		waiting: func(name string, on []string) {
			t.runner.events(Event{Kind: EventWaiting, Component: name, On: on})
		},
	}
	return sched.run(ctx)
}

// apply carries out one component and writes down how it went.
func (t *attempt) apply(ctx context.Context, s *subject) error {
	begun := time.Now()
	mark, err := t.begin(ctx, s)
	if err != nil {
		return fmt.Errorf("component %s: %w", s.Name, err)
	}
	t.runner.events(Event{Kind: EventBegun, Component: s.Name, Message: s.planned.Action})
	revision, err := t.runner.charts.Apply(ctx, s.helm(t.analysis.instance, mark))
	if err == nil {
		err = t.done(ctx, s, revision.Number)
	} else {
		err = t.failed(ctx, s, mark, err)
	}
	spent := time.Since(begun)
	t.mu.Lock()
	t.spent[s.Name] += spent // it may be done twice, see followKinds
	t.mu.Unlock()
	if err != nil {
		t.runner.events(Event{Kind: EventFailed, Component: s.Name, Message: err.Error(), Duration: spent})
		return fmt.Errorf("component %s: %w", s.Name, err)
	}
	t.runner.events(Event{Kind: EventDone, Component: s.Name, Message: fmt.Sprintf("Helm revision %d", revision.Number), Duration: spent})
	return nil
}

// begin writes down, before Helm is asked, which revision it will begin and
// which mark its objects carry. Objects of a first install that was cut short
// carry an earlier mark, which is used again, so that all of them can be taken
// back.
func (t *attempt) begin(ctx context.Context, s *subject) (string, error) {
	mark := t.mark
	if old := s.previous; old.touched() && !old.Ready && old.Mark != "" && s.planned.Action != ActionUpgrade {
		mark = old.Mark
	}
	return mark, t.note(ctx, s.Name, func(c *ComponentRecord) {
		started := t.runner.now().UTC()
		c.Outcome, c.Mark, c.Started = OutcomeRunning, mark, &started
		c.HelmPending = s.planned.HelmRevision + 1
		c.PullSecret, c.PodNamespaces = s.pullSecret, s.podNamespaces
	})
}

// done writes down that the component stands as it was asked for.
func (t *attempt) done(ctx context.Context, s *subject, revision int) error {
	return t.note(ctx, s.Name, func(c *ComponentRecord) {
		t.attempted(c, s)
		ended := t.runner.now().UTC()
		c.Outcome, c.Ready, c.HelmAfter, c.HelmPending, c.Ended = OutcomeDone, true, revision, revision, &ended
	})
}

// attempted writes what was tried into the entry.
func (t *attempt) attempted(c *ComponentRecord, s *subject) {
	c.Version, c.Bundle = t.outcome.Version, t.outcome.Bundle
	c.Chart, c.ChartVersion, c.ChartDigest = s.chart.Name, s.chart.Version, s.chart.Content
	c.Values, c.Images, c.Cluster, c.Ready = s.valuesDigest, s.images, t.caps.Digest, false
	c.PullSecret, c.PodNamespaces = s.pullSecret, s.podNamespaces
}

// note changes one component's entry in the record.
func (t *attempt) note(ctx context.Context, name string, change func(*ComponentRecord)) error {
	return t.update(ctx, func(rec *Record) { change(rec.component(name)) })
}

// update changes the record, also after an interruption. A record that cannot
// be written ends the attempt: nothing is done that is not written down.
func (t *attempt) update(ctx context.Context, change func(*Record)) error {
	if err := lost(ctx); err != nil {
		return err
	}
	clean, cancel := detached(ctx, t.runner.cleanup)
	defer cancel()
	err := t.record.update(clean, change)
	if err != nil {
		t.hold.fail(err)
	}
	return err
}

// end brings the record to its last state and tells what happened.
func (t *attempt) end(ctx context.Context, results map[string]*result, failures ...error) (*Outcome, error) {
	var first error
	if len(failures) > 0 {
		first = failures[0]
	}
	interrupted := interrupted(ctx)
	status, reason := StatusDone, ""
	switch {
	case interrupted:
		status, reason = StatusInterrupted, "interrupted"
	case first != nil:
		status, reason = StatusFailed, first.Error()
	case ctx.Err() != nil:
		first = context.Cause(ctx)
		status, reason = StatusFailed, first.Error()
	}
	err := t.close(ctx, results, status, reason)
	t.prune(ctx)
	t.tell(results, status)
	switch {
	case interrupted:
		return t.outcome, &InterruptedError{Outcome: t.outcome}
	case first == nil && err != nil:
		first = err
	}
	if first != nil {
		t.outcome.Status = StatusFailed
		partial := &PartialError{Outcome: t.outcome, Err: first}
		if len(failures) > 1 {
			partial.Others = failures[1:]
		}
		return t.outcome, partial
	}
	return t.outcome, nil
}

// close writes the record's last state.
func (t *attempt) close(ctx context.Context, results map[string]*result, status, reason string) error {
	if lost(ctx) != nil {
		return nil // whoever has the lease now calls this attempt cut short
	}
	caps := t.caps
	clean, cancel := detached(ctx, t.runner.cleanup)
	defer cancel()
	if now, err := t.runner.charts.Capabilities(clean, true); err == nil {
		caps = now
	}
	return t.update(ctx, func(rec *Record) {
		ended := t.runner.now().UTC()
		rec.Status, rec.Reason, rec.Ended = status, reason, &ended
		rec.ClusterVersion, rec.ClusterDigest = caps.Version, caps.Digest
		for i := range rec.Components {
			closeEntry(&rec.Components[i], results, reason, t.caps.Digest)
		}
		rec.forgetImages()
	})
}

func closeEntry(c *ComponentRecord, results map[string]*result, reason string, cluster digest.Digest) {
	switch c.Outcome {
	case OutcomeWaiting:
		c.Outcome, c.Reason = OutcomeSkipped, "not begun: "+reason
		if res := results[c.Name]; res != nil {
			c.Reason = res.reason
		}
	case OutcomeDone, OutcomeUnchanged:
		c.Cluster = cluster
	}
}

// tell fills the outcome from the record and the results.
func (t *attempt) tell(results map[string]*result, status string) {
	rec := t.record.snapshot()
	t.outcome.Status = status
	t.outcome.Components = []ComponentOutcome{}
	for _, p := range t.analysis.plan.Components {
		c := rec.component(p.Name)
		one := ComponentOutcome{
			Name: p.Name, Action: p.Action, Outcome: c.Outcome, Reason: c.Reason, HelmBefore: p.HelmRevision, HelmAfter: c.HelmAfter,
			Seconds: t.spent[p.Name].Round(time.Millisecond).Seconds(),
		}
		if c.Outcome == OutcomeKept {
			one.HelmBefore = c.HelmAfter // nobody looked, and nothing was done
		}
		if res := results[p.Name]; res != nil {
			one.WaitedOn = res.waitedOn
		}
		t.outcome.Components = append(t.outcome.Components, one)
		if c.Outcome == OutcomeSkipped {
			t.runner.events(Event{Kind: EventSkipped, Component: p.Name, Message: c.Reason, On: one.WaitedOn})
		}
	}
}

// prune deletes records beyond what is kept. The work is done, so a failure
// here is a warning.
func (t *attempt) prune(ctx context.Context) {
	if lost(ctx) != nil {
		return
	}
	clean, cancel := detached(ctx, t.runner.cleanup)
	defer cancel()
	if err := t.analysis.store.prune(clean, t.analysis.instance, t.analysis.req.historyMax()); err != nil {
		t.outcome.Warnings = append(t.outcome.Warnings, fmt.Sprintf("old records stay: %v", err))
	}
}
