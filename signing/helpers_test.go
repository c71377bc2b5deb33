package signing_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"cuelabs.dev/go/oci/ociregistry/ocimem"
	"cuelabs.dev/go/oci/ociregistry/ociserver"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/payload"
	"oras.land/oras-go/v2/content/memory"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"

	"waybill/signing"
)

func newSigner(t *testing.T, name string) *signing.Signer {
	t.Helper()
	return newSignerOn(t, name, elliptic.P256())
}

func newSignerOn(t *testing.T, name string, curve elliptic.Curve) *signing.Signer {
	t.Helper()
	private, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	sv, err := signature.LoadDefaultSignerVerifier(private)
	if err != nil {
		t.Fatal(err)
	}
	s, err := signing.NewSigner(name, sv)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func keysOf(signers ...*signing.Signer) signing.Policy {
	p := signing.Policy{Source: "test"}
	for _, s := range signers {
		p.Keys = append(p.Keys, s.Key())
	}
	return p
}

// pushImage puts a manifest that differs by its words into dst.
func pushImage(t *testing.T, dst signing.Target, words string) ocispec.Descriptor {
	t.Helper()
	manifest := ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		ArtifactType: "application/vnd.example.thing", Config: ocispec.DescriptorEmptyJSON,
		Layers:      []ocispec.Descriptor{push(t, dst, "text/plain", []byte(words))},
		Annotations: map[string]string{"words": words},
	}
	manifest.Config.Data = nil
	push(t, dst, ocispec.MediaTypeEmptyJSON, []byte("{}"))
	return push(t, dst, manifest.MediaType, mustJSON(t, manifest))
}

func push(t *testing.T, dst signing.Target, mediaType string, data []byte) ocispec.Descriptor {
	t.Helper()
	desc := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
	if err := dst.Push(t.Context(), desc, bytes.NewReader(data)); err != nil && !errors.Is(err, errdef.ErrAlreadyExists) {
		t.Fatal(err)
	}
	return desc
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func fetch(t *testing.T, src signing.Source, desc ocispec.Descriptor) []byte {
	t.Helper()
	rc, err := src.Fetch(t.Context(), desc)
	if err != nil {
		t.Fatal(err)
	}
	defer rc.Close()
	data, err := io.ReadAll(rc)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// newPayload is what cosign signs for d.
func newPayload(t *testing.T, d digest.Digest) []byte {
	t.Helper()
	return mustJSON(t, payload.SimpleContainerImage{Critical: payload.Critical{
		Identity: payload.Identity{DockerReference: "registry.example/shop"},
		Image:    payload.Image{DockerManifestDigest: d.String()},
		Type:     payload.CosignSignatureType,
	}})
}

// tagLayer is one signature of the tag form.
type tagLayer struct {
	payload     []byte
	annotations map[string]string
}

// attachTag writes a signature manifest for subject as it is told.
func attachTag(t *testing.T, dst signing.Target, subject digest.Digest, layers ...tagLayer) {
	t.Helper()
	manifest := ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		Config: push(t, dst, ocispec.MediaTypeImageConfig, []byte("{}")),
	}
	for _, l := range layers {
		desc := push(t, dst, signing.MediaTypeSimpleSigning, l.payload)
		desc.Annotations = l.annotations
		manifest.Layers = append(manifest.Layers, desc)
	}
	desc := push(t, dst, manifest.MediaType, mustJSON(t, manifest))
	if err := dst.Tag(t.Context(), desc, signing.SignatureTag(subject)); err != nil {
		t.Fatal(err)
	}
}

// attachReferrer writes a sigstore bundle as a referrer of subject.
func attachReferrer(t *testing.T, dst signing.Target, subject ocispec.Descriptor, proof []byte) ocispec.Descriptor {
	t.Helper()
	config := push(t, dst, ocispec.MediaTypeEmptyJSON, []byte("{}"))
	return push(t, dst, ocispec.MediaTypeImageManifest, mustJSON(t, ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		ArtifactType: signing.MediaTypeSigstoreBundle, Config: config, Subject: &subject,
		Layers: []ocispec.Descriptor{push(t, dst, signing.MediaTypeSigstoreBundle, proof)},
	}))
}

// newRegistry starts a registry; it refuses manifests whose blobs are missing.
func newRegistry(t *testing.T, options *ociserver.Options) *remote.Repository {
	t.Helper()
	server := httptest.NewServer(ociserver.New(ocimem.New(), options))
	t.Cleanup(server.Close)
	repo, err := remote.NewRepository(strings.TrimPrefix(server.URL, "http://") + "/shop")
	if err != nil {
		t.Fatal(err)
	}
	repo.PlainHTTP = true
	return repo
}

// places are the kinds of place that signatures are kept in.
func places(t *testing.T) map[string]signing.Target {
	return map[string]signing.Target{
		"memory":                         memory.New(),
		"registry":                       newRegistry(t, nil),
		"registry without referrers API": newRegistry(t, &ociserver.Options{DisableReferrersAPI: true}),
	}
}

// tampered is a source that delivers other bytes for some digests.
type tampered struct {
	signing.Target
	bytes map[digest.Digest][]byte
}

func (s tampered) Fetch(ctx context.Context, desc ocispec.Descriptor) (io.ReadCloser, error) {
	if data, ok := s.bytes[desc.Digest]; ok {
		return io.NopCloser(bytes.NewReader(data)), nil
	}
	return s.Target.Fetch(ctx, desc)
}

// noNetwork makes every use of the default HTTP transport a failure.
func noNetwork(t *testing.T) {
	t.Helper()
	was := http.DefaultTransport
	http.DefaultTransport = roundTripper(func(r *http.Request) (*http.Response, error) {
		t.Errorf("the network was asked: %s %s", r.Method, r.URL)
		return nil, errors.New("no network")
	})
	t.Cleanup(func() { http.DefaultTransport = was })
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func sign(t *testing.T, s *signing.Signer, dst signing.Target, desc ocispec.Descriptor, format signing.Format) signing.SignResult {
	t.Helper()
	result, err := s.Sign(t.Context(), dst, desc, signing.SignOptions{Repository: "registry.example/shop", Format: format})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// wantRefused requires a refusal that says each of the words.
func wantRefused(t *testing.T, err error, words ...string) *signing.RefusedError {
	t.Helper()
	var refused *signing.RefusedError
	if !errors.As(err, &refused) {
		t.Fatalf("error %v, want a refusal", err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("refusal %q does not say %q", err, w)
		}
	}
	return refused
}

func b64(data []byte) string { return base64.StdEncoding.EncodeToString(data) }

// signBytes signs with a key outside of the package's own signer.
func signBytes(t *testing.T, private crypto.Signer, data []byte) []byte {
	t.Helper()
	sum := crypto.SHA256.New()
	sum.Write(data)
	sig, err := private.Sign(rand.Reader, sum.Sum(nil), crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	return sig
}
