package signing_test

import (
	"context"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sigstore/sigstore/pkg/signature/kms"
	"github.com/sigstore/sigstore/pkg/signature/kms/fake"
	"oras.land/oras-go/v2/content/memory"

	"waybill/signing"
)

const testPassword = "marker-password"

// keyFiles are a folder with one key pair and things that are none.
func keyFiles(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	private, public, err := signing.GenerateKeyPair([]byte(testPassword))
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"cosign.key": private, "cosign.pub": public, "notes.txt": []byte("marker-content"),
		"plain.key":   []byte("-----BEGIN PRIVATE KEY-----\nbWFya2VyLWNvbnRlbnQ=\n-----END PRIVATE KEY-----\n"),
		"damaged.pub": []byte("-----BEGIN PUBLIC KEY-----\nbWFya2VyLWNvbnRlbnQ=\n-----END PUBLIC KEY-----\n"),
		"cert.pem":    []byte("-----BEGIN CERTIFICATE-----\nbWFya2VyLWNvbnRlbnQ=\n-----END CERTIFICATE-----\n"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func password(word string) func() ([]byte, error) {
	return func() ([]byte, error) { return []byte(word), nil }
}

// a generated pair signs and verifies, from files and from the environment,
// and asks no network
func TestLoadKeyPair(t *testing.T) {
	noNetwork(t)
	dir := keyFiles(t)
	private, err := os.ReadFile(filepath.Join(dir, "cosign.key"))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TEST_SIGNING_KEY", string(private))
	key, err := signing.LoadKey(t.Context(), filepath.Join(dir, "cosign.pub"))
	if err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{filepath.Join(dir, "cosign.key"), "env://TEST_SIGNING_KEY"} {
		s, err := signing.LoadSigner(t.Context(), ref, password(testPassword))
		if err != nil {
			t.Fatal(err)
		}
		if s.Key().Name != ref || s.Key().Fingerprint() != key.Fingerprint() {
			t.Errorf("signer %s, key %s", s.Key(), key)
		}
		place := memory.New()
		desc := pushImage(t, place, "one")
		sign(t, s, place, desc, signing.FormatBoth)
		if _, err := signing.Verify(t.Context(), place, desc, signing.Policy{Keys: []signing.Key{key}}); err != nil {
			t.Error(err)
		}
	}
}

// keys that cannot be used are named with a reason, and nothing of what they hold
func TestKeyErrors(t *testing.T) {
	noNetwork(t)
	dir := keyFiles(t)
	private, err := os.ReadFile(filepath.Join(dir, "cosign.key"))
	if err != nil {
		t.Fatal(err)
	}
	secrets := []string{testPassword, "marker", "bWFya2Vy", base64.StdEncoding.EncodeToString([]byte(testPassword)), strings.Split(string(private), "\n")[1]}
	noPassword := errors.New("no terminal to ask on")
	signer := func(ref, word string) error {
		_, err := signing.LoadSigner(t.Context(), ref, password(word))
		return err
	}
	key := func(ref string) error {
		_, err := signing.LoadKey(t.Context(), ref)
		return err
	}
	for name, c := range map[string]struct {
		err  error
		says string
		is   error
	}{
		"wrong password":               {signer(filepath.Join(dir, "cosign.key"), "guess"), "wrong password", signing.ErrPassword},
		"no password func":             {second(signing.LoadSigner(t.Context(), filepath.Join(dir, "cosign.key"), nil)), "wrong password", signing.ErrPassword},
		"password cannot be asked for": {second(signing.LoadSigner(t.Context(), filepath.Join(dir, "cosign.key"), func() ([]byte, error) { return nil, noPassword })), "no terminal", noPassword},
		"no such key file":             {signer(filepath.Join(dir, "absent"), ""), "no such file", os.ErrNotExist},
		"no such environment variable": {signer("env://TEST_ABSENT", ""), "not set", os.ErrNotExist},
		"signing with text":            {signer(filepath.Join(dir, "notes.txt"), ""), "no private key", nil},
		"signing with a public key":    {signer(filepath.Join(dir, "cosign.pub"), ""), "public key", nil},
		"signing with an open key":     {signer(filepath.Join(dir, "plain.key"), ""), "import-key-pair", nil},
		"signing with a folder":        {signer(dir, ""), "directory", nil},
		"the key itself as reference":  {signer(string(private), testPassword), "in place of a reference", nil},
		"an unknown service":           {signer("marekms://somewhere/key", ""), "sigstore-kms-", nil},
		"an unknown service's public":  {key("marekms://somewhere/key"), "sigstore-kms-", nil},
		"a web address for signing":    {signer("https://keys.example/cosign.key", ""), "not fetched", nil},
		"no such public key":           {key(filepath.Join(dir, "absent")), "no such file", os.ErrNotExist},
		"text for a public key":        {key(filepath.Join(dir, "notes.txt")), "no public key", nil},
		"damaged public key":           {key(filepath.Join(dir, "damaged.pub")), "cannot be read", nil},
		"private for public":           {key(filepath.Join(dir, "cosign.key")), "private key; verification wants the public key", nil},
		"open private for public":      {key(filepath.Join(dir, "plain.key")), "private key; verification wants the public key", nil},
		"a certificate":                {key(filepath.Join(dir, "cert.pem")), "certificate", nil},
		"a web address":                {key("http://user:marker@keys.example/cosign.pub"), "not fetched", nil},
	} {
		t.Run(name, func(t *testing.T) {
			var keyErr *signing.KeyError
			if !errors.As(c.err, &keyErr) {
				t.Fatalf("error %v, want a KeyError", c.err)
			}
			if !strings.Contains(c.err.Error(), c.says) || c.is != nil && !errors.Is(c.err, c.is) {
				t.Errorf("error %q, want it to say %q and be %v", c.err, c.says, c.is)
			}
			for _, secret := range secrets {
				if strings.Contains(c.err.Error(), secret) {
					t.Errorf("error %q says the secret %q", c.err, secret)
				}
			}
		})
	}
}

// a key that a service holds signs, and verifies by the same reference
func TestKeyOfAService(t *testing.T) {
	ctx := context.WithValue(t.Context(), fake.KmsCtxKey{}, newECDSA(t))
	s, err := signing.LoadSigner(ctx, "fakekms://release", nil)
	if err != nil {
		t.Fatal(err)
	}
	key, err := signing.LoadKey(ctx, "fakekms://release")
	if err != nil {
		t.Fatal(err)
	}
	place := memory.New()
	desc := pushImage(t, place, "one")
	sign(t, s, place, desc, signing.FormatBoth)
	if _, err := signing.Verify(t.Context(), place, desc, signing.Policy{Keys: []signing.Key{key}}); err != nil {
		t.Error(err)
	}
}

// the services that cosign knows are known
func TestServices(t *testing.T) {
	known := kms.SupportedProviders()
	for _, scheme := range []string{"awskms://", "azurekms://", "gcpkms://", "hashivault://"} {
		if !slices.Contains(known, scheme) {
			t.Errorf("%s is not among %v", scheme, known)
		}
	}
}

func second[T any](_ T, err error) error { return err }
