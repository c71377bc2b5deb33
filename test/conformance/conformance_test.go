// Package conformance_test holds the registry of "bundle serve" against the
// conformance suite of the OCI distribution specification
// (github.com/opencontainers/distribution-spec/conformance): a folder in
// everything it offers, an archive in reading.
//
// It knows how the suite's program is called, and nothing of HTTP. The program is
// looked for as WAYBILL_PEERS/conformance, which "make peers" builds; without it
// the test is skipped.
package conformance_test

import (
	"bytes"
	"encoding/json"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"

	"waybill/registry"
)

// What a folder passes, in the suite's words. "Blob delete" is not offered.
var offered = []string{
	"Tag listing", "Tag delete", "Tag delete atomic", "Blob upload cancel", "Blob push", "Blob post only", "Blob post put", "Blob chunked", "Blob streaming",
	"Blob mount", "Blob anonymous mount", "Blob get", "Blob get range", "Blob head", "Manifest put by digest", "Manifest put by tag", "Manifest put with subject",
	"Manifest get by digest", "Manifest get by tag", "Manifest head by digest", "Manifest head by tag", "Manifest delete", "Manifest delete atomic", "Referrers", "Ping",
	"Nested Index", "Non-distributable Layers", "Missing Subject", "Digest Algorithm sha512", "Image with Large Manifest",
}

func TestFolder(t *testing.T) {
	server := serve(t, registry.Location{Kind: registry.Layout, Path: filepath.Join(t.TempDir(), "mirror")})
	passes(t, server, offered,
		"OCI_API_BLOBS_UPLOAD_CANCEL=true", "OCI_API_BLOBS_DIGEST_HEADER=true", "OCI_API_MANIFESTS_DIGEST_HEADER=true")
}

func TestArchive(t *testing.T) {
	at := registry.Location{Kind: registry.Archive, Path: filepath.Join(t.TempDir(), "saved.tar"), Name: "app:1.0.0"}
	held := write(t, at)
	server := serve(t, registry.Location{Kind: registry.Archive, Path: at.Path})
	passes(t, server, []string{"Blob get", "Blob head", "Manifest get by digest", "Manifest get by tag", "Manifest head by digest", "Manifest head by tag", "Referrers", "Tag listing", "Read Only Inputs"},
		"OCI_REPO1=app", "OCI_API_PUSH=false", "OCI_API_BLOBS_DELETE=false", "OCI_API_MANIFESTS_DELETE=false", "OCI_API_TAGS_DELETE=false",
		// Not OCI_API_MANIFESTS_DIGEST_HEADER: without pushes the suite misses the header that is in the answer it prints.
		"OCI_API_BLOBS_DIGEST_HEADER=true",
		"OCI_RO_DATA_TAGS=1.0.0", "OCI_RO_DATA_MANIFESTS="+held.image+" "+held.referrer, "OCI_RO_DATA_BLOBS="+held.layer, "OCI_RO_DATA_REFERRERS="+held.image)
}

func serve(t *testing.T, l registry.Location) *httptest.Server {
	t.Helper()
	server, err := registry.NewServer(l, registry.ServerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	running := httptest.NewServer(server)
	t.Cleanup(func() {
		running.Close()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return running
}

// passes runs the suite and wants it to pass, and what is offered to be among it.
func passes(t *testing.T, server *httptest.Server, want []string, settings ...string) {
	t.Helper()
	program := filepath.Join(os.Getenv("WAYBILL_PEERS"), "conformance")
	if _, err := os.Stat(program); err != nil || os.Getenv("WAYBILL_PEERS") == "" {
		t.Skip("there is no conformance suite: make peers builds it, WAYBILL_PEERS names its folder")
	}
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Dir = t.TempDir()
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + cmd.Dir,
		"OCI_REGISTRY=" + strings.TrimPrefix(server.URL, "http://"), "OCI_TLS=disabled", "OCI_VERSION=1.1", "OCI_LOG=warn",
	}, settings...)
	// The report decides and not the exit code: without pushes the suite crashes
	// while it writes the same once more as a file.
	out, err := cmd.CombinedOutput()
	if said(out, "FAIL") != "0" || said(out, "Error") != "0" {
		t.Errorf("the suite fails: %v\n%s", err, failures(out))
	}
	for _, what := range want {
		if status := said(out, what); status != "Pass" {
			t.Errorf("%s: %q", what, status)
		}
	}
}

// said is what a line of the suite's report says of something.
func said(out []byte, what string) string {
	found := regexp.MustCompile(`(?m)^ *` + regexp.QuoteMeta(what) + `\.*: *(\S+)$`).FindSubmatch(out)
	if found == nil {
		return ""
	}
	return string(found[1])
}

// failures are the lines of the suite's report that say what went wrong.
func failures(out []byte) []byte {
	var lines [][]byte
	for _, line := range bytes.Split(out, []byte("\n")) {
		if bytes.Contains(line, []byte("FAIL")) || bytes.Contains(line, []byte("level=WARN")) {
			lines = append(lines, line)
		}
	}
	return bytes.Join(lines, []byte("\n"))
}

type held struct{ image, referrer, layer string }

// write makes an archive with an image and something that hangs on it.
func write(t *testing.T, l registry.Location) held {
	t.Helper()
	client, err := registry.NewClient(registry.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	dst, err := client.Create(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	push := func(mediaType string, data []byte) ocispec.Descriptor {
		desc := content.NewDescriptorFromBytes(mediaType, data)
		if err := dst.Push(t.Context(), desc, bytes.NewReader(data)); err != nil {
			t.Fatal(err)
		}
		return desc
	}
	manifest := func(m ocispec.Manifest) ocispec.Descriptor {
		m.Versioned, m.MediaType = specs.Versioned{SchemaVersion: 2}, ocispec.MediaTypeImageManifest
		data, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return push(m.MediaType, data)
	}
	layer := push(ocispec.MediaTypeImageLayer, []byte("a layer"))
	image := manifest(ocispec.Manifest{Config: push(ocispec.MediaTypeImageConfig, []byte("{}")), Layers: []ocispec.Descriptor{layer}})
	referrer := manifest(ocispec.Manifest{
		ArtifactType: "application/vnd.example.proof", Subject: &image,
		Config: push(ocispec.MediaTypeEmptyJSON, []byte("{}")), Layers: []ocispec.Descriptor{layer},
	})
	if err := dst.Tag(t.Context(), image, l.Name); err != nil {
		t.Fatal(err)
	}
	if err := dst.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	return held{image.Digest.String(), referrer.Digest.String(), layer.Digest.String()}
}
