package bundle

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
)

func TestLockEncoding(t *testing.T) {
	spec := testSpec(t)
	spec.Lock.Packed = PackedImages
	spec.Lock.Charts[1].Dependencies = []LockedDependency{
		{Name: "common", Version: "2.3.1", Repository: "@corp", Content: digest.FromString("c")},
		{Name: "cache", Version: "1.0.0+b", Repository: "oci://registry.example/charts", Content: digest.FromString("d")},
		{Name: "cache", Version: "1.0.0+a", Repository: "oci://registry.example/charts", Content: digest.FromString("e")},
	}
	spec.Lock.Images = []LockedImage{
		{Digest: digest.FromString("b"), MediaType: "application/vnd.oci.image.index.v1+json", Size: 1234,
			Platforms: []string{"linux/arm64", "linux/amd64"}, References: []string{"docker.io/library/nginx:1.27"},
			Spellings: []string{"nginx:1.27", "docker.io/nginx:1.27"}, Components: []string{"web", "db"}, Upstream: digest.FromString("u")},
		{Digest: digest.FromString("a"), MediaType: "application/vnd.oci.image.manifest.v1+json", References: []string{"yes", "1e3", "a: b", "#x", "é\u2028\"\\"}},
	}
	first, err := spec.Lock.Encode()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/release.lock.yaml", first)

	slices.Reverse(spec.Lock.Charts)
	slices.Reverse(spec.Lock.Images)
	slices.Reverse(spec.Lock.Images[1].Components)
	for _, c := range spec.Lock.Charts {
		slices.Reverse(c.Dependencies)
	}
	shuffled, err := spec.Lock.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(first), string(shuffled)); diff != "" {
		t.Errorf("the same lock in another order has other bytes:\n%s", diff)
	}
	parsed, err := ParseLock("release.lock.yaml", first)
	if err != nil {
		t.Fatal(err)
	}
	again, err := parsed.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(first), string(again)); diff != "" {
		t.Errorf("read and written again the lock has other bytes:\n%s", diff)
	}
	if got := parsed.Images[1].References; !slices.Contains(got, "é\u2028\"\\") || !slices.Contains(got, "yes") {
		t.Errorf("references came back as %q", got)
	}
}

func TestEncodeRefusesWhatIsNoLock(t *testing.T) {
	for name, lock := range map[string]*Lock{
		"nothing":   {},
		"no digest": {APIVersion: APIVersion, Kind: KindLock, Packed: PackedCharts, Release: LockedRelease{"shop", "1.0.0"}, Charts: []LockedChart{{Component: "db", Name: "db", Version: "1", Source: "x"}}},
		"a version": {APIVersion: APIVersion, Kind: KindLock, Packed: PackedCharts, Release: LockedRelease{"shop", "v1"}},
	} {
		if _, err := lock.Encode(); !isA[*FileError](err) {
			t.Errorf("%s: error is %v, want a FileError", name, err)
		}
	}
}

// A recorder notes what it was asked to keep, and locks sources as the release
// file says them.
type recorder struct {
	charts
	mu   sync.Mutex
	kept map[string]string
}

func (r *recorder) Resolve(ctx context.Context, c Component, locked *LockedChart) (Resolved, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if locked != nil {
		r.kept[c.Name] = locked.Version
	}
	found, err := r.charts.Resolve(ctx, c, locked)
	if found.Locked.Source = c.Chart.String(); c.Chart.Kind() == SourceGit {
		found.Locked.Source += "#0123abc"
	}
	return found, err
}

func newRecorder() *recorder { return &recorder{charts: testCharts(), kept: map[string]string{}} }

