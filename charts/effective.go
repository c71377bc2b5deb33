package charts

import (
	"fmt"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
)

// Effective is what the templates of a chart see as .Values, and where each
// value is from.
type Effective struct {
	Values map[string]any
	Leaves []Leaf // sorted by path
}

// A Leaf is a value that is no map, or an empty one. A list is one leaf.
type Leaf struct {
	Path  string // as helm's --set takes it: a dot within a key has a backslash
	Value any
	Layer string // the last layer that set it, or one of the names below
}

// Layers that are not the user's.
const (
	ChartDefaults    = "chart defaults"
	SubchartDefaults = "subchart defaults"
)

// Effective lays the layers over the chart's default values and those of its
// subcharts, as rendering does: a null has deleted its key, globals are with
// the subcharts, what is switched off has left no values of its own. Errors as
// [Merge] and [Chart.Render] give them.
func (c *Chart) Effective(layers ...Layer) (*Effective, error) {
	merged, err := Merge(layers...)
	if err != nil {
		return nil, err
	}
	loaded, values, err := c.prepare(merged)
	if err != nil {
		return nil, err
	}
	origins, err := newOrigins(loaded.Values, layers)
	if err != nil {
		return nil, err
	}
	all, err := coalesce(loaded, values)
	if err != nil {
		return nil, fmt.Errorf("merging values of chart %s: %w", c.title(), err)
	}
	effective := &Effective{Values: all}
	effective.collect(all, nil, origins)
	return effective, nil
}

// coalesce is what Helm does to values before it renders.
func coalesce(loaded *chart.Chart, values map[string]any) (all map[string]any, err error) {
	defer recoverAs(&err, "merging values")
	if err := chartutil.ProcessDependenciesWithMerge(loaded, values); err != nil {
		return nil, err
	}
	return chartutil.CoalesceValues(loaded, values)
}

func (e *Effective) collect(values map[string]any, path []string, from origins) {
	for _, key := range sortedKeys(values) {
		here := slices.Concat(path, []string{key})
		if below, ok := values[key].(map[string]any); ok && len(below) > 0 {
			e.collect(below, here, from)
			continue
		}
		e.Leaves = append(e.Leaves, Leaf{Path: setPath(here), Value: values[key], Layer: from.of(here)})
	}
}

func setPath(keys []string) string {
	escaped := make([]string, len(keys))
	for i, key := range keys {
		escaped[i] = strings.ReplaceAll(key, ".", `\.`)
	}
	return strings.Join(escaped, ".")
}

// origins knows what each layer sets by itself, the last one first.
type origins []origin

type origin struct {
	name   string
	values map[string]any
}

func newOrigins(defaults map[string]any, layers []Layer) (origins, error) {
	list := origins{{name: ChartDefaults, values: defaults}}
	for _, layer := range layers {
		own, err := Merge(layer)
		if err != nil {
			return nil, err
		}
		list = append(list, origin{name: layer.Name, values: own})
	}
	slices.Reverse(list)
	return list, nil
}

// of names the layer that set a leaf. A subchart's globals may be those of a
// chart above it.
func (o origins) of(path []string) string {
	for {
		for _, layer := range o {
			if sets(layer.values, path) {
				return layer.name
			}
		}
		at := slices.Index(path[1:], chartutil.GlobalKey)
		if at < 0 {
			return SubchartDefaults
		}
		path = path[1+at:]
	}
}

// sets is whether the values say something about the path: there is a value at
// it, or one that is no map on the way to it.
func sets(values map[string]any, path []string) bool {
	for i, key := range path {
		value, ok := values[key]
		if !ok {
			return false
		}
		below, ok := value.(map[string]any)
		if !ok || i == len(path)-1 {
			return true
		}
		values = below
	}
	return false
}
