package signing

import (
	"bytes"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
)

// NewSigner makes a signer of a key that is in no file: deriving the key of an
// encrypted one takes a good part of a second.
func NewSigner(name string, sign signature.SignerVerifier) (*Signer, error) {
	public, err := sign.PublicKey()
	if err != nil {
		return nil, err
	}
	key, err := newKey(name, public)
	return &Signer{key: key, sign: sign}, err
}

// PublicPEM is the public key of s.
func PublicPEM(t testing.TB, s *Signer) []byte {
	t.Helper()
	public, err := s.sign.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	data, err := cryptoutils.MarshalPublicKeyToPEM(public)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// SignWith signs bytes with the key of s.
func SignWith(t testing.TB, s *Signer, message []byte) []byte {
	t.Helper()
	sig, err := s.sign.SignMessage(bytes.NewReader(message))
	if err != nil {
		t.Fatal(err)
	}
	return sig
}

// Proof makes a sigstore bundle with a predicate type of choice.
func Proof(t testing.TB, s *Signer, signed digest.Digest, predicateType string) []byte {
	t.Helper()
	proof, err := s.prove(t.Context(), statement{
		Type:          statementType,
		Subject:       []subject{{Digest: map[string]string{"sha256": signed.Encoded()}}},
		PredicateType: predicateType,
	})
	if err != nil {
		t.Fatal(err)
	}
	return proof
}
