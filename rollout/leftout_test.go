package rollout

import (
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"waybill/bundle"
)

// A plan says which images nodes can't pull whole from the bundle.
func TestLeftOutLayersAreSaid(t *testing.T) {
	w := newWorld(t, namespace("apps"))
	req := request("1.0.0", part("web"))
	layer := digest.FromString("base of windows")
	req.Source.LeftOut = []bundle.LeftOutImage{{Reference: "mcr.example/agent:1", Layers: []digest.Digest{layer}}}
	plan, err := w.runner.Plan(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if len(plan.Warnings) != 1 || !strings.Contains(plan.Warnings[0], "mcr.example/agent:1") || !strings.Contains(plan.Warnings[0], layer.String()) {
		t.Errorf("warnings: %q", plan.Warnings)
	}
}
