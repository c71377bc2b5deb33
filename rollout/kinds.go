package rollout

import (
	"context"
	"fmt"
)

// kindRounds bounds how often an attempt follows the kinds that it brought
// itself: each round can bring more.
const kindRounds = 3

// followKinds upgrades once more what was rendered before another component of
// the attempt brought kinds that it asks for: charts leave objects out while
// their kinds are not served. Without it the next install would find something
// to do. When that cannot be found out, it is left to the next install.
func (t *attempt) followKinds(ctx context.Context, results map[string]*result) []error {
	for range kindRounds {
		caps, err := t.runner.charts.Capabilities(ctx, true)
		if err != nil {
			t.leaveKinds(ctx, err)
			return nil
		}
		if caps.Digest == t.caps.Digest {
			return nil
		}
		stale, err := t.stale(ctx)
		if err != nil {
			t.leaveKinds(ctx, err)
			return nil
		}
		t.caps = caps
		if len(stale) == 0 {
			return nil
		}
		again := t.run(ctx, stale)
		for name := range again {
			if results[name] == nil { // it was unchanged so far
				results[name] = &result{state: OutcomeDone}
			}
		}
		if failures := t.failures(again); len(failures) > 0 || ctx.Err() != nil {
			return failures
		}
	}
	return nil
}

// leaveKinds warns that followKinds could not look; an interruption is told
// elsewhere.
func (t *attempt) leaveKinds(ctx context.Context, err error) {
	if ctx.Err() == nil {
		t.outcome.Warnings = append(t.outcome.Warnings, fmt.Sprintf("whether the kinds that were brought change other components was not found out; the next install will: %v", err))
	}
}

// stale returns, as upgrades, the components that would be rendered otherwise
// by now.
func (t *attempt) stale(ctx context.Context) ([]*subject, error) {
	var stale []*subject
	for i, s := range t.analysis.subjects {
		entry := t.entry(s.Name)
		if entry.Outcome != OutcomeDone && entry.Outcome != OutcomeUnchanged {
			continue
		}
		if s.archive == nil {
			archive, err := t.analysis.req.Source.Charts.Chart(ctx, s.Name)
			if err != nil {
				return nil, fmt.Errorf("component %s: reading its chart: %w", s.Name, err)
			}
			s.archive = archive
		}
		preview, err := t.runner.charts.Preview(ctx, s.helm(t.analysis.instance, ""))
		if err != nil {
			return nil, fmt.Errorf("component %s: previewing it: %w", s.Name, err)
		}
		if !preview.Changed {
			continue
		}
		again := *s
		again.previous, again.preview = &entry, preview
		again.planned.Action, again.planned.HelmRevision = ActionUpgrade, entry.HelmAfter
		if s.planned.Action == ActionUnchanged {
			t.analysis.plan.Components[i].Action = ActionUpgrade
		}
		stale = append(stale, &again)
	}
	return stale, nil
}

// entry is a copy of what is recorded of the component by now.
func (t *attempt) entry(name string) ComponentRecord {
	rec := t.record.snapshot()
	return *rec.component(name)
}
