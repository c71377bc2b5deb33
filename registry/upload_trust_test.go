package registry_test

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"waybill/internal/registrytest"
	"waybill/registry"
)

// Content that is wrong at the source is the source's fault, also where the
// target is left to hash it, and where the target takes anything.
func TestCopyOfWrongContentThatTheTargetHashes(t *testing.T) {
	c := client(t, quick())
	layer := random(t, 65<<20)
	config := blob(ocispec.MediaTypeImageConfig, "{}")
	whole := cargo{pieces: []piece{config, layer}, root: image(t, config, "", nil, layer)}
	whole.pieces = append(whole.pieces, whole.root)
	source := filepath.Join(t.TempDir(), "layout")
	whole.lay(t, c, "oci-layout:"+source, "1.0.0")
	at := filepath.Join(source, "blobs", "sha256", layer.desc.Digest.Encoded())
	for name, tc := range map[string]struct {
		fault   func(*http.Request) *registrytest.Fault
		spoil   bool
		refused int
	}{
		"right":                         {refused: 1},
		"wrong":                         {spoil: true, refused: 2},
		"wrong, and the target is lazy": {spoil: true, fault: nth("PUT", &registrytest.Fault{Status: http.StatusCreated})},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.spoil {
				spoil(t, at)
				defer spoil(t, at)
			}
			reg := registrytest.New(t, registrytest.Options{Fault: tc.fault})
			_, err := carry(t.Context(), c, location(t, "oci-layout:"+source), location(t, "oci://"+reg.Host+"/mirror"), "1.0.0", registry.CopyOptions{Concurrency: 1})
			var failed *registry.CopyError
			var content *registry.ContentError
			switch {
			case !tc.spoil && err != nil:
				t.Fatal(err)
			case tc.spoil && (!errors.As(err, &failed) || failed.Side != "source" || failed.Digest != layer.desc.Digest || !errors.As(err, &content)):
				t.Errorf("got %v", err)
			}
			if n := count(reg, http.MethodPut, "/uploads/", http.StatusBadRequest); n != tc.refused {
				t.Errorf("the target refused %d times, want %d", n, tc.refused)
			}
			if n := reg.Sessions(); n != 0 {
				t.Errorf("%d sessions are left", n)
			}
		})
	}
}

// spoil changes the last byte of a file, and changes it back.
func spoil(t *testing.T, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)-1] ^= 1
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}
