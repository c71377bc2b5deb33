package signing_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/testing/ca"
	"oras.land/oras-go/v2/content/memory"

	"waybill/signing"
)

const (
	someone    = "release@shop.example"
	someIssuer = "https://accounts.shop.example"
)

func identityPolicy(material []byte, ids ...signing.Identity) signing.Policy {
	if len(ids) == 0 {
		ids = []signing.Identity{{Issuer: someIssuer, Subject: someone}}
	}
	return signing.Policy{Identities: ids, TrustedRoot: material, Source: "test"}
}

// attachments gives a place with k attached in each form.
func attachments(t *testing.T, k keyless) map[string]signing.Target {
	t.Helper()
	tag, referrer := memory.New(), memory.New()
	desc := pushImage(t, tag, "one")
	attachTag(t, tag, desc.Digest, k.tag)
	attachReferrer(t, referrer, pushImage(t, referrer, "one"), k.proof)
	return map[string]signing.Target{"tag": tag, "referrer": referrer}
}

// a certificate of ten minutes is judged at the time that the timestamp
// vouches for, decades later, and by no clock; synctest's clock begins in 2000
func TestCertificateIsJudgedAtItsTime(t *testing.T) {
	noNetwork(t)
	desc := pushImage(t, memory.New(), "one")
	for name, tc := range map[string]struct {
		begins  time.Duration // of the certificate, seen from the signing
		stamped bool
		refused string
	}{
		"timestamp within":        {-time.Minute, true, ""},
		"timestamp after its end": {-time.Hour, true, "certificate valid from 1999-12-31T23:00:00Z to 1999-12-31T23:10:00Z"},
		"timestamp before":        {time.Hour, true, "certificate valid from 2000-01-01T01:00:00Z to 2000-01-01T01:10:00Z"},
		"no timestamp":            {-time.Minute, false, "neither a timestamp nor a log entry"},
	} {
		t.Run(name, func(t *testing.T) {
			var signed keyless
			var material []byte
			synctest.Test(t, func(t *testing.T) {
				a := newAuthority(t)
				signed = a.sign(t, desc.Digest, someone, someIssuer, time.Now().Add(tc.begins), tc.stamped)
				material = a.trustedRoot(t)
			})
			for form, place := range attachments(t, signed) {
				check := func(t *testing.T) {
					result, err := signing.Verify(t.Context(), place, desc, identityPolicy(material))
					if tc.refused != "" {
						wantRefused(t, err, tc.refused, someone, someIssuer)
						return
					}
					if err != nil {
						t.Fatal(err)
					}
					text := strings.Join(result.Text, "\n")
					for _, words := range []string{"signed by " + someone + " (issuer " + someIssuer + ")", "certificate valid at 2000-01-01T00:00:00Z", "timestamp checked, log entry not", "freshness was not checked"} {
						if !strings.Contains(text, words) {
							t.Errorf("text %q does not say %q", text, words)
						}
					}
				}
				t.Run(form+" now", check)
				t.Run(form+" by a clock that is slow", func(t *testing.T) { inTheYear2000(t, check) })
			}
		})
	}
}

func inTheYear2000(t *testing.T, check func(t *testing.T)) { synctest.Test(t, check) }

// a trusted root that ended before the certificate was issued is named as the
// reason, with its end
func TestTrustedRootOfAnotherTime(t *testing.T) {
	desc := pushImage(t, memory.New(), "one")
	var material []byte
	synctest.Test(t, func(t *testing.T) { material = newAuthority(t).trustedRoot(t) })
	signed := newAuthority(t).sign(t, desc.Digest, someone, someIssuer, time.Now().Add(-time.Minute), true)
	for form, place := range attachments(t, signed) {
		t.Run(form, func(t *testing.T) {
			_, err := signing.Verify(t.Context(), place, desc, identityPolicy(material))
			wantRefused(t, err, "ended 2000-01-01T05:00:00Z", "bring a newer trusted_root.json")
		})
	}
}

// who signed, and who says so, are both compared, the whole of them
func TestIdentities(t *testing.T) {
	noNetwork(t)
	a := newAuthority(t)
	material := a.trustedRoot(t)
	desc := pushImage(t, memory.New(), "one")
	signed := a.sign(t, desc.Digest, someone, someIssuer, time.Now().Add(-time.Minute), true)
	stranger := newAuthority(t).sign(t, desc.Digest, someone, someIssuer, time.Now().Add(-time.Minute), true)
	for name, tc := range map[string]struct {
		signed  keyless
		id      signing.Identity
		refused string
	}{
		"the subject":                             {signed, signing.Identity{Issuer: someIssuer, Subject: someone}, ""},
		"a regular expression":                    {signed, signing.Identity{Issuer: someIssuer, SubjectRegexp: `.*@shop\.example`}, ""},
		"a regular expression for a part":         {signed, signing.Identity{Issuer: someIssuer, SubjectRegexp: `release@shop`}, "made by none"},
		"alternatives that match a part":          {signed, signing.Identity{Issuer: someIssuer, SubjectRegexp: `release@shop|x`}, "made by none"},
		"another subject":                         {signed, signing.Identity{Issuer: someIssuer, Subject: "other@shop.example"}, "made by none"},
		"another issuer":                          {signed, signing.Identity{Issuer: "https://elsewhere.example", Subject: someone}, "made by none"},
		"the same words from a strange authority": {stranger, signing.Identity{Issuer: someIssuer, Subject: someone}, "certificate valid from"},
	} {
		for form, place := range attachments(t, tc.signed) {
			t.Run(name+" "+form, func(t *testing.T) {
				_, err := signing.Verify(t.Context(), place, desc, identityPolicy(material, tc.id))
				switch {
				case tc.refused != "":
					wantRefused(t, err, tc.refused, "found: "+someone+" (issuer "+someIssuer+")")
				case err != nil:
					t.Error(err)
				}
			})
		}
	}
}

