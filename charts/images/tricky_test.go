package images

import (
	"reflect"
	"testing"

	"sigs.k8s.io/yaml"
)

// What is not a reference means the same to Helm's reader after rewriting.
func TestRewritingKeepsWhatElseADocumentSays(t *testing.T) {
	for name, text := range map[string]string{
		"block that begins with space":  "data:\n  a: |2\n      indented\n    less\n  b: |-\n    x\n\n    y\n  c: |+\n    x\n\n\n  d: >\n    folded\n    text\n\n    more\n",
		"block with tabs and trailing":  "data:\n  a: |\n    x \t\n    \ty  \n  b: \"tab\\there\"\n  c: ' lead'\n",
		"numbers and words of YAML 1.1": "data: {a: 0123, b: 1e3, c: yes, d: \"yes\", e: ~, f: 1_000, g: 0x1F, h: 12:30:45, i: 2024-01-01, j: off, k: '012', l: .5, m: 1.10}\n",
		"anchors and merges":            "x: &a {b: 1, c: [1, 2]}\ny: *a\nz: {<<: *a, d: 2}\n",
		"long lines and unicode":        "data:\n  a: \"é ☃ 𝄞 \\u0007 \\x85\"\n  b: " + longText + "\n  c: \"" + longText + "\\n" + longText + "\"\n",
		"keys that need quotes":         "\"on\": 1\n'y': 2\n? complex\n: 3\n\"a: b\": 4\n\"\": 5\n",
		"comments everywhere":           "# head\na: 1 # line\n# between\nb:\n  # inner\n  - 1\n  # foot\n",
		"windows":                       "a: 1\r\nb: |\r\n  x\r\n  y\r\n",
		"empty things":                  "a:\nb: {}\nc: []\nd: ''\ne: |\nf: \"\"\n",
	} {
		t.Run(name, func(t *testing.T) {
			text := "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: a\n    image: busybox\n" + text
			var before, after map[string]any
			if err := yaml.Unmarshal([]byte(text), &before); err != nil {
				t.Fatal(err)
			}
			got, err := rewriter().Rewrite("t", text)
			if err != nil {
				t.Fatal(err)
			}
			if err := yaml.Unmarshal([]byte(got), &after); err != nil {
				t.Fatalf("%v:\n%s", err, got)
			}
			container := before["spec"].(map[string]any)["containers"].([]any)[0].(map[string]any)
			container["image"] = "site.example/b@" + d1
			if !reflect.DeepEqual(before, after) {
				t.Errorf("was\n%v\nand is\n%v\nwritten\n%s", before, after, got)
			}
		})
	}
}

const longText = "words words words words words words words words words words words words words words words words words words words words"
