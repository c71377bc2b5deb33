package signing

import (
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/sigstore/sigstore-go/pkg/fulcio/certificate"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/verify"
)

// A verdict is one signer found to have signed.
type verdict struct{ signer, text string }

// judgeAll returns the accepted signers by what makes them different, and
// writes into each signature why it does not count.
func (r *rules) judgeAll(signatures []attachment, want digest.Digest) map[string]verdict {
	accepted := map[string]verdict{}
	for i := range signatures {
		s := &signatures[i]
		if s.entity == nil {
			continue
		}
		var problems []error
		counted := false
		for _, k := range r.Keys {
			text, err := r.judgeKey(*s, k, want)
			if err != nil {
				problems = append(problems, err)
				continue
			}
			counted = true
			if _, known := accepted[k.fingerprint]; !known {
				accepted[k.fingerprint] = verdict{signer: k.String(), text: text}
			}
		}
		for _, id := range r.identities {
			who, text, err := r.judgeIdentity(*s, id, want)
			if err != nil {
				problems = append(problems, err)
				continue
			}
			counted = true
			if _, known := accepted[who]; !known {
				accepted[who] = verdict{signer: who, text: text}
			}
		}
		if !counted {
			s.found.Problem = explain(problems)
		}
	}
	return accepted
}

// errOther says that a signature was made by somebody else.
var errOther = errors.New("made by none of the policy's signers")

// explain gives the problems that say more than that somebody else signed.
func explain(problems []error) string {
	var lines []string
	for _, err := range problems {
		if line := firstLine(err); !errors.Is(err, errOther) && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return errOther.Error()
	}
	return strings.Join(lines, "; ")
}

func (r *rules) judgeKey(s attachment, k Key, want digest.Digest) (string, error) {
	material := root.TrustedMaterialCollection{root.NewTrustedPublicKeyMaterial(func(string) (root.TimeConstrainedVerifier, error) {
		return root.NewExpiringKey(keyVerifier{k}, time.Time{}, time.Time{}), nil
	})}
	if proof, ok := s.entity.(*tagProof); ok {
		s.entity = keyOnly{proof}
	}
	// Whether the key made it comes first: what else is wrong matters to
	// nobody when it is somebody else's.
	keyOf := []verify.VerifierOption{verify.WithNoObserverTimestamps()}
	if _, err := s.verify(material, s.artifact(want), verify.WithKey(), keyOf); err != nil {
		if _, err := s.verify(material, verify.WithoutArtifactUnsafe(), verify.WithKey(), keyOf); err == nil {
			return "", fmt.Errorf("made by %s, but for another digest", k)
		}
		return "", errOther
	}
	if err := s.about(want); err != nil {
		return "", fmt.Errorf("made by %s, but %w", k, err)
	}
	text := "signed by " + k.String()
	if !r.RequireLog && !r.RequireTimestamp {
		return text + "; log entry and timestamp not checked", nil
	}
	if _, err := s.verify(append(material, r.material), s.artifact(want), verify.WithKey(), r.keyWay().options); err != nil {
		return "", fmt.Errorf("made by %s, but %w", k, err)
	}
	return text + "; " + checkedText(r.RequireLog, r.RequireTimestamp), nil
}

// A way is one set of requirements of sigstore's verifier that is enough.
type way struct {
	options []verify.VerifierOption
	log     bool // a log entry is among them
}

// requirements are what the policy requires beside the signer.
func (r *rules) requirements() way {
	w := way{log: r.RequireLog}
	if r.RequireLog {
		w.options = append(w.options, verify.WithTransparencyLog(1))
	}
	if r.RequireTimestamp {
		w.options = append(w.options, verify.WithSignedTimestamps(1))
	}
	return w
}

// keyWay is how a signature by a key is verified: a key has no end, so that
// nothing needs to vouch for the time.
func (r *rules) keyWay() way {
	w := r.requirements()
	if !r.RequireTimestamp {
		w.options = append(w.options, verify.WithNoObserverTimestamps())
	}
	return w
}

// identityWays are the ways to learn when a certificate was used. A time from
// a log or a timestamp authority is always needed: such certificates live for
// minutes.
func (r *rules) identityWays() []way {
	withLog := way{log: true, options: []verify.VerifierOption{verify.WithTransparencyLog(1), verify.WithObserverTimestamps(1)}}
	ways := []way{withLog, {options: []verify.VerifierOption{verify.WithSignedTimestamps(1)}}}
	switch {
	case r.RequireTimestamp:
		ways = []way{r.requirements()}
	case r.RequireLog:
		ways = []way{withLog}
	}
	if len(r.material.CTLogs()) > 0 {
		for i := range ways {
			ways[i].options = append(ways[i].options, verify.WithSignedCertificateTimestamps(1))
		}
	}
	return ways
}

