package charts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
	"go.yaml.in/yaml/v3"
)

// What the index of a chart repository may weigh. Big public ones have 20 MB;
// they are kept as text and only the chart that is asked for is parsed.
const (
	maxIndexBytes      = 128 << 20
	maxIndexParseBytes = 8 << 20 // of an index that has to be parsed as a whole
)

// A repoIndex is the index.yaml of a chart repository
// (https://helm.sh/docs/topics/chart_repository/#the-index-file), cut into what
// it says of each chart. What is wrong with one chart is no matter of another.
type repoIndex struct {
	charts map[string][]json.RawMessage // in a JSON index: the versions of a chart
	blocks map[string][][]byte          // in a YAML index: the same, each the text of a list with one entry
	broken map[string]string            // charts of which nothing can be said, and why
}

// An indexEntry is one version of one chart. Other fields are not looked at:
// what the chart is, its archive says.
type indexEntry struct {
	Version string   `json:"version" yaml:"version"`
	URLs    []string `json:"urls" yaml:"urls"`
	Digest  string   `json:"digest" yaml:"digest"`
}

// parseIndex takes an index apart. The error says in bare words what is wrong
// with it.
func parseIndex(data []byte) (*repoIndex, error) {
	data, err := unpackedIndex(data)
	if err != nil {
		return nil, err
	}
	switch text := bytes.TrimSpace(bytes.TrimPrefix(data, utf8BOM)); {
	case len(text) == 0:
		return nil, errors.New("is empty")
	case text[0] == '<':
		return nil, errors.New("is a web page (HTML or XML), not YAML: a login page, or the address of something else")
	case text[0] == '{':
		if index, err := parseJSONIndex(text); err == nil {
			return index, nil
		}
		return parseWholeIndex(data) // YAML has braces too
	default:
		if index, ok := cutIndex(text); ok {
			return index, nil
		}
		return parseWholeIndex(data)
	}
}

// unpackedIndex undoes the compression that object stores serve files with that
// were uploaded so.
func unpackedIndex(data []byte) ([]byte, error) {
	if !isGzip(data) {
		return data, nil
	}
	zr, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("is no gzip although it begins as one: %w", err)
	}
	defer zr.Close() // only read from
	plain, err := io.ReadAll(io.LimitReader(zr, maxIndexBytes+1))
	if err != nil {
		return nil, fmt.Errorf("is no gzip although it begins as one: %w", err)
	}
	if len(plain) > maxIndexBytes {
		return nil, errTooLargeIndex
	}
	return plain, nil
}

var errTooLargeIndex = fmt.Errorf("is larger than an index may be (%d bytes)", int64(maxIndexBytes))

func isGzip(data []byte) bool { return bytes.HasPrefix(data, []byte{0x1F, 0x8B}) }

