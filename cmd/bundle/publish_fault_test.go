package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"waybill/internal/registrytest"
)

const faultRelease = `apiVersion: waybill/v1
kind: Release
name: shop
version: 1.0.0
components:
  - name: web
    chart: {path: web}
    namespace: shop
`

// A faulty registry fails the request of one number, counted from arm.
type faulty struct {
	*registrytest.Server
	at, seen atomic.Int64
	forGood  atomic.Bool // every later request fails too, as when the builder was killed
	armed    atomic.Bool
}

func newFaulty(t *testing.T) *faulty {
	f := &faulty{}
	f.Server = registrytest.New(t, registrytest.Options{Fault: f.fault})
	return f
}

func (f *faulty) fault(*http.Request) *registrytest.Fault {
	if !f.armed.Load() {
		return nil
	}
	switch n, at := f.seen.Add(1)-1, f.at.Load(); {
	case n == at && !f.forGood.Load():
		return &registrytest.Fault{Status: http.StatusForbidden}
	case n >= at && f.forGood.Load():
		return &registrytest.Fault{Drop: true}
	}
	return nil
}

func (f *faulty) arm(at int, forGood bool) {
	f.at.Store(int64(at))
	f.seen.Store(0)
	f.forGood.Store(forGood)
	f.armed.Store(true)
}

// disarm reports whether the fault was met.
func (f *faulty) disarm() bool {
	f.armed.Store(false)
	return f.seen.Load() > f.at.Load()
}

func runBundle(t *testing.T, args ...string) (code int, out, errOut string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = run(t.Context(), append([]string{"bundle"}, args...), strings.NewReader(""), &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

// digestAt is the digest of what a location names, everything below it read.
func digestAt(t *testing.T, location string, policy ...string) string {
	t.Helper()
	code, out, errOut := runBundle(t, append([]string{"verify", location, "--read-data", "-o", "json"}, policy...)...)
	if code != 0 {
		t.Fatalf("verifying %s: exit %d: %s", location, code, errOut)
	}
	var result struct{ Digest string }
	if err := json.Unmarshal([]byte(out), &result); err != nil {
		t.Fatal(err)
	}
	return result.Digest
}

// Whatever request of a build fails, once or from there on, the tag names the
// previous bundle, whole, and a second run completes.
func TestBuildFaults(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("COSIGN_PASSWORD", "")
	writeFiles(t, map[string]string{
		"release.yaml": faultRelease, "web/Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.0\n",
		"web/templates/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
	})
	if code, _, errOut := runBundle(t, "keygen", "--prefix", "vendor"); code != 0 {
		t.Fatal(errOut)
	}
	reg := newFaulty(t)
	for _, forGood := range []bool{false, true} {
		for at := 0; ; at++ {
			location := fmt.Sprintf("oci://%s/shop-%t-%d:current", reg.Host, forGood, at)
			if !buildWithFault(t, reg, location, at, forGood) {
				if at < 10 {
					t.Errorf("a build of only %d requests", at)
				}
				break
			}
		}
	}
}

// buildWithFault publishes one bundle, then fails to publish another there,
// then does it again. It reports whether the fault was met.
func buildWithFault(t *testing.T, reg *faulty, location string, at int, forGood bool) bool {
	build := func(note string, signing ...string) (int, string) {
		code, _, errOut := runBundle(t, append(signing, "build", "--no-images", "--quiet", "-t", location,
			"--annotation", "note="+note, "--retry", "0")...)
		return code, errOut
	}
	if code, errOut := build("old", "--unsigned"); code != 0 {
		t.Fatal(errOut)
	}
	old := digestAt(t, location, "--policy", "none")
	signing, policy := []string{"--unsigned"}, []string{"--policy", "none"}
	if forGood { // unlocking a key takes its time, and signing asks nothing new of the other faults
		signing, policy = []string{"--signing-key", "vendor.key"}, []string{"--key", "vendor.pub"}
	}
	reg.arm(at, forGood)
	code, errOut := build("new", signing...)
	met := reg.disarm()
	switch {
	case met && code == 0:
		// A request may be one that was not needed; then all is done.
		if digestAt(t, location, policy...) == old {
			t.Errorf("request %d: success was said, and the tag names the old bundle", at)
		}
	case met:
		if got := digestAt(t, location, "--policy", "none"); got != old {
			t.Errorf("request %d: the build failed, and the tag names %s, want %s", at, got, old)
		}
		if want := map[bool]int{true: 10, false: 4}[forGood]; code != want {
			t.Errorf("request %d: exit %d, want %d: %s", at, code, want, errOut)
		}
		if !strings.Contains(errOut, reg.Host) {
			t.Errorf("request %d: the error names no host: %s", at, errOut)
		}
	}
	if code, errOut := build("new", signing...); code != 0 {
		t.Errorf("request %d: the second run fails: %s", at, errOut)
	}
	if digestAt(t, location, policy...) == old {
		t.Errorf("request %d: after the second run the tag names the old bundle", at)
	}
	return met
}

func writeFiles(t *testing.T, files map[string]string) {
	t.Helper()
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
