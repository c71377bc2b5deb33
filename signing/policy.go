package signing

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/verify"
)

// An Identity is who a certificate was issued to, and by whom the person or
// workload was known. Issuer and one of the others are required.
type Identity struct {
	Issuer        string // the OIDC issuer, exactly
	Subject       string // the certificate's subject alternative name, exactly
	SubjectRegexp string // or a regular expression for the whole of it
}

func (i Identity) String() string {
	return identityText(cmp.Or(i.Subject, "/"+i.SubjectRegexp+"/"), i.Issuer)
}

// A Policy says whose signatures count. The zero value accepts nobody.
type Policy struct {
	// Keys and Identities are who may sign; any one of them suffices unless
	// Threshold asks for more.
	Keys       []Key
	Identities []Identity
	// TrustedRoot is sigstore's trusted_root.json: the authorities for
	// certificates, logs and timestamps. It is used as it is, with no look at
	// whether it is fresh. Needed for Identities, RequireLog, RequireTimestamp.
	TrustedRoot []byte
	// RequireLog wants an entry in a transparency log of the trusted root.
	RequireLog bool
	// RequireTimestamp wants a signed timestamp of an authority of the trusted
	// root; the time that a log gives is not one.
	RequireTimestamp bool
	// Threshold is how many different keys and identities have to have signed;
	// 0 means 1. The same key under two names is one.
	Threshold int
	// AllowUnsigned lets a digest pass that has no signature at all.
	AllowUnsigned bool
	// Off verifies nothing.
	Off bool
	// Source names where the policy came from, for messages.
	Source string
}

// Check says whether the policy can be honoured as it stands. Errors are
// [*PolicyError].
func (p Policy) Check() error {
	_, err := p.compile()
	return err
}

// rules is a policy made ready.
type rules struct {
	Policy
	material   *root.TrustedRoot // nil when there is none
	identities []verify.CertificateIdentity
}

func (p Policy) fail(err error, format string, args ...any) error {
	return &PolicyError{Source: p.Source, Reason: fmt.Sprintf(format, args...), Err: err}
}

