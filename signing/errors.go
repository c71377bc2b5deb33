package signing

import (
	"errors"
	"fmt"
	"strings"

	"github.com/opencontainers/go-digest"
)

// ErrPassword says that a private key did not open: wrong password or a
// damaged key. It is in a [KeyError].
var ErrPassword = errors.New("wrong password, or the key is damaged")

// A KeyError reports a key that cannot be used. It names the reference and
// never what the key holds.
type KeyError struct {
	Ref    string // as given; secrets in it are masked
	Reason string
	Err    error // may be nil
}

func (e *KeyError) Error() string {
	text := fmt.Sprintf("key %q: %s", e.Ref, e.Reason)
	if e.Err != nil && e.Reason == "" {
		text = fmt.Sprintf("key %q: %v", e.Ref, e.Err)
	}
	return text
}

func (e *KeyError) Unwrap() error { return e.Err }

// A PolicyError reports a policy that cannot be honoured as it stands:
// requirements with nothing to check them against, parts that contradict each
// other, trust material that cannot be read.
type PolicyError struct {
	Source string // [Policy.Source]
	Reason string
	Err    error // may be nil

	NeedsRoot bool // what is missing is a trusted root
}

func (e *PolicyError) Error() string {
	text := "verification policy"
	if e.Source != "" {
		text += " (" + e.Source + ")"
	}
	text += ": " + e.Reason
	if e.Err != nil {
		text += ": " + firstLine(e.Err)
	}
	return text
}

func (e *PolicyError) Unwrap() error { return e.Err }

// A ContentError reports bytes of a signature that are not what their digest
// says, or that are not there.
type ContentError struct {
	Digest digest.Digest
	Reason string
}

func (e *ContentError) Error() string {
	return fmt.Sprintf("signature content %s: %s", e.Digest, e.Reason)
}

// A RefusedError reports that a policy does not accept what signed a digest,
// or that nothing did.
type RefusedError struct {
	Digest digest.Digest
	// Reason is why, in a few words.
	Reason string
	// Found are the signatures that were found for the digest.
	Found []Found
	// Wanted is what the policy asks for, and where the policy came from.
	Wanted string
	// Others are digests of the same place that have a signature, a few of
	// them; only looked for when the digest has none.
	Others []digest.Digest
	// Denied are the look-ups that the registry refused to answer, so that
	// absence is not proven.
	Denied []error
	// Warnings are oddities of the look-up that may explain it.
	Warnings []string
}

func (e *RefusedError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "verification of %s refused: %s", e.Digest, e.Reason)
	for _, f := range e.Found {
		fmt.Fprintf(&b, "\n  found: %s", f)
		if f.Problem != "" {
			fmt.Fprintf(&b, ": %s", f.Problem)
		}
	}
	for _, err := range e.Denied {
		fmt.Fprintf(&b, "\n  not answered: %s", firstLine(err))
	}
	for _, warning := range e.Warnings {
		fmt.Fprintf(&b, "\n  seen: %s", warning)
	}
	if len(e.Others) > 0 {
		fmt.Fprintf(&b, "\n  signatures exist here for other digests: %s", joinDigests(e.Others))
	}
	fmt.Fprintf(&b, "\n  wanted: %s", e.Wanted)
	return b.String()
}

func joinDigests(list []digest.Digest) string {
	words := make([]string, len(list))
	for i, d := range list {
		words[i] = d.String()
	}
	return strings.Join(words, ", ")
}

// firstLine keeps an error of a library to one line of bearable length.
func firstLine(err error) string {
	const longest = 300
	line, _, _ := strings.Cut(err.Error(), "\n")
	line = strings.TrimSuffix(line, "; error: %!w(<nil>)") // sigstore-go, where it has nothing to add
	if len(line) > longest {
		line = strings.ToValidUTF8(line[:longest], "") + "…"
	}
	return line
}
