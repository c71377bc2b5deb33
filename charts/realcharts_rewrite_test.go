package charts

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"waybill/charts/images"
)

// Rewriting changes nothing but texts that are references, and what it leaves of
// them it says.
func TestRealChartsKeepAllButTheirImages(t *testing.T) {
	dir, list := realCharts(t)
	for _, entry := range list {
		t.Run(entry.Name, func(t *testing.T) {
			if !entry.renders() || !entry.deterministic() || entry.Unvendored != nil {
				t.Skip("cannot be rendered twice alike")
			}
			archive, err := os.ReadFile(filepath.Join(dir, entry.File))
			if err != nil {
				t.Fatal(err)
			}
			chart, err := Open(archive)
			if err != nil {
				t.Fatal(err)
			}
			values, err := Merge(setLayers(entry.Render.Set)...)
			if err != nil {
				t.Fatal(err)
			}
			options := RenderOptions{KubeVersion: "1.33.0", Values: values}
			before, err := chart.Render(options)
			if err != nil {
				t.Fatal(err)
			}
			locked := map[string]bool{}
			for _, use := range before.look().Uses {
				locked[use.Normalized] = use.Confidence != images.Candidate
			}
			options.Locate = func(reference string) (string, bool) { return relocated + strings.Repeat("5", 64), locked[reference] }
			after, err := chart.Render(options)
			if err != nil {
				t.Fatal(err)
			}
			changed := 0
			sameButImages(t, "", contents(before), contents(after), &changed)
			said := map[string]bool{}
			for _, use := range slices.Concat(after.rewritten.Left, after.rewritten.Stuck) {
				said[use.Object+" "+use.Reference] = true
			}
			for _, use := range after.look().Uses {
				ofAChart := !strings.Contains(use.Object, "/") || strings.HasSuffix(use.Object, ".yaml")
				if locked[use.Normalized] && !ofAChart && !said[use.Object+" "+use.Reference] {
					t.Errorf("%s %s is still %s", use.Object, use.Path, use.Reference)
				}
			}
			t.Logf("%d texts changed; left: %+v; stuck: %+v", changed, after.rewritten.Left, after.rewritten.Stuck)
		})
	}
}

func contents(r *Rendered) []any {
	var all []any
	for _, o := range r.everyObject() {
		all = append(all, o.Content)
	}
	return all
}

func sameButImages(t *testing.T, path string, before, after any, changed *int) {
	t.Helper()
	switch before := before.(type) {
	case map[string]any:
		after, _ := after.(map[string]any)
		if len(before) != len(after) {
			t.Errorf("%s has other keys", path)
		}
		for key := range before {
			sameButImages(t, path+"."+key, before[key], after[key], changed)
		}
	case []any:
		after, _ := after.([]any)
		if len(before) != len(after) {
			t.Fatalf("%s has %d items, had %d", path, len(after), len(before))
		}
		for i := range before {
			sameButImages(t, fmt.Sprintf("%s[%d]", path, i), before[i], after[i], changed)
		}
	case string:
		if text, _ := after.(string); text != before {
			*changed++
			if !strings.Contains(text, relocated) {
				t.Errorf("%s was %q and is %q", path, before, text)
			}
		}
	default:
		if !reflect.DeepEqual(before, after) {
			t.Errorf("%s was %v and is %v", path, before, after)
		}
	}
}
