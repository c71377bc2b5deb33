package signing_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"cuelabs.dev/go/oci/ociregistry/ociserver"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/sigstore/sigstore-go/pkg/root"
	"oras.land/oras-go/v2/content/memory"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"waybill/signing"
)

// the policy decides, and says why
func TestPolicies(t *testing.T) {
	noNetwork(t)
	a, b, c := newSigner(t, "a"), newSigner(t, "b"), newSigner(t, "c")
	place := memory.New()
	signed := pushImage(t, place, "signed by a and b")
	sign(t, a, place, signed, signing.FormatTag)
	sign(t, b, place, signed, signing.FormatReferrer)
	bare := pushImage(t, place, "signed by nobody")
	with := func(p signing.Policy, change func(*signing.Policy)) signing.Policy {
		change(&p)
		return p
	}
	renamed := newKeyNamed(t, a, "a by another name")
	for name, tc := range map[string]struct {
		desc    ocispec.Descriptor
		policy  signing.Policy
		want    signing.Result // Verified, Unsigned, Off and the number of Signers
		refused string
	}{
		"the key":                         {signed, keysOf(a), signing.Result{Verified: true, Signers: []string{a.Key().String()}}, ""},
		"one of several keys":             {signed, keysOf(c, b), signing.Result{Verified: true, Signers: []string{b.Key().String()}}, ""},
		"another key":                     {signed, keysOf(c), signing.Result{}, "none of its 2 signature(s)"},
		"two of three":                    {signed, with(keysOf(a, b, c), func(p *signing.Policy) { p.Threshold = 2 }), signing.Result{Verified: true, Signers: sorted(a.Key().String(), b.Key().String())}, ""},
		"three of three":                  {signed, with(keysOf(a, b, c), func(p *signing.Policy) { p.Threshold = 3 }), signing.Result{}, "2 of 3 signers have signed"},
		"one key under two names is one":  {signed, with(keysOf(a, c), func(p *signing.Policy) { p.Threshold = 2; p.Keys = append(p.Keys, renamed) }), signing.Result{}, "1 of 2 signers have signed"},
		"no signature":                    {bare, keysOf(a), signing.Result{}, "there is no signature for it"},
		"no signature, allowed":           {bare, with(keysOf(a), func(p *signing.Policy) { p.AllowUnsigned = true }), signing.Result{Unsigned: true}, ""},
		"no signature, no key, allowed":   {bare, signing.Policy{AllowUnsigned: true}, signing.Result{Unsigned: true}, ""},
		"signed by others, allowed bare":  {signed, with(keysOf(c), func(p *signing.Policy) { p.AllowUnsigned = true }), signing.Result{}, "none of its 2"},
		"signed, policy allows bare only": {signed, signing.Policy{AllowUnsigned: true}, signing.Result{}, "names nobody"},
		"signed, allowed bare":            {signed, with(keysOf(a), func(p *signing.Policy) { p.AllowUnsigned = true }), signing.Result{Verified: true, Signers: []string{a.Key().String()}}, ""},
		"off":                             {signed, signing.Policy{Off: true}, signing.Result{Off: true}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := signing.Verify(t.Context(), place, tc.desc, tc.policy)
			if tc.refused != "" {
				wantRefused(t, err, tc.refused, tc.desc.Digest.String())
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got.Verified != tc.want.Verified || got.Unsigned != tc.want.Unsigned || got.Off != tc.want.Off || !slices.Equal(got.Signers, tc.want.Signers) {
				t.Errorf("result %+v", got)
			}
			if len(got.Text) == 0 {
				t.Error("the result does not say what was checked")
			}
		})
	}
}

