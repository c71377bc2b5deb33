package door

import (
	"testing"

	"waybill/signing"
)

// Signatures that name no key are told once, however many there are.
func TestUnnamedKeysAreToldOnce(t *testing.T) {
	for want, signers := range map[string][]string{
		"not signed; not verified: no policy":                                          nil,
		"signed by " + signing.UnnamedKey + "; not verified: no policy":                {signing.UnnamedKey},
		"signed by key A, keys that 3 signatures do not name; not verified: no policy": {signing.UnnamedKey, "key A", signing.UnnamedKey, signing.UnnamedKey},
	} {
		if got := (Verification{Signers: signers}).String(); got != want {
			t.Errorf("%v: %q, want %q", signers, got, want)
		}
	}
}
