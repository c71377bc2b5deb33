package charts

import (
	"errors"
	"fmt"
	"strings"

	"helm.sh/helm/v3/pkg/chartutil"
	"k8s.io/apimachinery/pkg/util/validation"

	"waybill/internal/ref"
)

// Severity is how bad a finding is.
type Severity string

// An Error would fail later; a Warning may.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
)

// Rules of [Chart.Lint].
const (
	RuleRender     = "render"     // the chart does not render
	RuleRecord     = "record"     // Helm's record is too large for a Secret, or nearly
	RuleLabel      = "label"      // a label the API server refuses
	RuleNumber     = "number"     // a number that is not what it seems
	RuleVersion    = "version"    // the version makes no registry tag
	RuleDependency = "dependency" // entries of dependencies that are nearly right
)

// A Finding is one thing that is wrong with a chart or with values for it.
type Finding struct {
	Severity     Severity
	Rule         string
	File         string // of the chart or the values, may be empty
	Line, Column int    // 0 when not known
	Path         string // within the values, may be empty
	Message      string
}

func (f Finding) String() string {
	place := f.File
	if f.Line > 0 {
		place = fmt.Sprintf("%s:%d:%d", f.File, f.Line, f.Column)
	}
	if place == "" {
		return f.Message
	}
	return place + ": " + f.Message
}

// LintOptions say for what a chart is looked at.
type LintOptions struct {
	// Renders are the renderings to try. None means two with the chart's own
	// values: for the oldest and the newest Kubernetes version the chart allows.
	Renders []RenderOptions
}

// Lint finds what would go wrong with the chart later. A chart that is fine
// has no findings. The order is that of the rules, then of the renderings.
func (c *Chart) Lint(opts LintOptions) []Finding {
	var found []Finding
	found = append(found, c.lintVersion()...)
	found = append(found, c.lintDependencies()...)
	found = append(found, c.lintDefaults()...)
	seen := map[string]bool{}
	for _, options := range c.renders(opts) {
		for _, f := range c.lintRender(options) {
			if !seen[f.Message] {
				seen[f.Message] = true
				found = append(found, f)
			}
		}
	}
	return found
}

func (c *Chart) renders(opts LintOptions) []RenderOptions {
	if len(opts.Renders) > 0 {
		return opts.Renders
	}
	versions, err := RenderVersions(c.meta.KubeVersion)
	if err != nil {
		versions = []string{NewestKubeVersion()} // Helm then says why not
	}
	var list []RenderOptions
	for _, v := range versions {
		list = append(list, RenderOptions{KubeVersion: v})
	}
	return list
}

func (c *Chart) lintVersion() []Finding {
	if _, err := ref.Tag(c.Version()); err != nil {
		return []Finding{{Severity: Error, Rule: RuleVersion, File: "Chart.yaml",
			Message: fmt.Sprintf("version %q makes no tag: %v", c.Version(), err)}}
	}
	return nil
}

func (c *Chart) lintDependencies() []Finding {
	var found []Finding
	for _, k := range unknownDependencyKeys(c.files) {
		found = append(found, Finding{Severity: Warning, Rule: RuleDependency, File: k.File,
			Message: strings.TrimPrefix(k.String(), k.File+": ")})
	}
	loaded, err := c.load()
	if err != nil {
		return found
	}
	versions := map[string][]string{}
	for _, d := range loaded.Dependencies() {
		versions[d.Name()] = append(versions[d.Name()], d.Metadata.Version)
	}
	for _, d := range c.meta.Dependencies {
		held, ok := versions[d.Name]
		if !ok || compatible(d.Version, held) {
			continue
		}
		found = append(found, Finding{Severity: Warning, Rule: RuleDependency, File: "Chart.yaml",
			Message: fmt.Sprintf("dependency %s asks for version %s, charts/ holds %s; Helm then ignores its alias, condition and tags",
				d.Name, d.Version, strings.Join(held, ", "))})
	}
	return found
}

