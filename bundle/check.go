package bundle

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/Masterminds/semver/v3"

	"waybill/internal/near"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// Check returns what a schema cannot see and what keeps a release from being
// locked or built: names used twice, unknown stages and needs, cycles, ranges
// and schemas that do not parse. Nil when there is nothing. A [Release] from
// [ParseRelease] gives each problem its place in the file.
func (r *Release) Check() []Problem {
	c := checker{doc: r.doc, stages: map[string]string{}}
	for _, comp := range r.Components {
		c.stages[comp.Name] = comp.Stage
	}
	c.constraint([]string{"kubernetes"}, r.Kubernetes)
	c.login([]string{"artifact"}, r.Artifact)
	c.names(r)
	for i := range r.Components {
		c.component(r, i)
	}
	c.cycles(r)
	sortProblems(c.problems)
	return c.problems
}

// lintError returns what Check finds as an error, nil when it finds nothing.
func (r *Release) lintError() error {
	problems := r.Check()
	if len(problems) == 0 {
		return nil
	}
	file := "release file"
	if r.doc != nil {
		file = r.doc.file
	}
	return &LintError{File: file, Problems: problems}
}

type checker struct {
	doc      *document
	stages   map[string]string // by component
	problems []Problem
}

func (c *checker) add(path []string, format string, args ...any) {
	if len(c.problems) >= maxProblems {
		return
	}
	c.problems = append(c.problems, c.doc.problem(path, fmt.Sprintf(format, args...)))
}

func componentPath(i int, steps ...string) []string {
	return append([]string{"components", strconv.Itoa(i)}, steps...)
}

func (c *checker) constraint(path []string, text string) {
	if text == "" {
		return
	}
	// A + may be written as tags have it.
	if _, err := semver.NewConstraint(strings.ReplaceAll(text, "_", "+")); err != nil {
		c.add(path, "%q is no version or range of versions: %s", text, err)
	}
}

// names finds component names, and Helm release names within a namespace, that
// are used twice.
func (c *checker) names(r *Release) {
	type helmRelease struct{ namespace, name string }
	components, helmReleases := map[string]bool{}, map[helmRelease]string{}
	for i, comp := range r.Components {
		if components[comp.Name] {
			c.add(componentPath(i, "name"), "a component %q is there already", comp.Name)
			continue
		}
		components[comp.Name] = true
		key := helmRelease{comp.Namespace, comp.HelmRelease()}
		if other, taken := helmReleases[key]; taken {
			c.add(componentPath(i), "component %s would have the Helm release %q in namespace %q, which component %s has", comp.Name, key.name, key.namespace, other)
			continue
		}
		helmReleases[key] = comp.Name
	}
}

func (c *checker) component(r *Release, i int) {
	comp := &r.Components[i]
	c.stage(r, i)
	for n, need := range comp.Needs {
		c.need(r, i, componentPath(i, "needs", strconv.Itoa(n)), need)
	}
	c.source(i, comp.Chart)
	seen := map[string]bool{}
	for n, p := range comp.Profiles {
		if seen[p.Name] {
			c.add(componentPath(i, "profiles", strconv.Itoa(n), "name"), "component %s has a profile %q already", comp.Name, p.Name)
		}
		seen[p.Name] = true
	}
	if comp.Parameters != nil {
		if _, err := compileSchema(comp.Parameters.Schema); err != nil {
			c.add(componentPath(i, "parameters", "schema"), "component %s: not a JSON Schema: %s", comp.Name, strings.ReplaceAll(err.Error(), "\n", " "))
		}
	}
}

func (c *checker) source(i int, source ChartSource) {
	if source.Kind() == SourceRepository {
		c.constraint(componentPath(i, "chart", "version"), source.Version)
	}
	c.login(componentPath(i, "chart", "repository"), source.Repository)
	c.login(componentPath(i, "chart", "git"), source.Git)
}

