package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"waybill/bundle"
	"waybill/internal/flags"
	"waybill/internal/registrytest"
	"waybill/internal/ui"
	"waybill/registry"
	"waybill/signing"
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
	mu       sync.Mutex
	armed    bool
	at, seen int
	forGood  bool // every later request fails too, as when the builder was killed
	with     registrytest.Fault
}

func newFaulty(t *testing.T) *faulty {
	f := &faulty{}
	f.Server = registrytest.New(t, registrytest.Options{Fault: f.fault})
	return f
}

func (f *faulty) fault(*http.Request) *registrytest.Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.armed {
		return nil
	}
	n := f.seen
	f.seen++
	if n == f.at || n > f.at && f.forGood {
		with := f.with
		return &with
	}
	return nil
}

// arm denies one request, or drops all from one on.
func (f *faulty) arm(at int, forGood bool) {
	with := registrytest.Fault{Status: http.StatusForbidden}
	if forGood {
		with = registrytest.Fault{Drop: true}
	}
	f.armWith(at, forGood, with)
}

func (f *faulty) armWith(at int, forGood bool, with registrytest.Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed, f.at, f.seen, f.forGood, f.with = true, at, 0, forGood, with
}

// disarm reports whether the fault was met.
func (f *faulty) disarm() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed = false
	return f.seen > f.at
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

// workshop makes the working directory one with a release and a key.
func workshop(t *testing.T) {
	t.Helper()
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
}

// A release under test is packed and its key unlocked once, so that publishing it
// a thousand times is quick.
type packedRelease struct {
	old, new *bundle.Packed
	locked   bundle.LockedRelease
	signers  []*signing.Signer
}

