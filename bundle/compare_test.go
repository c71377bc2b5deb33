package bundle

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReleaseDifferences(t *testing.T) {
	original := string(readTestdata(t, "release.yaml"))
	tests := []struct {
		name     string
		from, to string // in the text of the release file
		want     []string
	}{
		{"nothing", "", "", nil},
		{"a comment", "# The release", "# Our release", nil},
		{"the link to the bundle", "shape: flat", "shape: flat\nartifact: oci://r.example/shop@sha256:" + strings.Repeat("0", 64), nil},
		{"a key for anchors", "x-resources:", "x-other: 1\nx-resources:", nil},
		{"the version", "version: 1.4.0+build.7", "version: 1.4.0", []string{"version"}},
		{"a stage", "stages: [base, apps]", "stages: [base, apps, late]", []string{"stages"}},
		{"a value below another", "requests: {cpu: 100m}", "requests: {cpu: 200m}", []string{"component web: values.resources.requests.cpu"}},
		{"digits of a number", "id: 12345678901234567", "id: 12345678901234568", []string{"component web: values.id"}},
		{"a number for a text", `tag: "1e10"`, "tag: 1e10", []string{"component web: values.tag"}},
		{"a chart", "name: app\n", "name: app2\n", []string{"component web: chart.name"}},
		{"a component's name", "name: rules", "name: rule", []string{"component rule", "component rules"}},
		{"two things", "crds: skip\n    timeout: 1h30m", "crds: create", []string{"component db: crds", "component db: timeout"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if !strings.Contains(original, tt.from) {
				t.Fatalf("the release file has no %q", tt.from)
			}
			changed := mustRelease(t, strings.Replace(original, tt.from, tt.to, 1))
			if diff := cmp.Diff(tt.want, changed.Differences(mustRelease(t, original))); diff != "" {
				t.Errorf("differences (-want +got):\n%s", diff)
			}
		})
	}
	reordered := mustRelease(t, original)
	reordered.Components[0], reordered.Components[1] = reordered.Components[1], reordered.Components[0]
	if diff := cmp.Diff([]string{"the order of components"}, reordered.Differences(mustRelease(t, original))); diff != "" {
		t.Errorf("differences (-want +got):\n%s", diff)
	}
}
