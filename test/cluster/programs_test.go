package cluster

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fill writes empty programs into a folder.
func fill(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// isolate gives the test an empty cache and no folders of programs.
func isolate(t *testing.T) {
	t.Helper()
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv("HOME", cache)
	t.Setenv("WAYBILL_CLUSTER_BIN", "")
	t.Setenv("KUBEBUILDER_ASSETS", "")
}

func TestFind(t *testing.T) {
	isolate(t)
	if _, err := Find(); !errors.Is(err, ErrNoPrograms) || Available() {
		t.Errorf("nothing there: %v, available %v", err, Available())
	}
	assets, bin := t.TempDir(), t.TempDir()
	t.Setenv("KUBEBUILDER_ASSETS", assets)
	if _, err := Find(); err == nil || !strings.Contains(err.Error(), assets) {
		t.Errorf("an empty folder is named: %v", err)
	}
	fill(t, assets, "etcd", "kube-apiserver")
	if _, err := Find(); !errors.Is(err, ErrNoPrograms) {
		t.Errorf("no controller manager: %v", err)
	}
	t.Setenv("WAYBILL_CLUSTER_BIN", bin)
	fill(t, bin, "etcd", "kube-controller-manager")
	found, err := Find()
	if err != nil || !Available() {
		t.Fatalf("all there: %v", err)
	}
	want := Programs{
		"etcd":                    filepath.Join(bin, "etcd"),
		"kube-apiserver":          filepath.Join(assets, "kube-apiserver"),
		"kube-controller-manager": filepath.Join(bin, "kube-controller-manager"),
	}
	for name, path := range want {
		if found[name] != path {
			t.Errorf("%s is %s, want %s", name, found[name], path)
		}
	}
}

func TestFindFurtherPrograms(t *testing.T) {
	isolate(t)
	bin := t.TempDir()
	t.Setenv("WAYBILL_CLUSTER_BIN", bin)
	fill(t, bin, "etcd", "kube-apiserver", "kube-controller-manager", "kubelet")
	if _, err := Find("kubelet", "kube-scheduler"); !errors.Is(err, ErrNoPrograms) || !strings.HasPrefix(err.Error(), "kube-scheduler: ") {
		t.Errorf("the missing one is named: %v", err)
	}
	fill(t, bin, "kube-scheduler")
	found, err := Find("kubelet", "kube-scheduler")
	if err != nil || found["kubelet"] != filepath.Join(bin, "kubelet") || len(found) != 5 {
		t.Errorf("all there: %v, %v", found, err)
	}
	if found, err := Find(); err != nil || len(found) != 3 {
		t.Errorf("only what is asked for: %v, %v", found, err)
	}
}

// fakeGo puts a go before the real one that does what the script says; the output's path is in $out.
func fakeGo(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	script = "#!/bin/sh\nwhile [ \"$1\" != -o ]; do shift; done\nout=$2\n" + script
	if err := os.WriteFile(filepath.Join(dir, "go"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

func TestBuildFillsTheCacheWithWholePrograms(t *testing.T) {
	isolate(t)
	var log strings.Builder
	fakeGo(t, `case $out in *apiserver) echo half >"$out"; exit 1;; esac; echo whole >"$out"`)
	if _, err := Build(t.Context(), &log); err == nil || !strings.Contains(err.Error(), "building kube-apiserver") {
		t.Fatalf("a build that fails: %v", err)
	}
	tools, err := findTools()
	if err != nil {
		t.Fatal(err)
	}
	if got := names(t, tools.cache); got != "etcd lock" {
		t.Errorf("after a failure the cache holds %s", got)
	}
	log.Reset()
	fakeGo(t, `echo whole >"$out"`)
	found, err := Build(t.Context(), &log)
	if err != nil {
		t.Fatal(err)
	}
	if got := names(t, tools.cache); got != "etcd kube-apiserver kube-controller-manager lock" {
		t.Errorf("the cache holds %s", got)
	}
	if said := log.String(); strings.Contains(said, "building etcd") || !strings.Contains(said, "building kube-apiserver for Kubernetes 1.") {
		t.Errorf("with etcd there, a build says:\n%s", said)
	}
	fakeGo(t, "exit 1")
	again, err := Build(t.Context(), &log)
	if err != nil || again["kube-apiserver"] != found["kube-apiserver"] {
		t.Errorf("with all there: %v, %v", again, err)
	}
}

// names are the names in a folder, sorted.
func names(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return strings.Join(names, " ")
}
