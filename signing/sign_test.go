package signing_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cuelabs.dev/go/oci/ociregistry/ociserver"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/sigstore/cosign/v2/pkg/cosign"
	"github.com/sigstore/cosign/v2/pkg/oci/mutate"
	ociremote "github.com/sigstore/cosign/v2/pkg/oci/remote"
	"github.com/sigstore/cosign/v2/pkg/oci/static"
	cosignkeys "github.com/sigstore/cosign/v2/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature"
	"oras.land/oras-go/v2/content/memory"
	"oras.land/oras-go/v2/registry/remote"

	"waybill/signing"
)

// every form in every place is verified by the key and by nobody else's, and
// signing again writes nothing
func TestSignThenVerify(t *testing.T) {
	formats := map[string]signing.Format{"tag": signing.FormatTag, "referrer": signing.FormatReferrer, "both": signing.FormatBoth}
	right, wrong := newSigner(t, "vendor.pub"), newSigner(t, "other.pub")
	for formatName, format := range formats {
		for placeName, place := range places(t) {
			t.Run(formatName+" in "+placeName, func(t *testing.T) {
				desc := pushImage(t, place, "one")
				first := sign(t, right, place, desc, format)
				manifests := map[signing.Format]int{signing.FormatTag: 1, signing.FormatReferrer: 1, signing.FormatBoth: 2}[format]
				if first.AlreadySigned || len(first.Written) != manifests {
					t.Fatalf("signing said %+v, want %d manifests written", first, manifests)
				}
				result, err := signing.Verify(t.Context(), place, desc, keysOf(right))
				if err != nil {
					t.Fatal(err)
				}
				if !result.Verified || result.Found != manifests || len(result.Signers) != 1 || result.Signers[0] != right.Key().String() {
					t.Errorf("result %+v", result)
				}
				text := strings.Join(result.Text, "\n")
				if want := "signed by key vendor.pub (" + right.Key().Fingerprint() + "); log entry and timestamp not checked"; text != want {
					t.Errorf("text %q, want %q", text, want)
				}
				_, err = signing.Verify(t.Context(), place, desc, keysOf(wrong))
				wantRefused(t, err, desc.Digest.String(), "none of its", "made by none", wrong.Key().Fingerprint(), "policy: test")
				if again := sign(t, right, place, desc, format); !again.AlreadySigned || len(again.Written) != 0 {
					t.Errorf("signing again said %+v", again)
				}
			})
		}
	}
}

// asking for another form of a signed digest writes that form only
func TestSignAddsTheMissingForm(t *testing.T) {
	s, place := newSigner(t, "k"), memory.New()
	desc := pushImage(t, place, "one")
	sign(t, s, place, desc, signing.FormatTag)
	result := sign(t, s, place, desc, signing.FormatBoth)
	if result.AlreadySigned || len(result.Written) != 1 || result.Written[0].ArtifactType != signing.MediaTypeSigstoreBundle {
		t.Errorf("result %+v", result)
	}
}

// cosign's own library reads what we write, and we what it writes, and both
// stay byte for byte when we add to it
func TestUniteWithCosign(t *testing.T) {
	repo := newRegistry(t, nil)
	desc := pushImage(t, repo, "one")
	ref := cosignReference(t, repo, desc)
	theirs := newCosignKey(t)
	cosignSign(t, ref, theirs)
	before := signatureManifest(t, repo, desc)

	ours := newSigner(t, "ours")
	sign(t, ours, repo, desc, signing.FormatTag)
	after := signatureManifest(t, repo, desc)
	if len(before.Layers) != 1 || len(after.Layers) != 2 || !bytes.Equal(before.Layers[0], after.Layers[0]) {
		t.Fatalf("layers %s became %s", before.Layers, after.Layers)
	}
	for name, verifier := range map[string]signature.Verifier{"theirs": theirs, "ours": cosignVerifier(t, ours)} {
		checked, _, err := cosign.VerifyImageSignatures(t.Context(), ref, &cosign.CheckOpts{
			SigVerifier: verifier, IgnoreTlog: true, ClaimVerifier: cosign.SimpleClaimVerifier,
		})
		if err != nil || len(checked) != 1 {
			t.Errorf("cosign verifies %s: %d signatures, %v", name, len(checked), err)
		}
	}
	public, err := cosignkeys.PublicKeyPem(theirs)
	if err != nil {
		t.Fatal(err)
	}
	key, err := signing.ParseKey("theirs", public)
	if err != nil {
		t.Fatal(err)
	}
	policy := keysOf(ours)
	policy.Keys, policy.Threshold = append(policy.Keys, key), 2
	if _, err := signing.Verify(t.Context(), repo, desc, policy); err != nil {
		t.Error(err)
	}
	signatures, err := ociremote.Signatures(ref.Context().Tag(signing.SignatureTag(desc.Digest)))
	if err != nil {
		t.Fatal(err)
	}
	config, err := signatures.ConfigFile()
	if err != nil || len(config.RootFS.DiffIDs) != 2 || len(config.History) != 2 {
		t.Errorf("config %+v, %v", config, err)
	}
	if err := validate.Image(signatures, validate.Fast); err != nil {
		t.Errorf("as an image: %v", err)
	}
}

