package main

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"waybill/internal/registrytest"
)

// manyCharts is a release of n components, each with a chart of its own.
func manyCharts(t *testing.T, n int) {
	t.Helper()
	t.Chdir(t.TempDir())
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	var release strings.Builder
	release.WriteString("apiVersion: waybill/v1\nkind: Release\nname: shop\nversion: 1.0.0\ncomponents:\n")
	files := map[string]string{}
	for i := range n {
		name := fmt.Sprintf("part-%d", i)
		fmt.Fprintf(&release, "  - {name: %s, chart: {path: %s}, namespace: shop}\n", name, name)
		files[name+"/Chart.yaml"] = "apiVersion: v2\nname: " + name + "\nversion: 1.0.0\n"
		files[name+"/templates/a.yaml"] = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\n"
	}
	files["release.yaml"] = release.String()
	writeFiles(t, files)
}

// Of twenty uploads at the same time one fails: its error is the one that is
// said, alone, with all that is needed to find what it was about.
func TestFirstCauseOfManyPushes(t *testing.T) {
	manyCharts(t, 20)
	whose := regexp.MustCompile(`^bundle: error: pushing (chart part-[0-9]+ 1\.0\.0|the release), sha256:[0-9a-f]{64}: `)
	for method, tc := range map[string]struct {
		status, code int
		step, hint   string
	}{
		http.MethodPost: {403, 4, "opening the upload", "log in"},
		http.MethodPut:  {500, 10, "sending all", "running it again"},
	} {
		var puts atomic.Int64
		reg := registrytest.New(t, registrytest.Options{Fault: func(r *http.Request) *registrytest.Fault {
			if r.Method == method && strings.Contains(r.URL.Path, "/blobs/uploads/") && puts.Add(1) == 15 {
				return &registrytest.Fault{Status: tc.status}
			}
			return nil
		}})
		code, out, errOut := runBundle(t, "build", "--no-images", "--quiet", "--unsigned", "--concurrency", "8", "-t", "oci://"+reg.Host+"/shop")
		if code != tc.code || out != "" {
			t.Errorf("%s: exit %d, stdout %q", method, code, out)
		}
		lines := strings.Split(strings.TrimSpace(errOut), "\n")
		if len(lines) != 2 || strings.Contains(errOut, "cancel") || !whose.MatchString(lines[0]) {
			t.Errorf("%s: it says\n%s", method, errOut)
		}
		for _, want := range []string{"oci://" + reg.Host + "/shop", tc.step, fmt.Sprint(tc.status), tc.hint, "parts are there"} {
			if !strings.Contains(errOut, want) {
				t.Errorf("%s: no %q in\n%s", method, want, errOut)
			}
		}
	}
}

// Every reference is turned into a digest once in a run; the rest asks by digest.
func TestReferencesAreResolvedOnce(t *testing.T) {
	workshop(t)
	reg := registrytest.New(t, registrytest.Options{})
	place := "oci://" + reg.Host + "/shop:1.0.0"
	if code, _, errOut := runBundle(t, "build", "--no-images", "--signing-key", "vendor.key", "-t", place); code != 0 {
		t.Fatal(errOut)
	}
	for _, args := range [][]string{
		{"verify", place, "--key", "vendor.pub", "--read-data"},
		{"inspect", place, "--policy", "none"},
		{"sign", place, "--key", "vendor.key", "--policy", "none"},
		{"copy", place, "oci://" + reg.Host + "/mirror:1.0.0", "--key", "vendor.pub"},
		{"images", place, "--policy", "none"},
	} {
		reg.Forget()
		if code, _, errOut := runBundle(t, args...); code != 0 {
			t.Errorf("%s: exit %d: %s", args[0], code, errOut)
			continue
		}
		asked := 0
		for _, r := range reg.Requests() {
			if r.Path == "/v2/shop/manifests/1.0.0" {
				asked++
			}
		}
		if asked != 1 {
			t.Errorf("%s asks %d times what the tag names", args[0], asked)
		}
	}
}

// Patience that is spent ends a build and a copy with the host and with how much
// is there already; the next run sends only the rest.
func TestPatienceIsSpent(t *testing.T) {
	var busy registrytest.Injector
	source, target := registrytest.New(t, registrytest.Options{}), registrytest.New(t, registrytest.Options{Fault: busy.Fault})
	from := "oci://" + source.Host + "/shop:1.0.0"
	signedRelease(t, from)
	for name, args := range map[string][]string{
		"copy":  {"copy", from, "oci://" + target.Host + "/mirror:1.0.0", "--key", "vendor.pub"},
		"build": {"build", "--no-images", "--unsigned", "-t", "oci://" + target.Host + "/built:1.0.0"},
	} {
		busy.Arm(29, true, registrytest.Fault{Status: 429, Header: http.Header{"Retry-After": {"1"}}, Body: "<html>slow down</html>"})
		code, out, errOut := runBundle(t, append(args, "--retry", "1")...)
		busy.Disarm()
		if code != 10 || out != "" {
			t.Errorf("%s: exit %d, stdout %q", name, code, out)
		}
		for _, want := range []string{"rate limited (429)", target.Host + " is asked nothing for 1", " are there and need not be sent again", "running it again is right"} {
			if !strings.Contains(errOut, want) {
				t.Errorf("%s: no %q in\n%s", name, want, errOut)
			}
		}
		target.Forget()
		if code, _, errOut := runBundle(t, args...); code != 0 {
			t.Errorf("%s: the second run: exit %d: %s", name, code, errOut)
		}
		for _, r := range target.Requests() {
			if r.Method == http.MethodPut && strings.Contains(r.Path, "/blobs/uploads/") && name == "build" {
				t.Errorf("%s: a blob was sent again", name)
			}
		}
	}
}
