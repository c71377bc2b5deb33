package signing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// A Result says exactly what was verified. At most one of Verified, Unsigned
// and Off is true.
type Result struct {
	Verified bool // the policy's signers have signed
	Unsigned bool // there is no signature, and the policy allows that
	Off      bool // nothing was looked at
	// Signers are the different keys and identities that were accepted, sorted.
	Signers []string
	// Found is how many signatures there were, accepted or not.
	Found int
	// Text says what was checked and what was not, a line each.
	Text []string
	// Warnings are look-ups that failed and bounds that were met, though the
	// policy was satisfied without them.
	Warnings []string
}

// Verify says whether policy p accepts the signatures of desc, whose bytes the
// caller has read and checked. Signatures of both forms are looked for in src;
// nothing else is asked, no matter what the signatures name.
//
// Errors, in this order: [*PolicyError] for a policy that cannot be honoured,
// [*ContentError] for bytes of signatures that are not what their digests say,
// what src returns when it cannot be asked, [*RefusedError]. A look-up that
// the registry denies does not count as absence.
func Verify(ctx context.Context, src Source, desc ocispec.Descriptor, p Policy) (Result, error) {
	r, err := p.compile()
	if err != nil {
		return Result{}, err
	}
	if r.Off {
		return Result{Off: true, Text: []string{"signatures were not looked at: verification is off"}}, nil
	}
	all, err := collect(ctx, src, desc)
	if err != nil {
		return Result{}, err
	}
	result := Result{Found: len(all.signatures), Warnings: all.warnings}
	accepted := r.judgeAll(all.signatures, desc.Digest)
	switch {
	case r.names() && len(accepted) >= r.Threshold:
		result.accept(accepted, r)
		for _, err := range all.denied {
			result.Warnings = append(result.Warnings, "not answered: "+firstLine(err))
		}
		return result, nil
	case len(all.signatures) == 0 && len(all.lost) > 0:
		return Result{}, &ContentError{Digest: all.lost[0], Reason: fmt.Sprintf("is listed as a signature of %s, and is not there", desc.Digest)}
	case r.AllowUnsigned && len(all.signatures) == 0 && len(all.denied) == 0:
		result.Unsigned = true
		result.Text = []string{"there is no signature; the policy allows that"}
		return result, nil
	}
	return Result{}, r.refuse(ctx, src, desc.Digest, all, len(accepted))
}

func (r *Result) accept(accepted map[string]verdict, rules *rules) {
	r.Verified = true
	for _, v := range accepted {
		r.Signers = append(r.Signers, v.signer)
		r.Text = append(r.Text, v.text)
	}
	slices.Sort(r.Signers)
	slices.Sort(r.Text)
	if rules.material != nil {
		r.Text = append(r.Text, "trusted root: used as given, its freshness was not checked")
	}
}

func (r *rules) refuse(ctx context.Context, src Source, d digest.Digest, all *collected, accepted int) error {
	refused := &RefusedError{Digest: d, Wanted: r.wanted(), Denied: all.denied, Warnings: all.warnings}
	for _, s := range all.signatures {
		refused.Found = append(refused.Found, s.found)
	}
	switch n := len(all.signatures); {
	case n == 0 && len(all.denied) > 0:
		refused.Reason = "the registry denies the look-up of signatures, so that their absence is not proven"
	case n == 0:
		refused.Reason = "there is no signature for it"
		refused.Others = otherSigned(ctx, src)
	case accepted > 0:
		refused.Reason = fmt.Sprintf("%d of %d signers have signed", accepted, r.Threshold)
	case !r.names():
		refused.Reason = fmt.Sprintf("it has %d signature(s), and the policy names nobody who may sign", n)
	default:
		refused.Reason = fmt.Sprintf("none of its %d signature(s) is acceptable", n)
	}
	return refused
}

// otherSigned looks which other digests of the place have a signature of the
// tag form, for the message that one has none. It may fail without a word.
func otherSigned(ctx context.Context, src Source) []digest.Digest {
	const most, tags = 5, 10_000
	var out []digest.Digest
	seen := 0
	done := errors.New("enough")
	keep := func(page []string) error {
		for _, tag := range page {
			if hex, ok := strings.CutSuffix(tag, ".sig"); ok {
				if d := digest.Digest(strings.Replace(hex, "-", ":", 1)); d.Validate() == nil {
					out = append(out, d)
				}
			}
		}
		if seen += len(page); len(out) >= most || seen > tags {
			return done
		}
		return nil
	}
	switch lister := src.(type) {
	case interface {
		Tags(ctx context.Context, last string, fn func([]string) error) error
	}:
		_ = lister.Tags(ctx, "", keep)
	case interface {
		Tags(ctx context.Context, fn func([]string) error) error
	}:
		_ = lister.Tags(ctx, keep)
	}
	slices.Sort(out)
	return out[:min(len(out), most)]
}
