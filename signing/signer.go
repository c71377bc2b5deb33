package signing

import (
	"context"
	"errors"

	"github.com/sigstore/cosign/v2/pkg/cosign"
	cosignkeys "github.com/sigstore/cosign/v2/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/options"
)

// A Signer signs with one private key. Make one with [LoadSigner].
type Signer struct {
	key  Key
	sign signature.Signer
}

// Key is the public half; its name is the reference the signer was loaded by.
func (s *Signer) Key() Key { return s.key }

// LoadSigner loads a private key by a reference as cosign has them: a file
// (cosign's encrypted PEM), env://NAME, k8s://NAMESPACE/NAME, the URI of a key
// management service. The password is asked for only when the key is
// encrypted and comes without one; what password returns as its error is
// wrapped. Errors are [*KeyError]; [ErrPassword] is in it when the key did not
// open.
func LoadSigner(ctx context.Context, keyRef string, password func() ([]byte, error)) (*Signer, error) {
	var signer signature.SignerVerifier
	var err error
	if isLocal(keyRef) {
		signer, err = loadLocalSigner(keyRef, password)
	} else {
		signer, err = loadRemoteSigner(ctx, keyRef, password)
	}
	if err != nil {
		return nil, err
	}
	public, err := signer.PublicKey(options.WithContext(ctx))
	if err != nil {
		return nil, remoteKeyError(keyRef, err)
	}
	key, err := newKey(mask(keyRef), public)
	if err != nil {
		return nil, err
	}
	return &Signer{key: key, sign: signer}, nil
}

func loadLocalSigner(ref string, password func() ([]byte, error)) (signature.SignerVerifier, error) {
	data, err := readLocal(ref)
	if err != nil {
		return nil, err
	}
	switch kind := pemKind(data); kind {
	case kindEncrypted:
	case kindPublic:
		return nil, &KeyError{Ref: mask(ref), Reason: "this is a public key; signing wants the private key"}
	case kindPrivate:
		return nil, &KeyError{Ref: mask(ref), Reason: "the private key is not in cosign's form; `cosign import-key-pair --key` makes one of it"}
	default:
		return nil, &KeyError{Ref: mask(ref), Reason: "there is no private key in PEM form in it"}
	}
	pass, err := ask(ref, password)
	if err != nil {
		return nil, err
	}
	signer, err := cosign.LoadPrivateKey(data, pass, nil)
	if err != nil {
		return nil, &KeyError{Ref: mask(ref), Reason: ErrPassword.Error(), Err: errors.Join(ErrPassword, err)}
	}
	return signer, nil
}

func ask(ref string, password func() ([]byte, error)) ([]byte, error) {
	if password == nil {
		return nil, nil
	}
	pass, err := password()
	if err != nil {
		return nil, &KeyError{Ref: mask(ref), Reason: "its password: " + err.Error(), Err: err}
	}
	return pass, nil
}

func loadRemoteSigner(ctx context.Context, ref string, password func() ([]byte, error)) (signature.SignerVerifier, error) {
	if err := checkScheme(ref); err != nil {
		return nil, err
	}
	pass := func(bool) ([]byte, error) { return ask(ref, password) }
	signer, err := cosignkeys.SignerVerifierFromKeyRef(ctx, ref, pass, nil)
	if err != nil {
		return nil, remoteKeyError(ref, err)
	}
	return signer, nil
}

// GenerateKeyPair makes an ECDSA P-256 key pair as `cosign generate-key-pair`
// does: the private key encrypted with the password (which may be empty) and
// the public key, both in PEM form.
func GenerateKeyPair(password []byte) (private, public []byte, err error) {
	keys, err := cosign.GenerateKeyPair(func(bool) ([]byte, error) { return password, nil })
	if err != nil {
		return nil, nil, err
	}
	return keys.PrivateBytes, keys.PublicBytes, nil
}
