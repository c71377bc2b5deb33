package registry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"waybill/internal/registrytest"
	"waybill/registry"
)

// secureHosts are the hosts that one release may need, each under an authority
// of its own.
type secureHosts struct {
	reg                   *registrytest.Server
	tokens                string // HOST:PORT
	storage, charts, git  *web
	authorities           map[string]string // by HOST:PORT: the PEM file
	issuers               map[string]string
	sample                sample
	config                string
	clientCert, clientKey string
}

// newSecureHosts starts them. With clients, each wants a client's certificate.
func newSecureHosts(t *testing.T, clients bool) *secureHosts {
	t.Helper()
	h := &secureHosts{authorities: map[string]string{}, issuers: map[string]string{}, sample: newSample(t, "one")}
	var authority *registrytest.Authority
	if clients {
		authority = must(registrytest.NewAuthority("authority of the clients"))(t)
		cert, key, err := authority.Issue("a client")
		if err != nil {
			t.Fatal(err)
		}
		h.clientCert, h.clientKey = pemFile(t, cert), pemFile(t, key)
	}
	h.storage = h.web(t, "authority of the storage", authority, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Errorf("the storage host was sent a login")
		}
		_, _ = w.Write(h.sample.imageLayer.data)
	})
	h.charts = h.web(t, "authority of the charts", authority, hello)
	h.git = h.web(t, "authority of the git host", authority, hello)
	h.reg = registrytest.New(t, registrytest.Options{
		TLS: true, Username: "me", Password: "secret", Clients: authority, Token: &registrytest.TokenOptions{TLS: true},
		Fault: func(r *http.Request) *registrytest.Fault {
			if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/redirected/blobs/") {
				return &registrytest.Fault{Redirect: h.storage.URL + "/blob?X-Signature=marker"}
			}
			return nil
		},
	})
	h.tokens = hostOf(h.reg.TokenURL())
	h.know(t, h.reg.Host, h.reg.CA(), "authority of the registry")
	h.know(t, h.tokens, h.reg.TokenCA(), "authority of the token service")
	h.config = configFile(t, h.reg.Host, "me", "secret")
	return h
}

func (h *secureHosts) know(t *testing.T, host string, ca []byte, issuer string) {
	h.authorities[host], h.issuers[host] = pemFile(t, ca), issuer
}

