package main

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"waybill/internal/flags"
	"waybill/internal/registrytest"
)

// Whatever a registry leaves unanswered, the program says before long what it is
// waiting for.
func TestSilentRegistryIsNamed(t *testing.T) {
	var hang atomic.Bool
	var method atomic.Value
	server := registrytest.New(t, registrytest.Options{Fault: func(r *http.Request) *registrytest.Fault {
		if hang.Load() && r.Method == method.Load() {
			return &registrytest.Fault{Hang: true}
		}
		return nil
	}})
	dir := releaseFolder(t, faultRelease)
	file := filepath.Join(dir, "release.yaml")
	place := "oci://" + server.Host + "/shop:1.0.0"
	if code, _, errOut := runBundle(t, "build", "-f", file, "--no-images", "--unsigned", "-t", place); code != 0 {
		t.Fatal(errOut)
	}
	hang.Store(true)
	tests := map[string]struct {
		method string
		args   []string
		want   string
	}{
		"reading": {
			http.MethodGet, []string{"verify", place, "--policy", "none"},
			"bundle: still checking oci://[^;]*; waiting for GET http://[^ ]*/v2/[^ ]* \\(",
		},
		"a list": {
			http.MethodGet, []string{"list", "oci://" + server.Host + "/shop"},
			"bundle: still running `bundle list`; waiting for GET http://[^ ]*/v2/shop/tags/list \\(",
		},
		"pushing": {
			http.MethodPut, []string{"build", "-f", file, "--no-images", "--unsigned", "--annotation", "new=yes", "-t", "oci://" + server.Host + "/shop:new"},
			"bundle: still pushing shop 1.0.0 to oci://[^:]*:[0-9]*/shop:new: [0-9]+ of [0-9]+ parts, .* of .*; waiting for sha256:[0-9a-f]{64} .*: PUT http://",
		},
		"looking whether it can be pushed": {
			http.MethodPost, []string{"build", "-f", file, "--no-images", "--unsigned", "-t", "oci://" + server.Host + "/new"},
			"bundle: still looking at oci://[^:]*:[0-9]*/new:1.0.0; waiting for POST http://",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			method.Store(tt.method)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			p := program()
			p.Heartbeat = 100 * time.Millisecond
			var said bytes.Buffer
			if err := flags.Run(ctx, p, append([]string{"bundle"}, tt.args...), strings.NewReader(""), &bytes.Buffer{}, &said); err == nil {
				t.Error("the command succeeded")
			}
			if !regexp.MustCompile(tt.want).MatchString(said.String()) {
				t.Errorf("said\n%swant %s", said.String(), tt.want)
			}
		})
	}
}

// releaseFolder writes a release file and the chart "web" beside it.
func releaseFolder(t *testing.T, release string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"release.yaml":           release,
		"web/Chart.yaml":         "apiVersion: v2\nname: web\nversion: 1.0.0\n",
		"web/templates/map.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
