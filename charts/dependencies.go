package charts

import (
	"fmt"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
)

// A DependencyError reports dependencies that a chart names, that its values
// switch on, and that are not in its charts/ folder.
type DependencyError struct {
	Chart   string // name and version
	Missing []Dependency
	Keys    []UnknownDependencyKey // keys of their entries that Helm does not know
	Archive bool                   // it came packed, from a file, a repository or a bundle
}

func (e *DependencyError) Error() string {
	var list []string
	for _, d := range e.Missing {
		text := fmt.Sprintf("%s %s", d.Name, d.Version)
		if d.Repository != "" {
			text += " from " + d.Repository
		}
		list = append(list, text)
	}
	msg := fmt.Sprintf("chart %s needs what its charts/ folder lacks: %s", e.Chart, strings.Join(list, ", "))
	for _, k := range e.Keys {
		msg += "; " + k.String()
	}
	switch {
	case len(e.Keys) > 0:
	case e.Archive:
		msg += "; it was packed without: take one that has them, or pack its folder under values that switch them on"
	default:
		msg += "; put them there, or name a repository in Chart.yaml"
	}
	return msg
}

// missingDependencies lists what a chart names and does not hold, by name, as
// Helm's own check does.
func missingDependencies(c *chart.Chart) []Dependency {
	have := map[string]bool{}
	for _, d := range c.Dependencies() {
		have[d.Name()] = true
	}
	var missing []Dependency
	for _, d := range c.Metadata.Dependencies {
		if !have[d.Name] {
			missing = append(missing, dependencyOf(d))
		}
	}
	return missing
}

// checkDependencies refuses values that switch on a dependency the chart lacks.
// Helm's command line refuses any that is absent; here one that is switched
// off by its condition or tags is no obstacle, since nothing of it would be
// rendered.
func (c *Chart) checkDependencies(loaded *chart.Chart, values map[string]any) error {
	if len(c.missing) == 0 {
		return nil
	}
	all, err := chartutil.CoalesceValues(loaded, values)
	if err != nil {
		return err
	}
	var wanted []Dependency
	for _, d := range c.missing {
		if enabled(d, all) {
			wanted = append(wanted, d)
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	return &DependencyError{Chart: c.title(), Missing: wanted, Keys: unknownDependencyKeys(c.files), Archive: c.Files == ""}
}

// enabled decides as Helm does: tags first, then the first condition that is a
// boolean in the values (https://helm.sh/docs/topics/charts/#tags-and-condition-fields-in-dependencies).
func enabled(d Dependency, values chartutil.Values) bool {
	on := true
	if tags, err := values.Table("tags"); err == nil {
		var yes, no bool
		for _, tag := range d.Tags {
			if b, ok := tags[tag].(bool); ok {
				yes, no = yes || b, no || !b
			}
		}
		on = yes || !no
	}
	for condition := range strings.SplitSeq(strings.TrimSpace(d.Condition), ",") {
		if condition == "" {
			continue
		}
		v, err := values.PathValue(condition)
		if b, ok := v.(bool); err == nil && ok {
			return b
		}
	}
	return on
}
