package images

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"waybill/internal/ref"
)

// Whatever a chart renders: what is found are references, in bounded time, and
// rewriting with nothing to put in their place changes no byte.
func FuzzObject(f *testing.F) {
	for _, tc := range conventions() {
		f.Add(tc.object)
	}
	f.Add(config("a.yaml", "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nd: [*c, *c, {image: 'shop/a:1'}]\n"))
	f.Add(config("deep", strings.Repeat("[", 3000)+strings.Repeat("]", 3000)))
	f.Add("apiVersion: a.b/v1\nkind: X\nspec: {repository: '@', image: '/', tag: ':', digest: 'sha256:'}\n")
	f.Fuzz(func(t *testing.T, text string) {
		var content map[string]any
		if err := yaml.Unmarshal([]byte(text), &content); err != nil {
			return
		}
		o := Object{Content: content}
		o.APIVersion, _ = content["apiVersion"].(string)
		o.Kind, _ = content["kind"].(string)
		var finder Finder
		finder.Object(o)
		for _, use := range finder.Uses {
			if normalized, err := ref.Normalize(use.Reference); err != nil || normalized != use.Normalized {
				t.Errorf("%+v: %v", use, err)
			}
		}
		r := Rewriter{Locate: func(string) (string, bool) { return "", false }}
		if got, err := r.Rewrite("t", text); err == nil && got != text {
			t.Errorf("%q became %q", text, got)
		}
	})
}
