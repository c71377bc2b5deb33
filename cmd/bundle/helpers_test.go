package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
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