// login refuses an address with a login in it, without saying it.
func (c *checker) login(path []string, address string) {
	if found := loginIn(address); found != "" {
		c.add(path, "the address holds %s, which would go into every bundle: take it out, and keep it in netrc or in Helm's or Docker's configuration", found)
	}
}

func (c *checker) stage(r *Release, i int) {
	comp := &r.Components[i]
	switch {
	case len(r.Stages) == 0 && comp.Stage != "":
		c.add(componentPath(i, "stage"), "component %s names stage %q, and the release lists no stages", comp.Name, comp.Stage)
	case len(r.Stages) > 0 && comp.Stage == "":
		c.add(componentPath(i), "component %s names no stage; there are %s", comp.Name, strings.Join(r.Stages, ", "))
	case len(r.Stages) > 0 && !slices.Contains(r.Stages, comp.Stage):
		c.add(componentPath(i, "stage"), "component %s names the unknown stage %q%s", comp.Name, comp.Stage, didYouMean(comp.Stage, r.Stages))
	}
}

func (c *checker) need(r *Release, i int, path []string, need string) {
	comp := &r.Components[i]
	stage, known := c.stages[need]
	switch {
	case !known:
		c.add(path, "component %s needs the unknown component %q%s", comp.Name, need, didYouMean(need, r.ComponentNames()))
	case need == comp.Name:
		c.add(path, "component %s needs itself", comp.Name)
	case slices.Index(r.Stages, stage) > slices.Index(r.Stages, comp.Stage):
		c.add(path, "component %s of stage %q needs %s of the later stage %q", comp.Name, comp.Stage, need, stage)
	}
}

// cycles looks at needs alone; what stages add is reported by need.
func (c *checker) cycles(r *Release) {
	waits := map[string][]string{}
	for _, comp := range r.Components {
		needs := slices.DeleteFunc(slices.Clone(comp.Needs), func(n string) bool { return n == comp.Name })
		slices.Sort(needs)
		waits[comp.Name] = needs
	}
	if cycle := findCycle(waits); cycle != nil {
		i := slices.IndexFunc(r.Components, func(comp Component) bool { return comp.Name == cycle[0] })
		c.add(componentPath(i, "needs"), "%s", &CycleError{Path: cycle})
	}
}

func didYouMean(word string, known []string) string {
	if meant := near.Word(word, known); meant != "" {
		return fmt.Sprintf("; did you mean %q?", meant)
	}
	return ""
}

// Check returns what does not fit between the site file and a release: another
// release's name, components and profiles the release does not have, and
// expressions that do not parse. Nil when there is nothing.
func (s *Site) Check(r *Release) []Problem {
	c := checker{doc: s.doc}
	if s.Release != "" && s.Release != r.Name {
		c.add([]string{"release"}, "the site file is for release %q, this is %q", s.Release, r.Name)
	}
	for _, name := range sortedKeys(s.Components) {
		comp, err := r.Component(name)
		if err != nil {
			c.add([]string{"components", name}, "the release has no component %q%s", name, didYouMean(name, r.ComponentNames()))
			continue
		}
		profile := s.Components[name].Profile
		if _, known := comp.Profile(profile); profile != "" && !known {
			c.add([]string{"components", name, "profile"}, "component %s has no profile %q; there are %s", name, profile, profileNames(comp))
		}
	}
	if s.Verify != nil {
		for i, id := range s.Verify.Identities {
			if _, err := regexp.Compile(id.SubjectRegexp); err != nil {
				c.add([]string{"verify", "identities", strconv.Itoa(i), "subjectRegexp"}, "%s", err)
			}
		}
	}
	sortProblems(c.problems)
	return c.problems
}

func profileNames(c *Component) string {
	if len(c.Profiles) == 0 {
		return "none"
	}
	names := make([]string, len(c.Profiles))
	for i, p := range c.Profiles {
		names[i] = p.Name
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
