package charts

import (
	"fmt"

	"helm.sh/helm/v3/pkg/chart"
)

// A LibraryError reports a chart that only other charts can use.
type LibraryError struct{ Chart string }

func (e *LibraryError) Error() string {
	return fmt.Sprintf("chart %s is a library chart: it cannot be installed by itself", e.Chart)
}

// prepare gives one Helm action its own chart and values, after the checks
// that Helm's command line makes before it begins: the chart is no library
// ([*LibraryError]) and has the dependencies these values switch on
// ([*DependencyError]). The values are the user's, not yet coalesced with the
// chart's defaults.
func (c *Chart) prepare(values map[string]any) (*chart.Chart, map[string]any, error) {
	if c.meta.Type == "library" {
		return nil, nil, &LibraryError{Chart: c.title()}
	}
	loaded, err := c.load()
	if err != nil {
		return nil, nil, &InvalidError{Chart: c.title(), Err: err}
	}
	forHelm := helmValues(values)
	if err := c.checkDependencies(loaded, forHelm); err != nil {
		return nil, nil, err
	}
	return loaded, forHelm, nil
}
