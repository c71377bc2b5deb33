// Package draft writes the first release file of somebody who has none: an
// example, or what can be known from a chart with dependencies or from Helm's
// list of what is installed. Every key of the format stands in it, those that are
// not used behind a "#".
//
// It writes text for a person to go over and knows nothing of the rooms; that the
// text is a release file, its tests hold against the room bundle. The doors are
// [Example] and [From].
package draft

import (
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A Draft is a release file to be gone over.
type Draft struct {
	Name, Version string
	Components    []Component
	// Notes say what has to be looked at, a sentence each.
	Notes []string
}

// A Component is a component of a draft.
type Component struct {
	Name        string
	Chart       []Pair // the keys of its chart source
	ReleaseName string // empty when it is Name
	Namespace   string
	Create      bool       // createNamespace
	Values      *yaml.Node // nil for none
	Notes       []string   // said above it
}

// A Pair is a key and its text.
type Pair struct{ Key, Value string }

// Example is the draft that nothing is known of.
func Example() *Draft {
	return &Draft{Name: "my-release", Version: "0.1.0", Components: []Component{{
		Name: "app", Chart: []Pair{{"path", "charts/app"}}, Namespace: "my-release", Create: true,
		Notes: []string{"A chart folder or .tgz beside this file; other places are shown below."},
	}}}
}

// Text is the draft as a commented release file.
func (d *Draft) Text() (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, head, scalar(d.Name), scalar(d.Version))
	for _, c := range d.Components {
		if err := c.write(&b); err != nil {
			return "", fmt.Errorf("writing component %s: %w", c.Name, err)
		}
	}
	b.WriteString(tail)
	return b.String(), nil
}

func (c *Component) write(b *strings.Builder) error {
	for _, note := range c.Notes {
		for line := range strings.Lines(note) {
			fmt.Fprintf(b, "  # %s\n", strings.TrimRight(line, "\n"))
		}
	}
	fmt.Fprintf(b, "  - name: %s\n    chart:\n", scalar(c.Name))
	for _, p := range c.Chart {
		fmt.Fprintf(b, "      %s: %s\n", p.Key, scalar(p.Value))
	}
	if c.ReleaseName != "" && c.ReleaseName != c.Name {
		fmt.Fprintf(b, "    releaseName: %s\n", scalar(c.ReleaseName))
	}
	fmt.Fprintf(b, "    namespace: %s\n", scalar(c.Namespace))
	if c.Create {
		b.WriteString("    createNamespace: true\n")
	}
	if c.Values == nil {
		return nil
	}
	b.WriteString("    values:\n")
	var values strings.Builder
	enc := yaml.NewEncoder(&values)
	enc.SetIndent(2)
	if err := enc.Encode(c.Values); err != nil {
		return err
	}
	for line := range strings.Lines(values.String()) {
		if strings.TrimSpace(line) != "" {
			b.WriteString("      ")
		}
		b.WriteString(line)
	}
	return nil
}

// scalar is a text as YAML, quoted where it would be read as something else.
func scalar(text string) string {
	out, err := yaml.Marshal(text)
	if err != nil || strings.ContainsAny(text, "\n\r") {
		return fmt.Sprintf("%q", text)
	}
	return strings.TrimSuffix(string(out), "\n")
}

var notLabel = regexp.MustCompile(`[^a-z0-9]+`)

// label makes a DNS label of at most so many characters of any text.
func label(text string, most int) string {
	text = strings.Trim(notLabel.ReplaceAllString(strings.ToLower(text), "-"), "-")
	if len(text) > most {
		text = strings.Trim(text[:most], "-")
	}
	if text == "" {
		return "app"
	}
	return text
}

// The lengths of names in a release file.
const (
	maxName      = 40
	maxComponent = 53
	maxNamespace = 63
)

// unique gives each name once.
type unique map[string]bool

func (u unique) name(want string, further ...string) string {
	name := label(want, maxComponent)
	for _, f := range further {
		if u[name] {
			name = label(want+"-"+f, maxComponent)
		}
	}
	for n := 2; u[name]; n++ {
		name = label(want, maxComponent-4) + fmt.Sprintf("-%d", n)
	}
	u[name] = true
	return name
}