// recordedLock is the lock of the test release by a recorder.
func recordedLock(t *testing.T, rel *Release) *Lock {
	t.Helper()
	lock, _, err := MakeLock(t.Context(), rel, newRecorder(), LockOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return lock
}

func TestMakeLockKeeps(t *testing.T) {
	spec := testSpec(t)
	locked := func(component, version, source string) LockedChart {
		return LockedChart{Component: component, Name: component, Version: version, Source: source}
	}
	const web, admin = "https://charts.example.com/app", "https://git.example.com/admin.git//chart@v1.2.3"
	previous := &Lock{Charts: []LockedChart{
		locked("db", "0.0.9", "charts/db"), locked("web", "1.14.1", web), locked("admin", "3.0.0", admin+"#0123abc"), locked("gone", "3.0.0", "x"),
	}}
	changed := func(c LockedChart) *Lock { return &Lock{Charts: []LockedChart{c}} }
	tests := []struct {
		name string
		opts LockOptions
		want map[string]string
	}{
		{"nothing locked", LockOptions{}, map[string]string{}},
		{"what is locked", LockOptions{Previous: previous}, map[string]string{"db": "0.0.9", "web": "1.14.1", "admin": "3.0.0"}},
		{"all but the named", LockOptions{Previous: previous, Update: []string{"web"}}, map[string]string{"db": "0.0.9", "admin": "3.0.0"}},
		{"nothing when all is updated", LockOptions{Previous: previous, UpdateAll: true}, map[string]string{}},
		{"no version that is no longer allowed", LockOptions{Previous: changed(locked("web", "1.13.9", web))}, map[string]string{}},
		{"no chart of another repository", LockOptions{Previous: changed(locked("web", "1.14.1", "https://other.example/app"))}, map[string]string{}},
		{"no chart of another name", LockOptions{Previous: changed(locked("web", "1.14.1", "https://charts.example.com/apps"))}, map[string]string{}},
		{"no commit of another ref", LockOptions{Previous: changed(locked("admin", "1.0.0", "https://git.example.com/admin.git//chart@v1.2.2#0123abc"))}, map[string]string{}},
		{"no commit of a longer ref", LockOptions{Previous: changed(locked("admin", "1.0.0", admin+".4#0123abc"))}, map[string]string{}},
		{"no dependencies of another folder", LockOptions{Previous: changed(locked("db", "1.0.0", "charts/db2"))}, map[string]string{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRecorder()
			var begun, resolved atomic.Int32
			tt.opts.OnResolve = func(string) { begun.Add(1) }
			tt.opts.OnResolved = func(c LockedChart) {
				if want, _ := spec.Lock.Chart(c.Component); c.Manifest == want.Manifest {
					resolved.Add(1)
				}
			}
			lock, charts, err := MakeLock(t.Context(), spec.Release, r, tt.opts)
			if err != nil {
				t.Fatal(err)
			}
			if begun.Load() != 4 || resolved.Load() != 4 {
				t.Errorf("told of %d begun and %d resolved", begun.Load(), resolved.Load())
			}
			if diff := cmp.Diff(tt.want, r.kept); diff != "" {
				t.Errorf("offered to keep (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(recordedLock(t, spec.Release), lock); diff != "" {
				t.Errorf("lock (-want +got):\n%s", diff)
			}
			if len(charts) != 4 || charts["db"].Descriptor().Digest != r.charts["db"].desc.Digest {
				t.Errorf("charts are %v", charts)
			}
		})
	}
}

// A version is allowed as Helm allows it; the metadata of a build counts when it is asked for.
func TestAllowsVersion(t *testing.T) {
	tests := []struct {
		wanted, version string
		want            bool
	}{
		{"1.14.4", "1.14.4", true},
		{"1.14.4", "v1.14.4", true},
		{"v1.14.4", "1.14.4", true},
		{"1.14.4", "1.14.5", false},
		{"~1.14.0", "1.14.9", true},
		{"~1.14.0", "1.15.0", false},
		{"1.14", "1.14.9", true},
		{"1.x", "1.20.0", true},
		{">=1.0.0 <2.0.0", "2.0.0", false},
		{"~1.14.0", "1.14.5-rc.1", false},
		{"~1.14.0-0", "1.14.5-rc.1", true},
		{"1.0.0+b.1", "1.0.0+b.1", true},
		{"1.0.0+b.1", "1.0.0+b.2", false},
		{"1.0.0_b.1", "1.0.0+b.1", true},
		{"1.0.0_b.1", "1.0.0+b.2", false},
		{"1.0.0", "1.0.0+b.2", true},
		{"1.0.0+b.1", "1.0.0", false},
		{"not a range", "1.0.0", false},
		{"1.0.0", "not a version", false},
	}
	for _, tt := range tests {
		if got := allowsVersion(tt.wanted, tt.version); got != tt.want {
			t.Errorf("%q allows %q: %t, want %t", tt.wanted, tt.version, got, tt.want)
		}
	}
}

func TestLockChanges(t *testing.T) {
	a, b := digest.FromString("a"), digest.FromString("b")
	app := LockedChart{Component: "web", Name: "app", Version: "1.0.0", Source: "s/app", Inputs: a, Content: a, Manifest: a}
	tests := []struct {
		name   string
		change func(*LockedChart)
		want   string
	}{
		{"nothing", func(*LockedChart) {}, ""},
		{"another version", func(c *LockedChart) { c.Version, c.Content = "1.1.0", b }, "app 1.0.0 → 1.1.0"},
		{"another chart", func(c *LockedChart) { c.Name, c.Version = "app2", "1.1.0" }, "app 1.0.0 → app2 1.1.0"},
		{"other content", func(c *LockedChart) { c.Content = b }, "app 1.0.0 has other content: " + a.String() + " → " + b.String()},
		{"other dependencies", func(c *LockedChart) {
			c.Content, c.Dependencies = b, []LockedDependency{{Name: "common", Version: "2.0.0"}}
		}, "app 1.0.0 has other content: " + a.String() + " → " + b.String() + ", dependencies none → common 2.0.0"},
		{"another manifest", func(c *LockedChart) { c.Manifest = b }, "app 1.0.0 has another manifest: " + a.String() + " → " + b.String()},
		{"another source", func(c *LockedChart) { c.Source = "t/app" }, "app 1.0.0, source s/app → t/app"},
		{"another range", func(c *LockedChart) { c.Inputs = b }, "app 1.0.0 stays, the release file asks for it otherwise"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			now := app
			tt.change(&now)
			changes := (&Lock{Charts: []LockedChart{now}}).Changes(&Lock{Charts: []LockedChart{app}})
			var got string
			for _, c := range changes {
				got += c.String()
			}
			if got != tt.want {
				t.Errorf("changes are %q, want %q", got, tt.want)
			}
		})
	}
	both := (&Lock{Charts: []LockedChart{app}}).Changes(&Lock{Charts: []LockedChart{{Component: "db", Name: "db", Version: "0.1.0"}}})
	if len(both) != 2 || both[0].Component+" "+both[0].String() != "db dropped, was db 0.1.0" || both[1].Component+" "+both[1].String() != "web added, app 1.0.0" {
		t.Errorf("changes are %v", both)
	}
	if first := (&Lock{Charts: []LockedChart{app}}).Changes(nil); len(first) != 1 || first[0].From != nil {
		t.Errorf("changes since nothing are %v", first)
	}
}

func TestResolveLocked(t *testing.T) {
	spec := testSpec(t)
	locked := recordedLock(t, spec.Release)
	r := newRecorder()
	charts, err := ResolveLocked(t.Context(), spec.Release, locked, r, []string{"web", "db"}, LockOptions{})
	if err != nil || len(charts) != 2 || charts["web"].Descriptor().Digest != r.charts["web"].desc.Digest {
		t.Fatalf("charts are %v, %v", charts, err)
	}
	if diff := cmp.Diff(map[string]string{"db": "0.1.0+b.2", "web": "1.14.4"}, r.kept); diff != "" {
		t.Errorf("resolved by the lock (-want +got):\n%s", diff)
	}
	if _, err := ResolveLocked(t.Context(), spec.Release, locked, r, []string{"wbe"}, LockOptions{}); !isA[*UnknownComponentError](err) {
		t.Errorf("unknown component: error is %v", err)
	}

	// What is found is held against the lock, whatever differs.
	lock := *locked
	lock.Charts = slices.Clone(lock.Charts)
	lock.Charts[1].Content = digest.FromString("locked")
	lock.Charts = slices.Delete(lock.Charts, 3, 4)
	_, err = ResolveLocked(t.Context(), spec.Release, &lock, r, nil, LockOptions{})
	want := "the lock is stale: component db: its content is " + locked.Charts[1].Content.String() + ", locked is " + lock.Charts[1].Content.String() +
		"; component web is not in the lock"
	if errText(err) != want || !isA[*StaleError](err) {
		t.Errorf("error is %q, want %q", errText(err), want)
	}
}

// An interrupted run says what failed by itself, and once that it was interrupted.
func TestMakeLockInterrupted(t *testing.T) {
	spec := testSpec(t)
	ctx, cancel := context.WithCancel(t.Context())
	_, _, err := MakeLock(ctx, spec.Release, interrupting{cancel, testCharts()}, LockOptions{Concurrency: 1})
	if want := "component db: resolving the chart: no db here\ncontext canceled"; errText(err) != want {
		t.Errorf("error is %q, want %q", errText(err), want)
	}
}

// An interrupting resolver fails and is interrupted with the first component.
type interrupting struct {
	cancel context.CancelFunc
	charts
}

func (r interrupting) Resolve(ctx context.Context, c Component, _ *LockedChart) (Resolved, error) {
	defer r.cancel()
	if c.Name == "db" {
		return Resolved{}, errors.New("no db here")
	}
	return Resolved{}, ctx.Err()
}

func TestMakeLockRefuses(t *testing.T) {
	spec := testSpec(t)
	ctx := t.Context()
	if _, _, err := MakeLock(ctx, spec.Release, testCharts(), LockOptions{Update: []string{"wbe"}}); !isA[*UnknownComponentError](err) {
		t.Errorf("unknown component: error is %v", err)
	}
	if _, _, err := MakeLock(ctx, spec.Release, testCharts(), LockOptions{Version: "v2"}); !isA[*VersionError](err) {
		t.Errorf("bad version: error is %v", err)
	}
	noVersion := *spec.Release
	noVersion.Version = ""
	if _, _, err := MakeLock(ctx, &noVersion, testCharts(), LockOptions{}); !errors.Is(err, ErrNoVersion) {
		t.Errorf("no version: error is %v", err)
	}
	if lock, _, err := MakeLock(ctx, &noVersion, testCharts(), LockOptions{Version: "2.0.0"}); err != nil || lock.Release.Version != "2.0.0" {
		t.Errorf("version given: %v", err)
	}
	some := testCharts()
	delete(some, "db")
	delete(some, "rules")
	_, _, err := MakeLock(ctx, spec.Release, some, LockOptions{})
	if want := "component db: resolving the chart: charts/db is not there\ncomponent rules: resolving the chart: rules/a.yaml, rules/b.yaml is not there"; errText(err) != want {
		t.Errorf("error is %q, want %q", errText(err), want)
	}
	lying := testCharts()
	chart := lying["db"]
	chart.locked.Manifest = digest.FromString("other")
	lying["db"] = chart
	if _, _, err := MakeLock(ctx, spec.Release, lying, LockOptions{}); !strings.Contains(errText(err), "the lock would say") {
		t.Errorf("lying resolver: error is %v", err)
	}
}

func TestCompareLock(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Release, *Lock)
		opts   LockOptions
		want   []string
	}{
		{"nothing", func(*Release, *Lock) {}, LockOptions{}, nil},
		{"the version asked for is the locked one", func(*Release, *Lock) {}, LockOptions{Version: "1.4.0+build.7"}, nil},
		{"the file leaves the version open", func(r *Release, _ *Lock) { r.Version = "" }, LockOptions{}, nil},
		{"another version", func(*Release, *Lock) {}, LockOptions{Version: "2.0.0"}, []string{"the version is 2.0.0, locked is 1.4.0+build.7"}},
		{"images wanted", func(*Release, *Lock) {}, LockOptions{Packed: PackedImages}, []string{"charts and images are to be packed, locked are charts only (--no-images packs those)"}},
		{"another name", func(r *Release, _ *Lock) { r.Name = "store" }, LockOptions{}, []string{"the release is store, locked is shop"}},
		{"added and dropped", func(r *Release, _ *Lock) { r.Components[0].Name = "db2" }, LockOptions{}, []string{
			"component db2 is not in the lock", "component db is locked and no longer in the release file",
		}},
		{"a changed folder", func(_ *Release, l *Lock) { l.Charts[1].Inputs = digest.FromString("old") }, LockOptions{}, []string{
			"component db: its chart charts/db changed since db 0.1.0+b.2 was locked",
		}},
		{"a changed folder in a lock of images", func(_ *Release, l *Lock) { l.Packed, l.Charts[1].Inputs = PackedImages, digest.FromString("old") }, LockOptions{Packed: PackedImages}, []string{
			"component db: its chart charts/db, its values, or what the release file says of images or clusters changed since db 0.1.0+b.2 was locked",
		}},
		{"another folder", func(_ *Release, l *Lock) { l.Charts[1].Inputs, l.Charts[1].Source = digest.FromString("old"), "db" }, LockOptions{}, []string{
			"component db: its chart is charts/db, locked is db 0.1.0+b.2 from db",
		}},
		{"a version that is no longer allowed", func(_ *Release, l *Lock) {
			l.Charts[3].Inputs, l.Charts[3].Version = digest.FromString("old"), "1.13.0"
		}, LockOptions{}, []string{
			"component web: version ~1.14.0 of chart app is asked for, locked is 1.13.0",
		}},
		{"another range that allows what is locked", func(_ *Release, l *Lock) { l.Charts[3].Inputs = digest.FromString("old") }, LockOptions{}, []string{
			"component web: version ~1.14.0 of chart app is asked for now, which still allows the locked 1.14.4",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			spec := testSpec(t)
			lock := recordedLock(t, spec.Release)
			tt.change(spec.Release, lock)
			got, err := CompareLock(t.Context(), spec.Release, lock, testCharts(), tt.opts)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("differences (-want +got):\n%s", diff)
			}
		})
	}
	spec := testSpec(t)
	some := testCharts()
	delete(some, "db")
	delete(some, "web")
	_, err := CompareLock(t.Context(), spec.Release, spec.Lock, some, LockOptions{})
	if want := "component db: comparing with the lock: charts/db is not there\ncomponent web: comparing with the lock: https://charts.example.com/app is not there"; errText(err) != want {
		t.Errorf("error is %q, want %q", errText(err), want)
	}
}
