package rollout

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"waybill/bundle"
)

// codes returns the codes of a RefusedError.
func codes(t *testing.T, err error) []string {
	t.Helper()
	var refused *RefusedError
	if !errors.As(err, &refused) {
		t.Fatalf("error is %v, want a RefusedError", err)
	}
	var out []string
	for _, r := range refused.Reasons {
		out = append(out, r.Code)
	}
	return out
}

func terminatingNamespace(name string) *corev1.Namespace {
	ns := namespace(name)
	ns.Status.Phase = corev1.NamespaceTerminating
	ns.Spec.Finalizers = []corev1.FinalizerName{"kubernetes"}
	ns.Status.Conditions = []corev1.NamespaceCondition{{
		Type: corev1.NamespaceFinalizersRemaining, Status: corev1.ConditionTrue,
		Message: "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances",
	}}
	return ns
}

// Everything that speaks against a plan, alone, with what the message has to
// name; nothing is written.
func TestRefusals(t *testing.T) {
	owned := map[string]string{LabelInstance: "shop", LabelComponent: "web"}
	tests := map[string]struct {
		objects []*corev1.Namespace
		before  func(w *world, req *Request) // on top of an installed 1.0.0 when installed is true
		code    string
		names   string
	}{
		"kubernetes range": {nil, func(_ *world, req *Request) { req.Source.Release.Kubernetes = ">=1.35" }, "kubernetes", "v1.34.4-eks-1a2b"},
		"site file for another release": {nil, func(_ *world, req *Request) {
			*req = withSite(*req, bundle.Site{Release: "other"})
		}, "site-release", "other"},
		"helm release without our labels": {nil, func(w *world, _ *Request) {
			w.charts.histories["apps/web"] = []HelmRevision{{Number: 1, Status: helmDeployed}}
		}, "helm-release", "was not installed by waybill"},
		"helm release without our labels, uninstalled": {nil, func(w *world, _ *Request) {
			w.charts.histories["apps/web"] = []HelmRevision{{Number: 1, Status: helmUninstalled}}
		}, "helm-release", "Helm release web in namespace apps"},
		"helm release of another instance": {nil, func(w *world, _ *Request) {
			w.charts.histories["apps/web"] = []HelmRevision{{Number: 1, Status: helmFailed, Labels: map[string]string{LabelInstance: "shop-2", LabelComponent: "web"}}}
		}, "helm-release", "belongs to instance shop-2"},
		"pending revision nobody names": {nil, func(w *world, _ *Request) {
			w.charts.histories["apps/web"] = []HelmRevision{{Number: 3, Status: "pending-install", Labels: owned}}
		}, "helm-pending", "revision 3 of Helm release web in namespace apps is pending-install"},
		"conflict": {nil, func(w *world, _ *Request) {
			w.charts.previews["web"] = Preview{Conflicts: []Conflict{{Object: "ConfigMap apps/settings", Owner: "Helm release legacy"}}}
		}, "conflict", "ConfigMap apps/settings exists and is not part of this Helm release (Helm release legacy)"},
		"unknown kind": {nil, func(w *world, _ *Request) {
			w.charts.previews["web"] = Preview{Missing: []string{"example.com/v1, Widget"}}
		}, "unknown-kind", "example.com/v1, Widget"},
		"unknown kind that a later component brings": {nil, func(w *world, _ *Request) {
			w.charts.previews["web"] = Preview{Missing: []string{"example.com/v1, Widget"}}
			w.charts.previews["zoo"] = Preview{Brings: []string{"example.com/v1, Widget"}}
		}, "unknown-kind", "component zoo, which brings it, comes later"},
		"helm record too large": {nil, func(w *world, _ *Request) {
			w.charts.previews["web"] = Preview{RecordBytes: 2000000, RecordLimit: 1048576, Largest: []string{"files/big.bin"}}
		}, "helm-record-size", "files/big.bin"},
		"namespace absent and not to be created": {nil, func(_ *world, req *Request) {
			req.Source.Release.Components[0].CreateNamespace = false
			req.Source.Release.Components[0].Namespace = "elsewhere"
		}, "namespace", "namespace elsewhere does not exist"},
		"namespace being deleted": {[]*corev1.Namespace{terminatingNamespace("apps")}, func(*world, *Request) {}, "namespace-terminating", "example.com/hold"},
		"typo in the site's values": {nil, func(w *world, req *Request) {
			*req = withSite(*req, bundle.Site{Components: map[string]bundle.SiteComponent{"web": {Values: map[string]any{"replicaz": 1}}}})
			w.charts.unknown["web"] = []UnknownKey{{Path: "replicaz", Nearest: "replicas", Layer: "site file, values"}}
		}, "unknown-value", "site file, values: the chart knows no value replicaz (did you mean replicas?)"},
		"values from what is not there": {nil, func(_ *world, req *Request) {
			from := []bundle.ValuesFrom{{Kind: "Secret", Name: "aws", Namespace: "dns"}}
			*req = withSite(*req, bundle.Site{Components: map[string]bundle.SiteComponent{"web": {ValuesFrom: from}}})
		}, "values-from", "valuesFrom Secret dns/aws: it does not exist"},
		"locked value": {nil, func(_ *world, req *Request) {
			req.Source.Release.Components[0].Parameters = &bundle.Parameters{Schema: map[string]any{"properties": map[string]any{"replicas": map[string]any{"type": "integer"}}}}
			req.Values = map[string][]Layer{"web": {{Set: "image=evil"}}}
		}, "parameters", "image is locked"},
		"platform": {nil, func(w *world, req *Request) {
			req.Source.Release.Platforms = []string{"linux/amd64"}
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
			node.Status.NodeInfo.OperatingSystem, node.Status.NodeInfo.Architecture = "linux", "arm64"
			if _, err := w.client.CoreV1().Nodes().Create(context.Background(), node, metav1.CreateOptions{}); err != nil {
				panic(err)
			}
		}, "platform", "linux/arm64"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			for _, ns := range test.objects {
				if err := w.client.Tracker().Add(ns); err != nil {
					t.Fatal(err)
				}
			}
			req := request("1.0.0", part("web"), part("zoo"))
			test.before(w, &req)
			w.client.ClearActions()
			req.NamespaceWait = 20 * time.Millisecond
			_, err := w.install(req)
			if got := codes(t, err); !slices.Equal(slices.Compact(got), []string{test.code}) {
				t.Errorf("refusals are %q, want %q", got, test.code)
			}
			if !strings.Contains(err.Error(), test.names) {
				t.Errorf("message %q lacks %q", err, test.names)
			}
			if calls, writes := w.charts.taken(), w.writes(); len(calls) > 0 || len(writes) > 0 {
				t.Errorf("calls %q, writes %q, want none", calls, writes)
			}
		})
	}
}

