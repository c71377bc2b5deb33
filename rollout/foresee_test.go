package rollout

import (
	"slices"
	"strings"
	"testing"

	"waybill/bundle"
)

const widget = "example.com/v1 Widget"

// What asks for kinds is planned with those that components before it bring.
func TestPlansWithTheKindsOfEarlierComponents(t *testing.T) {
	brings := Preview{Changed: true, Brings: []string{widget}, Adds: []string{widget}}
	follows := Preview{Changed: true, Follows: []string{"crds"}}
	for name, tc := range map[string]struct {
		plain, foreseen Preview
		action          string
		after           string
		refusal         string
	}{
		"another rendering waits":              {Preview{Changed: true}, follows, ActionInstall, "crds", ""},
		"the same one does not":                {Preview{Changed: true}, Preview{Changed: true}, ActionInstall, "", ""},
		"one that does not render without":     {Preview{Missing: []string{doesNotRender}}, follows, ActionInstall, "crds", ""},
		"an image that only the kinds bring":   {Preview{Changed: true}, Preview{Follows: []string{"crds"}, Images: PreviewedImages{Unknown: []ImageUse{{Reference: "evil:1", Object: "Deployment/web"}}}}, ActionInstall, "crds", "unknown-image"},
		"a conflict of the first look is over": {Preview{Conflicts: []Conflict{{Object: "Widget a"}}}, follows, ActionInstall, "crds", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.charts.previews["crds"], w.charts.previews["web"], w.charts.foreseen["web"] = brings, tc.plain, tc.foreseen
			req := request("1.0.0", part("crds"), part("web"))
			req.Source.Lock.Packed, req.Images = bundle.PackedImages, Images{Repository: "site.example/r"}
			plan, err := w.runner.Plan(t.Context(), req)
			if plan == nil || (err != nil) != (tc.refusal != "") {
				t.Fatalf("plan %v, error %v", plan, err)
			}
			web := plan.Components[1]
			if web.Action != tc.action || strings.Join(web.After, ",") != tc.after {
				t.Errorf("web is %s after %q", web.Action, web.After)
			}
			if tc.refusal != "" && plan.Refusals[0].Code != tc.refusal {
				t.Errorf("refusals: %v", plan.Refusals)
			}
		})
	}
}

// A component that is the same is upgraded when another one begins to bring
// kinds it asks for, and the plan says so.
func TestUnchangedComponentsFollowNewKinds(t *testing.T) {
	w := newWorld(t)
	w.mustInstall(request("1.0.0", part("crds"), part("web")))
	w.charts.previews["crds"] = Preview{Changed: true, Brings: []string{widget}, Adds: []string{widget}}
	w.charts.foreseen["web"] = Preview{Changed: true, Follows: []string{"crds"}}
	next := request("1.0.0", part("crds"), part("web"))
	next.Source.Lock.Charts[0].Version = "1.1.0"
	next.Source.Lock.Charts[0].Content = digestA
	plan, err := w.runner.Plan(t.Context(), next)
	if err != nil {
		t.Fatal(err)
	}
	web := plan.Components[1]
	if web.Action != ActionUpgrade || !slices.Equal(web.Reasons, []string{"the kinds that crds brings"}) || !slices.Equal(web.After, []string{"crds"}) {
		t.Errorf("web is %+v", web)
	}
}

// What is rendered once more at the end, with the kinds of a later component, is
// held against the lock before anything begins.
func TestImagesOfTheLastRenderingAreCheckedFirst(t *testing.T) {
	w := newWorld(t)
	w.charts.previews["web"] = Preview{Changed: true}
	w.charts.foreseen["web"] = Preview{Follows: []string{"zcrds"}, Images: PreviewedImages{Unknown: []ImageUse{{Reference: "evil:1", Object: "Deployment/web"}}}}
	w.charts.previews["zcrds"] = Preview{Changed: true, Brings: []string{widget}, Adds: []string{widget}}
	req := request("1.0.0", part("web"), part("zcrds"))
	req.Source.Lock.Packed, req.Images = bundle.PackedImages, Images{Repository: "site.example/r"}
	plan, err := w.runner.Plan(t.Context(), req)
	if err == nil || len(plan.Refusals) != 1 || plan.Refusals[0].Code != "unknown-image" {
		t.Fatalf("refusals %v, error %v", plan.Refusals, err)
	}
	if got := plan.Components[0]; len(got.After) > 0 || !slices.Equal(got.Reasons, []string{"rendered once more after the kinds that zcrds brings"}) {
		t.Errorf("web is %+v", got)
	}
	if writes := w.writes(); len(writes) > 0 {
		t.Errorf("written: %q", writes)
	}
}

func TestChartThatNeverRendersIsAnError(t *testing.T) {
	w := newWorld(t)
	w.charts.previews["crds"] = Preview{Changed: true, Brings: []string{widget}, Adds: []string{widget}}
	w.charts.previews["web"] = Preview{Missing: []string{doesNotRender}}
	if _, err := w.runner.Plan(t.Context(), request("1.0.0", part("crds"), part("web"))); err == nil || err.Error() != "component web: previewing it: the chart does not render" {
		t.Errorf("error is %v", err)
	}
}
