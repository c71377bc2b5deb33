package releasefile

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"waybill/bundle"
	"waybill/internal/files"
)

// write writes files below a new folder, which it returns.
func write(t *testing.T, tree map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range tree {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func mustRead(t *testing.T, path string) *File {
	t.Helper()
	file, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

const head = "apiVersion: waybill/v1\nkind: Release\nname: shop\nversion: 1.0.0\ncomponents:\n"

func TestLockPath(t *testing.T) {
	for path, want := range map[string]string{
		"release.yaml": "release.lock.yaml", "a/shop.yml": "a/shop.lock.yaml", "shop.prod.yaml": "shop.prod.lock.yaml", "release": "release.lock.yaml",
	} {
		if got := (&File{Path: path}).LockPath(); got != want {
			t.Errorf("lock of %s is %s, want %s", path, got, want)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	dir := write(t, map[string]string{
		"broken.yaml": "kind: Nothing", "values.yaml": head + "  - {name: a, namespace: a, chart: {path: a}, valuesFiles: [absent.yaml]}\n",
		"cycle.yaml": head + "  - {name: a, namespace: a, chart: {path: a}, needs: [a]}\n", "cycle.lock.yaml": "kind: Nothing",
	})
	var unreadable *files.Error
	if _, err := Read(filepath.Join(dir, "absent.yaml")); !errors.As(err, &unreadable) {
		t.Errorf("absent: error is %v", err)
	}
	var wrong *bundle.FileError
	if _, err := Read(filepath.Join(dir, "broken.yaml")); !errors.As(err, &wrong) {
		t.Errorf("broken: error is %v", err)
	}
	if _, err := mustRead(t, filepath.Join(dir, "values.yaml")).ValuesFiles(); !errors.As(err, &unreadable) {
		t.Errorf("values file: error is %v", err)
	}
	cycle := mustRead(t, filepath.Join(dir, "cycle.yaml"))
	var lint *bundle.LintError
	if err := cycle.Check(); !errors.As(err, &lint) {
		t.Errorf("cycle: error is %v", err)
	}
	if _, _, err := cycle.ReadLock(); !errors.As(err, &wrong) {
		t.Errorf("lock: error is %v", err)
	}
	lock, data, err := mustRead(t, filepath.Join(dir, "values.yaml")).ReadLock()
	if lock != nil || data != nil || err != nil {
		t.Errorf("no lock: %v, %q, %v", lock, data, err)
	}
}

func TestHosts(t *testing.T) {
	dir := write(t, map[string]string{"release.yaml": head +
		"  - {name: a, namespace: a, chart: {repository: 'https://charts.example:8443/x', name: a, version: 1.0.0}}\n" +
		"  - {name: b, namespace: b, chart: {repository: 'oci://registry.example/x', name: b, version: 1.0.0}}\n" +
		"  - {name: c, namespace: c, chart: {git: 'https://git.example/c.git', ref: main, path: .}}\n" +
		"  - {name: d, namespace: d, chart: {git: 'git@ssh.example:c.git', ref: main, path: .}}\n" +
		"  - {name: e, namespace: e, chart: {repository: 'oci://registry.example/y', name: e, version: 1.0.0}}\n" +
		"  - {name: f, namespace: f, chart: {path: f}}\n"})
	got := mustRead(t, filepath.Join(dir, "release.yaml")).Hosts()
	if diff := cmp.Diff([]string{"charts.example:8443", "git.example", "registry.example"}, got); diff != "" {
		t.Errorf("hosts (-want +got):\n%s", diff)
	}
}

// chartFiles is a small chart.
func chartFiles(dir, name, version string) map[string]string {
	return map[string]string{
		dir + "/Chart.yaml":         "apiVersion: v2\nname: " + name + "\nversion: " + version + "\n",
		dir + "/templates/map.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\n",
	}
}

// built is a release file on disk with lock and values file, and the bundle made
// of it.
func built(t *testing.T) (string, *File, *bundle.Bundle) {
	t.Helper()
	tree := chartFiles("web", "web", "1.2.3")
	tree["release.yaml"] = head + "  - {name: web, namespace: web, chart: {path: web}, valuesFiles: [v.yaml]}\n"
	tree["v.yaml"] = "a: b\n"
	dir := write(t, tree)
	file := mustRead(t, filepath.Join(dir, "release.yaml"))
	values, err := file.ValuesFiles()
	if err != nil {
		t.Fatal(err)
	}
	r := file.Resolver(ResolveOptions{Values: values})
	defer r.Close()
	lock, packed, err := bundle.MakeLock(t.Context(), file.Release, r, bundle.LockOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if changed, err := file.WriteLock(lock); err != nil || !changed {
		t.Fatalf("writing the lock: %t, %v", changed, err)
	}
	if changed, err := file.WriteLock(lock); err != nil || changed {
		t.Errorf("writing the same lock again: %t, %v", changed, err)
	}
	store := newMemory()
	root, err := bundle.Build(t.Context(), store, bundle.Spec{
		ReleaseFile: file.Data, Lock: lock, ValuesFiles: values, Charts: packed,
	}, bundle.BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := bundle.Open(t.Context(), store, root)
	if err != nil {
		t.Fatal(err)
	}
	return dir, file, b
}

func TestDifferences(t *testing.T) {
	tests := []struct {
		name string
		tree map[string]string // written over what was built; "" removes
		want int
	}{
		{"nothing", nil, 0},
		{"how it is written", map[string]string{"release.yaml": head + "  # a component\n  - name: web\n    namespace: 'web'\n    valuesFiles: [v.yaml]\n    chart: {path: web}\n"}, 0},
		{"the link to the bundle", map[string]string{"release.yaml": "artifact: oci://r.example/shop@sha256:" + zeros + "\n" + head + "  - {name: web, namespace: web, chart: {path: web}, valuesFiles: [v.yaml]}\n"}, 0},
		{"neither lock nor values lie there", map[string]string{"release.lock.yaml": "", "v.yaml": ""}, 0},
		{"a field", map[string]string{"release.yaml": head + "  - {name: web, namespace: other, chart: {path: web}, valuesFiles: [v.yaml]}\n"}, 1},
		{"a values file", map[string]string{"v.yaml": "a: c\n"}, 1},
		{"the lock", map[string]string{"release.lock.yaml": "apiVersion: waybill/v1\nkind: Lock\npacked: charts\nrelease: {name: shop, version: 1.0.0}\ncharts: []\n"}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir, _, b := built(t)
			for name, text := range tt.tree {
				path := filepath.Join(dir, name)
				var err error
				if text == "" {
					err = os.Remove(path)
				} else {
					err = os.WriteFile(path, []byte(text), 0o644)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			got, err := mustRead(t, filepath.Join(dir, "release.yaml")).Differences(b)
			if err != nil || len(got) != tt.want {
				t.Errorf("differences are %q, %v, want %d", got, err, tt.want)
			}
		})
	}
}

const zeros = "0000000000000000000000000000000000000000000000000000000000000000"

func TestLockedArchives(t *testing.T) {
	dir, file, b := built(t)
	values, err := file.ValuesFiles()
	if err != nil {
		t.Fatal(err)
	}
	sources := ResolveOptions{Values: values}
	if err := file.RequireFresh(t.Context(), b.Lock, sources, bundle.LockOptions{}); err != nil {
		t.Error(err)
	}
	got, err := file.LockedArchives(t.Context(), b.Lock, []string{"web"}, sources, bundle.LockOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want, err := b.Chart(t.Context(), "web")
	if err != nil || !cmp.Equal(want, got["web"]) {
		t.Errorf("the archive is not the bundle's: %v", err)
	}

	// What changed on disk is stale before anything is resolved, and found if it changes then.
	if err := os.WriteFile(filepath.Join(dir, "web/values.yaml"), []byte("a: 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var stale *bundle.StaleError
	if err := file.RequireFresh(t.Context(), b.Lock, sources, bundle.LockOptions{}); !errors.As(err, &stale) {
		t.Errorf("changed: error is %v", err)
	}
	if _, err := file.LockedArchives(t.Context(), b.Lock, nil, sources, bundle.LockOptions{}); !errors.As(err, &stale) {
		t.Errorf("changed: error is %v", err)
	}
	if err := file.RequireFresh(t.Context(), nil, sources, bundle.LockOptions{}); !errors.As(err, &stale) {
		t.Errorf("no lock: error is %v", err)
	}
}

// Whatever was given, comparing asks no network.
func TestCompareAsksNoNetwork(t *testing.T) {
	dir := write(t, map[string]string{"release.yaml": head + "  - {name: web, namespace: web, chart: {repository: 'https://charts.example', name: web, version: ~1}}\n"})
	file := mustRead(t, filepath.Join(dir, "release.yaml"))
	lock := &bundle.Lock{Packed: bundle.PackedCharts, Release: bundle.LockedRelease{Name: "shop", Version: "1.0.0"}, Charts: []bundle.LockedChart{{Component: "web", Name: "web", Version: "1.2.3", Source: "https://charts.example/web"}}}
	got, err := file.Compare(context.Background(), lock, ResolveOptions{Network: noNetwork{t}}, bundle.LockOptions{})
	if err != nil || len(got) != 1 {
		t.Errorf("differences are %q, %v", got, err)
	}
}