// Refusals that compare with what is installed.
func TestRefusalsOfInstalled(t *testing.T) {
	installed := func() Request {
		return withSite(request("1.0.0", part("web")), bundle.Site{Site: "berlin-1"})
	}
	tests := map[string]struct {
		change func(*Request)
		code   string
	}{
		"forgotten site file": {func(r *Request) { r.Site, r.SiteText = nil, nil }, "site-file-forgotten"},
		"another site":        {func(r *Request) { *r = withSite(*r, bundle.Site{Site: "paris-2"}) }, "other-site"},
		"another release": {func(r *Request) {
			r.Instance, r.Source.Release.Name = "shop", "bakery"
		}, "other-release"},
		"another namespace": {func(r *Request) {
			*r = withSite(*r, bundle.Site{Site: "berlin-1", Components: map[string]bundle.SiteComponent{"web": {Namespace: "moved"}}})
		}, "moved"},
		"none on purpose": {func(r *Request) { r.Site, r.SiteText, r.NoSite = nil, nil, true }, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.mustInstall(installed())
			req := installed()
			test.change(&req)
			plan, err := w.runner.Plan(context.Background(), req)
			if test.code == "" {
				if err != nil || !plan.Change {
					t.Errorf("error is %v, plan %+v", err, plan)
				}
				return
			}
			if got := codes(t, err); !slices.Contains(got, test.code) {
				t.Errorf("refusals are %q, want %q", got, test.code)
			}
			if plan == nil || len(plan.Refusals) == 0 {
				t.Errorf("the plan is %+v, want its refusals in it", plan)
			}
		})
	}
}

func TestRightsThatAreMissing(t *testing.T) {
	w := newWorld(t, namespace("apps"), namespace(DefaultStateNamespace))
	w.allow(false)
	_, err := w.install(request("1.0.0", part("web")))
	if strings.Contains(err.Error(), "create namespaces") {
		t.Errorf("asked for a right that is not needed: %v", err)
	}
	w = newWorld(t)
	w.allow(false)
	_, err = w.install(request("1.0.0", part("web")))
	if got := codes(t, err); !slices.Equal(got, []string{"rights", "rights", "rights"}) || !strings.Contains(err.Error(), "create namespaces (and absent: apps, waybill-system)") {
		t.Errorf("refusals are %q: %v", got, err)
	}
}

