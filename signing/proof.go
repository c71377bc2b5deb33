package signing

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	cosignbundle "github.com/sigstore/cosign/v2/pkg/cosign/bundle"
	proofs "github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/tlog"
	"github.com/sigstore/sigstore-go/pkg/verify"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature/payload"
)

// Both forms become a verify.SignedEntity, so that one verifier with one set
// of rules judges both. Cosign's own verifier for the tag form reads the clock
// when a certificate comes without a timestamp, and at 2.6.5 panics when the
// timestamp does not verify (an index into an empty list) and when the log
// entry's body is no text.

// An attachment is one signature that was found, readable or not.
type attachment struct {
	found   Found
	entity  verify.SignedEntity // nil when it cannot be read: see found.Problem
	payload []byte              // what was signed; tag form only
}

// tagProof is a signature of the tag form.
type tagProof struct {
	verify.BaseSignedEntity
	content    *proofs.MessageSignature
	signer     verify.VerificationContent
	entries    []*tlog.Entry
	timestamps [][]byte
}

func (p *tagProof) SignatureContent() (verify.SignatureContent, error)       { return p.content, nil }
func (p *tagProof) VerificationContent() (verify.VerificationContent, error) { return p.signer, nil }
func (p *tagProof) TlogEntries() ([]*tlog.Entry, error)                      { return p.entries, nil }
func (p *tagProof) Timestamps() ([][]byte, error)                            { return p.timestamps, nil }
func (p *tagProof) HasInclusionPromise() bool                                { return len(p.entries) > 0 }

// Version makes sigstore-go accept the hashes that cosign signs with for every
// size of key, as it does for sigstore bundles up to this version.
func (p *tagProof) Version() (string, error) { return "v0.3", nil }

// keyOnly looks at a proof as one made by a key: cosign may attach a
// certificate to a signature that is verified by its key.
type keyOnly struct{ *tagProof }

func (keyOnly) VerificationContent() (verify.VerificationContent, error) {
	return &proofs.PublicKey{}, nil
}

// readTagProof reads what cosign writes into the annotations of a layer.
func readTagProof(layer ocispec.Descriptor, message []byte) (*tagProof, error) {
	sig, err := base64.StdEncoding.DecodeString(layer.Annotations[annotationSignature])
	if err != nil || len(sig) == 0 {
		return nil, errors.New("its signature is not base64")
	}
	sum := sha256.Sum256(message)
	p := &tagProof{content: proofs.NewMessageSignature(sum[:], "SHA2_256", sig), signer: &proofs.PublicKey{}}
	if text := layer.Annotations[annotationCertificate]; text != "" {
		certs, err := cryptoutils.UnmarshalCertificatesFromPEM([]byte(text))
		if err != nil || len(certs) == 0 {
			return nil, errors.New("its certificate cannot be read")
		}
		p.signer = proofs.NewCertificate(certs[0])
	}
	if text := layer.Annotations[annotationTimestamp]; text != "" {
		var stamp cosignbundle.RFC3161Timestamp
		if err := json.Unmarshal([]byte(text), &stamp); err != nil {
			return nil, errors.New("its timestamp cannot be read")
		}
		p.timestamps = [][]byte{stamp.SignedRFC3161Timestamp}
	}
	if text := layer.Annotations[annotationLogEntry]; text != "" {
		entry, err := readLogEntry(text)
		if err != nil {
			return nil, fmt.Errorf("its log entry cannot be read: %w", err)
		}
		p.entries = []*tlog.Entry{entry}
	}
	return p, nil
}

// readLogEntry reads the answer of a Rekor log as cosign keeps it.
func readLogEntry(text string) (*tlog.Entry, error) {
	var entry cosignbundle.RekorBundle
	if err := json.Unmarshal([]byte(text), &entry); err != nil {
		return nil, err
	}
	encoded, ok := entry.Payload.Body.(string)
	if !ok {
		return nil, errors.New("its body is no text")
	}
	body, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, err
	}
	logID, err := hex.DecodeString(entry.Payload.LogID)
	if err != nil {
		return nil, err
	}
	return tlog.NewEntry(body, entry.Payload.IntegratedTime, entry.Payload.LogIndex, logID, entry.SignedEntryTimestamp, nil) //nolint:staticcheck // cosign keeps entries in no other form
}

// checkPayload requires that a simple signing payload speaks of want.
func checkPayload(message []byte, want digest.Digest) error {
	var claim payload.SimpleContainerImage
	if err := json.Unmarshal(message, &claim); err != nil {
		return errors.New("what it signs is no simple signing payload")
	}
	if claim.Critical.Type != payload.CosignSignatureType {
		return fmt.Errorf("what it signs is of type %q", claim.Critical.Type)
	}
	if got := claim.Critical.Image.DockerManifestDigest; got != want.String() {
		return fmt.Errorf("it signs another digest, %q", got)
	}
	return nil
}

// readBundleProof reads a sigstore bundle; errNotSignature when it is one of
// another purpose. A bundle for another digest is a signature that fails.
func readBundleProof(data []byte) (*proofs.Bundle, error) {
	proof := new(proofs.Bundle)
	if err := proof.UnmarshalJSON(data); err != nil {
		return nil, fmt.Errorf("its sigstore bundle cannot be read: %s", firstLine(err))
	}
	envelope, err := proof.Envelope()
	if err != nil {
		return nil, errNotSignature
	}
	statement, err := envelope.Statement()
	if err != nil || statement.GetPredicateType() != PredicateTypeSignature {
		return nil, errNotSignature
	}
	return proof, nil
}

// isBundleLayer tells sigstore bundles by their media type.
func isBundleLayer(mediaType string) bool { return strings.HasPrefix(mediaType, mediaTypeBundlePrefix) }

// artifact says what a signature has to be over: its payload, which
// [checkPayload] then reads, or a statement about want.
func (s attachment) artifact(want digest.Digest) verify.ArtifactPolicyOption {
	if s.payload != nil {
		return verify.WithArtifact(bytes.NewReader(s.payload))
	}
	sum, _ := hex.DecodeString(want.Encoded()) // a valid digest is hexadecimal
	return verify.WithArtifactDigest(want.Algorithm().String(), sum)
}
