package images

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// Of YAML in a text nothing is another after rewriting but whole texts that are
// references.
func FuzzStructure(f *testing.F) {
	for _, seed := range []string{
		"a: shop/app:1.0\nb: [shop/app:1.0, 'quay.io/shop/side:v2', \"x\"]\n", "{\"image\":\"busybox\",\"é\":\"shop/app:1.0\"}",
		"- --x=shop/app:1.0\n- &a shop/app:1.0\n- *a\n", "a: |\n  shop/app:1.0\nb: >-\n  shop/app:1.0\n", "a: !!str shop/app:1.0\r\nb: shop/app:1.0\r\n---\nc: shop/app:1.0 # shop/app:1.0\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		before, err := decodeAll(text)
		if err != nil {
			return
		}
		r := rewriter()
		got := r.structure(text, "p")
		if len(r.Changes) == 0 && got != text {
			t.Fatalf("%q became %q, and nothing is said", text, got)
		}
		after, err := decodeAll(got)
		if err != nil {
			t.Fatalf("%q became %q: %v", text, got, err)
		}
		if !sameButReferences(before, after) {
			t.Fatalf("%q became %q", text, got)
		}
	})
}

func decodeAll(text string) ([]any, error) {
	nodes, err := parseAll(text)
	if err != nil {
		return nil, err
	}
	all := []any{}
	for _, node := range nodes {
		var v any
		if err := node.Decode(&v); err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}

func named(m map[any]any) map[string]any {
	out := map[string]any{}
	for key, value := range m {
		out[fmt.Sprintf("%T %v", key, key)] = value
	}
	return out
}

func sameButReferences(before, after any) bool {
	switch before := before.(type) {
	case map[any]any: // keys that are no texts
		after, ok := after.(map[any]any)
		return ok && sameButReferences(named(before), named(after))
	case map[string]any:
		after, ok := after.(map[string]any)
		if !ok || len(before) != len(after) {
			return false
		}
		for key := range before {
			if !sameButReferences(before[key], after[key]) {
				return false
			}
		}
		return true
	case []any:
		after, ok := after.([]any)
		if !ok || len(before) != len(after) {
			return false
		}
		for i := range before {
			if !sameButReferences(before[i], after[i]) {
				return false
			}
		}
		return true
	case string:
		text, ok := after.(string)
		return ok && (text == before || strings.Contains(text, "site.example/b@sha256:"))
	}
	return reflect.DeepEqual(before, after) || fmt.Sprint(before) == fmt.Sprint(after) // NaN is not itself
}