// parseJSONIndex reads an index token by token, so that only one chart is
// parsed at a time.
func parseJSONIndex(text []byte) (*repoIndex, error) {
	index := &repoIndex{charts: map[string][]json.RawMessage{}, broken: map[string]string{}}
	dec := json.NewDecoder(bytes.NewReader(text))
	found := false
	err := eachJSONKey(dec, func(key string) error {
		if key != "entries" {
			return dec.Decode(&json.RawMessage{})
		}
		found = true
		return eachJSONKey(dec, func(name string) error {
			var value json.RawMessage
			if err := dec.Decode(&value); err != nil {
				return err
			}
			var versions []json.RawMessage
			if err := json.Unmarshal(value, &versions); err != nil {
				index.broken[name] = "its entry is no list of versions"
				return nil
			}
			index.charts[name] = append(index.charts[name], versions...)
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, errNoEntries
	}
	return index, nil
}

var errNoEntries = errors.New("has no entries: it is no index of charts")

// eachJSONKey calls fn at the value of each key of the next object. A null has
// no keys.
func eachJSONKey(dec *json.Decoder, fn func(key string) error) error {
	token, err := dec.Token()
	if err != nil {
		return err
	}
	if token == nil {
		return nil
	}
	if token != json.Delim('{') {
		return fmt.Errorf("%v where an object is wanted", token)
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return err
		}
		if err := fn(key.(string)); err != nil {
			return err
		}
	}
	_, err = dec.Token()
	return err
}

// parseWholeIndex is for YAML that cannot be cut into charts by its lines.
func parseWholeIndex(data []byte) (*repoIndex, error) {
	if len(data) > maxIndexParseBytes {
		return nil, fmt.Errorf("is not written one chart below the other, and with more than %d bytes too large to be parsed as a whole", int64(maxIndexParseBytes))
	}
	var document struct {
		Entries yaml.Node `yaml:"entries"`
	}
	if err := yaml.Unmarshal(data, &document); err != nil {
		return nil, fmt.Errorf("is no YAML: %w", firstLine(err))
	}
	entries := follow(&document.Entries)
	if entries.Kind == 0 {
		return nil, errNoEntries
	}
	index := &repoIndex{blocks: map[string][][]byte{}, broken: map[string]string{}}
	if entries.Kind != yaml.MappingNode {
		if entries.Tag == "!!null" {
			return index, nil
		}
		return nil, errNoEntries
	}
	for i := 0; i+1 < len(entries.Content); i += 2 {
		name, versions := entries.Content[i].Value, follow(entries.Content[i+1])
		if versions.Kind != yaml.SequenceNode {
			index.broken[name] = "its entry is no list of versions"
			continue
		}
		for _, version := range versions.Content {
			var entry indexEntry
			if err := follow(version).Decode(&entry); err != nil {
				index.broken[name] = firstLine(err).Error()
				continue
			}
			text, err := yaml.Marshal([]indexEntry{entry})
			if err != nil {
				return nil, err
			}
			index.blocks[name] = append(index.blocks[name], text)
		}
	}
	return index, nil
}

// follow is the node an alias stands for.
func follow(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}

// names are the charts of the index, sorted.
func (x *repoIndex) names() []string {
	names := append(append(sortedKeys(x.charts), sortedKeys(x.blocks)...), sortedKeys(x.broken)...)
	slices.Sort(names)
	return slices.Compact(names)
}

// versions are the entries of one chart that can be read, and what is wrong
// with the others.
func (x *repoIndex) versions(name string) (entries []indexEntry, faults []string) {
	if fault, ok := x.broken[name]; ok {
		faults = append(faults, fault)
	}
	add := func(entry indexEntry, err error) {
		switch {
		case err != nil:
			faults = append(faults, "an entry cannot be read: "+firstLine(err).Error())
		case entry.Version == "":
			faults = append(faults, "an entry has no version")
		default:
			entries = append(entries, entry)
		}
	}
	for _, raw := range x.charts[name] {
		var entry indexEntry
		err := json.Unmarshal(raw, &entry)
		add(entry, err)
	}
	for _, block := range x.blocks[name] {
		var list []*indexEntry
		err := yaml.Unmarshal(block, &list)
		if err == nil && (len(list) != 1 || list[0] == nil) {
			err = errors.New("it is empty")
		}
		if err != nil {
			add(indexEntry{}, err)
			continue
		}
		add(*list[0], nil)
	}
	return entries, faults
}

// firstLine is what a parser says first, without the line of a text that nobody
// else sees.
func firstLine(err error) error {
	text := err.Error()
	var mistyped *yaml.TypeError
	if errors.As(err, &mistyped) && len(mistyped.Errors) > 0 {
		text = mistyped.Errors[0]
	}
	text, _, _ = strings.Cut(text, "\n")
	return errors.New(parserLine.ReplaceAllString(text, ""))
}

// parserLine is where the YAML parser saw it.
var parserLine = regexp.MustCompile(`^(yaml: )?(line \d+: )?`)
