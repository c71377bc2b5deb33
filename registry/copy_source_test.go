package registry_test

import (
	"sync/atomic"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"waybill/internal/registrytest"
	"waybill/registry"
)

// A copy goes on when the target loses a session in the middle of a blob, with
// the content read again from where it comes, and counts no byte twice.
func TestCopySurvivesALostSession(t *testing.T) {
	_, s, from := served(t, registrytest.Options{})
	target := registrytest.New(t, registrytest.Options{
		Uploads: registrytest.Uploads{LosesPart: true},
		Fault:   nth("PATCH", nil, nil, &registrytest.Fault{Take: 10}),
	})
	settings := inChunks()
	settings.ChunkSize = 10_000
	c := client(t, settings)
	to := location(t, "oci://"+target.Host+"/mirror:1.0.0")
	var sent atomic.Int64
	dst, err := c.Create(t.Context(), to)
	if err != nil {
		t.Fatal(err)
	}
	src := open(t, c, from)
	result, err := registry.Copy(t.Context(), src, dst, []ocispec.Descriptor{src.Root}, registry.CopyOptions{OnBytes: func(n int) { sent.Add(int64(n)) }})
	if err != nil {
		t.Fatal(err)
	}
	if err := fetch(t.Context(), dst, s.imageLayer); err != nil {
		t.Error(err)
	}
	if got := sent.Load(); got > result.Copied.Bytes {
		t.Errorf("%d bytes were counted, of %d", got, result.Copied.Bytes)
	}
}
