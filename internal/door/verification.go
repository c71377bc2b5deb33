package door

import (
	"context"
	"fmt"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"waybill/signing"
)

// A Verification says what was verified of a bundle's root, and what not.
type Verification struct {
	// State is "verified", "unsigned" (let in by allowUnsigned), "off" (policy
	// none) or "none" (no policy: content was checked by digest, signatures
	// were not).
	State string `json:"verification"`
	// Signers says who signed: accepted signers when verified, and what the
	// signatures claim when nothing was verified.
	Signers []string `json:"signers"`
	// Policy names where the policy came from.
	Policy string `json:"policy,omitempty"`
	// Checks says what was looked at, a line each.
	Checks []string `json:"checks,omitempty"`
}

// A NoPolicyError reports that a command which trusts what it opens was given
// nobody to trust.
type NoPolicyError struct {
	Location string
	Signers  []string // what the signatures claim
}

func (e *NoPolicyError) Error() string {
	text := "no policy says who may sign " + e.Location
	if len(e.Signers) > 0 {
		text += "; it is signed by " + strings.Join(e.Signers, ", ") + ", which was not verified"
	}
	return text
}

// String is the verification in one line for people.
func (v Verification) String() string {
	by := "not signed"
	if len(v.Signers) > 0 {
		by = "signed by " + strings.Join(together(v.Signers), ", ")
	}
	switch v.State {
	case "verified":
		return by + " (verified, policy: " + v.Policy + ")"
	case "unsigned":
		return "not signed; let in because the policy allows unsigned bundles (policy: " + v.Policy + ")"
	case "off":
		return by + "; not verified: policy none"
	default:
		return by + "; not verified: no policy"
	}
}

// together says once what several signatures don't tell.
func together(signers []string) []string {
	var all []string
	unnamed := 0
	for _, s := range signers {
		if s == signing.UnnamedKey {
			unnamed++
			continue
		}
		all = append(all, s)
	}
	switch unnamed {
	case 0:
	case 1:
		all = append(all, signing.UnnamedKey)
	default:
		all = append(all, fmt.Sprintf("keys that %d signatures do not name", unnamed))
	}
	return all
}

func verify(ctx context.Context, src signing.Source, at string, root ocispec.Descriptor, opts Options) (Verification, error) {
	if opts.Policy == nil || opts.Policy.Off {
		return unverified(ctx, src, at, root, opts)
	}
	result, err := signing.Verify(ctx, src, root, *opts.Policy)
	if err != nil {
		return Verification{}, err
	}
	v := Verification{State: "verified", Signers: append([]string{}, result.Signers...), Policy: opts.Policy.Source, Checks: result.Text}
	if result.Unsigned {
		v.State = "unsigned"
	}
	return v, nil
}

// unverified says who claims to have signed. What cannot be read of the
// signatures does not stop a command that verifies nothing, damaged bytes do.
func unverified(ctx context.Context, src signing.Source, at string, root ocispec.Descriptor, opts Options) (Verification, error) {
	found, err := signing.Signers(ctx, src, root)
	if err != nil {
		return Verification{}, err
	}
	v := Verification{State: "none", Signers: names(found)}
	switch {
	case opts.Policy != nil:
		v.State, v.Policy = "off", opts.Policy.Source
	case opts.NeedPolicy:
		return v, &NoPolicyError{Location: at, Signers: v.Signers}
	}
	return v, nil
}

func names(found []signing.Found) []string {
	out := make([]string, 0, len(found))
	for _, f := range found {
		out = append(out, f.String())
	}
	return out
}