func (h *secureHosts) web(t *testing.T, issuer string, clients *registrytest.Authority, answer http.HandlerFunc) *web {
	t.Helper()
	authority := must(registrytest.NewAuthority(issuer))(t)
	w := newUnstartedWeb(answer)
	w.TLS = must(authority.ServerTLS(clients))(t)
	w.StartTLS()
	t.Cleanup(w.Close)
	h.know(t, w.host(), authority.PEM(), issuer)
	return w
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func pemFile(t *testing.T, data []byte) string {
	t.Helper()
	return write(t, filepath.Join(t.TempDir(), "file.pem"), string(data), 0o600)
}

func hostOf(url string) string {
	host, _, _ := strings.Cut(strings.SplitN(url, "://", 2)[1], "/")
	return host
}

// settings trust all authorities but that of the host left out.
func (h *secureHosts) settings(without string) registry.Settings {
	s := registry.Settings{Retry: -1, TLSHosts: []string{"127.0.0.1"}, ConfigFile: h.config, CertFile: h.clientCert, KeyFile: h.clientKey}
	for host, file := range h.authorities {
		if host != without {
			s.CAFiles = append(s.CAFiles, file)
		}
	}
	slices.Sort(s.CAFiles)
	return s
}

// request is one kind of request, with the hosts that it goes to, in order.
type request struct {
	hosts []string
	do    func(ctx context.Context, c *registry.Client) error
}

// requests are all kinds that there are.
func (h *secureHosts) requests(t *testing.T) map[string]request {
	at, s := "oci://"+h.reg.Host+"/team/shop", h.sample
	inRegistry := []string{h.reg.Host, h.tokens}
	from := func(repository string, do func(ctx context.Context, r *registry.Repository) error) func(context.Context, *registry.Client) error {
		return func(ctx context.Context, c *registry.Client) error {
			r, err := c.Repository(ctx, h.reg.Host+"/"+repository)
			if err != nil {
				return err
			}
			return do(ctx, r)
		}
	}
	to := func(do func(ctx context.Context, dst *registry.Destination) error) func(context.Context, *registry.Client) error {
		return func(ctx context.Context, c *registry.Client) error {
			dst, err := c.Create(ctx, location(t, at))
			if err != nil {
				return err
			}
			return do(ctx, dst)
		}
	}
	read := func(url string) func(context.Context, *registry.Client) error {
		return func(ctx context.Context, c *registry.Client) error {
			rc, err := c.Get(ctx, h.charts.URL, url)
			if err != nil {
				return err
			}
			_, err = io.ReadAll(rc)
			return errors.Join(err, rc.Close())
		}
	}
	fresh := blob("application/octet-stream", "pushed anew")
	return map[string]request{
		"login": {inRegistry, func(ctx context.Context, c *registry.Client) error {
			_, err := c.Login(ctx, h.reg.Host, registry.Login{Username: "me", Password: "secret"})
			return err
		}},
		"manifest": {inRegistry, func(ctx context.Context, c *registry.Client) error {
			_, err := c.Open(ctx, location(t, at+":1.0.0"))
			return err
		}},
		"tag list": {inRegistry, func(ctx context.Context, c *registry.Client) error {
			_, err := c.List(ctx, location(t, at))
			return err
		}},
		"tag":             {inRegistry, from("team/shop", func(ctx context.Context, r *registry.Repository) error { _, err := r.Resolve(ctx, "1.0.0"); return err })},
		"blob":            {inRegistry, from("team/shop", func(ctx context.Context, r *registry.Repository) error { return fetch(ctx, r, s.imageLayer) })},
		"redirected blob": {[]string{h.reg.Host, h.tokens, h.storage.host()}, from("redirected", func(ctx context.Context, r *registry.Repository) error { return fetch(ctx, r, s.imageLayer) })},
		"signature by tag": {inRegistry, from("team/shop", func(ctx context.Context, r *registry.Repository) error {
			_, err := r.Resolve(ctx, s.signatureTag())
			return err
		})},
		"referrers": {inRegistry, to(func(ctx context.Context, dst *registry.Destination) error {
			_, err := dst.Predecessors(ctx, s.root.desc)
			return err
		})},
		"blob there": {inRegistry, to(func(ctx context.Context, dst *registry.Destination) error {
			_, err := dst.Exists(ctx, s.imageLayer.desc)
			return err
		})},
		"push of a blob": {inRegistry, to(func(ctx context.Context, dst *registry.Destination) error {
			return dst.Push(ctx, fresh.desc, strings.NewReader(string(fresh.data)))
		})},
		"push of an index": {inRegistry, to(func(ctx context.Context, dst *registry.Destination) error {
			return dst.Push(ctx, s.root.desc, strings.NewReader(string(s.root.data)))
		})},
		"push of a tag":    {inRegistry, to(func(ctx context.Context, dst *registry.Destination) error { return dst.Tag(ctx, s.root.desc, "1.0.0") })},
		"repository index": {[]string{h.charts.host()}, read(h.charts.URL + "/index.yaml")},
		"chart":            {[]string{h.charts.host()}, read(h.charts.URL + "/web-1.0.0.tgz")},
		"chart elsewhere":  {[]string{h.storage.host()}, read(h.storage.URL + "/web-1.0.0.tgz")},
		"git": {[]string{h.git.host()}, func(ctx context.Context, c *registry.Client) error {
			access, err := c.Git(ctx, h.git.URL+"/charts.git")
			if err != nil {
				return err
			}
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.git.URL+"/charts.git/info/refs?service=git-upload-pack", nil)
			if err != nil {
				return err
			}
			resp, err := access.Transport.RoundTrip(req)
			if err != nil {
				return err
			}
			return resp.Body.Close()
		}},
	}
}

// fill puts the sample where the requests look for it.
func (h *secureHosts) fill(t *testing.T) {
	t.Helper()
	store(t, client(t, h.settings("")), "oci://"+h.reg.Host+"/team/shop", "1.0.0", h.sample)
}

// Every kind of request works with the authorities' files. Without the file of
// one of its hosts it fails and names that host and the issuer.
func TestPrivateAuthorities(t *testing.T) {
	h := newSecureHosts(t, false)
	h.fill(t)
	for name, request := range h.requests(t) {
		t.Run(name, func(t *testing.T) {
			if err := request.do(t.Context(), client(t, h.settings(""))); err != nil {
				t.Errorf("with all files: %v", err)
			}
			for host, issuer := range h.issuers {
				err := request.do(t.Context(), client(t, h.settings(host)))
				if !slices.Contains(request.hosts, host) {
					if err != nil {
						t.Errorf("without the file of the %s, which is not asked: %v", issuer, err)
					}
					continue
				}
				var unreachable *registry.UnreachableError
				if !errors.As(err, &unreachable) || unreachable.Host != host || !strings.Contains(err.Error(), "unknown authority, \"CN="+issuer+`"`) || strings.Contains(err.Error(), "marker") {
					t.Errorf("without the file of the %s (%s): %v", issuer, host, err)
				}
			}
		})
	}
}

