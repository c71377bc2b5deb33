package rollout

import (
	"context"
	"slices"
	"strings"
)

// task is one component in a schedule.
type task struct {
	name  string
	stage int      // every task of a lower one ends first
	after []string // names of tasks that have to go well first; unknown ones count as done
	run   func(context.Context) error
}

// result is what became of a task.
type result struct {
	state    string // OutcomeDone, OutcomeFailed or OutcomeSkipped
	err      error
	reason   string
	waitedOn []string
}

// schedule runs tasks in their order, independent ones at the same time.
type schedule struct {
	tasks       []task
	concurrency int
	// goOn lets tasks begin that need nothing that failed; otherwise nothing
	// begins after the first failure.
	goOn    bool
	waiting func(name string, on []string) // told once of each task that cannot begin at once

	results map[string]*result
	running map[string]bool
	told    map[string]bool
	failed  []string // in the order they failed
}

// run returns when everything that began has ended. A context that ends lets
// nothing more begin.
func (s *schedule) run(ctx context.Context) map[string]*result {
	s.results, s.running, s.told = map[string]*result{}, map[string]bool{}, map[string]bool{}
	type ended struct {
		name string
		err  error
	}
	ends := make(chan ended)
	for {
		for _, t := range s.startable(ctx) {
			s.running[t.name] = true
			go func() { ends <- ended{t.name, t.run(ctx)} }()
		}
		if len(s.running) == 0 {
			break
		}
		end := <-ends
		delete(s.running, end.name)
		s.results[end.name] = &result{state: OutcomeDone}
		if end.err != nil {
			s.results[end.name] = &result{state: OutcomeFailed, err: end.err, reason: end.err.Error()}
			s.failed = append(s.failed, end.name)
		}
	}
	s.skipRest(ctx)
	return s.results
}

// startable returns the tasks that can begin now, in their order.
func (s *schedule) startable(ctx context.Context) []task {
	var now []task
	for _, t := range s.tasks {
		if s.results[t.name] != nil || s.running[t.name] || ctx.Err() != nil || (len(s.failed) > 0 && !s.goOn) {
			continue
		}
		if s.skipNeeding(t) {
			continue
		}
		on := s.waitsOn(t)
		if len(on) > 0 {
			if !s.told[t.name] {
				s.told[t.name] = true
				s.waiting(t.name, on)
			}
			continue
		}
		if len(s.running)+len(now) < s.concurrency {
			now = append(now, t)
		}
	}
	return now
}

// waitsOn returns the tasks that have to end before t, in their order.
func (s *schedule) waitsOn(t task) []string {
	var on []string
	for _, other := range s.tasks {
		if s.results[other.name] == nil && (other.stage < t.stage || slices.Contains(t.after, other.name)) {
			on = append(on, other.name)
		}
	}
	return on
}

// skipNeeding skips a task that needs one which did not go well.
func (s *schedule) skipNeeding(t task) bool {
	var bad, why []string
	for _, name := range t.after {
		if res := s.results[name]; res != nil && res.state != OutcomeDone {
			bad = append(bad, name)
			why = append(why, s.blame(name, res))
		}
	}
	if len(bad) == 0 {
		return false
	}
	s.results[t.name] = &result{state: OutcomeSkipped, waitedOn: bad, reason: "needs " + strings.Join(why, " and ")}
	return true
}

func (s *schedule) blame(name string, res *result) string {
	if res.state == OutcomeFailed {
		return name + ", which failed"
	}
	return name + ", which was skipped: " + res.reason
}

// skipRest says of everything that did not begin what it waited on. Tasks
// stand behind those they need, so one pass tells all.
func (s *schedule) skipRest(ctx context.Context) {
	reason := "not begun"
	if ctx.Err() != nil {
		reason = "not begun, the work was ended"
	} else if len(s.failed) > 0 {
		reason = "not begun, since " + strings.Join(s.failed, " and ") + " failed"
	}
	for _, t := range s.tasks {
		if s.results[t.name] != nil || s.skipNeeding(t) {
			continue
		}
		on := s.waitsOn(t)
		for _, f := range s.failed {
			if s.stageOf(f) < t.stage {
				on = append(on, f)
			}
		}
		s.results[t.name] = &result{state: OutcomeSkipped, reason: reason, waitedOn: on}
	}
}

func (s *schedule) stageOf(name string) int {
	for _, t := range s.tasks {
		if t.name == name {
			return t.stage
		}
	}
	return 0
}