// cosign signs behind ours, and ours stays
func TestCosignUnitesWithOurs(t *testing.T) {
	repo := newRegistry(t, nil)
	desc := pushImage(t, repo, "one")
	ours := newSigner(t, "ours")
	sign(t, ours, repo, desc, signing.FormatTag)
	cosignSign(t, cosignReference(t, repo, desc), newCosignKey(t))
	result, err := signing.Verify(t.Context(), repo, desc, keysOf(ours))
	if err != nil || result.Found != 2 {
		t.Errorf("found %d, %v", result.Found, err)
	}
}

// what is at the signature tag and is no signature is not overwritten
func TestSignLeavesStrangersAlone(t *testing.T) {
	place := memory.New()
	desc := pushImage(t, place, "one")
	stranger := push(t, place, ocispec.MediaTypeImageIndex, []byte(`{"schemaVersion":2,"manifests":[]}`))
	tag := signing.SignatureTag(desc.Digest)
	if err := place.Tag(t.Context(), stranger, tag); err != nil {
		t.Fatal(err)
	}
	if _, err := newSigner(t, "k").Sign(t.Context(), place, desc, signing.SignOptions{}); err == nil || !strings.Contains(err.Error(), tag) {
		t.Errorf("error %v, want one that names the tag", err)
	}
	if now, err := place.Resolve(t.Context(), tag); err != nil || now.Digest != stranger.Digest {
		t.Errorf("the tag names %s now, %v", now.Digest, err)
	}
}

// racing is a target where somebody else signs between our reading of the tag
// and our moving of it
type racing struct {
	signing.Target
	race func()
}

func (r *racing) Tag(ctx context.Context, desc ocispec.Descriptor, reference string) error {
	if err := r.Target.Tag(ctx, desc, reference); err != nil {
		return err
	}
	if race := r.race; race != nil {
		r.race = nil
		race()
	}
	return nil
}

// a signature that another signer's write dropped is written again
func TestSignReadsBack(t *testing.T) {
	place := memory.New()
	desc := pushImage(t, place, "one")
	ours, theirs := newSigner(t, "ours"), newSigner(t, "theirs")
	other := memory.New()
	sign(t, theirs, other, desc, signing.FormatTag)
	target := &racing{Target: place, race: func() {
		manifest := signatureManifest(t, other, desc)
		var layer, config ocispec.Descriptor
		for raw, into := range map[*json.RawMessage]*ocispec.Descriptor{&manifest.Layers[0]: &layer, &manifest.Config: &config} {
			if err := json.Unmarshal(*raw, into); err != nil {
				t.Fatal(err)
			}
			push(t, place, into.MediaType, fetch(t, other, *into))
		}
		raw, err := other.Resolve(t.Context(), signing.SignatureTag(desc.Digest))
		if err != nil {
			t.Fatal(err)
		}
		push(t, place, raw.MediaType, fetch(t, other, raw))
		if err := place.Tag(t.Context(), raw, signing.SignatureTag(desc.Digest)); err != nil {
			t.Fatal(err)
		}
	}}
	sign(t, ours, target, desc, signing.FormatTag)
	policy := keysOf(ours, theirs)
	policy.Threshold = 2
	if _, err := signing.Verify(t.Context(), place, desc, policy); err != nil {
		t.Error(err)
	}
}

