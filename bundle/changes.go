package bundle

import (
	"fmt"
	"slices"
	"strings"
)

// A LockChange is what a new lock says otherwise of a component than an old one.
type LockChange struct {
	Component string       `json:"component"`
	From      *LockedChart `json:"from,omitempty"` // nil for a component that was added
	To        *LockedChart `json:"to,omitempty"`   // nil for a component that was dropped
}

// String says the change in one line, without the component: what it was, and
// what it is. Other content under one version is said with both digests.
func (c LockChange) String() string {
	switch from, to := c.From, c.To; {
	case from == nil:
		return fmt.Sprintf("added, %s %s", to.Name, to.Version)
	case to == nil:
		return fmt.Sprintf("dropped, was %s %s", from.Name, from.Version)
	case from.Name != to.Name:
		return fmt.Sprintf("%s %s → %s %s", from.Name, from.Version, to.Name, to.Version)
	case from.Version != to.Version:
		return fmt.Sprintf("%s %s → %s", to.Name, from.Version, to.Version)
	case from.Content != to.Content:
		return fmt.Sprintf("%s %s has other content: %s → %s%s", to.Name, to.Version, from.Content, to.Content, dependencyChanges(from, to))
	case from.Manifest != to.Manifest:
		return fmt.Sprintf("%s %s has another manifest: %s → %s", to.Name, to.Version, from.Manifest, to.Manifest)
	case from.Source != to.Source:
		return fmt.Sprintf("%s %s, source %s → %s", to.Name, to.Version, from.Source, to.Source)
	default:
		return fmt.Sprintf("%s %s stays, the release file asks for it otherwise", to.Name, to.Version)
	}
}

func dependencyChanges(from, to *LockedChart) string {
	names := func(c *LockedChart) string {
		var list []string
		for _, d := range c.Dependencies {
			list = append(list, d.Name+" "+d.Version)
		}
		return strings.Join(list, ", ")
	}
	if slices.Equal(from.Dependencies, to.Dependencies) {
		return ""
	}
	return fmt.Sprintf(", dependencies %s → %s", orNothing(names(from)), orNothing(names(to)))
}

func orNothing(text string) string {
	if text == "" {
		return "none"
	}
	return text
}

// Changes returns what the lock says of its charts otherwise than previous, by
// component. Nil as previous is a lock of nothing.
func (l *Lock) Changes(previous *Lock) []LockChange {
	if previous == nil {
		previous = &Lock{}
	}
	var changes []LockChange
	for _, to := range l.Charts {
		from, was := previous.Chart(to.Component)
		switch {
		case !was:
			changes = append(changes, LockChange{Component: to.Component, To: &to})
		case !from.equal(to):
			changes = append(changes, LockChange{Component: to.Component, From: &from, To: &to})
		}
	}
	for _, from := range previous.Charts {
		if _, stays := l.Chart(from.Component); !stays {
			changes = append(changes, LockChange{Component: from.Component, From: &from})
		}
	}
	slices.SortStableFunc(changes, func(a, b LockChange) int { return strings.Compare(a.Component, b.Component) })
	return changes
}

// equal says whether two entries say the same.
func (l LockedChart) equal(o LockedChart) bool { return l.difference(o) == "" }

// difference names the first thing that another entry says otherwise.
func (l LockedChart) difference(o LockedChart) string {
	for _, field := range []struct{ name, locked, is string }{
		{"name", l.Name, o.Name}, {"version", l.Version, o.Version}, {"source", l.Source, o.Source},
		{"content", l.Content.String(), o.Content.String()}, {"manifest", l.Manifest.String(), o.Manifest.String()},
		{"files", l.Files.String(), o.Files.String()}, {"inputs", l.Inputs.String(), o.Inputs.String()},
	} {
		if field.locked != field.is {
			return fmt.Sprintf("its %s is %s, locked is %s", field.name, orNothing(field.is), orNothing(field.locked))
		}
	}
	sorted := func(c LockedChart) []LockedDependency {
		return slices.SortedFunc(slices.Values(c.Dependencies), compareDependencies)
	}
	if !slices.Equal(sorted(l), sorted(o)) {
		return "it holds other dependencies than are locked"
	}
	return ""
}