// A kind that an earlier component brings is no refusal, and makes the later
// one wait for it.
func TestKindFromEarlierComponent(t *testing.T) {
	w := newWorld(t)
	w.charts.previews["crds"] = Preview{Brings: []string{"example.com/v1, Widget"}}
	w.charts.previews["web"] = Preview{Missing: []string{"example.com/v1, Widget"}}
	plan, err := w.runner.Plan(context.Background(), request("1.0.0", part("crds"), part("web")))
	if err != nil {
		t.Fatal(err)
	}
	if got := plan.Components[1].After; !slices.Equal(got, []string{"crds"}) {
		t.Errorf("web waits on %q, want crds", got)
	}
	w.charts.fail["crds"] = errors.New("broken")
	out, _ := w.install(request("1.0.0", part("crds"), part("web")))
	if got := out.Components[1]; got.Outcome != OutcomeSkipped || got.Reason != "needs crds, which failed" {
		t.Errorf("web is %+v", got)
	}
}

// Somebody else's lease matters only when there is something to do.
func TestHeld(t *testing.T) {
	w := newWorld(t)
	w.mustInstall(request("1.0.0", part("web")))
	other := w.runnerOf("other@host")
	if _, _, err := other.leases(DefaultStateNamespace).acquire(context.Background(), "shop", 0); err != nil {
		t.Fatal(err)
	}
	if out := w.mustInstall(request("1.0.0", part("web"))); out.Status != StatusUnchanged {
		t.Errorf("outcome is %+v", out)
	}
	req := request("1.1.0", part("web"))
	for name, run := range map[string]func() error{
		"plan":    func() error { _, err := w.runner.Plan(context.Background(), req); return err },
		"install": func() error { _, err := w.install(req); return err },
		"uninstall": func() error {
			_, err := w.runner.Uninstall(context.Background(), UninstallRequest{Instance: "shop"})
			return err
		},
	} {
		var held *HeldError
		if err := run(); !errors.As(err, &held) || held.Holder != "other@host" || held.Since.IsZero() || held.Renewed.IsZero() {
			t.Errorf("%s: error is %v", name, err)
		}
	}
}

func TestWaitsForNamespace(t *testing.T) {
	w := newWorld(t, terminatingNamespace("apps"))
	w.told = func(e Event) {
		if strings.Contains(e.Message, "waiting up to 2m0s for namespace apps") {
			_ = w.client.CoreV1().Namespaces().Delete(context.Background(), "apps", metav1.DeleteOptions{})
		}
	}
	out := w.mustInstall(request("1.0.0", part("web")))
	if !slices.Equal(out.Namespaces, []string{"apps"}) {
		t.Errorf("created %q", out.Namespaces)
	}
}