func newKeyNamed(t *testing.T, s *signing.Signer, name string) signing.Key {
	t.Helper()
	key, err := signing.ParseKey(name, signing.PublicPEM(t, s))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func sorted(words ...string) []string {
	slices.Sort(words)
	return words
}

// options that cannot be honoured are an error before anything is looked at
func TestPolicyErrors(t *testing.T) {
	key := newSigner(t, "k").Key()
	material := newAuthority(t).trustedRoot(t)
	identity := signing.Identity{Issuer: "https://issuer.example", Subject: "me@example.com"}
	keys, identities := []signing.Key{key}, []signing.Identity{identity}
	for name, c := range map[string]struct {
		policy signing.Policy
		says   string
	}{
		"nobody":                     {signing.Policy{}, "who may sign"},
		"log without root":           {signing.Policy{Keys: keys, RequireLog: true}, "log entry is required, but there is no trusted root"},
		"timestamp without root":     {signing.Policy{Keys: keys, RequireTimestamp: true}, "timestamp is required, but there is no trusted root"},
		"root without log":           {signing.Policy{Keys: keys, RequireLog: true, TrustedRoot: material}, "has no transparency log"},
		"identity without root":      {signing.Policy{Identities: identities}, "identities need a trusted root"},
		"root without any time":      {signing.Policy{Identities: identities, TrustedRoot: trustedRoot(t, []root.CertificateAuthority{&root.FulcioCertificateAuthority{Root: newAuthority(t).cert}}, nil, nil, nil)}, "nothing says when"},
		"root that nothing uses":     {signing.Policy{Keys: keys, TrustedRoot: material}, "keys alone do not use it"},
		"root cut short":             {signing.Policy{Identities: identities, TrustedRoot: material[:len(material)/2]}, "cut short"},
		"empty root":                 {signing.Policy{Identities: identities, TrustedRoot: []byte{}}, "cannot be read"},
		"identity without issuer":    {signing.Policy{Identities: []signing.Identity{{Subject: "me@example.com"}}, TrustedRoot: material}, "names no issuer"},
		"identity without subject":   {signing.Policy{Identities: []signing.Identity{{Issuer: "i"}}, TrustedRoot: material}, "names no subject"},
		"two subjects in one":        {signing.Policy{Identities: []signing.Identity{{Issuer: "i", Subject: "a", SubjectRegexp: "b"}}, TrustedRoot: material}, "give one of them"},
		"bad regular expression":     {signing.Policy{Identities: []signing.Identity{{Issuer: "i", SubjectRegexp: "("}}, TrustedRoot: material}, "missing closing"},
		"threshold out of reach":     {signing.Policy{Keys: keys, Threshold: 2}, "wants 2 signers and names 1"},
		"threshold of one key twice": {signing.Policy{Keys: []signing.Key{key, key}, Threshold: 2}, "names 1 different"},
		"negative threshold":         {signing.Policy{Keys: keys, Threshold: -1}, "threshold of -1"},
		"off and a key":              {signing.Policy{Off: true, Keys: keys}, "verification is off"},
		"a key that is none":         {signing.Policy{Keys: []signing.Key{{Name: "empty"}}}, `"empty" was not loaded`},
		"allow unsigned, threshold":  {signing.Policy{AllowUnsigned: true, Threshold: 2}, "nothing to apply to"},
		"allow unsigned and log":     {signing.Policy{AllowUnsigned: true, RequireLog: true}, "nothing to apply to"},
	} {
		t.Run(name, func(t *testing.T) {
			c.policy.Source = "the flags"
			_, err := signing.Verify(t.Context(), nil, ocispec.Descriptor{}, c.policy)
			var policy *signing.PolicyError
			if !errors.As(err, &policy) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "the flags") {
				t.Errorf("error %v, want a PolicyError that says %q", err, c.says)
			}
			if check := c.policy.Check(); check == nil || check.Error() != err.Error() {
				t.Errorf("Check says %v", check)
			}
		})
	}
}

// bytes that are not what their digest says are damage, not a refusal, for
// any key
func TestDamagedSignatures(t *testing.T) {
	for name, format := range map[string]signing.Format{"tag": signing.FormatTag, "referrer": signing.FormatReferrer} {
		right, wrong := newSigner(t, "right"), newSigner(t, "wrong")
		place := memory.New()
		desc := pushImage(t, place, "one")
		written := sign(t, right, place, desc, format).Written[0]
		var manifest ocispec.Manifest
		if err := json.Unmarshal(fetch(t, place, written), &manifest); err != nil {
			t.Fatal(err)
		}
		for what, d := range map[string]ocispec.Descriptor{"manifest": written, "layer": manifest.Layers[0]} {
			good := fetch(t, place, d)
			for how, data := range map[string][]byte{
				"changed": bytes.Replace(good, []byte(`"`), []byte(`'`), 1), "cut short": good[:len(good)/2], "longer": append(good, ' '), "empty": {},
			} {
				t.Run(strings.Join([]string{name, what, how}, " "), func(t *testing.T) {
					src := tampered{place, map[digest.Digest][]byte{d.Digest: data}}
					for _, s := range []*signing.Signer{right, wrong} {
						_, err := signing.Verify(t.Context(), src, desc, keysOf(s))
						var content *signing.ContentError
						if !errors.As(err, &content) || content.Digest != d.Digest {
							t.Errorf("error %v, want a ContentError about %s", err, d.Digest)
						}
					}
				})
			}
		}
	}
}

