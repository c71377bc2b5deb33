package charts

import (
	"fmt"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"

	"waybill/internal/tarball"
)

// An OutOfSyncError reports a chart's lock (Chart.lock, or requirements.lock)
// that was made for other dependencies than the chart has.
type OutOfSyncError struct {
	Chart       string
	Lock        string // the file
	Differences []string
}

func (e *OutOfSyncError) Error() string {
	return fmt.Sprintf("chart %s: %s is out of sync with its dependencies: %s; `helm dependency update` makes it agree",
		e.Chart, e.Lock, strings.Join(e.Differences, "; "))
}

// lockedDependencies are what the chart's lock says of each entry of its
// dependencies, nil for all without a lock.
func (p *packing) lockedDependencies() ([]*chart.Dependency, error) {
	entries := p.loaded.Metadata.Dependencies
	locked := make([]*chart.Dependency, len(entries))
	if p.loaded.Lock == nil {
		return locked, nil
	}
	rest := slices.DeleteFunc(slices.Clone(p.loaded.Lock.Dependencies), func(d *chart.Dependency) bool { return d == nil })
	var differences []string
	for i, entry := range entries {
		at, difference := lockEntry(entry, rest)
		if difference != "" {
			differences = append(differences, difference)
			continue
		}
		locked[i] = rest[at]
		rest = slices.Delete(rest, at, at+1)
	}
	for _, left := range rest {
		if !slices.ContainsFunc(entries, func(entry *chart.Dependency) bool { return entry.Name == left.Name }) {
			differences = append(differences, fmt.Sprintf("it locks %s %s, which is no dependency", left.Name, left.Version))
		}
	}
	if len(differences) > 0 {
		return nil, &OutOfSyncError{Chart: p.name(), Lock: p.lockFile(), Differences: differences}
	}
	return locked, nil
}

// lockEntry finds what is locked for an entry, or says why there is nothing.
func lockEntry(entry *chart.Dependency, locked []*chart.Dependency) (at int, difference string) {
	difference = fmt.Sprintf("it has nothing for %s %s", entry.Name, entry.Version)
	want, err := parseWanted(entry.Name, entry.Version)
	if err != nil {
		return 0, err.Error()
	}
	for i, have := range locked {
		_, isAlias := repositoryAlias(entry.Repository)
		switch {
		case have.Name != entry.Name:
			continue
		case !isAlias && strings.TrimSuffix(have.Repository, "/") != strings.TrimSuffix(entry.Repository, "/"):
			difference = fmt.Sprintf("it locks %s from %s, the chart names %s", have.Name, masked(have.Repository), masked(entry.Repository))
		case have.Version != entry.Version && !want.allows(have.Version):
			difference = fmt.Sprintf("it locks %s %s, the chart wants %s", have.Name, have.Version, entry.Version)
		default:
			return i, ""
		}
	}
	return 0, difference
}

// lockFile is the name of the lock that Helm read.
func (p *packing) lockFile() string {
	if slices.ContainsFunc(p.files, func(f tarball.File) bool { return f.Name == "Chart.lock" }) {
		return "Chart.lock"
	}
	return "requirements.lock"
}