func TestValuesOrder(t *testing.T) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "aws", Namespace: "apps"}, Data: map[string][]byte{"key": []byte("1e10"), "values.yaml": []byte("e: from\nf: from")}}
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "more", Namespace: "conf"}, Data: map[string]string{"v": "f: config"}}
	w := newWorld(t, secret, config, namespace("apps"))
	c := part("web")
	c.ValuesFiles = []string{"values/web.yaml"}
	c.Values = map[string]any{"b": "release", "c": "release"}
	c.Profiles = []bundle.Profile{{Name: "ha", Values: map[string]any{"c": "profile", "d": "profile"}}}
	req := request("1.0.0", c)
	req.Source.ValuesFiles = map[string][]byte{"values/web.yaml": []byte("a: file\nb: file")}
	req.SiteFiles = map[string][]byte{"site.yaml": []byte("d: sitefile\ne: sitefile")}
	req = withSite(req, bundle.Site{Components: map[string]bundle.SiteComponent{"web": {
		Profile: "ha", ValuesFiles: []string{"site.yaml"}, Values: map[string]any{"f": "site", "g": "site", "h": "site"},
		ValuesFrom: []bundle.ValuesFrom{
			{Kind: "Secret", Name: "aws", ValuesKey: "key", TargetPath: "g"},
			{Kind: "Secret", Name: "aws"}, {Kind: "ConfigMap", Name: "more", Namespace: "conf", ValuesKey: "v"},
			{Kind: "ConfigMap", Name: "absent", Optional: true}, {Kind: "Secret", Name: "aws", ValuesKey: "absent", Optional: true},
		},
	}}})
	req.Values = map[string][]Layer{"web": {{Name: "--values web.yaml", YAML: []byte("h: flag\ni: flag")}, {Name: "--set", Set: "i=set"}}}
	w.mustInstall(req)
	want := map[string]any{"a": "file", "b": "release", "c": "profile", "d": "sitefile", "e": "from", "f": "site", "g": "1e10", "h": "flag", "i": "set"}
	if diff := cmp.Diff(want, w.charts.values["web"]); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}

	composed, err := Compose(context.Background(), req, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := composed[0].Skipped; len(got) != 5 || got[0] != "Secret apps/aws" {
		t.Errorf("without a cluster skipped are %q", got)
	}
	composed, err = Compose(context.Background(), req, w.runner)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, l := range composed[0].Layers {
		names = append(names, l.Name)
	}
	wantNames := []string{
		"values/web.yaml", "release file, values", "profile ha", "site.yaml", "Secret apps/aws key values.yaml", "ConfigMap conf/more key v",
		"site file, values", "Secret apps/aws key key", "--values web.yaml", "--set",
	}
	if diff := cmp.Diff(wantNames, names); diff != "" {
		t.Errorf("layers (-want +got):\n%s", diff)
	}
}

func TestParameters(t *testing.T) {
	schema := map[string]any{"properties": map[string]any{
		"replicas":  map[string]any{"type": "integer", "maximum": 5},
		"resources": map[string]any{"type": "object"},
		"ingress":   map[string]any{"properties": map[string]any{"host": map[string]any{"type": "string", "pattern": "^[a-z.]+$"}}},
	}}
	tests := map[string]struct {
		schema map[string]any
		values map[string]any
		want   []string
	}{
		"what it names":             {schema, map[string]any{"replicas": 3, "ingress": map[string]any{"host": "a.b"}}, nil},
		"free below a plain object": {schema, map[string]any{"resources": map[string]any{"limits": map[string]any{"cpu": 1}}}, nil},
		"locked, also below":        {schema, map[string]any{"image": "x", "ingress": map[string]any{"tls": true}}, []string{"image is locked: the release does not let a site set it", "ingress.tls is locked: the release does not let a site set it"}},
		"a null is a value too":     {schema, map[string]any{"image": nil}, []string{"image is locked: the release does not let a site set it"}},
		"wrong type":                {schema, map[string]any{"replicas": "three"}, []string{"replicas is string, and the release asks for integer"}},
		"too large":                 {schema, map[string]any{"replicas": 17}, []string{"replicas does not fit the release's schema (maximum)"}},
		"no secret in the message":  {schema, map[string]any{"ingress": map[string]any{"host": "S3CRET"}}, []string{"ingress.host does not fit the release's schema (pattern)"}},
		"an empty schema locks all": {map[string]any{}, map[string]any{"a": 1}, []string{"a is locked: the release does not let a site set it"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := part("web")
			c.Parameters = &bundle.Parameters{Schema: test.schema}
			refusals, err := newWorld(t).runner.checkParameters(&component{Component: &c, siteLayers: []Layer{{Values: test.values}}})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, r := range refusals {
				got = append(got, r.Message)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
		})
	}
}

// Every history, and what happens next.
func TestDecide(t *testing.T) {
	tests := map[string]struct {
		statuses string
		want     string
	}{
		"none":                            {"", ActionInstall},
		"uninstalled":                     {"superseded uninstalled", ActionInstall},
		"failed first":                    {"failed", ActionReplace},
		"failed twice":                    {"failed failed", ActionReplace},
		"failed again after an uninstall": {"superseded uninstalled failed", ActionReplace},
		"deployed":                        {"deployed", ActionUpgrade},
		"failed upgrade":                  {"deployed failed", ActionUpgrade},
		"only superseded":                 {"superseded", ActionUpgrade},
		"superseded and failed":           {"superseded failed", ActionUpgrade},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := &subject{component: &component{}}
			for i, status := range strings.Fields(test.statuses) {
				s.history = append(s.history, HelmRevision{Number: i + 1, Status: status})
			}
			s.decide()
			if s.planned.Action != test.want {
				t.Errorf("action is %s, want %s", s.planned.Action, test.want)
			}
		})
	}
}
