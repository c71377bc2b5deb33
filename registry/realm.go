package registry

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"

	"oras.land/oras-go/v2/registry/remote/auth"
)

// newLogin is a client for one registry, or one repository of it, that logs in
// where the registry asks for it.
//
// Which token service gets the login is the registry's word, on any host: that
// is how the distribution project's token authentication is made, and how
// docker and oras have it. The word counts only where it came over TLS and leads
// to TLS, or came without, and not for addresses of this machine, of its link
// and of cloud metadata, unless the registry is on this machine itself.
func (c *Client) newLogin(host string, cache auth.Cache, credential auth.CredentialFunc) *remoteClient {
	guarded := *c.http
	guarded.Transport = &pageGuard{&realmGuard{c.http.Transport}}
	client := &auth.Client{
		Client: &guarded, Header: http.Header{"User-Agent": {c.settings.UserAgent}},
		Cache: cache, Credential: credential, ClientID: "waybill",
	}
	if isLoopback(host) {
		client.BlockedRealmPrefixes = []netip.Prefix{}
	}
	return &remoteClient{host: host, auth: client}
}

// realmGuard refuses a token service that is none, or that is without TLS for a
// registry with it, in words of ours, before a login goes there.
type realmGuard struct{ next http.RoundTripper }

// realmPattern finds the token service in a challenge (RFC 6750, section 3).
var realmPattern = regexp.MustCompile(`(?i)^bearer\s.*\brealm="([^"]*)"`)

func (g *realmGuard) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := g.next.RoundTrip(req)
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		return resp, err
	}
	for _, challenge := range resp.Header.Values("WWW-Authenticate") {
		match := realmPattern.FindStringSubmatch(challenge)
		if match == nil {
			continue
		}
		realm, err := url.Parse(match[1])
		switch {
		case err != nil || realm.Scheme != "http" && realm.Scheme != "https" || realm.Host == "":
			drain(resp.Body)
			return nil, &realmError{registry: req.URL.Host, service: match[1], none: true}
		case realm.Scheme == "http" && req.URL.Scheme == "https":
			drain(resp.Body)
			return nil, &realmError{registry: req.URL.Host, service: realm.Host}
		}
	}
	return resp, nil
}

// realmError is a token service that is no http or https address, or that would
// get a login in the clear.
type realmError struct {
	registry, service string
	none              bool
}

func (e *realmError) Error() string {
	if e.none {
		return fmt.Sprintf("%s sends logins to a token service that is no address: %q", e.registry, printable(e.service))
	}
	return fmt.Sprintf("%s sends logins to a token service without TLS, %s, which is refused", e.registry, printable(e.service))
}
