package registry_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"waybill/internal/registrytest"
	"waybill/registry"
)

// What is another kind of file says what to do about it, and is left alone when it
// is to be written to.
func TestOtherFilesAreAdvised(t *testing.T) {
	var docker bytes.Buffer
	w := tar.NewWriter(&docker)
	if err := w.WriteHeader(&tar.Header{Name: "manifest.json", Typeflag: tar.TypeReg, Size: 2, Mode: 0o644}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("[]")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct{ data, advice string }{
		"gzip":             {"\x1f\x8b\x08\x00", "unpack it first"},
		"zstd":             {"\x28\xb5\x2f\xfd\x00", "unpack it first"},
		"of docker save":   {docker.String(), "docker-archive:"},
		"text":             {"mine\n", ""},
		"one that was cut": {docker.String()[:600], ""},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "a.tar")
			if err := os.WriteFile(path, []byte(tt.data), 0o644); err != nil {
				t.Fatal(err)
			}
			c := client(t, quick())
			_, err := c.Open(t.Context(), location(t, path))
			var wrong *registry.ContentError
			if !errors.As(err, &wrong) || (wrong.Advice == "") != (tt.advice == "") || !strings.Contains(wrong.Advice, tt.advice) {
				t.Errorf("%+v", err)
			}
			var other *registry.LocationError
			if _, err := c.Update(t.Context(), location(t, path)); !errors.As(err, &other) || !strings.Contains(err.Error(), "left alone") {
				t.Errorf("written to: %v", err)
			}
			if err := c.Probe(t.Context(), location(t, path)); !errors.As(err, &other) {
				t.Errorf("the probe says %v", err)
			}
			if now, err := os.ReadFile(path); err != nil || string(now) != tt.data {
				t.Errorf("%q is there now, %v", now, err)
			}
		})
	}
}

// A blob of another size than its descriptor's says both.
func TestBlobOfAnotherSize(t *testing.T) {
	s := newSample(t, "short")
	reg := registrytest.New(t, registrytest.Options{Fault: func(r *http.Request) *registrytest.Fault {
		if !strings.HasSuffix(r.URL.Path, s.chartLayer.desc.Digest.String()) || r.Method == http.MethodPut || r.Method == http.MethodPost {
			return nil
		}
		return &registrytest.Fault{Status: http.StatusOK, Header: http.Header{"Content-Length": {"3"}}, Body: "cha"}
	}})
	c := client(t, quick())
	at := "oci://" + reg.Host + "/x:1"
	store(t, c, strings.TrimSuffix(at, ":1"), "1", s)
	err := fetch(t.Context(), open(t, c, at), s.chartLayer)
	var wrong *registry.ContentError
	if !errors.As(err, &wrong) || !strings.Contains(wrong.Reason, "it has 3 bytes, its descriptor says 14") {
		t.Errorf("%v", err)
	}
}
