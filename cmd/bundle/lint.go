package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"

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
that lose digits, records too large for Helm. Charts are fetched; those that are
locked and still allowed exactly as they are locked.

Exit codes: 0 nothing found beside warnings, 1 something found, 2 the file does
not parse or does not fit the schema, 10 nothing found, but charts could not be
fetched.`,
		Flags: flags.Join([]cli.Flag{fileFlag()}, flags.Registry(), flags.Common()),
		Action: func(c *cli.Context) error {
			if err := flags.NoArgs(c); err != nil {
				return err
			}
			form, err := flags.Output(c)
			if err != nil {
				return err
			}
			file, err := readRelease(c.String("file"))
			var bad *bundle.FileError
			if errors.As(err, &bad) && form == flags.JSON {
				return errors.Join(err, printFindings(c.App.Writer, c.String("file"), problemFindings(c.String("file"), bad.Problems), form))
			}
			if err != nil {
				return err
			}
			client, err := sourceClient(c, file)
			if err != nil {
				return err
			}
			l := linting{file: file, network: releasefile.Network(client), talk: flags.Talk(c)}
			return l.run(c.Context, form, c.App.Writer)
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

func (e *lintFailure) Error() string {
	return fmt.Sprintf("%s has %s", e.file, ui.Count(e.errors, "error"))
}

// A linting collects what is found wrong with a release file.
type linting struct {
	file      *releasefile.File
	network   charts.Network
	talk      *ui.Talk
	findings  []finding
	unfetched []error // of components whose chart no host could be asked for
}

func (l *linting) run(ctx context.Context, form flags.Form, out io.Writer) error {
	l.findings = fileFindings(l.file)
	if err := l.lookAtCharts(ctx); err != nil {
		return err
	}
	if err := printFindings(out, l.file.Path, l.findings, form); err != nil {
		return err
	}
	failed := 0
	for _, f := range l.findings {
		if f.Level == "error" {
			failed++
		}
	}
	switch {
	case failed > len(l.unfetched):
		return &lintFailure{file: l.file.Path, errors: failed}
	case failed > 0:
		return &unfetchedError{file: l.file.Path, errs: l.unfetched}
	}
	l.talk.Sayf("%s: no errors, %s; charts rendered for Kubernetes %s", l.file.Path, ui.Count(len(l.findings), "warning"), charts.NewestKubeVersion())
	return nil
}

// printFindings prints the list; as text only what is in it.
func printFindings(out io.Writer, file string, findings []finding, form flags.Form) error {
	if form == flags.JSON {
		if findings == nil {
			findings = []finding{}
		}
		return ui.JSON(out, map[string]any{"file": file, "kubeVersion": charts.NewestKubeVersion(), "findings": findings})
	}
	for _, f := range findings {
		if _, err := ui.Printf(out, "%s: %s: %s\n", f.where(), f.Level, f.Message); err != nil {
			return err
		}
	}
	return nil
}

// An unfetchedError says that nothing is wrong with what could be looked at.
type unfetchedError struct {
	file string
	errs []error
}

func (e *unfetchedError) Error() string {
	return fmt.Sprintf("%s: the charts of %s could not be fetched; nothing is wrong with the rest", e.file, ui.Count(len(e.errs), "component"))
}

func (e *unfetchedError) Unwrap() []error { return e.errs }

func problemFindings(file string, problems []bundle.Problem) []finding {
	var findings []finding
	for _, p := range problems {
		findings = append(findings, finding{Level: "error", File: file, Line: p.Line, Column: p.Column, Message: p.String()})
	}
	return findings
}

func fileFindings(file *releasefile.File) []finding {
	return append(problemFindings(file.Path, file.Release.Check()), numberFindings(file.Path, file.Data)...)
}

func numberFindings(name string, data []byte) []finding {
	var findings []finding
	for _, p := range bundle.NumberWarnings(data) {
		findings = append(findings, finding{Level: "warning", File: name, Line: p.Line, Column: p.Column, Message: p.String()})
	}
	return findings
}

// lookAtCharts looks at every chart as its component would install it.
func (l *linting) lookAtCharts(ctx context.Context) error {
	values, err := l.file.ValuesFiles()
	if err != nil {
		l.findings = append(l.findings, finding{Level: "error", File: l.file.Path, Message: err.Error()})
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		l.findings = append(l.findings, numberFindings(l.file.Beside(name), values[name])...)
	}
	lock, _, err := l.file.ReadLock()
	if err != nil {
		return err
	}
	r := startResolving(l.file, releasefile.ResolveOptions{Values: values, Network: l.network}, l.talk, "looking at", "looked at")
	defer r.Close()
	found, errs := fetchAll(ctx, r, l.file.Release, lock)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for i, c := range l.file.Release.Components {
		if errs[i] != nil {
			l.notFetched(ctx, c, errs[i])
			continue
		}
		for _, f := range lintChart(found[i], c, values, l.file.Release) {
			if f.Rule == charts.RuleNumber && f.File == "" {
				continue // of the release's own values, found in their files with line and column
			}
			l.findings = append(l.findings, finding{Level: string(f.Severity), File: l.file.Path, Component: c.Name, Message: f.String()})
		}
	}
	r.end()
	return nil
}

// fetchAll returns each component's chart, or what went wrong with it.
func fetchAll(ctx context.Context, r *resolving, release *bundle.Release, lock *bundle.Lock) ([]*charts.Chart, []error) {
	found, errs := make([]*charts.Chart, len(release.Components)), make([]error, len(release.Components))
	var group errgroup.Group
	group.SetLimit(4)
	for i, c := range release.Components {
		group.Go(func() error {
			r.begun(c.Name)
			found[i], errs[i] = r.Chart(ctx, c, lock.Kept(c))
			r.found(c.Name)
			return nil
		})
	}
	_ = group.Wait() // the errors are in errs
	return found, errs
}

func (l *linting) notFetched(ctx context.Context, c bundle.Component, err error) {
	l.findings = append(l.findings, finding{Level: "error", File: l.file.Path, Component: c.Name, Message: err.Error()})
	if ui.ExitCode(ctx, err) == ui.ExitUnreachable {
		l.unfetched = append(l.unfetched, err)
	}
}

func lintChart(chart *charts.Chart, c bundle.Component, files map[string][]byte, release *bundle.Release) []charts.Finding {
	values, err := charts.Merge(releasefile.Layers(c, files)...)
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
		values, err := charts.Merge(releasefile.Layers(c, files)...)
		if err != nil {
			return fmt.Errorf("component %s: %w", c.Name, err)
		}
		rendered, err := chart.Render(renderOptions(c, values, file.Release))
		if err != nil {
			talk.Warnf("component %s does not render with the release's values for Kubernetes %s: %v", c.Name, charts.NewestKubeVersion(), err)
			rendered = nil
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