// signatures that are whole but say something else do not count
func TestSignaturesOfSomethingElse(t *testing.T) {
	s := newSigner(t, "k")
	elsewhere := memory.New()
	other := pushImage(t, elsewhere, "other")
	sign(t, s, elsewhere, other, signing.FormatBoth)
	tagged := signatureManifest(t, elsewhere, other)
	var layer ocispec.Descriptor
	if err := json.Unmarshal(tagged.Layers[0], &layer); err != nil {
		t.Fatal(err)
	}
	otherPayload, otherSignature := fetch(t, elsewhere, layer), layer.Annotations["dev.cosignproject.cosign/signature"]
	for name, tc := range map[string]struct {
		attach func(t *testing.T, place signing.Target, desc ocispec.Descriptor)
		says   string
	}{
		"tag form copied from another digest": {func(t *testing.T, place signing.Target, desc ocispec.Descriptor) {
			attachTag(t, place, desc.Digest, tagLayer{otherPayload, layer.Annotations})
		}, "signs another digest"},
		"payload exchanged, signature kept": {func(t *testing.T, place signing.Target, desc ocispec.Descriptor) {
			attachTag(t, place, desc.Digest, tagLayer{newPayload(t, desc.Digest), layer.Annotations})
		}, "none of the policy's signers"},
		"payload of another type": {func(t *testing.T, place signing.Target, desc ocispec.Descriptor) {
			message := bytes.Replace(newPayload(t, desc.Digest), []byte("cosign container"), []byte("some other"), 1)
			attachTag(t, place, desc.Digest, tagLayer{message, map[string]string{"dev.cosignproject.cosign/signature": b64(signing.SignWith(t, s, message))}})
		}, `of type "some other image signature"`},
		"signature that is no base64": {func(t *testing.T, place signing.Target, desc ocispec.Descriptor) {
			attachTag(t, place, desc.Digest, tagLayer{newPayload(t, desc.Digest), map[string]string{"dev.cosignproject.cosign/signature": "!"}})
		}, "not base64"},
		"log entry that is no log entry": {func(t *testing.T, place signing.Target, desc ocispec.Descriptor) {
			attachTag(t, place, desc.Digest, tagLayer{newPayload(t, desc.Digest), map[string]string{
				"dev.cosignproject.cosign/signature": otherSignature, "dev.sigstore.cosign/bundle": `{"Payload":{"body":7}}`}})
		}, "body is no text"},
		"sigstore bundle copied from another digest": {func(t *testing.T, place signing.Target, desc ocispec.Descriptor) {
			attachReferrer(t, place, desc, proofOf(t, elsewhere, other))
		}, "but for another digest"},
		"sigstore bundle that is none": {func(t *testing.T, place signing.Target, desc ocispec.Descriptor) {
			attachReferrer(t, place, desc, []byte(`{"mediaType":"application/vnd.dev.sigstore.bundle.v0.9+json"}`))
		}, "cannot be read"},
		"an index at the signature tag": {func(t *testing.T, place signing.Target, desc ocispec.Descriptor) {
			strange := push(t, place, "application/json", []byte(`[]`))
			if err := place.Tag(t.Context(), strange, signing.SignatureTag(desc.Digest)); err != nil {
				t.Fatal(err)
			}
		}, "not an image manifest"},
	} {
		t.Run(name, func(t *testing.T) {
			place := memory.New()
			desc := pushImage(t, place, "one")
			tc.attach(t, place, desc)
			policy := keysOf(s)
			policy.AllowUnsigned = true // what is no good signature is not no signature
			_, err := signing.Verify(t.Context(), place, desc, policy)
			wantRefused(t, err, tc.says)
		})
	}
}

// proofOf is the sigstore bundle attached to desc.
func proofOf(t *testing.T, src signing.Source, desc ocispec.Descriptor) []byte {
	t.Helper()
	listed, err := src.Predecessors(t.Context(), desc)
	if err != nil || len(listed) != 1 {
		t.Fatalf("%d referrers, %v", len(listed), err)
	}
	var manifest ocispec.Manifest
	if err := json.Unmarshal(fetch(t, src, listed[0]), &manifest); err != nil {
		t.Fatal(err)
	}
	return fetch(t, src, manifest.Layers[0])
}

