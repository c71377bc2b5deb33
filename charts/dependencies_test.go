package charts

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDependencies(t *testing.T) {
	chart := func(dependencies, values string) string {
		return "-- Chart.yaml --\napiVersion: v2\nname: shop\nversion: 1.0.0\ndependencies:\n" + dependencies + "-- values.yaml --\n" + values
	}
	tests := map[string]struct {
		chart string
		want  string // of the error, empty for none
	}{
		"misspelt key": {
			chart("- {name: db, version: 1.x, repostitory: https://charts.example}\n", ""),
			`chart shop 1.0.0 needs what its charts/ folder lacks: db 1.x; Chart.yaml: dependency db: unknown key "repostitory", did you mean "repository"?`,
		},
		"another word": {
			chart("- {name: db, version: 1.x, url: https://charts.example}\n", ""),
			`chart shop 1.0.0 needs what its charts/ folder lacks: db 1.x; Chart.yaml: dependency db: unknown key "url", did you mean "repository"?`,
		},
		"absent and switched off by its condition": {
			chart("- {name: db, version: 1.x, condition: db.enabled}\n", "db: {enabled: false}\n"), "",
		},
		"absent and switched off by its tag": {
			chart("- {name: db, version: 1.x, tags: [backend]}\n", "tags: {backend: false}\n"), "",
		},
		"absent, condition over tag": {
			chart("- {name: db, version: 1.x, tags: [backend], condition: db.enabled}\n", "tags: {backend: false}\ndb: {enabled: true}\n"),
			`chart shop 1.0.0 needs what its charts/ folder lacks: db 1.x; put them there, or name a repository in Chart.yaml`,
		},
		"in an old chart's requirements.yaml": {
			"-- Chart.yaml --\napiVersion: v1\nname: shop\nversion: 1.0.0\n-- requirements.yaml --\ndependencies:\n- {name: db, version: 1.x, repositry: x}\n",
			`chart shop 1.0.0 needs what its charts/ folder lacks: db 1.x; requirements.yaml: dependency db: unknown key "repositry", did you mean "repository"?`,
		},
		"vendored as a folder": {
			chart("- {name: db, version: 1.x}\n", "") + "-- charts/db/Chart.yaml --\napiVersion: v2\nname: db\nversion: 1.1.0\n", "",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Resolve(context.Background(), writeFolder(t, test.chart), Source{Path: "."}, ResolveOptions{})
			if test.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			var dependency *DependencyError
			if !errors.As(err, &dependency) {
				t.Fatalf("got %v, want a DependencyError", err)
			}
			if diff := cmp.Diff(test.want, err.Error()); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("absent and switched on by the values", func(t *testing.T) {
		c := fromText(t, tests["absent and switched off by its condition"].chart)
		if _, err := c.Render(RenderOptions{}); err != nil {
			t.Errorf("switched off: %v", err)
		}
		_, err := c.Render(RenderOptions{Values: map[string]any{"db": map[string]any{"enabled": true}}})
		var dependency *DependencyError
		if !errors.As(err, &dependency) {
			t.Errorf("switched on: got %v, want a DependencyError", err)
		}
	})
}
