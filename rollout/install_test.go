package rollout

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"waybill/bundle"
)

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func TestFirstInstall(t *testing.T) {
	w := newWorld(t, namespace("there"))
	other := part("other")
	other.Namespace = "there"
	out := w.mustInstall(request("1.0.0", part("web", "db"), part("db"), other))

	if diff := cmp.Diff([]string{"db done", "web done", "other done"}, outcomes(out)); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
	if out.Status != StatusDone || out.Revision != 1 || !slices.Equal(out.Namespaces, []string{"apps"}) {
		t.Errorf("outcome is %+v", out)
	}
	calls := w.charts.taken()
	if slices.Index(calls, "apply db") > slices.Index(calls, "apply web") || len(calls) != 3 {
		t.Errorf("calls are %q, want db before web", calls)
	}
	writes := w.writes()
	for _, want := range []string{"create namespaces/waybill-system", "create leases/waybill.shop", "create secrets/waybill.shop.v1", "create namespaces/apps"} {
		if !slices.Contains(writes, want) {
			t.Errorf("writes lack %q: %q", want, writes)
		}
	}
	if slices.Contains(writes, "create namespaces/there") || slices.Contains(writes, "update namespaces/there") {
		t.Errorf("a namespace that was there was touched: %q", writes)
	}
	ns, err := w.client.CoreV1().Namespaces().Get(context.Background(), "apps", metav1.GetOptions{})
	if err != nil || ns.Labels[LabelInstance] != "shop" {
		t.Errorf("namespace apps: %v, labels %v", err, ns.Labels)
	}
	lease, err := w.client.CoordinationV1().Leases(DefaultStateNamespace).Get(context.Background(), "waybill.shop", metav1.GetOptions{})
	if err != nil || holderOf("shop", lease) != nil {
		t.Errorf("the lease was not given back: %v, %v", err, lease)
	}
}