func (p Policy) compile() (*rules, error) {
	if p.Off {
		if p.names() || p.RequireLog || p.RequireTimestamp || p.Threshold > 1 || p.AllowUnsigned || p.TrustedRoot != nil {
			return nil, p.fail(nil, "verification is off, so that nothing else in the policy would be honoured")
		}
		return &rules{Policy: p}, nil
	}
	if p.Threshold < 0 {
		return nil, p.fail(nil, "a threshold of %d", p.Threshold)
	}
	r := &rules{Policy: p}
	r.Threshold = max(p.Threshold, 1)
	for _, check := range []func() error{r.checkSigners, r.checkThreshold, r.loadRoot, r.checkRoot} {
		if err := check(); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (p Policy) names() bool { return len(p.Keys)+len(p.Identities) > 0 }

func (r *rules) checkSigners() error {
	if !r.names() {
		switch {
		case !r.AllowUnsigned:
			return r.fail(nil, "no key and no identity says who may sign")
		case r.RequireLog || r.RequireTimestamp || r.TrustedRoot != nil || r.Threshold > 1:
			return r.fail(nil, "no key and no identity says who may sign, so that threshold, log, timestamp and trusted root have nothing to apply to")
		}
	}
	for _, k := range r.Keys {
		if len(k.verifiers) == 0 {
			return r.fail(nil, "key %q was not loaded", k.Name)
		}
	}
	for _, id := range r.Identities {
		identity, err := compileIdentity(id)
		if err != nil {
			return r.fail(err, "identity %s", id)
		}
		r.identities = append(r.identities, identity)
	}
	return nil
}

func compileIdentity(id Identity) (verify.CertificateIdentity, error) {
	switch {
	case id.Issuer == "":
		return verify.CertificateIdentity{}, errors.New("it names no issuer; anybody may be an issuer of their own")
	case id.Subject == "" && id.SubjectRegexp == "":
		return verify.CertificateIdentity{}, errors.New("it names no subject")
	case id.Subject != "" && id.SubjectRegexp != "":
		return verify.CertificateIdentity{}, errors.New("it names a subject and a regular expression; give one of them")
	}
	whole := ""
	if id.SubjectRegexp != "" {
		if _, err := regexp.Compile(id.SubjectRegexp); err != nil {
			return verify.CertificateIdentity{}, err
		}
		whole = `\A(?:` + id.SubjectRegexp + `)\z`
	}
	return verify.NewShortCertificateIdentity(id.Issuer, "", id.Subject, whole)
}

// checkThreshold finds a threshold that can never be met.
func (r *rules) checkThreshold() error {
	most := map[string]bool{}
	for _, k := range r.Keys {
		most[k.fingerprint] = true
	}
	for _, id := range r.Identities {
		if id.SubjectRegexp != "" {
			return nil // may stand for any number
		}
		most[id.String()] = true
	}
	if r.names() && r.Threshold > len(most) {
		return r.fail(nil, "it wants %d signers and names %d different ones", r.Threshold, len(most))
	}
	return nil
}

func (r *rules) loadRoot() error {
	if r.TrustedRoot == nil {
		return nil
	}
	material, err := root.NewTrustedRootFromJSON(r.TrustedRoot)
	if err != nil {
		return r.fail(err, "the trusted root cannot be read; it may be cut short, or no trusted_root.json")
	}
	r.material = material
	return nil
}

// checkRoot requires that the trusted root has what the policy needs of it,
// and that something needs it.
func (r *rules) checkRoot() error {
	needs := len(r.identities) > 0 || r.RequireLog || r.RequireTimestamp
	switch {
	case r.material == nil && r.RequireLog:
		return r.needsRoot("a log entry is required, but there is no trusted root to check it against")
	case r.material == nil && r.RequireTimestamp:
		return r.needsRoot("a timestamp is required, but there is no trusted root to check it against")
	case r.material == nil && needs:
		return r.needsRoot("identities need a trusted root, which is never fetched")
	case r.material == nil:
		return nil
	case !needs:
		return r.fail(nil, "a trusted root is given, but keys alone do not use it; require a log entry or a timestamp, name an identity, or leave it out")
	case len(r.identities) > 0 && len(r.material.FulcioCertificateAuthorities()) == 0:
		return r.fail(nil, "the trusted root has no certificate authority, which identities need")
	case len(r.identities) > 0 && len(r.material.RekorLogs())+len(r.material.TimestampingAuthorities()) == 0:
		return r.fail(nil, "the trusted root has no transparency log and no timestamp authority, so that nothing says when a certificate was used")
	case r.RequireLog && len(r.material.RekorLogs()) == 0:
		return r.fail(nil, "a log entry is required, but the trusted root has no transparency log")
	case r.RequireTimestamp && len(r.material.TimestampingAuthorities()) == 0:
		return r.fail(nil, "a timestamp is required, but the trusted root has no timestamp authority")
	}
	return nil
}

func (r *rules) needsRoot(reason string) error {
	return &PolicyError{Source: r.Source, Reason: reason, NeedsRoot: true}
}

// wanted is the policy in words.
func (r *rules) wanted() string {
	var who []string
	for _, k := range r.Keys {
		who = append(who, k.String())
	}
	for _, id := range r.Identities {
		who = append(who, id.String())
	}
	text := "no signature at all"
	switch {
	case len(who) == 1:
		text = "a signature by " + who[0]
	case len(who) > 1:
		text = fmt.Sprintf("signatures by %d of: %s", r.Threshold, strings.Join(who, "; "))
	}
	if r.RequireLog {
		text += ", with a log entry"
	}
	if r.RequireTimestamp {
		text += ", with a timestamp"
	}
	if r.AllowUnsigned && len(who) > 0 {
		text += ", or no signature at all"
	}
	if r.Source != "" {
		text += " (policy: " + r.Source + ")"
	}
	return text
}

// authoritiesEnd is when the last certificate authority of the trusted root
// ends; false when one has no end.
func (r *rules) authoritiesEnd() (time.Time, bool) {
	var ends []time.Time
	for _, authority := range r.material.FulcioCertificateAuthorities() {
		fulcio, ok := authority.(*root.FulcioCertificateAuthority)
		if !ok || fulcio.ValidityPeriodEnd.IsZero() {
			return time.Time{}, false
		}
		ends = append(ends, fulcio.ValidityPeriodEnd)
	}
	if len(ends) == 0 {
		return time.Time{}, false
	}
	return slices.MaxFunc(ends, time.Time.Compare), true
}
