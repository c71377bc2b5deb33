package images

import (
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"waybill/internal/ref"
)

// text rewrites a scalar: the whole of it, or, where it holds YAML or JSON of
// its own, the whole texts in that.
func (r *Rewriter) text(node *yaml.Node, key, path string) {
	if node.Kind != yaml.ScalarNode || node.Tag == "!!int" || node.Tag == "!!bool" || node.Tag == "!!null" {
		return
	}
	if to, ok := r.whole(node.Value, key, path); ok {
		r.change(node, to, path)
		return
	}
	if to, ok := r.several(node.Value, key, path); ok {
		r.change(node, to, path)
		return
	}
	if r.place.kind != inObject && r.place.kind != inSchema && holdsStructure(key, node.Value) {
		node.Value = r.structure(node.Value, path)
	}
}

// whole gives what takes the place of a text that is a reference, or
// --flag=reference, and nothing more.
func (r *Rewriter) whole(text, key, path string) (string, bool) {
	if to, ok := r.locate(text, key, path); ok {
		return to, true
	}
	flag, value, assigned := strings.Cut(text, "=")
	if !assigned || !strings.HasPrefix(flag, "-") || strings.ContainsAny(flag, " \t\r\n") {
		return "", false
	}
	to, ok := r.locate(value, flag, path)
	return flag + "=" + to, ok
}

// locate gives what takes the place of a text that is a reference and is meant
// as one: with tag or digest, or under a key that says image. Space around it
// stays.
func (r *Rewriter) locate(text, key, path string) (string, bool) {
	written := strings.TrimSpace(text)
	form := readForm(written)
	if form == noReference || form < shortTagged && !namesImage(key) {
		return "", false
	}
	normalized, err := ref.Normalize(written)
	if err != nil {
		return "", false
	}
	to, ok := r.Locate(normalized)
	if !ok && form == hosted && !namesArtifact(key) {
		r.Similar = append(r.Similar, r.use(written, normalized, Candidate, path))
	}
	return strings.Replace(text, written, to, 1), ok
}

// listItem is one of several texts, perhaps with a name: 3.8=shop/broker:1.0.
var listItem = regexp.MustCompile(`([^\s,;=]+=)?([^\s,;=]+)`)

// several rewrites a text under a key that says image and that lists references
// and nothing else.
func (r *Rewriter) several(text, key, path string) (string, bool) {
	if !namesImage(key) {
		return "", false
	}
	items := listItem.FindAllStringSubmatchIndex(text, -1)
	if strings.Trim(listItem.ReplaceAllString(text, ""), " \t\r\n,;") != "" {
		return "", false
	}
	var out strings.Builder
	end := 0
	for _, at := range items {
		reference := text[at[4]:at[5]]
		if form := readForm(reference); form != numbered && form < shortTagged {
			return "", false
		}
		to, ok := r.locate(reference, key, path)
		if !ok {
			to = reference
		}
		out.WriteString(text[end:at[4]] + to)
		end = at[5]
	}
	return out.String() + text[end:], end > 0
}

// shellFlag is a flag with its value in the text of a command for a shell:
// --flag=value or --flag value, the value plain or in quotes.
var shellFlag = regexp.MustCompile(`(?:^|[\s(])(--?[A-Za-z][A-Za-z0-9_.-]*)(?:=|[ \t]+)("[^"\s]+"|'[^'\s]+'|[^\s"'();&|<>\\]+)`)

// shellFlags rewrites the values of flags in the text of a command, and leaves
// every other byte.
func (r *Rewriter) shellFlags(text, path string) string {
	var out strings.Builder
	end := 0
	for _, at := range shellFlag.FindAllStringSubmatchIndex(text, -1) {
		flag, value := text[at[2]:at[3]], text[at[4]:at[5]]
		bare := strings.Trim(value, `"'`)
		to, ok := r.locate(bare, flag, path)
		if !ok || to == bare {
			continue
		}
		r.note(path, bare, to)
		out.WriteString(text[end:at[4]])
		out.WriteString(strings.Replace(value, bare, to, 1))
		end = at[5]
	}
	return out.String() + text[end:]
}

// holdsStructure is whether a text is worth reading as YAML or JSON: a line of
// prose may parse as a map too, and is none.
func holdsStructure(key, text string) bool {
	text = strings.TrimSpace(text)
	switch {
	case strings.HasPrefix(text, "{"), strings.HasPrefix(text, "["), strings.Contains(text, "\n"):
		return true
	}
	return strings.HasSuffix(key, ".yaml") || strings.HasSuffix(key, ".yml") || strings.HasSuffix(key, ".json")
}

