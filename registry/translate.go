package registry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"syscall"
	"unicode"

	"github.com/opencontainers/go-digest"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"
)

// asked says what a request was about, for the error that may come of it.
type asked struct {
	ref     string        // the place, printed
	host    string        // the registry
	what    string        // "manifest sha256:…", "tag 1.0.0"
	digest  digest.Digest // of the content, when one is known
	reading bool          // an answer that makes no sense is bad content
	login   string        // where the login came from; empty: the credential store says
	account string        // what the login is looked up for: HOST/PATH
	sent    bool          // the login that login speaks of was sent
}

// translate turns what oras-go, net/http and crypto/tls report into the errors
// of this package. It is the only place that does.
func (c *Client) translate(err error, q asked) error {
	var credentials *CredentialsError
	if errors.As(err, &credentials) {
		return credentials // without the request that it came up in
	}
	if err == nil || isOurs(err) || errors.Is(err, context.Canceled) {
		return err
	}
	var answer *errcode.ErrorResponse
	var transfer *transferError
	switch {
	case errors.As(err, &answer):
		return c.translateAnswer(err, answer, q)
	case errors.Is(err, errdef.ErrNotFound):
		return &NotFoundError{Host: q.host, Ref: q.ref, What: q.what, Err: err}
	case errors.Is(err, auth.ErrBasicCredentialNotFound):
		return &DeniedError{Host: q.host, Ref: q.ref, What: q.named(), Status: http.StatusUnauthorized, Credentials: c.loginSource(q), Err: err}
	case as[*loginError](err):
		return &UnreachableError{Host: q.host, Why: WhyWrong, Ref: q.ref, What: q.named(), Reason: "its token service gives no token: " + printable(err.Error()), Err: err}
	case errors.As(err, &transfer), isNetwork(err):
		host := failedHost(err, q.host)
		return &UnreachableError{Host: host, Why: whyOf(err), Ref: q.ref, What: q.named(), Reason: plainCause(err, host), Err: withoutEnd(err)}
	case q.reading:
		return &ContentError{Ref: q.ref, Digest: q.digest, Reason: q.what + ": " + printable(err.Error()), Err: err}
	}
	return &otherError{text: fmt.Sprintf("%s: %s: %s", q.ref, q.what, printable(err.Error())), err: err}
}

// otherError is an error that no type of this package is for.
type otherError struct {
	text string // fit to print
	err  error
}

func (e *otherError) Error() string { return e.text }

func (e *otherError) Unwrap() error { return e.err }

// whyOf says what can be done about an answer that did not come.
func whyOf(err error) Why {
	switch {
	case as[*pageError](err):
		return WhyPage
	case as[*redirectsError](err), as[*downgradeError](err), as[*realmError](err):
		return WhyWrong
	}
	return WhyNow
}

// withoutEnd keeps a lost connection from being taken for the end of content that
// is too short: io.EOF and io.ErrUnexpectedEOF mean either.
func withoutEnd(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New(err.Error())
	}
	return err
}

// named is what was asked for when it says more than the place: it has a name of
// its own.
func (q asked) named() string {
	if !strings.Contains(q.what, " ") {
		return ""
	}
	return q.what
}

// loggedIn says whether a login was there to be refused.
func (c *Client) loggedIn(q asked) bool {
	return q.sent || q.login == "" && c.credentials.Knows(q.account)
}

func (c *Client) loginSource(q asked) string {
	if q.login != "" {
		return q.login
	}
	return c.credentials.Source(q.account)
}

// isOurs says whether an error needs no translation any more.
func isOurs(err error) bool {
	return as[*NotFoundError](err) || as[*DeniedError](err) || as[*UnreachableError](err) || as[*ContentError](err) ||
		as[*LocationError](err) || as[*ChoiceError](err) || as[*CredentialsError](err) || as[*BusyError](err) || as[*ResponseError](err) || as[*AddressError](err) || as[*TagError](err) || as[*TargetsError](err) ||
		as[*UnfinishedError](err) || as[*SpaceError](err) || as[*FileSizeError](err) || as[*VolumesError](err) || as[*DeltaError](err)
}

func as[T error](err error) bool {
	var target T
	return errors.As(err, &target)
}

func isNetwork(err error) bool {
	return as[net.Error](err) || as[*idleError](err) || transient(err)
}

func (c *Client) translateAnswer(err error, answer *errcode.ErrorResponse, q asked) error {
	host := q.host
	if answer.URL != nil && answer.URL.Host != "" {
		host = answer.URL.Host
	}
	words := wordsOf(answer)
	// A host that was only led to was sent no login; a token service was.
	rejected := c.loggedIn(q) && (as[*loginError](err) || sameHost(host) == sameHost(q.host))
	switch code := answer.StatusCode; {
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return &DeniedError{Host: host, Ref: q.ref, What: q.named(), Status: code, Rejected: rejected, Credentials: c.loginSource(q), Reason: words, Err: err}
	case code == http.StatusNotFound:
		what := q.what
		if hasCode(answer, errcode.ErrorCodeNameUnknown) {
			what = "repository"
		}
		return &NotFoundError{Host: host, Ref: q.ref, What: what, Err: err}
	case refusesAddresses(answer):
		return &AddressError{Host: host, Ref: q.ref, What: q.what, Err: err}
	case code == http.StatusTooManyRequests:
		return &UnreachableError{Host: host, Ref: q.ref, What: q.named(), Status: code, Reason: "rate limited (429), also after waiting", Err: err}
	case code >= 500:
		return &UnreachableError{Host: host, Ref: q.ref, What: q.named(), Status: code, Reason: fmt.Sprintf("answers %d: %s", code, words), Err: err}
	}
	return &ResponseError{Host: host, Ref: q.ref, Status: answer.StatusCode, Reason: q.what + ": " + words, Err: err}
}