// a key and an identity together reach a threshold of two; two signatures of
// one identity don't
func TestThresholdOfDifferentKinds(t *testing.T) {
	a, s, place := newAuthority(t), newSigner(t, "k"), memory.New()
	desc := pushImage(t, place, "one")
	one := a.sign(t, desc.Digest, someone, someIssuer, time.Now().Add(-time.Minute), true)
	two := a.sign(t, desc.Digest, someone, someIssuer, time.Now().Add(-time.Minute), true)
	attachTag(t, place, desc.Digest, one.tag, two.tag)
	policy := identityPolicy(a.trustedRoot(t))
	policy.Keys, policy.Threshold = []signing.Key{s.Key()}, 2
	_, err := signing.Verify(t.Context(), place, desc, policy)
	wantRefused(t, err, "1 of 2 signers have signed")
	sign(t, s, place, desc, signing.FormatTag)
	if result, err := signing.Verify(t.Context(), place, desc, policy); err != nil || result.Found != 3 {
		t.Errorf("found %d, %v", result.Found, err)
	}
}

// log entries and timestamps are required where the policy says so
func TestRequirements(t *testing.T) {
	noNetwork(t)
	vs, err := ca.NewVirtualSigstore()
	if err != nil {
		t.Fatal(err)
	}
	other, err := ca.NewVirtualSigstore()
	if err != nil {
		t.Fatal(err)
	}
	material := trustedRoot(t, vs.FulcioCertificateAuthorities(), vs.TimestampingAuthorities(), logs(t, vs), nil)
	withCT := trustedRoot(t, vs.FulcioCertificateAuthorities(), vs.TimestampingAuthorities(), logs(t, vs), vs.CTLogs())
	otherLog := trustedRoot(t, vs.FulcioCertificateAuthorities(), vs.TimestampingAuthorities(), logs(t, other), nil)
	desc := pushImage(t, memory.New(), "one")
	made := func(withLog, withStamp bool) keyless {
		return signLogged(t, vs, desc.Digest, someone, someIssuer, withLog, withStamp)
	}
	both, logged, stamped := made(true, true), made(true, false), made(false, true)
	for name, tc := range map[string]struct {
		signed     keyless
		material   []byte
		log, stamp bool
		says       string // of the result
		refused    string
	}{
		"nothing required, both there":      {both, material, false, false, "log entry and timestamp checked", ""},
		"nothing required, log there":       {logged, material, false, false, "log entry checked, timestamp not", ""},
		"nothing required, timestamp there": {stamped, material, false, false, "timestamp checked, log entry not", ""},
		"both required":                     {both, material, true, true, "log entry and timestamp checked", ""},
		"log required":                      {logged, material, true, false, "log entry checked", ""},
		"timestamp required":                {stamped, material, false, true, "timestamp checked", ""},
		"log required, none there":          {stamped, material, true, false, "", "not enough verified log entries"},
		"timestamp required, none there":    {logged, material, false, true, "", "threshold not met"},
		"log of somebody else":              {logged, otherLog, true, false, "", "not enough verified log entries"},
		"certificate log in the root":       {both, withCT, false, false, "", "certificate timestamp"},
	} {
		for form, place := range attachments(t, tc.signed) {
			t.Run(name+" "+form, func(t *testing.T) {
				policy := identityPolicy(tc.material)
				policy.RequireLog, policy.RequireTimestamp = tc.log, tc.stamp
				result, err := signing.Verify(t.Context(), place, desc, policy)
				if tc.refused != "" {
					wantRefused(t, err, tc.refused)
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if text := strings.Join(result.Text, "\n"); !strings.Contains(text, tc.says) {
					t.Errorf("text %q does not say %q", text, tc.says)
				}
			})
		}
	}
}

// a key's signature without the log entry that is required is refused as
// such, though the key is the right one
func TestKeyWithoutRequiredLog(t *testing.T) {
	vs, err := ca.NewVirtualSigstore()
	if err != nil {
		t.Fatal(err)
	}
	s, place := newSigner(t, "k"), memory.New()
	desc := pushImage(t, place, "one")
	sign(t, s, place, desc, signing.FormatBoth)
	policy := keysOf(s)
	policy.TrustedRoot = trustedRoot(t, nil, []root.TimestampingAuthority{}, logs(t, vs), nil)
	policy.RequireLog = true
	_, err = signing.Verify(t.Context(), place, desc, policy)
	wantRefused(t, err, "made by key k ("+s.Key().Fingerprint()+"), but", "with a log entry")
}
