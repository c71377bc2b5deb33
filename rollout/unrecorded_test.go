package rollout

import (
	"strings"
	"testing"
)

// An instance whose Helm releases are there and whose record is not may be
// kept in another state namespace: the plan says so.
func TestUnrecordedInstanceIsSaid(t *testing.T) {
	w := newWorld(t, namespace("apps"))
	req := request("1.0.0", part("web"))
	w.mustInstall(req)

	elsewhere := w.runnerOf("tester")
	elsewhere.stateNamespace = "elsewhere"
	plan, err := elsewhere.Plan(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if len(plan.Warnings) != 1 || !strings.Contains(plan.Warnings[0], "--state-namespace") {
		t.Errorf("warnings: %q", plan.Warnings)
	}
	plan, err = w.runner.Plan(t.Context(), req)
	if err != nil || len(plan.Warnings) > 0 {
		t.Errorf("where it is recorded: %v, warnings %q", err, plan.Warnings)
	}
}