// refusesAddresses knows how CNCF Distribution says that its settings don't allow
// the addresses of a layer: with a 500, which would mean that it may work later.
func refusesAddresses(answer *errcode.ErrorResponse) bool {
	for _, e := range answer.Errors {
		if e.Message == invalidAddress || e.Detail == any(invalidAddress) {
			return true
		}
	}
	return false
}

const invalidAddress = "invalid URL on layer"

func hasCode(answer *errcode.ErrorResponse, code string) bool {
	for _, e := range answer.Errors {
		if e.Code == code {
			return true
		}
	}
	return false
}

// wordsOf is what a registry says, made fit to print.
func wordsOf(answer *errcode.ErrorResponse) string {
	if len(answer.Errors) == 0 {
		return strings.ToLower(http.StatusText(answer.StatusCode))
	}
	e := answer.Errors[0]
	if e.Message == "" {
		return printable(e.Code)
	}
	return printable(e.Message)
}

// printable keeps a stranger's text to one short line, and what may be secret in
// the addresses in it to itself.
func printable(s string) string {
	const limit = 300
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
	s = addressPattern.ReplaceAllStringFunc(s, func(address string) string {
		u, err := url.Parse(address)
		if err != nil {
			return "…"
		}
		return printAddress(u)
	})
	if runes := []rune(s); len(runes) > limit {
		s = string(runes[:limit]) + "…"
	}
	return s
}

var addressPattern = regexp.MustCompile(`https?://[^\s"']+`)

// failedHost is the host that a request failed at: a redirect or a token
// service may have led elsewhere.
func failedHost(err error, host string) string {
	var urlErr *url.Error
	if errors.As(err, &urlErr) {
		if u, parseErr := url.Parse(urlErr.URL); parseErr == nil && u.Host != "" {
			return u.Host
		}
	}
	return host
}

// plainCause says in plain words why there was no answer.
func plainCause(err error, host string) string {
	var dns *net.DNSError
	var downgrade *downgradeError
	var realm *realmError
	var idle *idleError
	var netErr net.Error
	var timedOut interface{ Timeout() bool }
	var op *net.OpError
	var redirects *redirectsError
	var page *pageError
	var wanted *certificateWantedError
	switch {
	case errors.As(err, &page) && page.host == host:
		return page.reason()
	case errors.As(err, &page):
		return page.Error()
	case errors.As(err, &redirects):
		return redirects.Error()
	case errors.As(err, &wanted):
		return wanted.Error()
	case errors.As(err, &op) && op.Op == "proxyconnect":
		return proxyCause(op.Err, host)
	case errors.As(err, &downgrade):
		return downgrade.Error()
	case errors.As(err, &realm):
		return realm.Error()
	case errors.As(err, &idle) && idle.host == host:
		return idle.reason()
	case errors.As(err, &idle):
		return idle.Error()
	case errors.As(err, &dns) && dns.IsNotFound:
		return fmt.Sprintf("no host %q (DNS)", dns.Name)
	case errors.As(err, &dns):
		return fmt.Sprintf("looking up %q failed: %s", dns.Name, dns.Err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "closed the connection within its answer (unexpected EOF)"
	case isClosed(err):
		return "closed the connection"
	case errors.Is(err, http.ErrSchemeMismatch):
		return "speaks plain HTTP where TLS was expected"
	}
	if reason := certificateCause(err, host); reason != "" {
		return reason
	}
	if errors.As(err, &netErr) && netErr.Timeout() || errors.As(err, &timedOut) && timedOut.Timeout() {
		return "timed out"
	}
	var urlErr *url.Error
	if errors.As(err, &urlErr) {
		err = urlErr.Err // the URL may hold a signature
	}
	return printable(err.Error())
}

// proxyCause says why the proxy of the environment could not be reached. Its
// address may hold a login and is told without.
func proxyCause(err error, host string) string {
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Addr != nil {
		return fmt.Sprintf("the proxy of the environment, %s: %s", dial.Addr, plainCause(err, host))
	}
	return "the proxy of the environment: " + plainCause(err, host)
}

// certificateCause names host and issuer of a certificate that is not trusted.
func certificateCause(err error, host string) string {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	var verification *tls.CertificateVerificationError
	var alert tls.AlertError
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &unknown):
		cert := unknown.Cert
		if cert == nil && errors.As(err, &verification) && len(verification.UnverifiedCertificates) > 0 {
			cert = verification.UnverifiedCertificates[0]
		}
		if cert == nil {
			return fmt.Sprintf("the certificate of %s is signed by an unknown authority", host)
		}
		return fmt.Sprintf("the certificate of %s is signed by an unknown authority, %q", host, cert.Issuer.String())
	case errors.As(err, &name):
		return fmt.Sprintf("the certificate is not for %s, but for %s", name.Host, printable(strings.Join(name.Certificate.DNSNames, ", ")))
	case errors.As(err, &invalid):
		return fmt.Sprintf("the certificate of %s, issued by %q, is not valid: %s", host, invalid.Cert.Issuer.String(), invalid.Error())
	case errors.As(err, &record):
		return "answers without TLS where TLS was expected"
	case errors.As(err, &alert):
		return fmt.Sprintf("refuses the TLS connection: %s", alert.Error())
	}
	return ""
}
