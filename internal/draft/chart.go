package draft

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/Masterminds/semver/v3"
	"go.yaml.in/yaml/v3"

	"waybill/internal/files"
)

// A chartFile is what a draft wants to know of a Chart.yaml.
type chartFile struct {
	Kind         string       `yaml:"kind"` // of a release file that was given instead
	Name         string       `yaml:"name"`
	Version      string       `yaml:"version"`
	Dependencies []dependency `yaml:"dependencies"`
}

type dependency struct {
	Name         string `yaml:"name"`
	Version      string `yaml:"version"`
	Repository   string `yaml:"repository"`
	Alias        string `yaml:"alias"`
	Condition    string `yaml:"condition"`
	Tags         []any  `yaml:"tags"`
	ImportValues []any  `yaml:"import-values"`
}

// as is the name under which the chart knows the dependency.
func (d dependency) as() string {
	if d.Alias != "" {
		return d.Alias
	}
	return d.Name
}

// fromChart makes each dependency of a chart a component, with the values that
// the chart gives it.
func fromChart(path string, chart chartFile) (*Draft, error) {
	u := umbrella{dir: filepath.Dir(path), draft: &Draft{Name: label(chart.Name, maxName), Version: version(chart.Version)}}
	if err := u.readRequirements(&chart); err != nil {
		return nil, err
	}
	if len(chart.Dependencies) == 0 {
		return nil, &UnknownError{Path: path, Reason: "has no dependencies to make components of; a release file names the chart itself with chart: {path: …}"}
	}
	if err := u.readValues(); err != nil {
		return nil, err
	}
	names := unique{}
	for i, d := range chart.Dependencies {
		c := u.component(names.name(d.as()), d)
		c.Create = i == 0
		u.draft.Components = append(u.draft.Components, c)
	}
	u.noteTemplates()
	return u.draft, nil
}

// version makes a release's version of a chart's.
func version(text string) string {
	if v, err := semver.NewVersion(text); err == nil {
		return v.String()
	}
	return "0.1.0"
}

// An umbrella is a chart that is taken apart.
type umbrella struct {
	dir    string
	values *yaml.Node // the mapping of values.yaml; nil for none
	draft  *Draft
}

// readRequirements reads where charts of Helm 2 have their dependencies.
func (u *umbrella) readRequirements(chart *chartFile) error {
	path := filepath.Join(u.dir, "requirements.yaml")
	data, err := files.Read(path)
	if errors.Is(err, fs.ErrNotExist) || len(chart.Dependencies) > 0 {
		return nil
	}
	if err != nil {
		return err
	}
	var old chartFile
	if err := yaml.Unmarshal(data, &old); err != nil {
		return &UnknownError{Path: path, Reason: "is no YAML: " + err.Error()}
	}
	chart.Dependencies = old.Dependencies
	return nil
}

func (u *umbrella) readValues() error {
	path := filepath.Join(u.dir, "values.yaml")
	data, err := files.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return &UnknownError{Path: path, Reason: "is no YAML: " + err.Error()}
	}
	if len(doc.Content) == 1 && doc.Content[0].Kind == yaml.MappingNode {
		u.values = doc.Content[0]
	}
	return nil
}

func (u *umbrella) component(name string, d dependency) Component {
	c := Component{Name: name, Namespace: label(u.draft.Name, maxNamespace), Chart: u.source(d)}
	own, global := value(u.values, d.as()), value(u.values, "global")
	c.Values = own
	if global != nil {
		c.Values = with(own, "global", global)
	}
	if d.Condition != "" {
		c.Notes = append(c.Notes, fmt.Sprintf("The chart has it when %s is true%s; here a site leaves a component out with enabled: false.", d.Condition, u.now(d.Condition)))
	}
	if len(d.Tags) > 0 {
		c.Notes = append(c.Notes, "The chart has it by tags; here a site leaves a component out with enabled: false.")
	}
	if len(d.ImportValues) > 0 {
		u.notef("component %s: import-values of the chart are not carried over", name)
	}
	return c
}

// source is where the dependency comes from, as a chart source.
func (u *umbrella) source(d dependency) []Pair {
	switch {
	case strings.HasPrefix(d.Repository, "file://"):
		return []Pair{{"path", u.path(strings.TrimPrefix(d.Repository, "file://"))}}
	case d.Repository == "":
		for _, name := range []string{d.Name, d.Name + "-" + d.Version + ".tgz"} {
			if _, err := os.Stat(filepath.Join(u.dir, "charts", name)); err == nil {
				return []Pair{{"path", u.path("charts/" + name)}}
			}
		}
		u.notef("dependency %s names no repository and is not in charts/; look at its path", d.Name)
		return []Pair{{"path", u.path("charts/" + d.Name)}}
	case !strings.Contains(d.Repository, "://"): // "@name" or "alias:name"
		u.notef("Helm knows the repository of %s as %q on one machine only; write its address", d.Name, d.Repository)
		return []Pair{{"repository", placeholder}, {"name", d.Name}, {"version", orAny(d.Version)}}
	}
	return []Pair{{"repository", d.Repository}, {"name", d.Name}, {"version", orAny(d.Version)}}
}

// placeholder stands where the address of a repository has to be written.
const placeholder = "https://write-the-repository-here.invalid"

func orAny(version string) string {
	if version == "" {
		return "*"
	}
	return version
}

// path is a path of the chart, as it is from the working directory, where the
// release file will lie.
func (u *umbrella) path(inside string) string {
	return filepath.ToSlash(filepath.Join(u.dir, filepath.FromSlash(inside)))
}

// now says what the values make of a condition.
func (u *umbrella) now(condition string) string {
	first, _, _ := strings.Cut(condition, ",")
	node := u.values
	for _, key := range strings.Split(strings.TrimSpace(first), ".") {
		node = value(node, key)
	}
	if node == nil || node.Kind != yaml.ScalarNode {
		return ""
	}
	return " (it is " + strings.Join(strings.Fields(node.Value), " ") + ")"
}

// noteTemplates says what belongs to no dependency.
func (u *umbrella) noteTemplates() {
	found, err := os.ReadDir(filepath.Join(u.dir, "templates"))
	if err == nil && len(found) > 0 {
		u.notef("the chart's own templates belong to no component: make them a chart, or a component with chart: {manifests: […]}")
	}
}

func (u *umbrella) notef(format string, args ...any) {
	u.draft.Notes = append(u.draft.Notes, fmt.Sprintf(format, args...))
}

// value returns the value of a key in a mapping, nil when there is none.
func value(mapping *yaml.Node, key string) *yaml.Node {
	if mapping == nil || mapping.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	return nil
}

// with is a mapping with one key more, which stands first; a key that is there
// stays.
func with(mapping *yaml.Node, key string, v *yaml.Node) *yaml.Node {
	out := &yaml.Node{Kind: yaml.MappingNode}
	if value(mapping, key) == nil {
		out.Content = []*yaml.Node{{Kind: yaml.ScalarNode, Value: key}, v}
	}
	if mapping != nil && mapping.Kind == yaml.MappingNode {
		out.Content = append(out.Content, mapping.Content...)
	}
	return out
}
