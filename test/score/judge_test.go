package main

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"waybill/charts"
	"waybill/charts/images"
)

func TestCompare(t *testing.T) {
	no := false
	where := func(where string) []struct {
		Where string `json:"where"`
	} {
		return []struct {
			Where string `json:"where"`
		}{{where}}
	}
	e := entry{Name: "shop", Images: []listed{
		{Canonical: "docker.io/shop/pod:1", Scope: "default", Found: where("pod spec")},
		{Canonical: "docker.io/shop/arg:1", Scope: "default", Found: where("arg")},
		{Canonical: "docker.io/shop/config:1", Scope: "default", Found: where("configmap")},
		{Canonical: "docker.io/shop/missed:1", Scope: "default", Found: where("env")},
		{Canonical: "docker.io/shop/half:1", Scope: "default", Found: where("env"), Discoverable: &no},
		{Canonical: "docker.io/shop/off:1", Scope: "disabled", Found: where("default-disabled in values")},
	}}
	found := func(name string, sure images.Confidence) charts.FoundImage {
		return charts.FoundImage{Normalized: name, Confidence: sure, Uses: []charts.RenderedUse{{Use: images.Use{Reference: name}}}}
	}
	s := compare(e, []charts.FoundImage{
		found("docker.io/shop/pod:1", images.Certain),
		found("docker.io/shop/arg:1", images.Candidate),
		found("docker.io/shop/config:1", images.Candidate),
		found("docker.io/shop/off:1", images.Certain),
		found("docker.io/shop/none:1", images.Recognised),
		found("docker.io/shop/maybe:1", images.Candidate),
	})
	want := []int{1, 3, 3, 4, 1, 2, 3}
	if diff := cmp.Diff(want, []int{s.plainFound, s.plain, s.allFound, s.all, s.wrong, s.claimed, s.candidates}); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"shop: docker.io/shop/arg:1 is a candidate only", "shop: docker.io/shop/missed:1"}, s.missed); diff != "" {
		t.Error(diff)
	}
	if s.good() {
		t.Error("that is called good")
	}
}

func TestAChartThatDoesNotRenderHasFoundNothing(t *testing.T) {
	e := entry{File: "none.tgz", Name: "none", Images: []listed{{Canonical: "docker.io/shop/pod:1", Scope: "default"}}}
	if s := (index{}).judge(t.TempDir(), e); s.failed == "" || s.all != 1 || s.allFound != 0 {
		t.Errorf("%+v", s)
	}
}

// The charts that were handed over, where they are.
func TestScoreOfRealCharts(t *testing.T) {
	const folder = "../../../shared/charts"
	if _, err := os.Stat(folder); err != nil {
		t.Skip("the charts are not there")
	}
	total, err := run(folder, false)
	if err != nil {
		t.Fatal(err)
	}
	if !total.good() || total.all < 90 {
		t.Errorf("%d of %d, %d of %d, %d of %d wrong", total.plainFound, total.plain, total.allFound, total.all, total.wrong, total.claimed)
	}
}
