package charts

import (
	"fmt"
	"slices"

	"helm.sh/helm/v3/pkg/chartutil"
)

// broughtFirst are the API versions of crds/, which are there before templates are
// rendered, in Helm's form.
func (c *Chart) broughtFirst(user map[string]any) ([]string, error) {
	loaded, values, err := c.prepare(user)
	if err != nil || len(loaded.CRDObjects()) == 0 {
		return nil, err
	}
	if err := chartutil.ProcessDependenciesWithMerge(loaded, values); err != nil {
		return nil, fmt.Errorf("chart %s: reading its dependencies: %w", c.title(), err)
	}
	var versions []string
	for _, crd := range loaded.CRDObjects() {
		objects, err := parseObjects(string(crd.File.Data))
		if err != nil {
			return nil, fmt.Errorf("chart %s: reading %s: %w", c.title(), crd.Filename, err)
		}
		for _, kind := range kindsOf(objects) {
			versions = append(versions, kind.versions()...)
		}
	}
	return versions, nil
}

// Brings are the API versions that the chart brings to a cluster, in the form of
// [RenderOptions.APIVersions]: first those of crds/, then those of its templates.
// Errors are those of [Chart.Render].
func (c *Chart) Brings(opts RenderOptions) (first, all []string, err error) {
	if first, err = c.broughtFirst(opts.Values); err != nil {
		return nil, nil, err
	}
	opts.APIVersions = slices.Concat(opts.APIVersions, first)
	rendered, err := c.Render(opts)
	if err != nil {
		return first, first, err
	}
	all = slices.Clone(first)
	for _, text := range append([]string{rendered.Manifest}, joinHooks(rendered.Hooks)) {
		objects, err := parseObjects(text)
		if err != nil {
			return first, first, fmt.Errorf("chart %s: reading what was rendered: %w", c.title(), err)
		}
		for _, kind := range kindsOf(objects) {
			all = append(all, kind.versions()...)
		}
	}
	return first, all, nil
}
