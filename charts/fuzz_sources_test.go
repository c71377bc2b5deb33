package charts

import (
	"bytes"
	"testing"
)

// Whatever an index says, it is taken apart or refused, and what is said of a
// chart stands in it.
func FuzzIndex(f *testing.F) {
	for _, text := range []string{
		"", "apiVersion: v1\nentries:\n  shop:\n  - version: 1.0.0\n    urls: [a.tgz]\n  \"b\":\n    - {version: 2}\n",
		`{"entries":{"shop":[{"version":"1.0.0","urls":["a.tgz"]}]}}`, "entries: {shop: [{version: 1.0.0}]}\n",
		"entries:\n  a: &x\n  - {version: 1}\n  b: *x\n", "entries:\n  a:\n  - version: |\n      x\n    # y\n\n  -\n", "<html>", "\x1f\x8b",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		index, err := parseIndex(data)
		if err != nil {
			return
		}
		for _, name := range index.names() {
			entries, _ := index.versions(name)
			for _, entry := range entries {
				if entry.Version == "" {
					t.Errorf("chart %q: an entry without a version counts", name)
				}
			}
		}
	})
}

// Whatever a file of manifests holds, what is packed of it stands in it.
func FuzzManifests(f *testing.F) {
	for _, text := range []string{
		"", someManifests, "--- {kind: A, apiVersion: v1, metadata: {name: a}}\n...\n%YAML 1.2\n---\n", `{"kind": "A"} {"kind": "B"}`, "a: &a [*a]\n", "\ufeffkind: A\r\n---\r\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		documents, err := splitManifests("it.yaml", data)
		if err != nil {
			return
		}
		lines := bytes.Count(data, []byte("\n")) + 1
		for _, d := range documents {
			if !bytes.Contains(data, d.text) || d.line < 1 || d.line > lines+1 {
				t.Fatalf("line %d: %q is not in the file", d.line, d.text)
			}
			if object, err := d.object("it.yaml"); err == nil && object != nil && (object.Kind == "" || object.Metadata.Name == "") {
				t.Errorf("packed without kind or name: %q", d.text)
			}
		}
	})
}
