package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/urfave/cli/v2"

	"waybill/bundle"
	"waybill/charts"
	"waybill/internal/flags"
	"waybill/internal/releasefile"
	"waybill/internal/ui"
)

func lintCommand() *cli.Command {
	return &cli.Command{
		Name: "lint", Usage: "find everything wrong with a release file and its charts, in one list",
		Description: `Names, cycles, charts that do not render, versions that break labels, numbers
that lose digits, records too large for Helm.

Exit codes: 0 nothing found beside warnings, 1 something found, 2 the file does
not parse or does not fit the schema.`,
		Flags: flags.Join([]cli.Flag{fileFlag()}, flags.Common()),
		Action: func(c *cli.Context) error {
			if err := flags.NoArgs(c); err != nil {
				return err
			}
			form, err := flags.Output(c)
			if err != nil {
				return err
			}
			return runLint(c.Context, c.String("file"), form, c.App.Writer, flags.Talk(c))
		},
	}
}

// A finding is one line of `lint`.
type finding struct {
	Level     string `json:"level"` // "error" or "warning"
	File      string `json:"file"`  // the release file or one of its values files
	Component string `json:"component,omitempty"`
	Line      int    `json:"line,omitempty"`
	Column    int    `json:"column,omitempty"`
	Message   string `json:"message"`
}

func (f finding) where() string {
	switch {
	case f.Line > 0:
		return fmt.Sprintf("%s:%d:%d", f.File, f.Line, f.Column)
	case f.Component != "":
		return fmt.Sprintf("%s: component %s", f.File, f.Component)
	default:
		return f.File
	}
}

// A lintFailure says how many findings are errors; the list is on stdout.
type lintFailure struct {
	file   string
	errors int
}

func (e *lintFailure) Error() string { return fmt.Sprintf("%s has %d errors", e.file, e.errors) }

func runLint(ctx context.Context, path string, form flags.Form, out io.Writer, talk *ui.Talk) error {
	file, err := readRelease(path)
	if err != nil {
		return err
	}
	findings := fileFindings(file)
	findings = append(findings, chartFindings(ctx, file)...)
	if form == flags.JSON {
		if findings == nil {
			findings = []finding{}
		}
		if err := ui.JSON(out, map[string]any{"file": file.Path, "kubeVersion": charts.NewestKubeVersion(), "findings": findings}); err != nil {
			return err
		}
	} else {
		for _, f := range findings {
			fmt.Fprintf(out, "%s: %s: %s\n", f.where(), f.Level, f.Message)
		}
	}
	failed := 0
	for _, f := range findings {
		if f.Level == "error" {
			failed++
		}
	}
	if failed > 0 {
		return &lintFailure{file: file.Path, errors: failed}
	}
	talk.Sayf("%s: no errors, %d warnings; charts rendered for Kubernetes %s", file.Path, len(findings), charts.NewestKubeVersion())
	return nil
}

func fileFindings(file *releasefile.File) []finding {
	var findings []finding
	for _, p := range file.Release.Check() {
		findings = append(findings, finding{Level: "error", File: file.Path, Line: p.Line, Column: p.Column, Message: p.String()})
	}
	return append(findings, numberFindings(file.Path, file.Data)...)
}

func numberFindings(name string, data []byte) []finding {
	var findings []finding
	for _, p := range bundle.NumberWarnings(data) {
		findings = append(findings, finding{Level: "warning", File: name, Line: p.Line, Column: p.Column, Message: p.String()})
	}
	return findings
}

// chartFindings looks at every chart as its component would install it.
func chartFindings(ctx context.Context, file *releasefile.File) []finding {
	var findings []finding
	values, err := file.ValuesFiles()
	if err != nil {
		return []finding{{Level: "error", File: file.Path, Message: err.Error()}}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		findings = append(findings, numberFindings(file.Beside(name), values[name])...)
	}
	for _, c := range file.Release.Components {
		chart, err := file.Resolver().Chart(ctx, c)
		if err != nil {
			findings = append(findings, finding{Level: "error", File: file.Path, Component: c.Name, Message: err.Error()})
			continue
		}
		for _, f := range lintChart(chart, c, values, file.Release) {
			if f.Rule == charts.RuleNumber && f.File == "" {
				continue // of the release's own values, found in their files with line and column
			}
			findings = append(findings, finding{Level: string(f.Severity), File: file.Path, Component: c.Name, Message: f.String()})
		}
	}
	return findings
}

func lintChart(chart *charts.Chart, c bundle.Component, files map[string][]byte, release *bundle.Release) []charts.Finding {
	values, err := charts.Merge(releaseLayers(c, files)...)
	if err != nil {
		return []charts.Finding{{Severity: charts.Error, Message: err.Error()}}
	}
	return chart.Lint(charts.LintOptions{Renders: []charts.RenderOptions{renderOptions(c, values, release)}})
}

// checkCharts looks at the size of the record Helm will keep of each
// component: one larger than a Secret may be could never be installed. A
// chart that does not render with the release's values alone may need a
// site's; it is said and passed over.
func checkCharts(file *releasefile.File, files map[string][]byte, packed map[string]bundle.Chart, talk *ui.Talk) error {
	var failed []error
	for _, c := range file.Release.Components {
		chart, ok := packed[c.Name].(*charts.Chart)
		if !ok {
			continue
		}
		values, err := charts.Merge(releaseLayers(c, files)...)
		if err != nil {
			return fmt.Errorf("component %s: %w", c.Name, err)
		}
		rendered, err := chart.Render(renderOptions(c, values, file.Release))
		if err != nil {
			talk.Warnf("component %s does not render with the release's values for Kubernetes %s: %v", c.Name, charts.NewestKubeVersion(), err)
			rendered = &charts.Rendered{}
		}
		size, err := chart.RecordSize(rendered)
		switch {
		case err != nil:
			return fmt.Errorf("component %s: %w", c.Name, err)
		case size.TooLarge():
			failed = append(failed, &recordError{component: c.Name, size: size})
		case size.Large():
			talk.Warnf("component %s: Helm's record takes %d of %d bytes; %s", c.Name, size.Bytes, size.Limit, size.Advice())
		}
	}
	return errors.Join(failed...)
}

// A recordError reports a chart whose record would not fit into a Secret, so
// that Helm could never install it.
type recordError struct {
	component string
	size      charts.RecordSize
}

func (e *recordError) Error() string {
	return fmt.Sprintf("component %s: Helm's record would take %d bytes, and a Secret holds %d; %s", e.component, e.size.Bytes, e.size.Limit, e.size.Advice())
}

func renderOptions(c bundle.Component, values map[string]any, release *bundle.Release) charts.RenderOptions {
	opts := charts.RenderOptions{
		HelmRelease: c.HelmRelease(), Namespace: c.Namespace, Values: values, KubeVersion: charts.NewestKubeVersion(),
	}
	if release.Render != nil {
		opts.APIVersions = release.Render.APIVersions
	}
	return opts
}

// releaseLayers returns the layers of values that the release file gives a
// component, later ones winning.
func releaseLayers(c bundle.Component, files map[string][]byte) []charts.Layer {
	var layers []charts.Layer
	for _, name := range c.ValuesFiles {
		layers = append(layers, charts.Layer{Name: "release values file " + name, YAML: files[name]})
	}
	if len(c.Values) > 0 {
		layers = append(layers, charts.Layer{Name: "release values", Values: c.Values})
	}
	return layers
}
