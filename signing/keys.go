package signing

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/sigstore/cosign/v2/pkg/blob"
	cosignkeys "github.com/sigstore/cosign/v2/pkg/signature"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/kms"
)

// A Key is a public key whose signatures a policy accepts.
type Key struct {
	// Name is what people call the key: the reference it was loaded by.
	Name string

	fingerprint string
	verifiers   []signature.Verifier
}

// Fingerprint is the SHA-256 of the key in PKIX form, "sha256:<hex>": the
// number under which a sigstore bundle hints at the key that made it.
func (k Key) Fingerprint() string { return k.fingerprint }

func (k Key) String() string { return fmt.Sprintf("key %s (%s)", k.Name, k.fingerprint) }

// LoadKey loads a public key by a reference as cosign has them: a PEM file,
// env://NAME, k8s://NAMESPACE/NAME, the URI of a key management service.
// Files and environment need no network; a key at an http or https address is
// refused. Errors are [*KeyError].
func LoadKey(ctx context.Context, ref string) (Key, error) {
	if !isLocal(ref) {
		return loadRemoteKey(ctx, ref)
	}
	data, err := readLocal(ref)
	if err != nil {
		return Key{}, err
	}
	return ParseKey(ref, data)
}

// ParseKey reads a public key in PEM form; name is what people call it.
// Errors are [*KeyError].
func ParseKey(name string, data []byte) (Key, error) {
	name = mask(name)
	switch kind := pemKind(data); kind {
	case kindPublic:
	case kindEncrypted, kindPrivate:
		return Key{}, &KeyError{Ref: name, Reason: "this is a private key; verification wants the public key that belongs to it (of a cosign.key: cosign.pub, or `cosign public-key --key`)"}
	case kindCertificate:
		return Key{}, &KeyError{Ref: name, Reason: "this is a certificate, not a public key; name the identity in it and the issuer instead"}
	default:
		return Key{}, &KeyError{Ref: name, Reason: "there is no public key in PEM form in it"}
	}
	public, err := cryptoutils.UnmarshalPEMToPublicKey(data)
	if err != nil {
		return Key{}, &KeyError{Ref: name, Reason: "the public key in it cannot be read", Err: err}
	}
	return newKey(name, public)
}

func loadRemoteKey(ctx context.Context, ref string) (Key, error) {
	if err := checkScheme(ref); err != nil {
		return Key{}, err
	}
	verifier, err := cosignkeys.PublicKeyFromKeyRef(ctx, ref)
	if err != nil {
		return Key{}, remoteKeyError(ref, err)
	}
	public, err := verifier.PublicKey()
	if err != nil {
		return Key{}, remoteKeyError(ref, err)
	}
	return newKey(mask(ref), public)
}

func newKey(name string, public crypto.PublicKey) (Key, error) {
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return Key{}, &KeyError{Ref: name, Reason: "the public key is of a kind that is not supported", Err: err}
	}
	verifiers, err := loadVerifiers(public)
	if err != nil {
		return Key{}, &KeyError{Ref: name, Reason: "the public key is of a kind that is not supported", Err: err}
	}
	sum := sha256.Sum256(der)
	return Key{Name: name, fingerprint: "sha256:" + hex.EncodeToString(sum[:]), verifiers: verifiers}, nil
}

// loadVerifiers gives the ways a key may have signed. Signers choose the hash
// by the size of the key, cosign before 2.0 and with --key still takes SHA-256
// for all; Ed25519 is used pure in envelopes and prehashed for log entries.
func loadVerifiers(public crypto.PublicKey) ([]signature.Verifier, error) {
	var out []signature.Verifier
	add := func(v signature.Verifier, err error) error {
		if err == nil {
			out = append(out, v)
		}
		return err
	}
	var err error
	switch key := public.(type) {
	case *ecdsa.PublicKey:
		for _, hash := range curveHashes(key.Curve) {
			err = errors.Join(err, add(signature.LoadECDSAVerifier(key, hash)))
		}
	case ed25519.PublicKey:
		err = errors.Join(add(signature.LoadED25519Verifier(key)), add(signature.LoadED25519phVerifier(key)))
	case *rsa.PublicKey:
		err = add(signature.LoadRSAPKCS1v15Verifier(key, crypto.SHA256))
	default:
		err = fmt.Errorf("%T", public)
	}
	return out, err
}

func curveHashes(curve elliptic.Curve) []crypto.Hash {
	switch curve {
	case elliptic.P384():
		return []crypto.Hash{crypto.SHA384, crypto.SHA256}
	case elliptic.P521():
		return []crypto.Hash{crypto.SHA512, crypto.SHA256}
	default:
		return []crypto.Hash{crypto.SHA256}
	}
}