// an attestation by the right key is no signature
func TestAttestationIsNoSignature(t *testing.T) {
	s, place := newSigner(t, "k"), memory.New()
	desc := pushImage(t, place, "one")
	attachReferrer(t, place, desc, signing.Proof(t, s, desc.Digest, "https://slsa.dev/provenance/v1"))
	_, err := signing.Verify(t.Context(), place, desc, keysOf(s))
	wantRefused(t, err, "there is no signature")
	result, err := signing.Verify(t.Context(), place, desc, signing.Policy{AllowUnsigned: true})
	if err != nil || !result.Unsigned {
		t.Errorf("result %+v, %v", result, err)
	}
}

// a list of referrers that tells wrong types hides no signature
func TestWrongTypeInFallbackIndex(t *testing.T) {
	for _, claimed := range []string{"", ocispec.MediaTypeEmptyJSON, ocispec.MediaTypeImageConfig, "application/vnd.example.unrelated"} {
		t.Run("claimed to be "+claimed, func(t *testing.T) {
			repo := newRegistry(t, &ociserver.Options{DisableReferrersAPI: true})
			desc := pushImage(t, repo, "one")
			s := newSigner(t, "k")
			sign(t, s, repo, desc, signing.FormatReferrer)
			tag := strings.TrimSuffix(signing.SignatureTag(desc.Digest), ".sig")
			at, err := repo.Resolve(t.Context(), tag)
			if err != nil {
				t.Fatal(err)
			}
			var index ocispec.Index
			if err := json.Unmarshal(fetch(t, repo, at), &index); err != nil {
				t.Fatal(err)
			}
			if len(index.Manifests) != 1 {
				t.Fatalf("the list has %d entries", len(index.Manifests))
			}
			index.Manifests[0].ArtifactType, index.Manifests[0].Annotations = claimed, nil
			wrong := push(t, repo, at.MediaType, mustJSON(t, index))
			if err := repo.Tag(t.Context(), wrong, tag); err != nil {
				t.Fatal(err)
			}
			if _, err := signing.Verify(t.Context(), repo, desc, keysOf(s)); err != nil {
				t.Error(err)
			}
		})
	}
}

// answering is a source whose look-ups of signatures the registry answers
// with a status
type answering struct {
	signing.Target
	tagStatus, referrersStatus int
}

func answer(status int) error {
	return &errcode.ErrorResponse{Method: http.MethodGet, URL: &url.URL{Scheme: "https", Host: "registry.example"}, StatusCode: status}
}

func (s answering) Resolve(ctx context.Context, ref string) (ocispec.Descriptor, error) {
	if s.tagStatus != 0 {
		return ocispec.Descriptor{}, answer(s.tagStatus)
	}
	return s.Target.Resolve(ctx, ref)
}

func (s answering) Predecessors(ctx context.Context, desc ocispec.Descriptor) ([]ocispec.Descriptor, error) {
	if s.referrersStatus != 0 {
		return nil, answer(s.referrersStatus)
	}
	return s.Target.Predecessors(ctx, desc)
}

// a registry that denies the look-up has not said that there is no signature
func TestDeniedLookUp(t *testing.T) {
	s, place := newSigner(t, "k"), memory.New()
	desc := pushImage(t, place, "one")
	policy := keysOf(s)
	policy.AllowUnsigned = true
	for name, src := range map[string]answering{
		"tag": {place, http.StatusForbidden, 0}, "referrers": {place, 0, http.StatusUnauthorized},
	} {
		_, err := signing.Verify(t.Context(), src, desc, policy)
		refused := wantRefused(t, err, "absence is not proven", "registry.example")
		if len(refused.Denied) != 1 {
			t.Errorf("%s: denied %v", name, refused.Denied)
		}
		if found, err := signing.Signers(t.Context(), src, desc); err != nil || len(found) != 0 {
			t.Errorf("%s: Signers says %v, %v", name, found, err)
		}
	}
	sign(t, s, place, desc, signing.FormatTag)
	result, err := signing.Verify(t.Context(), answering{place, 0, http.StatusForbidden}, desc, policy)
	if err != nil || !result.Verified || len(result.Warnings) != 1 {
		t.Errorf("with a good signature in the other form: %+v, %v", result, err)
	}
	_, err = signing.Verify(t.Context(), answering{place, http.StatusServiceUnavailable, 0}, desc, policy)
	var response *errcode.ErrorResponse
	if !errors.As(err, &response) || response.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("error %v, want the registry's answer", err)
	}
}

