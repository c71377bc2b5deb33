package rollout

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
)

// fromFile is the request of the same release from a release file.
func fromFile(req Request, text string) Request {
	f := ReleaseFile{Release: req.Source.Release, Lock: req.Source.Lock, Data: []byte(text), LockData: []byte("lock of " + text), Charts: map[string][]byte{}}
	for _, c := range req.Source.Release.Components {
		f.Charts[c.Name] = []byte(c.Name)
	}
	req.Source = FromReleaseFile(f)
	req.Source.Location = "release.yaml"
	return req
}

// A release file is recorded as what it is, done again it writes nothing, and
// going between it and a bundle of the same charts touches no component.
func TestReleaseFileAndBundle(t *testing.T) {
	w := newWorld(t)
	of := request("1.0.0", part("web", "db"), part("db"))
	file := fromFile(of, "release file")
	w.mustInstall(file)
	rec := w.record("shop")
	if rec.Bundle != "" || rec.ReleaseFile != digest.FromString("release file") || rec.Lock != digest.FromString("lock of release file") ||
		rec.Signer != "none (release file)" || rec.Verification != "none" || rec.Location != "release.yaml" {
		t.Errorf("record is %+v", rec)
	}
	status, err := w.runner.Status(context.Background(), "shop")
	if err != nil || status.Bundle != "" || status.ReleaseFile != rec.ReleaseFile || status.Lock != rec.Lock || status.Signer != rec.Signer {
		t.Errorf("status is %+v, %v", status, err)
	}

	w.charts.taken()
	w.writes()
	if out := w.mustInstall(file); out.Status != StatusUnchanged || len(w.charts.taken())+len(w.writes()) > 0 {
		t.Errorf("the second install did something: %+v", out)
	}

	for _, step := range []struct {
		req    Request
		reason string
	}{
		{of, "from a bundle, no longer from a release file"},
		{file, "from a release file, no longer from a bundle"},
		{fromFile(of, "another file"), "another release file or lock"},
	} {
		plan, err := w.runner.Plan(context.Background(), step.req)
		if err != nil || !slices.Equal(plan.Reasons, []string{step.reason}) {
			t.Errorf("plan is %+v, %v, want reason %q", plan, err, step.reason)
		}
		out := w.mustInstall(step.req)
		if got := outcomes(out); !slices.Equal(got, []string{"db unchanged", "web unchanged"}) || len(w.charts.taken()) > 0 {
			t.Errorf("%s: outcomes are %q", step.reason, got)
		}
	}
	attempts, err := w.runner.History(context.Background(), "shop")
	if err != nil || len(attempts) != 4 || attempts[1].Bundle != of.Source.Bundle || attempts[1].Signer != "vendor.pub" ||
		attempts[2].Bundle != "" || attempts[2].ReleaseFile != file.Source.ReleaseFile || attempts[2].Lock != file.Source.LockFile {
		t.Errorf("history is %+v, %v", attempts, err)
	}
}

// A run from a release file that was killed heals as any other.
func TestReleaseFileHeals(t *testing.T) {
	w := newWorld(t)
	req := fromFile(request("1.0.0", part("db"), part("web", "db")), "release file")
	killed(t, w, req)
	w.runner.now = func() time.Time { return time.Now().Add(31 * time.Second) }
	out := w.mustInstall(req)
	if got := outcomes(out); len(out.Healed) != 1 || !slices.Equal(got, []string{"db unchanged", "web done"}) {
		t.Errorf("healed %+v, outcomes %q", out.Healed, got)
	}
}

// A chart that was not fetched is an error and no empty chart.
func TestReleaseFileWithoutAChart(t *testing.T) {
	req := fromFile(request("1.0.0", part("db"), part("web")), "release file")
	source := FromReleaseFile(ReleaseFile{Release: req.Source.Release, Lock: req.Source.Lock})
	if _, err := source.Charts.Chart(context.Background(), "web"); err == nil {
		t.Error("there was a chart")
	}
	w := newWorld(t)
	req.Source.Charts = source.Charts
	if _, err := w.install(req); err == nil || errors.As(err, new(*PartialError)) {
		t.Errorf("error is %v, want one before the first change", err)
	}
	if writes := w.writes(); len(writes) > 0 {
		t.Errorf("writes are %q", writes)
	}
}