// structure rewrites the whole texts of YAML or JSON that a text holds, in
// their places: every other byte stays. What does not parse stays as it is.
func (r *Rewriter) structure(text, path string) string {
	documents, err := parseAll(text)
	if err != nil {
		return text
	}
	s := structure{rewriter: r, text: text, path: path, lines: lineStarts(text)}
	for _, document := range documents {
		s.walk(document, "", "")
	}
	slices.SortFunc(s.edits, func(a, b edit) int { return b.begin - a.begin })
	for _, e := range s.edits { // from the end, so that the places of the others stay
		text = text[:e.begin] + e.to + text[e.end:]
	}
	return text
}

// parseAll reads all documents of a text, nil where none is a map or list.
func parseAll(text string) ([]*yaml.Node, error) {
	var documents []*yaml.Node
	for decoder := yaml.NewDecoder(strings.NewReader(text)); ; {
		var document yaml.Node
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return documents, nil
		}
		if err != nil {
			return nil, err
		}
		for _, root := range document.Content {
			if root.Kind == yaml.MappingNode || root.Kind == yaml.SequenceNode {
				documents = append(documents, root)
			}
		}
	}
}

// A structure is YAML or JSON inside of a text, and the edits it gets.
type structure struct {
	rewriter   *Rewriter
	text, path string
	lines      []int // where they begin
	edits      []edit
}

// An edit puts other bytes in the place of those from begin to end.
type edit struct {
	begin, end int
	to         string
}

func (s *structure) walk(node *yaml.Node, key, path string) {
	switch node.Kind {
	case yaml.MappingNode:
		s.mapping(node, key, path)
	case yaml.SequenceNode:
		for i, item := range node.Content {
			s.walk(item, key, itemPath(path, item, i))
		}
	case yaml.ScalarNode:
		s.scalar(node, key, s.path+"/"+path)
	}
}

func (s *structure) mapping(node *yaml.Node, key, path string) {
	fields, at := nodeFields(node), func(key string) piece { return piece{child(node, key), s.path + "/" + join(path, key)} }
	done := s.rewriter.partsAmong(s, fields, key, at)
	for i := 0; i+1 < len(node.Content); i += 2 {
		name, value := node.Content[i].Value, node.Content[i+1]
		switch {
		case done[name]:
		case givenName(node, name, value) != "":
			s.walk(value, givenName(node, name, value), join(path, name))
		default:
			s.walk(value, name, join(path, name))
		}
	}
}

// holds is whether the text of a field stands in the text as it is.
func (s *structure) holds(node *yaml.Node) bool {
	_, ok := s.find(node)
	return ok && node.Tag != "!!null"
}

func (s *structure) write(p piece, to string) {
	begin, ok := s.find(p.node)
	if !ok || p.node.Value == to {
		return
	}
	s.rewriter.note(p.path, p.node.Value, to)
	s.edits = append(s.edits, edit{begin, begin + len(p.node.Value), to})
}

func (s *structure) scalar(node *yaml.Node, key, path string) {
	if node.Tag != "!!str" {
		return
	}
	if !s.holds(node) {
		return
	}
	if to, ok := s.rewriter.whole(node.Value, key, path); ok {
		s.write(piece{node, path}, to)
	}
}

// find is where the value of a scalar stands in the text, byte for byte. One
// that is written otherwise, with escapes or over several lines, is not found.
func (s *structure) find(node *yaml.Node) (int, bool) {
	if node.Line < 1 || node.Line > len(s.lines) || node.Style&(yaml.LiteralStyle|yaml.FoldedStyle|yaml.TaggedStyle) != 0 {
		return 0, false
	}
	at := s.lines[node.Line-1]
	for range node.Column - 1 { // columns count characters
		_, width := utf8.DecodeRuneInString(s.text[at:])
		at += width
	}
	if node.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 {
		at++
	}
	return at, at <= len(s.text) && strings.HasPrefix(s.text[at:], node.Value)
}

func lineStarts(text string) []int {
	starts := []int{0}
	for i := range len(text) {
		if text[i] == '\n' {
			starts = append(starts, i+1)
		}
	}
	return starts
}
