package signing

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/sigstore/sigstore-go/pkg/fulcio/certificate"
	"github.com/sigstore/sigstore-go/pkg/verify"
)

// A Found is one signature as it presents itself. Nothing in it is verified.
type Found struct {
	// Form is "tag" or "referrer".
	Form string
	// Manifest is the digest of the manifest that carries the signature.
	Manifest digest.Digest
	// Key is the fingerprint of the key that the signature says it was made
	// with, "sha256:<hex>"; signatures of the tag form do not say.
	Key string
	// Subject and Issuer are the identity in the certificate, empty for a key.
	Subject, Issuer string
	// Problem is what keeps it from counting, empty when nobody judged it.
	Problem string
}

// UnnamedKey is who claims to have signed where the signature names nobody.
const UnnamedKey = "a key that the signature does not name"

// String says who claims to have signed.
func (f Found) String() string {
	switch {
	case f.Subject != "" || f.Issuer != "":
		return identityText(f.Subject, f.Issuer)
	case f.Key != "":
		return "key " + f.Key
	default:
		return UnnamedKey
	}
}

func identityText(subject, issuer string) string {
	return fmt.Sprintf("%s (issuer %s)", subject, issuer)
}

// Signers says who claims to have signed desc, without verifying anything: for
// commands that have no policy. An empty list means that no signature was
// found; a look-up that the registry denies counts as none. Errors are
// [*ContentError] for damaged bytes and what the source returns.
func Signers(ctx context.Context, src Source, desc ocispec.Descriptor) ([]Found, error) {
	all, err := collect(ctx, src, desc)
	if err != nil {
		return nil, err
	}
	out := make([]Found, 0, len(all.signatures))
	for _, s := range all.signatures {
		out = append(out, s.found)
	}
	return out, nil
}

// describe fills in who claims to have made a signature.
func (f *Found) describe(content verify.VerificationContent) {
	if cert := content.Certificate(); cert != nil {
		f.Subject, f.Issuer = identityOf(cert)
		return
	}
	if key := content.PublicKey(); key != nil {
		sum, err := base64.StdEncoding.DecodeString(key.Hint())
		if err == nil && len(sum) == digest.SHA256.Size() {
			f.Key = "sha256:" + hex.EncodeToString(sum)
		}
	}
}

func identityOf(cert *x509.Certificate) (subject, issuer string) {
	summary, err := certificate.SummarizeCertificate(cert)
	if err != nil {
		return "a certificate that names nobody", "unknown"
	}
	return summary.SubjectAlternativeName, summary.Issuer
}

// errNotSignature says that something attached to a digest is no signature of
// it: an attestation, a list of materials.
var errNotSignature = errors.New("not a signature")