// A host that is named as insecure is, and no other: not the token service that
// the registry names, nor the host that it redirects to.
func TestInsecurePerHost(t *testing.T) {
	h := newSecureHosts(t, false)
	h.fill(t)
	for name, request := range h.requests(t) {
		settings := h.settings("")
		settings.CAFiles, settings.InsecureHosts = nil, request.hosts
		if err := request.do(t.Context(), client(t, settings)); err != nil {
			t.Errorf("%s with its hosts named: %v", name, err)
		}
		for i, host := range request.hosts {
			settings.InsecureHosts = slices.Delete(slices.Clone(request.hosts), i, i+1)
			var unreachable *registry.UnreachableError
			if err := request.do(t.Context(), client(t, settings)); !errors.As(err, &unreachable) || unreachable.Host != host {
				t.Errorf("%s without %s named: %v", name, host, err)
			}
		}
	}
}

// A client's certificate is shown to every host that wants one; without it the
// host's refusal is told.
func TestClientCertificate(t *testing.T) {
	h := newSecureHosts(t, true)
	h.fill(t)
	for name, request := range h.requests(t) {
		if err := request.do(t.Context(), client(t, h.settings(""))); err != nil {
			t.Errorf("%s with a certificate: %v", name, err)
		}
		settings := h.settings("")
		settings.CertFile, settings.KeyFile = "", ""
		err := request.do(t.Context(), client(t, settings))
		var unreachable *registry.UnreachableError
		if !errors.As(err, &unreachable) || !strings.Contains(err.Error(), request.hosts[0]) || !strings.Contains(err.Error(), "certificate required") {
			t.Errorf("%s without a certificate: %v", name, err)
		}
	}
	if _, err := registry.NewClient(registry.Settings{CertFile: h.clientCert}); err == nil {
		t.Error("a certificate without its key was taken")
	}
}

// Plain HTTP is spoken where it was asked for and nowhere else, and neither way
// of speaking gives way to the other.
func TestNoFallBack(t *testing.T) {
	h := newSecureHosts(t, false)
	plain := registrytest.New(t, registrytest.Options{Username: "me", Password: "secret", Token: &registrytest.TokenOptions{}})
	s := newSample(t, "one")
	for name, tc := range map[string]struct {
		host  string
		tls   bool
		login bool
	}{
		"TLS at a registry without": {plain.Host, true, false},
		"plain at a registry with":  {h.reg.Host, false, false},
		"plain at one without":      {plain.Host, false, true},
	} {
		settings := h.settings("")
		settings.TLSHosts, settings.ConfigFile = nil, configFile(t, tc.host, "me", "secret")
		if tc.tls {
			settings.TLSHosts = []string{tc.host}
		}
		plain.Forget()
		dst, err := client(t, settings).Create(t.Context(), location(t, "oci://"+tc.host+"/shop"))
		if err != nil {
			t.Fatal(err)
		}
		err = dst.Push(t.Context(), s.imageLayer.desc, strings.NewReader(string(s.imageLayer.data)))
		if (err == nil) != tc.login {
			t.Errorf("%s: %v", name, err)
		}
		if asked := len(plain.Requests()) > 0; asked != tc.login {
			t.Errorf("%s: the plain registry was asked: %v", name, asked)
		}
	}
}

// A registry with TLS that sends logins to a token service without is refused
// before a login goes there.
func TestTokenServiceWithoutTLS(t *testing.T) {
	asked := false
	service := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	defer service.Close()
	reg := registrytest.New(t, registrytest.Options{TLS: true, Username: "me", Password: "secret", Token: &registrytest.TokenOptions{
		Realm: func(string) string { return service.URL + "/token" },
	}})
	settings := quick()
	settings.TLSHosts, settings.CAFiles, settings.ConfigFile = []string{reg.Host}, []string{pemFile(t, reg.CA())}, configFile(t, reg.Host, "me", "secret")
	_, err := client(t, settings).Open(t.Context(), location(t, "oci://"+reg.Host+"/shop:1.0.0"))
	want := fmt.Sprintf("%s sends logins to a token service without TLS, %s, which is refused", reg.Host, hostOf(service.URL))
	if err == nil || !strings.Contains(err.Error(), want) || asked {
		t.Errorf("%v; the service was asked: %v", err, asked)
	}
}
