package rollout

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"waybill/bundle"
)

// An interruption leaves a failed revision, not a pending one, puts nothing
// back, and the next install goes on.
func TestInterrupted(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(context.Background())
	w.charts.onApply = func(ctx context.Context, _ HelmComponent) error {
		cancel()
		<-ctx.Done()
		return ctx.Err()
	}
	out, err := w.runner.Install(ctx, request("1.0.0", part("db"), part("web", "db")))
	var interrupted *InterruptedError
	if !errors.As(err, &interrupted) || !errors.Is(err, context.Canceled) {
		t.Fatalf("error is %v", err)
	}
	if diff := cmp.Diff([]string{"db interrupted", "web skipped"}, outcomes(out)); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"apply db", "fail db 1"}, w.charts.taken()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if rec := w.record("shop"); rec.Status != StatusInterrupted || rec.Ended == nil {
		t.Errorf("record is %+v", rec)
	}
	mark := w.charts.marks["db"]
	w.charts.onApply = nil
	if out := w.mustInstall(request("1.0.0", part("db"), part("web", "db"))); out.Status != StatusDone || out.Components[0].Action != ActionReplace {
		t.Errorf("the next install is %+v", out)
	}
	if w.charts.marks["db"] != mark {
		t.Errorf("objects of the first try carry %q, those of the second %q: one of them cannot be taken back", mark, w.charts.marks["db"])
	}
}

// killed runs an install that dies as web is at work: nothing is written any
// more, neither record nor Helm's history nor lease.
func killed(t *testing.T, w *world, req Request) {
	t.Helper()
	dead := w.runnerOf("dead")
	ctx, kill := context.WithCancel(context.Background())
	reached := make(chan struct{})
	w.charts.onApply = func(_ context.Context, c HelmComponent) error {
		if c.Name == "web" {
			close(reached)
			<-ctx.Done()
			return errors.New("killed")
		}
		return nil
	}
	a, err := dead.analyse(ctx, &req, lookOptions{})
	if err != nil {
		t.Fatal(err)
	}
	lease, _, err := dead.leases(DefaultStateNamespace).acquire(ctx, a.instance, 0)
	if err != nil {
		t.Fatal(err)
	}
	held, cancel := context.WithCancelCause(ctx)
	h := &holding{hold: hold{namespace: DefaultStateNamespace, instance: a.instance}, keeper: &keeper{lease: lease}, fail: func(err error) { cancel(&gaveUp{err}) }}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = dead.installHeld(held, h, &req)
	}()
	<-reached
	h.fail(ErrLeaseLost) // stops every further write, as death would
	kill()
	<-ended
	w.charts.onApply = nil
	w.charts.taken()
}

func TestKilledRunHeals(t *testing.T) {
	for name, upgrade := range map[string]bool{"first install": false, "upgrade": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			parts := []bundle.Component{part("db"), part("web", "db"), part("job", "web")}
			req := request("1.0.0", parts...)
			if upgrade {
				w.mustInstall(req)
				req = request("2.0.0", parts...)
			}
			killed(t, w, req)
			if rec := w.record("shop"); rec.Status != StatusRunning || rec.component("db").Outcome != OutcomeDone || rec.component("web").Outcome != OutcomeRunning {
				t.Fatalf("the dead run left %+v", rec)
			}
			var held *HeldError
			if _, err := w.install(req); !errors.As(err, &held) || held.Holder != "dead" || held.Expires.Sub(held.Renewed) != 30*time.Second {
				t.Fatalf("before the lease runs out: %v", err)
			}
			w.runner.now = func() time.Time { return time.Now().Add(31 * time.Second) }
			status, err := w.runner.Status(context.Background(), "shop")
			if err != nil || status.Status != StatusDead {
				t.Errorf("status is %+v, %v", status, err)
			}
			number := last(w.charts.histories["apps/web"]).Number
			out := w.mustInstall(req)
			if want := []Heal{{Component: "web", HelmRelease: "web", Namespace: "apps", HelmRevision: number, Status: "pending-upgrade"}}; !slices.Equal(out.Healed, want) {
				t.Errorf("healed %+v, want %+v", out.Healed, want)
			}
			if diff := cmp.Diff([]string{"db unchanged", "web done", "job done"}, outcomes(out)); diff != "" {
				t.Errorf("outcomes (-want +got):\n%s", diff)
			}
			attempts, err := w.runner.History(context.Background(), "shop")
			if err != nil || attempts[len(attempts)-2].Status != StatusInterrupted || !strings.Contains(attempts[len(attempts)-2].Reason, "dead") {
				t.Errorf("history is %+v, %v", attempts, err)
			}
		})
	}
}

// A run that dies while it takes back what went well does not leave it
// recorded as ready.
func TestKilledWhileTakingBack(t *testing.T) {
	w := newWorld(t)
	w.charts.fail["b"] = errors.New("broken")
	w.charts.failBack["a"] = errors.New("killed")
	req := request("1.0.0", part("a"), part("b", "a"))
	req.OnFailure = OnFailureRollback
	out, err := w.install(req)
	if err == nil || len(out.Warnings) != 1 || !strings.Contains(out.Warnings[0], "component a: taking it back") {
		t.Fatalf("warnings are %q, error %v", out.Warnings, err)
	}
	if w.record("shop").component("a").Ready {
		t.Error("a is recorded as ready")
	}
}