func TestRecord(t *testing.T) {
	w := newWorld(t)
	w.mustInstall(withSite(request("1.0.0", part("web")), bundle.Site{Site: "berlin-1"}))
	secret, err := w.client.CoreV1().Secrets(DefaultStateNamespace).Get(context.Background(), "waybill.shop.v1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if secret.Type != "waybill/record.v1" {
		t.Errorf("type is %s", secret.Type)
	}
	want := map[string]string{"waybill/instance": "shop", "waybill/release": "shop", "waybill/status": "done"}
	if diff := cmp.Diff(want, secret.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	rec := w.record("shop")
	if rec.Bundle != digest.FromString("bundle 1.0.0") || rec.Signer != "vendor.pub" || rec.Site != "berlin-1" || rec.Ended == nil ||
		!strings.Contains(rec.SiteFile, "berlin-1") || rec.ClusterVersion != w.charts.caps.Version || rec.Holder != "tester" {
		t.Errorf("record is %+v", rec)
	}
	c := rec.component("web")
	if c.Outcome != OutcomeDone || !c.Ready || c.HelmBefore != 0 || c.HelmAfter != 1 || c.ChartDigest != digest.FromString("web1.0.0") || c.Values == "" {
		t.Errorf("component is %+v", c)
	}
}

func TestSecondInstallWritesNothing(t *testing.T) {
	w := newWorld(t)
	req := withSite(request("1.0.0", part("web"), part("db")), bundle.Site{Site: "berlin-1"})
	w.mustInstall(req)
	w.charts.taken()
	w.writes()
	out := w.mustInstall(req)
	if out.Status != StatusUnchanged || out.Revision != 1 {
		t.Errorf("outcome is %+v", out)
	}
	if calls, writes := w.charts.taken(), w.writes(); len(calls) > 0 || len(writes) > 0 {
		t.Errorf("calls %q, writes %q, want none", calls, writes)
	}
}

// What makes a component be upgraded, and what only makes a new record.
func TestChange(t *testing.T) {
	tests := map[string]struct {
		change func(w *world, req *Request)
		calls  []string
		reason string // of web in the plan
		status string
	}{
		"chart": {func(_ *world, req *Request) {
			req.Source.Lock.Charts[0].Content = digest.FromString("other")
		}, []string{"apply web"}, "chart: other content", StatusDone},
		"values": {func(_ *world, req *Request) {
			req.Values = map[string][]Layer{"web": {{Name: "--set", Set: "replicas=3"}}}
		}, []string{"apply web"}, "values", StatusDone},
		"images": {func(_ *world, req *Request) {
			req.Source.Lock.Packed, req.Images = bundle.PackedImages, Images{Repository: "site.example/shop"}
		}, []string{"apply db", "apply web"}, "images", StatusDone},
		"cluster, and it renders otherwise": {func(w *world, _ *Request) {
			w.charts.caps.Digest = digest.FromString("1.35")
			w.charts.previews["web"] = Preview{Changed: true}
		}, []string{"apply web"}, "the cluster's version or kinds", StatusDone},
		"cluster, and it renders the same": {func(w *world, _ *Request) {
			w.charts.caps.Digest = digest.FromString("1.35")
		}, nil, "", StatusUnchanged},
		"somebody upgraded it with helm": {func(w *world, _ *Request) {
			labels := w.charts.histories["apps/web"][0].Labels
			w.charts.histories["apps/web"] = []HelmRevision{{Number: 1, Status: helmSuperseded, Labels: labels}, {Number: 2, Status: helmDeployed, Labels: labels}}
		}, []string{"apply web"}, "somebody moved the Helm release from revision 1 to 2", StatusDone},
		"somebody uninstalled it with helm": {func(w *world, _ *Request) {
			delete(w.charts.histories, "apps/web")
		}, []string{"apply web"}, "its Helm release is gone", StatusDone},
		"another bundle with the same charts": {func(_ *world, req *Request) {
			req.Source.Bundle = digest.FromString("signed anew")
		}, nil, "", StatusDone},
		"another site file with the same values": {func(_ *world, req *Request) {
			*req = withSite(*req, bundle.Site{Site: "berlin-1"})
		}, nil, "", StatusDone},
		"nothing": {func(*world, *Request) {}, nil, "", StatusUnchanged},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.mustInstall(request("1.0.0", part("web"), part("db")))
			w.charts.taken()
			req := request("1.0.0", part("web"), part("db"))
			test.change(w, &req)
			plan, err := w.runner.Plan(context.Background(), req)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(plan.Components[0].Reasons, ", "); got != test.reason {
				t.Errorf("reason is %q, want %q", got, test.reason)
			}
			if plan.Change != (test.status == StatusDone) {
				t.Errorf("plan.Change is %t", plan.Change)
			}
			out := w.mustInstall(req)
			calls := w.charts.taken()
			slices.Sort(calls)
			if diff := cmp.Diff(test.calls, calls); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			if out.Status != test.status {
				t.Errorf("status is %s, want %s", out.Status, test.status)
			}
			if again := w.mustInstall(req); again.Status != StatusUnchanged {
				t.Errorf("the install after it is %s: %q", again.Status, w.charts.taken())
			}
		})
	}
}

func TestSubset(t *testing.T) {
	w := newWorld(t)
	req := request("1.0.0", part("db"), part("web", "db"), part("job"))
	req.Components = []string{"web"}
	_, err := w.install(req)
	if got := codes(t, err); !slices.Equal(got, []string{"needs"}) {
		t.Errorf("refusals are %q, want needs", got)
	}
	req.Components = []string{"db"}
	out := w.mustInstall(req)
	if diff := cmp.Diff([]string{"db done", "web not selected", "job not selected"}, outcomes(out)); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
	req.Components = []string{"web"}
	out = w.mustInstall(req)
	if diff := cmp.Diff([]string{"db kept", "web done", "job not selected"}, outcomes(out)); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
	if rec := w.record("shop"); !rec.component("db").Ready || !rec.component("web").Ready || rec.component("job").Ready {
		t.Errorf("record is %+v", rec.Components)
	}
}

