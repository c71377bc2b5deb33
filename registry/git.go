package registry

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"os"
	"strings"
)

// GitAccess says how a git repository is reached over http or https. The zero
// value is for every other scheme, which this package knows nothing of.
type GitAccess struct {
	// Transport is the way that all requests of the client go, with retries,
	// time-outs, certificates, proxy and the log. It adds the login to requests
	// to the repository's own host and port, refuses to leave TLS, and answers
	// with the error types of this package. Who uses it needs no other field.
	Transport http.RoundTripper

	Username, Password    string // for the repository's host and port alone; empty for none
	Source                string // where the login came from, or where none was found
	CABundle              []byte // PEM, besides the system's roots; nil for none
	ClientCert, ClientKey []byte // PEM; nil for none
	InsecureSkipTLS       bool   // the host was named as one whose certificate is not checked
	Proxy                 string // address of the proxy; empty for none
}

// Git says how the git repository at an address is reached: the login is what
// netrc has for the host, certificates and proxy are those of the settings.
// Nothing is dialled.
//
// Errors: *LocationError for an address with a password in it (over http and
// https with any login), *CredentialsError.
func (c *Client) Git(_ context.Context, address string) (GitAccess, error) {
	if !strings.HasPrefix(address, "http://") && !strings.HasPrefix(address, "https://") {
		return GitAccess{}, refusePassword(address)
	}
	u, err := parseAddress(address)
	if err != nil {
		return GitAccess{}, err
	}
	access, err := c.charts.netrc(u)
	if err != nil {
		return GitAccess{}, err
	}
	git := GitAccess{
		Username: access.username, Password: access.password, Source: access.source,
		InsecureSkipTLS: c.hosts.insecure(u.Host),
		Transport:       &gitTransport{client: c, access: access},
	}
	if proxy, err := proxyFrom(c.settings.Getenv)(u); err == nil && proxy != nil {
		git.Proxy = proxy.String()
	}
	git.CABundle, err = readAll(c.settings.CAFiles)
	if err == nil && c.settings.CertFile != "" {
		git.ClientCert, err = os.ReadFile(c.settings.CertFile)
	}
	if err == nil && c.settings.KeyFile != "" {
		git.ClientKey, err = os.ReadFile(c.settings.KeyFile)
	}
	return git, err
}

// refusePassword lets ssh://git@HOST pass, and git@HOST:PATH, and no password.
func refusePassword(address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return nil // HOST:PATH as scp has it, which holds no password
	}
	if _, has := u.User.Password(); !has {
		return nil
	}
	meant := *u
	meant.User = url.User(u.User.Username())
	return &LocationError{Input: printAddress(u), Reason: "has a password in it; use an ssh agent or a key", Meant: printAddress(&meant)}
}

func readAll(files []string) ([]byte, error) {
	var all []byte
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		all = append(append(all, bytes.TrimSpace(data)...), '\n')
	}
	return all, nil
}

// gitTransport is the one transport for one git repository.
type gitTransport struct {
	client *Client
	access repositoryAccess
}

func (t *gitTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	repository := t.access.repository
	q := asked{ref: printAddress(repository), host: req.URL.Host, what: "git repository", login: t.access.source, sent: t.access.goesTo(req.URL)}
	if repository.Scheme == "https" && req.URL.Scheme != "https" {
		return nil, t.client.translate(&transferError{&downgradeError{from: repository.Host, to: req.URL.Host}}, q)
	}
	out := req.Clone(req.Context())
	out.Header.Del("Authorization")
	out.Header.Set("User-Agent", "git/"+t.client.settings.UserAgent) // hosts tell browsers from git by it
	if t.access.goesTo(req.URL) {
		out.SetBasicAuth(t.access.username, t.access.password)
	}
	resp, err := t.client.http.Transport.RoundTrip(out)
	if err != nil {
		return nil, t.client.translate(&transferError{err}, q)
	}
	if resp.StatusCode >= http.StatusBadRequest {
		drain(resp.Body)
		return nil, t.client.translate(statusError(resp), q)
	}
	resp.Request = req
	resp.Body = &translatingReader{rc: resp.Body, client: t.client, asked: q}
	return resp, nil
}

// netrc is the access to an address by netrc alone: Helm's entries are of chart
// repositories.
func (r *chartRepositories) netrc(u *url.URL) (repositoryAccess, error) {
	if err := r.load(); err != nil {
		return repositoryAccess{}, err
	}
	alone := &chartRepositories{hosts: r.hosts, netrcFile: r.netrcFile, logins: r.logins, loaded: true}
	return alone.access(u)
}