func (r *rules) judgeIdentity(s attachment, id verify.CertificateIdentity, want digest.Digest) (who, text string, err error) {
	content, err := s.entity.VerificationContent()
	if err != nil || content.Certificate() == nil {
		return "", "", errOther
	}
	claimed, err := certificate.SummarizeCertificate(content.Certificate())
	if err != nil || id.Verify(claimed) != nil {
		return "", "", errOther
	}
	result, used, err := r.verifyIdentity(s, id, want)
	if err != nil {
		return "", "", r.explainIdentity(s, content.Certificate(), err)
	}
	if err := s.about(want); err != nil {
		return "", "", fmt.Errorf("made by %s, but %w", s.found, err)
	}
	cert := result.Signature.Certificate
	who = identityText(cert.SubjectAlternativeName, cert.Issuer)
	return who, "signed by " + who + "; " + r.timesText(result.VerifiedTimestamps, used.log), nil
}

// verifyIdentity tries the ways in turn. Of several failures it returns the
// one about what the signature has: log entry or timestamp.
func (r *rules) verifyIdentity(s attachment, id verify.CertificateIdentity, want digest.Digest) (*verify.VerificationResult, way, error) {
	var failed error
	stamps, _ := s.entity.Timestamps()
	for _, w := range r.identityWays() {
		result, err := s.verify(r.material, s.artifact(want), verify.WithCertificateIdentity(id), w.options)
		if err == nil {
			return result, w, nil
		}
		if failed == nil || !w.log && len(stamps) > 0 {
			failed = err
		}
	}
	return nil, way{}, failed
}

func (r *rules) explainIdentity(s attachment, cert *x509.Certificate, err error) error {
	stamps, _ := s.entity.Timestamps()
	entries, _ := s.entity.TlogEntries()
	if len(stamps) == 0 && len(entries) == 0 {
		return fmt.Errorf("its certificate was valid from %s to %s, and neither a timestamp nor a log entry says that it was used then",
			utc(cert.NotBefore), utc(cert.NotAfter))
	}
	if end, ends := r.authoritiesEnd(); ends && end.Before(cert.NotBefore) {
		return fmt.Errorf("its certificate is of %s, and the last certificate authority of the trusted root ended %s; bring a newer trusted_root.json",
			utc(cert.NotBefore), utc(end))
	}
	return fmt.Errorf("certificate valid from %s to %s: %s", utc(cert.NotBefore), utc(cert.NotAfter), firstLine(err))
}

func utc(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func checkedText(log, timestamp bool) string {
	switch {
	case log && timestamp:
		return "log entry and timestamp checked"
	case log:
		return "log entry checked, timestamp not"
	default:
		return "timestamp checked, log entry not"
	}
}

// timesText says at which time a certificate was judged, and what vouches.
func (r *rules) timesText(times []verify.TimestampVerificationResult, log bool) string {
	stamped := slices.ContainsFunc(times, func(t verify.TimestampVerificationResult) bool { return t.Type == "TimestampAuthority" })
	text := "certificate valid at " + utc(times[0].Timestamp) + "; " + checkedText(log, stamped)
	if len(r.material.CTLogs()) == 0 {
		text += "; certificate log not checked, the trusted root has none"
	}
	return text
}

// verify runs sigstore's verifier. Its libraries read what strangers wrote;
// should one of them panic over it, that signature does not count.
func (s attachment) verify(material root.TrustedMaterial, what verify.ArtifactPolicyOption, who verify.PolicyOption, options []verify.VerifierOption) (result *verify.VerificationResult, err error) {
	defer func() {
		if p := recover(); p != nil {
			result, err = nil, fmt.Errorf("it could not be read: %v", p)
		}
	}()
	verifier, err := verify.NewVerifier(material, options...)
	if err != nil {
		return nil, err
	}
	return verifier.Verify(s.entity, verify.NewPolicy(what, who))
}

// about requires that a signature which verified is about want. The verifier
// has seen to that for sigstore bundles.
func (s attachment) about(want digest.Digest) error {
	if s.payload == nil {
		return nil
	}
	return checkPayload(s.payload, want)
}
