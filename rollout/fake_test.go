package rollout

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"

	"waybill/bundle"
)

// fakeCharts is Helm in memory: it keeps histories as Helm does and does
// nothing else, unless it is told to.
type fakeCharts struct {
	mu        sync.Mutex
	histories map[string][]HelmRevision // by namespace/name
	calls     []string
	caps      Capabilities
	previews  map[string]Preview
	foreseen  map[string]Preview // with kinds that are coming
	unknown   map[string][]UnknownKey
	fail      map[string]error // for Apply, by component
	failBack  map[string]error // for Rollback and TakeBack, by component
	onApply   func(ctx context.Context, c HelmComponent) error
	values    map[string]map[string]any // last applied, by component
	marks     map[string]string         // last applied, by component
	pull      map[string]string         // pull secrets last applied, by component
	origins   map[ObjectName]*ObjectOrigin
}

func newFakeCharts() *fakeCharts {
	return &fakeCharts{
		histories: map[string][]HelmRevision{}, previews: map[string]Preview{}, foreseen: map[string]Preview{}, unknown: map[string][]UnknownKey{},
		fail: map[string]error{}, failBack: map[string]error{}, values: map[string]map[string]any{}, marks: map[string]string{}, pull: map[string]string{},
		caps: Capabilities{Version: "v1.34.4-eks-1a2b", Digest: digest.FromString("1.34.4")},
	}
}

func (f *fakeCharts) call(format string, args ...any) {
	f.calls = append(f.calls, fmt.Sprintf(format, args...))
}

// taken returns the calls that changed something, and forgets them.
func (f *fakeCharts) taken() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	calls := f.calls
	f.calls = nil
	return calls
}

func (f *fakeCharts) Capabilities(context.Context, bool) (Capabilities, error) { return f.caps, nil }

func (f *fakeCharts) Merge(layers []Layer) (map[string]any, error) {
	out := map[string]any{}
	for _, l := range layers {
		values := l.Values
		switch {
		case l.YAML != nil:
			if err := yaml.Unmarshal(l.YAML, &values); err != nil {
				return nil, err
			}
		case l.TargetPath != "":
			values = nested(strings.Split(l.TargetPath, "."), l.Text)
		case l.Set != "":
			key, value, _ := strings.Cut(l.Set, "=")
			values = nested(strings.Split(key, "."), value)
		}
		overlay(out, values)
	}
	return out, nil
}

func nested(path []string, value any) map[string]any {
	if len(path) > 1 {
		value = nested(path[1:], value)
	}
	return map[string]any{path[0]: value}
}

func overlay(onto, values map[string]any) {
	for key, value := range values {
		below, isMap := value.(map[string]any)
		existing, hasMap := onto[key].(map[string]any)
		if isMap && hasMap {
			existing = maps.Clone(existing)
			overlay(existing, below)
			value = existing
		}
		onto[key] = value
	}
}

func (f *fakeCharts) CheckKeys(c HelmComponent, layers []Layer) ([]UnknownKey, error) {
	return f.unknown[c.Name], nil
}

func (f *fakeCharts) History(_ context.Context, namespace, helmRelease string) ([]HelmRevision, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.histories[namespace+"/"+helmRelease]), nil
}

func (f *fakeCharts) Preview(_ context.Context, c HelmComponent) (*Preview, error) {
	if string(c.Archive) != c.Name {
		return nil, fmt.Errorf("the archive of %s is %q", c.Name, c.Archive)
	}
	p := f.previews[c.Name]
	if with, ok := f.foreseen[c.Name]; ok && len(c.Coming) > 0 {
		p = with
	} else if p.Missing != nil && p.Missing[0] == doesNotRender {
		return nil, errors.New("the chart does not render")
	}
	return &p, nil
}

func (f *fakeCharts) Apply(ctx context.Context, c HelmComponent) (HelmRevision, error) {
	key := c.Namespace + "/" + c.HelmRelease
	f.mu.Lock()
	f.call("apply %s", c.Name)
	f.values[c.Name], f.marks[c.Name], f.pull[c.Name] = c.Values, c.Mark, c.PullSecret
	number := last(f.histories[key]).Number + 1
	f.histories[key] = append(f.histories[key], HelmRevision{Number: number, Status: "pending-upgrade", Labels: c.Labels})
	fail, hook := f.fail[c.Name], f.onApply
	f.mu.Unlock()
	var hookErr error
	if hook != nil {
		hookErr = hook(ctx, c)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if hookErr != nil { // killed, or nearly: the revision stays pending
		return HelmRevision{}, hookErr
	}
	if fail != nil {
		f.end(key, number, helmFailed)
		return HelmRevision{}, fail
	}
	return f.end(key, number, helmDeployed), nil
}

// end gives a revision its last state.
func (f *fakeCharts) end(key string, number int, status string) HelmRevision {
	for i := range f.histories[key] {
		rev := &f.histories[key][i]
		if status == helmDeployed && rev.Status == helmDeployed {
			rev.Status = helmSuperseded
		}
		if rev.Number == number {
			rev.Status = status
		}
	}
	return last(f.histories[key])
}

func (f *fakeCharts) Fail(_ context.Context, namespace, helmRelease string, number int, why string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.call("fail %s %d", helmRelease, number)
	f.end(namespace+"/"+helmRelease, number, helmFailed)
	return nil
}

func (f *fakeCharts) Rollback(_ context.Context, c HelmComponent, number int) (HelmRevision, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.call("rollback %s %d", c.Name, number)
	if err := f.failBack[c.Name]; err != nil {
		return HelmRevision{}, err
	}
	key := c.Namespace + "/" + c.HelmRelease
	next := last(f.histories[key]).Number + 1
	f.histories[key] = append(f.histories[key], HelmRevision{Number: next, Status: "pending-rollback", Labels: c.Labels})
	return f.end(key, next, helmDeployed), nil
}

func (f *fakeCharts) TakeBack(_ context.Context, c HelmComponent) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.call("take back %s", c.Name)
	if c.Mark == "" {
		return fmt.Errorf("taking back %s: no mark", c.Name)
	}
	return f.failBack[c.Name]
}

