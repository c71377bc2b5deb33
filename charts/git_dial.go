package charts

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
	gitssh "github.com/go-git/go-git/v5/plumbing/transport/ssh"
	"golang.org/x/crypto/ssh"
)

// dialGit prepares the way; nothing is dialled yet.
func dialGit(address string, access GitAccess) (*gitLink, error) {
	if access.URL != "" {
		address = access.URL
	}
	endpoint, err := transport.NewEndpoint(strings.TrimPrefix(address, "git+"))
	if err != nil {
		return nil, &GitError{Repository: masked(address), Reason: "its address does not parse"}
	}
	if access.Username == "" && access.Password == "" {
		access.Username, access.Password = endpoint.User, endpoint.Password
	}
	if endpoint.Protocol == "ssh" {
		return dialSSH(address, endpoint, access)
	}
	endpoint.User, endpoint.Password = "", "" // or they stand in every error
	link := &gitLink{endpoint: endpoint, wire: &gitTransport{next: access.Transport}}
	if access.Transport == nil {
		if link.wire.next, err = httpTransport(access); err != nil {
			return nil, &GitError{Repository: masked(address), Reason: "preparing the connection", Err: err}
		}
		origin, err := url.Parse(endpoint.String())
		if err != nil {
			return nil, &GitError{Repository: masked(address), Reason: "its address does not parse"}
		}
		link.wire.login = &gitLogin{origin: origin, username: access.Username, password: access.Password}
	}
	link.transport = githttp.NewClient(&http.Client{Transport: link.wire})
	return link, nil
}

// dialSSH logs in with a key of the user's agent, or with a password.
func dialSSH(address string, endpoint *transport.Endpoint, access GitAccess) (*gitLink, error) {
	user := endpoint.User
	if access.Username != "" {
		user = access.Username
	}
	if user == "" {
		user = "git"
	}
	known, err := knownHosts(endpoint, access.KnownHosts)
	if err != nil {
		return nil, &GitError{Repository: masked(address), Reason: "the known hosts of ssh cannot be read", Err: err}
	}
	link := &gitLink{endpoint: endpoint, transport: gitssh.DefaultClient}
	if access.Password != "" {
		endpoint.Password = ""
		link.auth = patientAuth{&gitssh.Password{User: user, Password: access.Password, HostKeyCallbackHelper: known}}
		return link, nil
	}
	agent, err := gitssh.NewSSHAgentAuth(user)
	if err != nil {
		return nil, &GitError{Repository: masked(address), Denied: true, Reason: "no ssh agent answers; start one (ssh-agent) and give it a key (ssh-add)", Err: err}
	}
	agent.HostKeyCallbackHelper = known
	link.auth = patientAuth{agent}
	return link, nil
}

// knownHosts checks a host's key against files, the usual ones when none are
// given, and asks it for a key of the kind that they have of it: a host has
// several, and go-git would ask for any.
func knownHosts(endpoint *transport.Endpoint, files []string) (helper gitssh.HostKeyCallbackHelper, err error) {
	known, err := gitssh.NewKnownHostsDb(files...)
	if err != nil {
		return helper, err
	}
	host, port := endpoint.Host, endpoint.Port
	if port == 0 {
		port = gitssh.DefaultPort
	}
	if named := gitssh.DefaultSSHConfig.Get(host, "Hostname"); named != "" { // as go-git dials
		host = named
		if n, err := strconv.Atoi(gitssh.DefaultSSHConfig.Get(endpoint.Host, "Port")); err == nil {
			port = n
		}
	}
	helper.HostKeyCallback = known.HostKeyCallback()
	helper.HostKeyAlgorithms = known.HostKeyAlgorithms(net.JoinHostPort(host, strconv.Itoa(port)))
	return helper, nil
}

// httpTransport is the way when the network brings none.
func httpTransport(access GitAccess) (http.RoundTripper, error) {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.Proxy = nil
	if access.Proxy != "" {
		proxy, err := url.Parse(access.Proxy)
		if err != nil {
			return nil, errors.New("the proxy's address does not parse") // it may hold a password
		}
		t.Proxy = http.ProxyURL(proxy)
	}
	t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: access.InsecureSkipTLS} //nolint:gosec // asked for by name
	if len(access.CABundle) > 0 {
		roots, err := x509.SystemCertPool()
		if err != nil {
			roots = x509.NewCertPool()
		}
		if !roots.AppendCertsFromPEM(access.CABundle) {
			return nil, errors.New("the certificates of the authorities do not parse")
		}
		t.TLSClientConfig.RootCAs = roots
	}
	if len(access.ClientCert) > 0 {
		pair, err := tls.X509KeyPair(access.ClientCert, access.ClientKey)
		if err != nil {
			return nil, fmt.Errorf("the client certificate does not parse: %w", err)
		}
		t.TLSClientConfig.Certificates = []tls.Certificate{pair}
	}
	return t, nil
}

// patientAuth is a login that does not wait for a host for ever.
type patientAuth struct{ gitssh.AuthMethod }

// dialTimeout is how long a host of ssh may take to answer.
const dialTimeout = 30 * time.Second

func (a patientAuth) ClientConfig() (*ssh.ClientConfig, error) {
	config, err := a.AuthMethod.ClientConfig()
	if err == nil {
		config.Timeout = dialTimeout
	}
	return config, err
}