func compatible(constraint string, versions []string) bool {
	for _, v := range versions {
		if chartutil.IsCompatibleRange(constraint, v) {
			return true
		}
	}
	return false
}

// lintDefaults looks at the numbers of the chart's own values.
func (c *Chart) lintDefaults() []Finding {
	var found []Finding
	for _, f := range c.files {
		if f.Name != "values.yaml" {
			continue
		}
		values, err := parseValues(f.Data)
		if err != nil {
			continue
		}
		for _, n := range LargeNumbers(values) {
			found = append(found, Finding{Severity: Warning, Rule: RuleNumber, File: f.Name, Path: n.Path, Message: n.String()})
		}
	}
	return found
}

func (c *Chart) lintRender(opts RenderOptions) []Finding {
	rendered, err := c.Render(opts)
	if err != nil {
		f := Finding{Severity: Error, Rule: RuleRender, Message: err.Error()}
		var dependency *DependencyError
		if errors.As(err, &dependency) {
			f.Rule, f.File = RuleDependency, "Chart.yaml"
		}
		return []Finding{f}
	}
	var found []Finding
	for _, n := range LargeNumbers(opts.Values) {
		found = append(found, Finding{Severity: Warning, Rule: RuleNumber, Path: n.Path, Message: n.String()})
	}
	found = append(found, lintLabels(rendered)...)
	return append(found, c.lintRecord(rendered)...)
}

func (c *Chart) lintRecord(rendered *Rendered) []Finding {
	size, err := c.RecordSize(rendered)
	if err != nil {
		return []Finding{{Severity: Error, Rule: RuleRecord, Message: err.Error()}}
	}
	if !size.Large() {
		return nil
	}
	f := Finding{Severity: Warning, Rule: RuleRecord}
	if size.TooLarge() {
		f.Severity = Error
	}
	f.Message = fmt.Sprintf("the record Helm keeps of chart %s is %d bytes of the %d a Secret holds; %s",
		c.title(), size.Bytes, size.Limit, size.Advice())
	return []Finding{f}
}

// lintLabels finds labels the API server would refuse: most often made of a
// version with build metadata, one longer than 63 characters, or a number that
// lost its quotes.
func lintLabels(rendered *Rendered) []Finding {
	var found []Finding
	check := func(o Object) {
		walkLabels(o.Content, "", func(key string, value any) {
			if problem := badLabel(value); problem != "" {
				found = append(found, Finding{Severity: Error, Rule: RuleLabel, File: o.Template,
					Message: fmt.Sprintf("%s: label %s: %s", o.Title(), key, problem)})
			}
		})
	}
	for _, o := range rendered.Objects {
		check(o)
	}
	for _, hooks := range [][]Hook{rendered.Hooks, rendered.Tests} {
		for _, h := range hooks {
			objects, err := renderedObjects(h.Manifest)
			if err != nil {
				continue
			}
			for _, o := range objects {
				o.Template = h.Path
				check(o)
			}
		}
	}
	return found
}

// walkLabels visits every label of an object and of the templates within it.
func walkLabels(v any, parent string, visit func(key string, value any)) {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range sortedKeys(v) {
			labels, ok := v[key].(map[string]any)
			if ok && (key == "labels" && parent == "metadata" || key == "matchLabels") {
				for _, name := range sortedKeys(labels) {
					visit(name, labels[name])
				}
				continue
			}
			if key != "openAPIV3Schema" { // of a CRD: it describes labels, it has none
				walkLabels(v[key], key, visit)
			}
		}
	case []any:
		for _, item := range v {
			walkLabels(item, parent, visit)
		}
	}
}

func badLabel(value any) string {
	text, ok := value.(string)
	if !ok {
		if value == nil {
			return ""
		}
		return fmt.Sprintf("%v is no text; the template or the value needs quotes", value)
	}
	if problems := validation.IsValidLabelValue(text); len(problems) > 0 {
		return fmt.Sprintf("%q is no label value: %s", text, problems[0])
	}
	return ""
}
