package charts

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// uncommented is values.yaml with the examples in its comments taken as keys,
// each alone, at the depth its indentation gives it.
var uncommented = regexp.MustCompile(`^\s*#\s?(\s*[A-Za-z_][\w.\-/]*:(?:\s.*)?)$`)

func TestRealChartsKnowTheirOwnKeys(t *testing.T) {
	dir, list := realCharts(t)
	for _, entry := range list {
		t.Run(entry.Name, func(t *testing.T) {
			t.Parallel()
			c := openFile(t, filepath.Join(dir, entry.File))
			for _, f := range c.files {
				if !isValuesFile(f.Name) {
					continue
				}
				unknown, err := c.CheckKeys(Layer{Name: f.Name, YAML: f.Data})
				if err != nil {
					t.Fatal(err)
				}
				for _, u := range unknown {
					t.Errorf("false alarm: %s", u)
				}
			}
			for _, f := range c.files {
				if f.Name != "values.yaml" {
					continue
				}
				for _, text := range commentedExamples(f.Data) {
					unknown, err := c.CheckKeys(Layer{Name: "comment", YAML: text})
					if err != nil {
						t.Fatal(err)
					}
					for _, u := range unknown {
						t.Errorf("false alarm: %s\n%s", u, text)
					}
				}
			}
		})
	}
}

// isValuesFile finds the values files charts carry for their own tests.
func isValuesFile(name string) bool {
	base := filepath.Base(name)
	return name == "values.yaml" || !strings.Contains(name, "charts/") && strings.HasSuffix(base, ".yaml") &&
		(strings.HasPrefix(name, "ci/") || strings.HasPrefix(base, "values-") || strings.HasSuffix(base, "values.yaml"))
}

// commentedExamples are values files, each with one key of a comment put in
// force among the lines around it, as somebody does who tries it out.
func commentedExamples(text []byte) [][]byte {
	lines := strings.Split(string(text), "\n")
	var examples [][]byte
	for i, line := range lines {
		m := uncommented.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		indent, _, _ := strings.Cut(line, "#")
		changed := append([]string{}, lines...)
		changed[i] = indent + m[1]
		candidate := []byte(strings.Join(changed, "\n"))
		var check map[string]any
		if yaml.Unmarshal(candidate, &check) == nil {
			examples = append(examples, candidate)
		}
	}
	return examples
}

// A key of a chart's own with two letters exchanged is found, unless the chart
// takes anything at that place. Of the keys one level down, many charts hand
// the map they stand in to the cluster whole, so fewer can be found.
func TestRealChartsFindMisspeltKeys(t *testing.T) {
	dir, list := realCharts(t)
	var top, below tally
	for _, entry := range list {
		c := openFile(t, filepath.Join(dir, entry.File))
		loaded, err := c.load()
		if err != nil {
			t.Fatal(err)
		}
		for key, value := range loaded.Values {
			top.try(t, c, "", key)
			if value, ok := value.(map[string]any); ok {
				for sub := range value {
					below.try(t, c, key, sub)
				}
			}
		}
	}
	if top.found*100 < top.tried*99 || top.named*100 < top.tried*98 {
		t.Errorf("of %d misspelt keys %d were found and %d named", top.tried, top.found, top.named)
	}
	if below.found*100 < below.tried*50 {
		t.Errorf("of %d misspelt keys below others %d were found", below.tried, below.found)
	}
	t.Logf("%+v %+v", top, below)
}

type tally struct{ tried, found, named int }

func (n *tally) try(t *testing.T, c *Chart, parent, key string) {
	t.Helper()
	if len(key) < 5 || key[2] == key[3] {
		return
	}
	values := map[string]any{key[:2] + string(key[3]) + string(key[2]) + key[4:]: true}
	path := key
	if parent != "" {
		values, path = map[string]any{parent: values}, parent+"."+key
	}
	unknown, err := c.CheckKeys(Layer{Name: "site", Values: values})
	if err != nil {
		t.Fatal(err)
	}
	n.tried++
	if len(unknown) == 1 {
		n.found++
		if unknown[0].Nearest == path {
			n.named++
		}
	}
}

func openFile(t testing.TB, file string) *Chart {
	t.Helper()
	data, err := readBounded(file, maxArchiveBytes)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Open(data)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
