package charts

import (
	"bytes"

	"go.yaml.in/yaml/v3"
)

// cutIndex cuts a YAML index into the versions of each chart by the indentation
// of its lines, as every program writes it that makes indexes. It says no when
// the text is written otherwise; then only a parser can tell.
//
// Nothing inside a block of YAML stands further left than the key it belongs
// to, so a line as far left as the first chart's name is the next chart's name
// (https://yaml.org/spec/1.2.2/#61-indentation-spaces).
func cutIndex(text []byte) (*repoIndex, bool) {
	c := cutter{text: text, index: &repoIndex{blocks: map[string][][]byte{}, broken: map[string]string{}}}
	for line := range bytes.Lines(text) {
		if !c.line(line) {
			return nil, false
		}
		c.at += len(line)
	}
	c.endChart()
	return c.index, c.found
}

// cutter is where cutting is in the text.
type cutter struct {
	text   []byte
	at     int // where the line begins
	index  *repoIndex
	found  bool   // the key entries was there
	inside bool   // we are below it
	column int    // of the charts' names; 0 until the first
	name   string // of the chart we are in
	from   int    // where the line after its name begins
}

// indented is a line without its indentation, and how deep that is.
func indented(line []byte) (words []byte, column int) {
	words = bytes.TrimLeft(line, " ")
	column = len(line) - len(words)
	return bytes.TrimRight(words, " \t\r\n"), column
}

// line takes the next line and says whether the text can be cut here.
func (c *cutter) line(line []byte) bool {
	words, column := indented(line)
	switch {
	case len(words) == 0, words[0] == '#':
		return true
	case column == 0:
		return c.topLine(words)
	case !c.inside:
		return true
	case c.column == 0:
		c.column = column
	}
	isItem := words[0] == '-' && (len(words) == 1 || words[1] == ' ')
	switch {
	case column < c.column:
		return false
	case column > c.column || isItem:
		return c.name != ""
	}
	return c.startChart(words, c.at+len(line))
}

// topLine takes a line that is not indented.
func (c *cutter) topLine(words []byte) bool {
	c.endChart()
	c.inside = false
	if string(words) == "---" {
		return !c.found
	}
	if bytes.IndexByte([]byte("-?%.\"'\t{[&*!|>"), words[0]) >= 0 {
		return false
	}
	key, rest, isKey := bytes.Cut(words, []byte(":"))
	if !isKey || string(key) != "entries" {
		return isKey
	}
	rest = bytes.TrimSpace(rest)
	if c.found || len(rest) > 0 && rest[0] != '#' {
		return false
	}
	c.found, c.inside = true, true
	return true
}

// startChart takes a line with a chart's name.
func (c *cutter) startChart(words []byte, next int) bool {
	c.endChart()
	var header map[string]yaml.Node
	if err := yaml.Unmarshal(words, &header); err != nil || len(header) != 1 {
		return false
	}
	for name, value := range header {
		isEmpty := value.Kind == 0 || value.Tag == "!!null" || value.Kind == yaml.SequenceNode && len(value.Content) == 0
		_, twice := c.index.blocks[name]
		if !isEmpty || twice || value.Anchor != "" {
			return false
		}
		c.name, c.from = name, next
		c.index.blocks[name] = nil
	}
	return true
}

// endChart cuts the lines of the chart into its versions.
func (c *cutter) endChart() {
	if c.name == "" {
		return
	}
	name, text := c.name, c.text[c.from:c.at]
	c.name = ""
	column, begin, at := -1, 0, 0
	for line := range bytes.Lines(text) {
		words, indent := indented(line)
		significant := len(words) > 0 && words[0] != '#'
		if column < 0 && significant && words[0] != '-' {
			c.index.broken[name] = "its entry is no list of versions"
			return
		}
		if significant && column < 0 {
			column, begin = indent, at
		} else if significant && indent == column {
			c.index.blocks[name] = append(c.index.blocks[name], text[begin:at])
			begin = at
		}
		at += len(line)
	}
	if column >= 0 {
		c.index.blocks[name] = append(c.index.blocks[name], text[begin:])
	}
}
