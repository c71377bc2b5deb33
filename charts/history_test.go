package charts

import (
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/release"
)

func TestDecide(t *testing.T) {
	for _, test := range []struct {
		history string
		want    Step
	}{
		{"", StepInstall},
		{"uninstalled", StepInstall},
		{"deployed uninstalled", StepInstall},
		{"superseded superseded uninstalled", StepInstall},
		{"failed", StepReplace},
		{"failed failed", StepReplace},
		{"pending-install", StepReplace}, // which the caller has found dead
		{"uninstalled failed", StepReplace},
		{"superseded uninstalled failed", StepReplace},
		{"deployed", StepUpgrade},
		{"deployed failed", StepUpgrade},
		{"failed deployed", StepUpgrade},
		{"superseded", StepUpgrade},
		{"superseded failed", StepUpgrade},
		{"superseded pending-upgrade", StepUpgrade},
		{"uninstalled superseded failed failed", StepUpgrade},
	} {
		var statuses []release.Status
		for _, status := range strings.Fields(test.history) {
			statuses = append(statuses, release.Status(status))
		}
		if got := decide(statuses); got != test.want {
			t.Errorf("after %q: %s, want %s", test.history, got, test.want)
		}
	}
}

func TestBaseIsWhatHelmUpgradesFrom(t *testing.T) {
	for history, want := range map[string]int{
		"":                             0,
		"deployed":                     1,
		"superseded deployed failed":   2,
		"superseded superseded failed": 3,
		"failed":                       1,
		"deployed uninstalled":         0,
	} {
		var releases []*release.Release
		for i, status := range strings.Fields(history) {
			releases = append(releases, &release.Release{Version: i + 1, Info: &release.Info{Status: release.Status(status)}})
		}
		got := 0
		if from := base(releases); from != nil {
			got = from.Version
		}
		if got != want {
			t.Errorf("after %q: from revision %d, want %d", history, got, want)
		}
	}
}

func TestFail(t *testing.T) {
	o := newOnCluster(t)
	chart := packedChart(t, "1.0.0", map[string]string{"templates/settings.yaml": settingsTemplate})
	o.put("shop", chart, release.StatusSuperseded, release.StatusDeployed, release.StatusPendingUpgrade, release.StatusFailed)
	for number, want := range map[int]bool{1: false, 2: true, 3: true, 4: true, 5: false} {
		err := o.Fail(t.Context(), o.namespace, "shop", number, "its maker is gone")
		if (err == nil) != want {
			t.Errorf("revision %d: %v", number, err)
		}
	}
	if got, want := o.statuses(), "superseded failed failed failed"; got != want {
		t.Errorf("history is %q, want %q", got, want)
	}
	history, err := o.History(t.Context(), o.namespace, "shop")
	if err != nil {
		t.Fatal(err)
	}
	if got := history[2]; got.Description != "its maker is gone" || got.Chart != "shop" || got.Version != "1.0.0" {
		t.Errorf("revision 3 is %+v", got)
	}
}
