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