func TestNamesThatAreNot(t *testing.T) {
	tests := map[string]struct {
		change func(*Request)
		want   UnknownError
	}{
		"component": {func(r *Request) { r.Components = []string{"wep"} },
			UnknownError{What: "component", Name: "wep", Nearest: "web", Known: []string{"db", "web"}}},
		"site file": {func(r *Request) {
			r.Site = &bundle.Site{Components: map[string]bundle.SiteComponent{"dbs": {}}}
		}, UnknownError{What: "component", Name: "dbs", Where: "site file", Nearest: "db", Known: []string{"db", "web"}}},
		"values": {func(r *Request) { r.Values = map[string][]Layer{"webb": nil} },
			UnknownError{What: "component", Name: "webb", Where: "values", Nearest: "web", Known: []string{"db", "web"}}},
		"profile": {func(r *Request) {
			r.Source.Release.Components[0].Profiles = []bundle.Profile{{Name: "ha"}, {Name: "small"}}
			r.Site = &bundle.Site{Components: map[string]bundle.SiteComponent{"web": {Profile: "smal"}}}
		}, UnknownError{What: "profile", Name: "smal", Where: "site file, component web", Nearest: "small", Known: []string{"ha", "small"}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			req := request("1.0.0", part("web"), part("db"))
			test.change(&req)
			_, err := newWorld(t).runner.Plan(context.Background(), req)
			var unknown *UnknownError
			if !errors.As(err, &unknown) {
				t.Fatalf("error is %v", err)
			}
			if diff := cmp.Diff(test.want, *unknown); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDisabledSatisfiesNeeds(t *testing.T) {
	w := newWorld(t)
	no := false
	out := w.mustInstall(withSite(request("1.0.0", part("db"), part("web", "db")), bundle.Site{Components: map[string]bundle.SiteComponent{"db": {Enabled: &no}}}))
	if diff := cmp.Diff([]string{"db disabled", "web done"}, outcomes(out)); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
	if calls := w.charts.taken(); !slices.Equal(calls, []string{"apply web"}) {
		t.Errorf("calls are %q", calls)
	}
}

func TestDowngrade(t *testing.T) {
	w := newWorld(t)
	w.mustInstall(request("1.10.0", part("web")))
	old := request("1.9.0", part("web"))
	_, err := w.install(old)
	var down *DowngradeError
	if !errors.As(err, &down) || down.Installed != "1.10.0" || down.Wanted != "1.9.0" {
		t.Fatalf("error is %v", err)
	}
	old.AllowDowngrade = true
	w.mustInstall(old)
	w.mustInstall(request("1.9.0", part("web"))) // what stands now is no newer
}

// What is left after each policy, when b of a, b, c, d fails, c needs b and d
// needs nothing: first as a first install, then as an upgrade.
func TestOnFailure(t *testing.T) {
	tests := map[string]struct {
		policy           string
		first, upgrade   []string // outcomes
		firstCalls, back []string // calls other than apply
	}{
		"stop": {OnFailureStop,
			[]string{"a done", "b failed", "c skipped", "d skipped"}, []string{"a done", "b failed", "c skipped", "d skipped"},
			[]string{"take back b"}, []string{"rollback b 1"}},
		"rollback": {OnFailureRollback,
			[]string{"a taken back", "b failed", "c skipped", "d skipped"}, []string{"a taken back", "b failed", "c skipped", "d skipped"},
			[]string{"take back b", "take back a", "fail a 1"}, []string{"rollback b 1", "rollback a 1"}},
		"continue": {OnFailureContinue,
			[]string{"a done", "b failed", "c skipped", "d done"}, []string{"a done", "b failed", "c skipped", "d done"},
			[]string{"take back b"}, []string{"rollback b 1"}},
		"leave": {OnFailureLeave,
			[]string{"a done", "b failed", "c skipped", "d skipped"}, []string{"a done", "b failed", "c skipped", "d skipped"}, nil, nil},
	}
	parts := []bundle.Component{part("a"), part("b", "a"), part("c", "b"), part("d", "a")}
	for name, test := range tests {
		for _, upgrade := range []bool{false, true} {
			t.Run(name+map[bool]string{false: " first", true: " upgrade"}[upgrade], func(t *testing.T) {
				w := newWorld(t)
				version, want, back := "1.0.0", test.first, test.firstCalls
				if upgrade {
					w.mustInstall(request(version, parts...))
					version, want, back = "2.0.0", test.upgrade, test.back
				}
				w.charts.taken()
				w.charts.fail["b"] = errors.New("deployment b: image missing")
				req := request(version, parts...)
				req.OnFailure, req.Concurrency = test.policy, 1
				out, err := w.install(req)
				var partial *PartialError
				if !errors.As(err, &partial) || partial.Outcome != out || !strings.Contains(err.Error(), "component b: deployment b: image missing") {
					t.Fatalf("error is %v", err)
				}
				if diff := cmp.Diff(want, outcomes(out)); diff != "" {
					t.Errorf("outcomes (-want +got):\n%s", diff)
				}
				calls := slices.DeleteFunc(w.charts.taken(), func(c string) bool { return strings.HasPrefix(c, "apply") })
				if diff := cmp.Diff(back, calls, cmpEmpty); diff != "" {
					t.Errorf("calls (-want +got):\n%s", diff)
				}
				if c := out.Components[2]; c.Reason != "needs b, which failed" || !slices.Equal(c.WaitedOn, []string{"b"}) {
					t.Errorf("c says %q, waited on %q", c.Reason, c.WaitedOn)
				}
				if rec := w.record("shop"); rec.Status != StatusFailed || rec.component("b").Outcome != OutcomeFailed {
					t.Errorf("record is %s, b %s", rec.Status, rec.component("b").Outcome)
				}
				delete(w.charts.fail, "b")
				if out := w.mustInstall(request(version, parts...)); out.Status != StatusDone {
					t.Errorf("the next install is %s", out.Status)
				}
				if out := w.mustInstall(request(version, parts...)); out.Status != StatusUnchanged {
					t.Errorf("the one after it is %s", out.Status)
				}
			})
		}
	}
}

var cmpEmpty = cmp.Transformer("empty", func(s []string) []string { return append([]string{}, s...) })

// After a failed upgrade that was rolled back, what stands is the old
// version: going on with it is no downgrade and changes nothing in Helm.
func TestRolledBackIsWhatStands(t *testing.T) {
	w := newWorld(t)
	w.mustInstall(request("1.0.0", part("web")))
	w.charts.fail["web"] = errors.New("broken")
	if _, err := w.install(request("2.0.0", part("web"))); err == nil {
		t.Fatal("the broken upgrade went well")
	}
	delete(w.charts.fail, "web")
	w.charts.taken()
	out := w.mustInstall(request("1.0.0", part("web")))
	if calls := w.charts.taken(); len(calls) > 0 || out.Components[0].Outcome != OutcomeUnchanged {
		t.Errorf("calls are %q, outcome %+v", calls, out.Components)
	}
}

func TestTakingBackFails(t *testing.T) {
	w := newWorld(t)
	w.mustInstall(request("1.0.0", part("web")))
	w.charts.fail["web"], w.charts.failBack["web"] = errors.New("broken"), errors.New("no way back")
	_, err := w.install(request("2.0.0", part("web")))
	if err == nil || !strings.Contains(err.Error(), "broken") || !strings.Contains(err.Error(), "no way back") {
		t.Fatalf("error is %v, want both causes", err)
	}
	if c := w.record("shop").component("web"); c.Ready || c.Outcome != OutcomeFailed {
		t.Errorf("component is %+v", c)
	}
}

func TestHistoryMax(t *testing.T) {
	w := newWorld(t)
	for _, v := range []string{"1.0.0", "1.1.0", "1.2.0", "1.3.0"} {
		w.mustInstall(withSite(request(v, part("web")), bundle.Site{HistoryMax: 2}))
	}
	attempts, err := w.runner.History(context.Background(), "shop")
	if err != nil {
		t.Fatal(err)
	}
	var got []int
	for _, a := range attempts {
		got = append(got, a.Revision)
	}
	if !slices.Equal(got, []int{3, 4}) {
		t.Errorf("revisions are %v, want 3 and 4", got)
	}
}