// the list of referrers that we keep for a registry without the API tells the
// true type
func TestReferrerIsListedByItsType(t *testing.T) {
	repo := newRegistry(t, &ociserver.Options{DisableReferrersAPI: true})
	desc := pushImage(t, repo, "one")
	sign(t, newSigner(t, "a"), repo, desc, signing.FormatReferrer)
	sign(t, newSigner(t, "b"), repo, desc, signing.FormatReferrer)
	listed, err := repo.Predecessors(t.Context(), desc)
	if err != nil || len(listed) != 2 {
		t.Fatalf("%d listed, %v", len(listed), err)
	}
	for _, d := range listed {
		if d.ArtifactType != signing.MediaTypeSigstoreBundle || d.Annotations["dev.sigstore.bundle.predicateType"] != signing.PredicateTypeSignature {
			t.Errorf("listed as %+v", d)
		}
	}
}

// keys of every kind that cosign has sign and verify
func TestSignWithKeysOfAllKinds(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	_, ed25519Key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signers := map[string]*signing.Signer{"ECDSA P-384": newSignerOn(t, "k", elliptic.P384()), "ECDSA P-521": newSignerOn(t, "k", elliptic.P521())}
	for name, key := range map[string]crypto.PrivateKey{"RSA 2048": rsaKey, "Ed25519": ed25519Key} {
		sv, err := signature.LoadDefaultSignerVerifier(key, *cosign.GetDefaultLoadOptions(nil)...)
		if err != nil {
			t.Fatal(err)
		}
		if signers[name], err = signing.NewSigner("k", sv); err != nil {
			t.Fatal(err)
		}
	}
	for name, s := range signers {
		t.Run(name, func(t *testing.T) {
			place := memory.New()
			desc := pushImage(t, place, "one")
			sign(t, s, place, desc, signing.FormatBoth)
			if result, err := signing.Verify(t.Context(), place, desc, keysOf(s)); err != nil || result.Found != 2 {
				t.Errorf("found %d, %v", result.Found, err)
			}
		})
	}
}

func cosignReference(t *testing.T, repo *remote.Repository, desc ocispec.Descriptor) name.Digest {
	t.Helper()
	ref, err := name.NewDigest(repo.Reference.Host()+"/"+repo.Reference.Repository+"@"+desc.Digest.String(), name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func newCosignKey(t *testing.T) signature.SignerVerifier {
	t.Helper()
	private, err := cosign.GeneratePrivateKey()
	if err != nil {
		t.Fatal(err)
	}
	sv, err := signature.LoadSignerVerifier(private, crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	return sv
}

func cosignVerifier(t *testing.T, s *signing.Signer) signature.Verifier {
	t.Helper()
	file := filepath.Join(t.TempDir(), "key.pub")
	if err := os.WriteFile(file, signing.PublicPEM(t, s), 0o600); err != nil {
		t.Fatal(err)
	}
	v, err := signature.LoadVerifierFromPEMFile(file, crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// cosignSign signs as cosign's library does.
func cosignSign(t *testing.T, ref name.Digest, key signature.SignerVerifier) {
	t.Helper()
	message := newPayload(t, digest.Digest(ref.DigestStr()))
	sig, err := key.SignMessage(bytes.NewReader(message))
	if err != nil {
		t.Fatal(err)
	}
	layer, err := static.NewSignature(message, b64(sig))
	if err != nil {
		t.Fatal(err)
	}
	entity, err := ociremote.SignedEntity(ref)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := mutate.AttachSignatureToEntity(entity, layer)
	if err != nil {
		t.Fatal(err)
	}
	if err := ociremote.WriteSignatures(ref.Context(), signed); err != nil {
		t.Fatal(err)
	}
}

type rawManifest struct {
	Config json.RawMessage
	Layers []json.RawMessage
}

func signatureManifest(t *testing.T, src signing.Source, desc ocispec.Descriptor) rawManifest {
	t.Helper()
	at, err := src.Resolve(t.Context(), signing.SignatureTag(desc.Digest))
	if err != nil {
		t.Fatal(err)
	}
	var m rawManifest
	if err := json.Unmarshal(fetch(t, src, at), &m); err != nil {
		t.Fatal(err)
	}
	return m
}