func (f *fakeCharts) Uninstall(_ context.Context, c HelmComponent) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.call("uninstall %s", c.Name)
	if err := f.fail[c.Name]; err != nil {
		return err
	}
	delete(f.histories, c.Namespace+"/"+c.HelmRelease)
	return nil
}

func (f *fakeCharts) Origin(_ context.Context, object ObjectName) (*ObjectOrigin, error) {
	return f.origins[object], nil
}

// doesNotRender as a missing kind is a chart that does not render.
const doesNotRender = "does not render"

// archives hands out each component's name as its chart.
type archives struct{}

func (archives) Chart(_ context.Context, component string) ([]byte, error) {
	return []byte(component), nil
}

// world is a cluster in memory with a runner on it.
type world struct {
	t      *testing.T
	charts *fakeCharts
	client *fake.Clientset
	runner *Runner
	events []Event
	told   func(Event) // told of events too, nil for nobody
	mu     sync.Mutex
}

func newWorld(t *testing.T, objects ...runtime.Object) *world {
	t.Helper()
	w := &world{t: t, charts: newFakeCharts(), client: fake.NewClientset(objects...)}
	w.allow(true)
	w.runner = w.runnerOf("tester")
	return w
}

func (w *world) runnerOf(holder string) *Runner {
	r := NewRunner(Config{Client: w.client, Charts: w.charts, Holder: holder, Events: func(e Event) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.events = append(w.events, e)
		if w.told != nil {
			w.told(e)
		}
	}})
	r.times.confirm, r.times.poll, r.poll, r.cleanup = time.Millisecond, 10*time.Millisecond, 5*time.Millisecond, 5*time.Second
	r.accountWait = 10 * time.Millisecond
	return r
}

// allow answers every question for a right.
func (w *world) allow(allowed bool) {
	w.client.PrependReactor("create", "selfsubjectaccessreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &authorizationv1.SelfSubjectAccessReview{Status: authorizationv1.SubjectAccessReviewStatus{Allowed: allowed}}, nil
	})
}

// writes returns the writing requests since the last call: verb resource/name.
func (w *world) writes() []string {
	var out []string
	for _, action := range w.client.Actions() {
		resource := action.GetResource().Resource
		if slices.Contains([]string{"get", "list", "watch"}, action.GetVerb()) || resource == "selfsubjectaccessreviews" {
			continue
		}
		out = append(out, action.GetVerb()+" "+resource+"/"+nameOf(action))
	}
	w.client.ClearActions()
	return out
}

func nameOf(action clienttesting.Action) string {
	switch a := action.(type) {
	case clienttesting.DeleteAction:
		return a.GetName()
	case clienttesting.UpdateAction: // create has the same methods
		if o, ok := a.GetObject().(interface{ GetName() string }); ok {
			return o.GetName()
		}
	}
	return ""
}

func (w *world) install(req Request) (*Outcome, error) {
	w.t.Helper()
	return w.runner.Install(context.Background(), req)
}

func (w *world) mustInstall(req Request) *Outcome {
	w.t.Helper()
	out, err := w.install(req)
	if err != nil {
		w.t.Fatalf("install: %v", err)
	}
	return out
}

// record returns the newest record of the instance.
func (w *world) record(instance string) *Record {
	w.t.Helper()
	latest, err := store{client: w.client, namespace: DefaultStateNamespace}.latest(context.Background(), instance)
	if err != nil {
		w.t.Fatal(err)
	}
	if latest == nil {
		return nil
	}
	return latest.record
}

// outcomes returns "name outcome" for each component.
func outcomes(out *Outcome) []string {
	var lines []string
	for _, c := range out.Components {
		lines = append(lines, c.Name+" "+c.Outcome)
	}
	return lines
}

// part is a component in the namespace "apps", which is created.
func part(name string, needs ...string) bundle.Component {
	return bundle.Component{
		Name: name, Namespace: "apps", CreateNamespace: true, Needs: needs,
		Chart: bundle.ChartSource{Path: name}, Values: map[string]any{"from": "release"},
	}
}

// request is for a release "shop" of the given parts; charts have the
// release's version, and a digest of that.
func request(version string, parts ...bundle.Component) Request {
	rel := &bundle.Release{Name: "shop", Version: version, Components: parts}
	lock := &bundle.Lock{Release: bundle.LockedRelease{Name: "shop", Version: version}}
	for _, p := range parts {
		lock.Charts = append(lock.Charts, bundle.LockedChart{
			Component: p.Name, Name: p.Name + "-chart", Version: version, Content: digest.FromString(p.Name + version),
		})
	}
	return Request{Source: Source{
		Release: rel, Lock: lock, Charts: archives{}, Bundle: digest.FromString("bundle " + version),
		Location: "oci://registry.example/shop:" + version, Signer: "vendor.pub", Verification: "key",
	}}
}

// withSite gives the request a site file.
func withSite(req Request, site bundle.Site) Request {
	text, err := yaml.Marshal(site)
	if err != nil {
		panic(err)
	}
	req.Site, req.SiteText = &site, text
	return req
}