func packRelease(t *testing.T) packedRelease {
	t.Helper()
	var r packedRelease
	quiet := ui.NewTalk(io.Discard, "bundle", ui.TalkOptions{Quiet: true})
	for note, to := range map[string]**bundle.Packed{"old": &r.old, "new": &r.new} {
		opts := buildOptions{file: "release.yaml", packed: bundle.PackedCharts, annotations: map[string]string{"note": note}}
		spec, _, err := prepare(t.Context(), nil, opts, quiet)
		if err != nil {
			t.Fatal(err)
		}
		if *to, err = bundle.Pack(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
		r.locked = spec.Lock.Release
	}
	var err error
	if r.signers, err = loadSigners(t.Context(), []string{"vendor.key"}, quiet); err != nil {
		t.Fatal(err)
	}
	return r
}

// publish does what build does once all is packed, with the exit code and the
// error that it would end with.
func (r packedRelease) publish(t *testing.T, packed *bundle.Packed, location string, format signing.Format, settings registry.Settings) (int, string) {
	t.Helper()
	client, err := registry.NewClient(settings)
	if err != nil {
		t.Fatal(err)
	}
	to, err := registry.ParseLocation(location)
	if err != nil {
		t.Fatal(err)
	}
	var out, errOut bytes.Buffer
	p := publisher{
		client: client, packed: packed, lock: &bundle.Lock{Release: r.locked}, signers: r.signers, sign: signOptions{recursive: "charts", format: format},
		talk: ui.NewTalk(&errOut, "bundle", ui.TalkOptions{Quiet: true}),
	}
	err = p.publishAll(t.Context(), []registry.Location{to}, &out, flags.Text)
	code := ui.Report(t.Context(), &errOut, "bundle", err)
	if (code == 0) != strings.Contains(out.String(), packed.Root.Digest.String()) {
		t.Errorf("exit %d, and stdout is %q", code, out.String())
	}
	return code, errOut.String()
}

// tagged is the digest that a tag names; empty: there is no such tag.
func tagged(t *testing.T, reg *registrytest.Server, repository, tag string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodHead, reg.URL+"/v2/"+repository+"/manifests/"+tag, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.Header.Get("Docker-Content-Digest")
}

// A fault of a build, and the code it must end with.
type buildFault struct {
	with    registrytest.Fault
	forGood bool
	code    int
	every   int // only each so-manieth request, for faults that take their time
}

// Whatever goes wrong with whatever request of a build: the tag names the
// previous bundle, the exit code is the right one, the first cause is said, and a
// second run completes with the same digest.
func TestBuildFaults(t *testing.T) {
	workshop(t)
	release := packRelease(t)
	reg := newFaulty(t)
	for name, fault := range map[string]buildFault{
		"dropped":              {registrytest.Fault{Drop: true}, false, 10, 1},
		"dropped from there":   {registrytest.Fault{Drop: true}, true, 10, 1},
		"500":                  {registrytest.Fault{Status: 500}, false, 10, 1},
		"401":                  {registrytest.Fault{Status: 401}, false, 4, 1},
		"403":                  {registrytest.Fault{Status: 403}, false, 4, 1},
		"too many from there":  {registrytest.Fault{Status: 429, Header: http.Header{"Retry-After": {"0"}}}, true, 10, 1},
		"the answer is cut":    {registrytest.Fault{Cut: 1}, false, 10, 1},
		"there is no answer":   {registrytest.Fault{Hang: true}, false, 10, 3},
		"the answer stops":     {registrytest.Fault{Stall: 1}, false, 10, 3},
		"no answer from there": {registrytest.Fault{Hang: true}, true, 10, 9},
	} {
		for _, format := range []signing.Format{signing.FormatTag, signing.FormatReferrer} {
			t.Run(fmt.Sprintf("%s, form %d", name, format), func(t *testing.T) {
				requests := 0
				for at := 0; buildWithFault(t, release, reg, format, at, fault); at += fault.every {
					requests = at
				}
				if requests < 20 {
					t.Errorf("a build of only %d requests", requests)
				}
			})
		}
	}
}

// buildWithFault publishes one bundle, then another there with a fault, then does
// it again. It reports whether the fault was met.
func buildWithFault(t *testing.T, release packedRelease, reg *faulty, format signing.Format, at int, fault buildFault) bool {
	repository := fmt.Sprintf("shop-%x", rand.Uint64())
	location := "oci://" + reg.Host + "/" + repository + ":current"
	unfaulted := registry.Settings{}
	if code, errOut := release.publish(t, release.old, location, format, unfaulted); code != 0 {
		t.Fatal(errOut)
	}
	impatient := registry.Settings{Retry: -1}
	if fault.with.Hang || fault.with.Stall > 0 {
		impatient.IdleTimeout = 150 * time.Millisecond
	}
	reg.armWith(at, fault.forGood, fault.with)
	code, errOut := release.publish(t, release.new, location, format, impatient)
	met := reg.disarm()
	got := tagged(t, reg.Server, repository, "current")
	switch {
	case code == 0 && got != release.new.Root.Digest.String():
		t.Errorf("request %d: success was said, and the tag names %s", at, got)
	case code == 0:
		// The request was one that is not needed. Then all is done.
	case got != release.old.Root.Digest.String():
		t.Errorf("request %d: exit %d, and the tag names %s", at, code, got)
	case code != fault.code:
		t.Errorf("request %d: exit %d, want %d: %s", at, code, fault.code, errOut)
	case !strings.HasPrefix(errOut, "bundle: error: ") || !strings.Contains(errOut, reg.Host) || strings.Contains(errOut, "cancel"):
		t.Errorf("request %d: the error is no first cause with a host: %s", at, errOut)
	}
	if code, errOut := release.publish(t, release.new, location, format, unfaulted); code != 0 {
		t.Errorf("request %d: the second run fails: %s", at, errOut)
	}
	if got := tagged(t, reg.Server, repository, "current"); got != release.new.Root.Digest.String() {
		t.Errorf("request %d: after the second run the tag names %s", at, got)
	}
	if at%10 == 0 {
		digestAt(t, location, "--key", "vendor.pub")
	}
	return met
}

// What passes is lived through: at whatever request it happens, the build ends
// well.
func TestBuildFaultsThatPass(t *testing.T) {
	workshop(t)
	release := packRelease(t)
	reg := newFaulty(t)
	for name, fault := range map[string]registrytest.Fault{
		"dropped":           {Drop: true},
		"busy":              {Status: 503, Body: "<html>try later</html>"},
		"too many":          {Status: 429, Header: http.Header{"Retry-After": {"0"}}},
		"the answer is cut": {Cut: 1},
	} {
		t.Run(name, func(t *testing.T) {
			met := true
			for at := 0; met; at += 2 {
				repository := fmt.Sprintf("shop-%x", rand.Uint64())
				reg.armWith(at, false, fault)
				code, errOut := release.publish(t, release.new, "oci://"+reg.Host+"/"+repository+":current", signing.FormatTag, registry.Settings{})
				met = reg.disarm()
				if got := tagged(t, reg.Server, repository, "current"); code != 0 || got != release.new.Root.Digest.String() {
					t.Errorf("request %d: exit %d, the tag names %q: %s", at, code, got, errOut)
				}
			}
		})
	}
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