// where the digest has no signature, the message says which have
func TestOtherDigestsAreSigned(t *testing.T) {
	repo := newRegistry(t, nil)
	s := newSigner(t, "k")
	a, b := pushImage(t, repo, "A"), pushImage(t, repo, "B")
	sign(t, s, repo, a, signing.FormatTag)
	_, err := signing.Verify(t.Context(), repo, b, keysOf(s))
	refused := wantRefused(t, err, "there is no signature for it", "signatures exist here for other digests: "+a.Digest.String())
	if !slices.Equal(refused.Others, []digest.Digest{a.Digest}) {
		t.Errorf("others %v", refused.Others)
	}
}

// without a policy, the signatures say who made them as far as they do
func TestSigners(t *testing.T) {
	s, place := newSigner(t, "k"), memory.New()
	desc := pushImage(t, place, "one")
	sign(t, s, place, desc, signing.FormatBoth)
	found, err := signing.Signers(t.Context(), place, desc)
	if err != nil || len(found) != 2 {
		t.Fatalf("found %v, %v", found, err)
	}
	got := []string{found[0].Form + ": " + found[0].String(), found[1].Form + ": " + found[1].String()}
	want := []string{"tag: a key that the signature does not name", "referrer: key " + s.Key().Fingerprint()}
	if !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}

// what is too large for a signature is not read
func TestOversizedSignature(t *testing.T) {
	s, place := newSigner(t, "k"), memory.New()
	desc := pushImage(t, place, "one")
	attachTag(t, place, desc.Digest, tagLayer{bytes.Repeat([]byte(" "), 2<<20), map[string]string{"dev.cosignproject.cosign/signature": "AAAA"}})
	_, err := signing.Verify(t.Context(), place, desc, keysOf(s))
	wantRefused(t, err, "too large for a signature")
}

// a tag whose manifest is gone is damage
func TestDanglingSignatureTag(t *testing.T) {
	s, place := newSigner(t, "k"), memory.New()
	desc := pushImage(t, place, "one")
	written := sign(t, s, place, desc, signing.FormatTag).Written[0]
	_, err := signing.Verify(t.Context(), losing{place, written.Digest}, desc, keysOf(s))
	var content *signing.ContentError
	if !errors.As(err, &content) || content.Digest != written.Digest {
		t.Errorf("error %v, want a ContentError about %s", err, written.Digest)
	}
}

// losing is a source that has lost one digest.
type losing struct {
	signing.Target
	lost digest.Digest
}

func (s losing) Fetch(ctx context.Context, desc ocispec.Descriptor) (io.ReadCloser, error) {
	if desc.Digest == s.lost {
		return nil, errdef.ErrNotFound
	}
	return s.Target.Fetch(ctx, desc)
}

// whatever strangers attach is neither accepted nor a crash
func FuzzAttached(f *testing.F) {
	f.Add([]byte(`{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json"}`), "AAAA", "", "", "")
	f.Add([]byte(`{"critical":{}}`), "!", "-----BEGIN CERTIFICATE-----", `{"Payload":{"body":7}}`, `{"SignedRFC3161Timestamp":"MAMCAQA="}`)
	f.Add([]byte(`{}`), "AAAA", "", `{"SignedEntryTimestamp":"AA==","Payload":{"body":"e30=","integratedTime":1,"logIndex":1,"logID":"00"}}`, "{}")
	f.Fuzz(func(t *testing.T, data []byte, sig, cert, entry, stamp string) {
		s, place := newSigner(t, "k"), memory.New()
		desc := pushImage(t, place, "one")
		attachTag(t, place, desc.Digest, tagLayer{append(data, ' '), map[string]string{
			"dev.cosignproject.cosign/signature": sig, "dev.sigstore.cosign/certificate": cert,
			"dev.sigstore.cosign/bundle": entry, "dev.sigstore.cosign/rfc3161timestamp": stamp,
		}})
		attachReferrer(t, place, desc, data)
		policy := identityPolicy(newAuthority(t).trustedRoot(t))
		policy.Keys = []signing.Key{s.Key()}
		_, err := signing.Verify(t.Context(), place, desc, policy)
		wantRefused(t, err)
	})
}
