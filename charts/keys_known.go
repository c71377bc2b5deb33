package charts

import (
	"bytes"
	"regexp"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
)

// knownKeys collects what the chart and its subcharts know of values.
func (c *Chart) knownKeys() (*keyNode, error) {
	loaded, err := c.load()
	if err != nil {
		return nil, &InvalidError{Chart: c.title(), Err: err}
	}
	root := &keyNode{}
	k := &knowing{global: root.child(chartutil.GlobalKey), reader: newTemplateReader()}
	k.reader.addTemplates(loaded)
	k.chart(loaded, root, nil)
	return root, nil
}

// knowing walks a chart and its subcharts.
type knowing struct {
	global *keyNode
	reader *templateReader
}

// chart learns about one chart whose values begin at node. Users are the
// charts above it, which may run a library's templates on their own values.
func (k *knowing) chart(c *chart.Chart, node *keyNode, users []*keyNode) {
	node.chartRoot = true
	node.children = withGlobal(node.children, k.global)
	node.documented = map[string]bool{}
	addDefaults(node, c.Values)
	addSchema(node, c.Schema)
	for _, f := range c.Raw {
		if f.Name == "values.yaml" {
			addComments(node, f.Data)
		}
	}
	readers := []*keyNode{node}
	if c.Metadata.Type == "library" {
		readers = append(readers, users...)
	}
	for _, reader := range readers {
		addMentions(reader, c)
	}
	k.reader.run(c, node)
	k.dependencies(c, node, append(users[:len(users):len(users)], node))
}

func withGlobal(children map[string]*keyNode, global *keyNode) map[string]*keyNode {
	if children == nil {
		children = map[string]*keyNode{}
	}
	children[chartutil.GlobalKey] = global
	return children
}

// dependencies learns about the subcharts, each under the keys it is known by.
func (k *knowing) dependencies(c *chart.Chart, node *keyNode, users []*keyNode) {
	held := map[string]*chart.Chart{}
	for _, d := range c.Dependencies() {
		held[d.Name()] = d
	}
	declared := map[string]bool{}
	for _, d := range c.Metadata.Dependencies {
		declared[d.Name] = true
		for _, tag := range d.Tags {
			node.at("tags", tag)
		}
		for condition := range strings.SplitSeq(d.Condition, ",") {
			if condition = strings.TrimSpace(condition); condition != "" {
				node.at(strings.Split(condition, ".")...)
			}
		}
		below := node.child(dependencyOf(d).Key())
		sub, ok := held[d.Name]
		if !ok {
			below.open = true // nobody here knows what it reads
			continue
		}
		k.chart(sub, below, users)
		addImports(node, d, sub)
	}
	for _, d := range c.Dependencies() {
		if !declared[d.Name()] {
			k.chart(d, node.child(d.Name()), users)
		}
	}
}

// addImports learns the keys that a chart takes over from a subchart
// (import-values).
func addImports(node *keyNode, d *chart.Dependency, sub *chart.Chart) {
	values := chartutil.Values(sub.Values)
	for _, item := range d.ImportValues {
		switch item := item.(type) {
		case string:
			if table, err := values.Table("exports." + item); err == nil {
				addDefaults(node, table)
			}
		case map[string]any:
			child, _ := item["child"].(string)
			parent, _ := item["parent"].(string)
			target := node
			if parent != "" && parent != "." {
				target = node.at(strings.Split(parent, ".")...)
			}
			if table, err := values.Table(child); err == nil {
				addDefaults(target, table)
			}
		}
	}
}

// addDefaults learns the keys a chart sets itself. An empty map or a null says
// that the chart takes what comes.
func addDefaults(node *keyNode, values map[string]any) {
	for key, value := range values {
		child := node.child(key)
		switch value := value.(type) {
		case nil:
			child.open = child.open || !child.chartRoot
		case map[string]any:
			if len(value) == 0 && key != chartutil.GlobalKey {
				child.open = true
			}
			addDefaults(child, value)
		}
	}
}

var (
	// "# key: value", "#  - key:", "# some.path: x"
	commentedKey = regexp.MustCompile(`^\s*#+[\s#]*(?:-\s+)?["']?([A-Za-z_][^\s"':{}\[\],]*)["']?\s*:(?:\s|$)`)
	// "## @param image.tag …" (readme-generator), "# image.tag -- …" (helm-docs)
	describedKey = regexp.MustCompile(`^\s*#+\s*(?:@(?:param|extra)\s+([\w.\-/\[\]]+)|([\w.\-/\[\]]+)\s+--\s)`)
	listIndex    = regexp.MustCompile(`\[\d*\]`)
)

// addComments learns the keys that values.yaml shows in its comments. Where
// such a key would stand is guesswork, so its name is known anywhere.
func addComments(node *keyNode, text []byte) {
	for line := range bytes.Lines(text) {
		if m := commentedKey.FindSubmatch(line); m != nil {
			node.documented[string(m[1])] = true
		}
		if m := describedKey.FindSubmatch(line); m != nil {
			path := strings.Trim(listIndex.ReplaceAllString(string(m[1])+string(m[2]), ""), ".")
			if path != "" {
				node.at(strings.Split(path, ".")...)
			}
		}
	}
}

// mention is a read of values as it stands in the text of a template.
var mention = regexp.MustCompile(`\.Values((?:\.[A-Za-z_][A-Za-z0-9_]*)+)`)

// addMentions learns every ".Values.a.b" in the text of the chart, wherever it
// stands: in templates that are called by a computed name, in files and in
// default values that are templates themselves.
func addMentions(node *keyNode, c *chart.Chart) {
	const largest = 512 << 10
	for _, files := range [][]*chart.File{c.Templates, c.Files, c.Raw} {
		for _, f := range files {
			if len(f.Data) > largest || strings.HasPrefix(f.Name, "charts/") {
				continue
			}
			if strings.HasSuffix(f.Name, ".md") {
				continue // prose, old names included
			}
			for _, m := range mention.FindAllSubmatch(f.Data, -1) {
				node.at(strings.Split(string(m[1][1:]), ".")...)
			}
		}
	}
}
