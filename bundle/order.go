package bundle

import (
	"fmt"
	"slices"
	"strings"
)

// A CycleError reports components that wait for each other.
type CycleError struct {
	Path []string // the first name again at the end
}

func (e *CycleError) Error() string {
	return fmt.Sprintf("components wait for each other: %s", strings.Join(e.Path, " needs "))
}

// Dependencies returns the components that must be ready before the named one
// begins: those it needs, and all of earlier stages. Sorted. Names in needs that
// the release does not have are left out.
func (r *Release) Dependencies(component string) []string {
	c, err := r.Component(component)
	if err != nil {
		return nil
	}
	needs := map[string]bool{}
	for _, name := range c.Needs {
		needs[name] = true
	}
	stage := slices.Index(r.Stages, c.Stage)
	var names []string
	for _, other := range r.Components {
		earlier := slices.Index(r.Stages, other.Stage) < stage
		if earlier || needs[other.Name] {
			names = append(names, other.Name)
		}
	}
	slices.Sort(names)
	return names
}

// Dependents returns all components that wait for the named one, directly or
// through others. Sorted.
func (r *Release) Dependents(component string) []string {
	waitedFor := map[string][]string{}
	for _, c := range r.Components {
		for _, d := range r.Dependencies(c.Name) {
			waitedFor[d] = append(waitedFor[d], c.Name)
		}
	}
	found := map[string]bool{component: true}
	queue := []string{component}
	for len(queue) > 0 {
		next := queue[0]
		queue = queue[1:]
		for _, name := range waitedFor[next] {
			if !found[name] {
				found[name] = true
				queue = append(queue, name)
			}
		}
	}
	delete(found, component)
	return sortedKeys(found)
}

// Levels returns the components in the order of a rollout: those of one level
// do not wait for each other, and every component comes after all its
// [Release.Dependencies]. Names within a level are sorted. Components that wait
// for each other are a [CycleError].
func (r *Release) Levels() ([][]string, error) {
	waits, waitedFor := map[string][]string{}, map[string][]string{}
	open := map[string]int{} // how many dependencies are not placed yet
	var level []string
	for _, c := range r.Components {
		waits[c.Name] = r.Dependencies(c.Name)
		if open[c.Name] = len(waits[c.Name]); open[c.Name] == 0 {
			level = append(level, c.Name)
		}
		for _, d := range waits[c.Name] {
			waitedFor[d] = append(waitedFor[d], c.Name)
		}
	}
	var levels [][]string
	placed := 0
	for ; len(level) > 0; placed += len(levels[len(levels)-1]) {
		slices.Sort(level)
		levels = append(levels, level)
		var next []string
		for _, done := range level {
			for _, name := range waitedFor[done] {
				if open[name]--; open[name] == 0 {
					next = append(next, name)
				}
			}
		}
		level = next
	}
	if placed < len(r.Components) {
		return nil, &CycleError{Path: findCycle(waits)}
	}
	return levels, nil
}

// findCycle returns a cycle of a graph: node → nodes it waits for. It begins
// with the least name of the cycle found and names it again at the end; nil
// when there is no cycle.
func findCycle(waits map[string][]string) []string {
	const (
		open   = 1
		closed = 2
	)
	state := map[string]int{}
	var path, cycle []string
	var visit func(name string) bool
	visit = func(name string) bool {
		state[name] = open
		path = append(path, name)
		for _, next := range waits[name] {
			if state[next] == open {
				cycle = slices.Clone(path[slices.Index(path, next):])
				return true
			}
			if state[next] == 0 && visit(next) {
				return true
			}
		}
		path = path[:len(path)-1]
		state[name] = closed
		return false
	}
	for _, name := range sortedKeys(waits) {
		if state[name] == 0 && visit(name) {
			first := slices.Index(cycle, slices.Min(cycle))
			cycle = append(cycle[first:], cycle[:first]...)
			return append(cycle, cycle[0])
		}
	}
	return nil
}
