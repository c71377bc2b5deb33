package bundle

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
)

func TestLockEncoding(t *testing.T) {
	spec := testSpec(t)
	spec.Lock.Packed = PackedImages
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

// A recorder notes what it was asked to keep.
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
	return r.charts.Resolve(ctx, c, locked)
}

func TestMakeLockKeeps(t *testing.T) {
	spec := testSpec(t)
	previous := &Lock{Charts: []LockedChart{{Component: "db", Version: "0.0.9"}, {Component: "web", Version: "1.14.1"}, {Component: "gone", Version: "3.0.0"}}}
	tests := []struct {
		name string
		opts LockOptions
		want map[string]string
	}{
		{"nothing locked", LockOptions{}, map[string]string{}},
		{"what is locked", LockOptions{Previous: previous}, map[string]string{"db": "0.0.9", "web": "1.14.1"}},
		{"all but the named", LockOptions{Previous: previous, Update: []string{"web"}}, map[string]string{"db": "0.0.9"}},
		{"nothing", LockOptions{Previous: previous, UpdateAll: true}, map[string]string{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := &recorder{charts: testCharts(), kept: map[string]string{}}
			lock, charts, err := MakeLock(t.Context(), spec.Release, r, tt.opts)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, r.kept); diff != "" {
				t.Errorf("offered to keep (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(spec.Lock, lock); diff != "" {
				t.Errorf("lock (-want +got):\n%s", diff)
			}
			if len(charts) != 4 || charts["db"].Descriptor().Digest != r.charts["db"].desc.Digest {
				t.Errorf("charts are %v", charts)
			}
		})
	}
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
	if want := "resolving the chart of component db: charts/db is not there\nresolving the chart of component rules: rules/a.yaml, rules/b.yaml is not there"; errText(err) != want {
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
		{"images wanted", func(*Release, *Lock) {}, LockOptions{Packed: PackedImages}, []string{"charts and images are to be packed, locked are charts only"}},
		{"another name", func(r *Release, _ *Lock) { r.Name = "store" }, LockOptions{}, []string{"the release is store, locked is shop"}},
		{"added and dropped", func(r *Release, _ *Lock) { r.Components[0].Name = "db2" }, LockOptions{}, []string{
			"component db2 is not in the lock", "component db is locked and no longer in the release file",
		}},
		{"a changed source", func(_ *Release, l *Lock) { l.Charts[1].Inputs = digest.FromString("old") }, LockOptions{}, []string{
			"component db: its chart charts/db changed since db 0.1.0+b.2 was locked",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			spec := testSpec(t)
			tt.change(spec.Release, spec.Lock)
			got, err := CompareLock(t.Context(), spec.Release, spec.Lock, testCharts(), tt.opts)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("differences (-want +got):\n%s", diff)
			}
		})
	}
	spec := testSpec(t)
	if _, err := CompareLock(t.Context(), spec.Release, spec.Lock, charts{}, LockOptions{}); errText(err) != "comparing component db with the lock: charts/db is not there" {
		t.Errorf("error is %v", err)
	}
}