// keyVerifier is a key as sigstore's libraries see it.
type keyVerifier struct{ Key }

func (k keyVerifier) PublicKey(opts ...signature.PublicKeyOption) (crypto.PublicKey, error) {
	return k.verifiers[0].PublicKey(opts...)
}

func (k keyVerifier) VerifySignature(sig, message io.Reader, opts ...signature.VerifyOption) error {
	sigBytes, err := io.ReadAll(sig)
	if err != nil {
		return err
	}
	messageBytes, err := io.ReadAll(message)
	if err != nil {
		return err
	}
	for _, v := range k.verifiers {
		if err = v.VerifySignature(bytes.NewReader(sigBytes), bytes.NewReader(messageBytes), opts...); err == nil {
			return nil
		}
	}
	return err
}

func remoteKeyError(ref string, err error) error {
	var provider *kms.ProviderNotFoundError
	var scheme *blob.UnrecognizedSchemeError
	if errors.As(err, &provider) || errors.As(err, &scheme) {
		return &KeyError{Ref: mask(ref), Reason: "nothing here knows this kind of reference; there are files, env://, k8s://, " +
			"awskms://, azurekms://, gcpkms://, hashivault://, and others through a program sigstore-kms-<scheme> on the PATH", Err: err}
	}
	var key *KeyError
	if errors.As(err, &key) {
		return key // of the password
	}
	return &KeyError{Ref: mask(ref), Reason: "the key could not be reached: " + mask(firstLine(err)), Err: err}
}

// isLocal tells files and the environment from what has to be asked for.
func isLocal(ref string) bool {
	return strings.HasPrefix(ref, "env://") || !strings.Contains(ref, "://") && !strings.HasPrefix(ref, "pkcs11:")
}

func checkScheme(ref string) error {
	if strings.HasPrefix(ref, "http://") || strings.HasPrefix(ref, "https://") {
		return &KeyError{Ref: mask(ref), Reason: "keys are not fetched from web addresses; save it to a file and compare its fingerprint by another way"}
	}
	return nil
}

// maxKeyFile bounds key files, in bytes; an RSA key of 4096 bits is 4 KiB.
const maxKeyFile = 1 << 20

func readLocal(ref string) ([]byte, error) {
	if name, ok := strings.CutPrefix(ref, "env://"); ok {
		value, found := os.LookupEnv(name)
		if !found {
			return nil, &KeyError{Ref: mask(ref), Reason: "the environment variable is not set", Err: fs.ErrNotExist}
		}
		return []byte(value), nil
	}
	f, err := os.Open(filepath.Clean(ref))
	if err != nil {
		return nil, fileError(ref, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	if err != nil {
		return nil, fileError(ref, err)
	}
	if len(data) > maxKeyFile {
		return nil, &KeyError{Ref: mask(ref), Reason: "the file is too large for a key"}
	}
	return data, nil
}

func fileError(ref string, err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err // without the path: the reference may be a key by mistake
	}
	return &KeyError{Ref: mask(ref), Reason: err.Error(), Err: err}
}

type keyKind int

const (
	kindNone keyKind = iota
	kindPublic
	kindEncrypted // a private key in cosign's form
	kindPrivate   // any other private key
	kindCertificate
)

// pemKind says what the first PEM block is.
func pemKind(data []byte) keyKind {
	block, _ := pem.Decode(data)
	if block == nil {
		return kindNone
	}
	switch {
	case block.Type == "ENCRYPTED COSIGN PRIVATE KEY", block.Type == "ENCRYPTED SIGSTORE PRIVATE KEY":
		return kindEncrypted
	case strings.HasSuffix(block.Type, "PRIVATE KEY"):
		return kindPrivate
	case block.Type == "PUBLIC KEY", block.Type == "RSA PUBLIC KEY":
		return kindPublic
	case block.Type == "CERTIFICATE":
		return kindCertificate
	}
	return kindNone
}

// secretsInReference finds what must not be printed of a reference: the PIN
// of a PKCS #11 URI (RFC 7512 section 2.4), a password in an address.
var secretsInReference = regexp.MustCompile(`(pin-value=)[^&;\s"]+|(://[^/@\s:]*:)[^@/\s]+(@)`)

// mask makes a reference fit to print. A key given where its reference should
// stand is not printed at all.
func mask(ref string) string {
	if strings.Contains(ref, "-----BEGIN") || strings.ContainsAny(ref, "\n\r") {
		return "(a key in place of a reference to one)"
	}
	return secretsInReference.ReplaceAllString(ref, "${1}${2}***${3}")
}
