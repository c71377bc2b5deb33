package registry_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"waybill/internal/registrytest"
	"waybill/registry"
)

const loginPage = "<!DOCTYPE html>\n<html><title>Welcome to the hotel</title></html>"

// page answers everything with a web page, as a network does that wants a login
// first.
func page(rw http.ResponseWriter, _ *http.Request) {
	rw.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = io.WriteString(rw, loginPage)
}

// A web page is told from a registry's answer, whatever was asked for.
func TestWebPageInPlaceOfARegistry(t *testing.T) {
	hotel := newWeb(t, false, page)
	at, s := "oci://"+hotel.host()+"/shop", newSample(t, "one")
	to := func(do func(ctx context.Context, dst *registry.Destination) error) func(context.Context, *registry.Client) error {
		return func(ctx context.Context, c *registry.Client) error {
			dst, err := c.Create(ctx, location(t, at))
			if err != nil {
				return err
			}
			return do(ctx, dst)
		}
	}
	for name, do := range map[string]func(ctx context.Context, c *registry.Client) error{
		"opening a tag": func(ctx context.Context, c *registry.Client) error {
			_, err := c.Open(ctx, location(t, at+":1.0.0"))
			return err
		},
		"opening a digest": func(ctx context.Context, c *registry.Client) error {
			_, err := c.Open(ctx, location(t, at+"@"+s.root.desc.Digest.String()))
			return err
		},
		"listing tags": func(ctx context.Context, c *registry.Client) error {
			_, err := c.List(ctx, location(t, at))
			return err
		},
		"probing": func(ctx context.Context, c *registry.Client) error { return c.Probe(ctx, location(t, at)) },
		"logging in": func(ctx context.Context, c *registry.Client) error {
			_, err := c.Login(ctx, hotel.host(), registry.Login{Username: "me", Password: "secret"})
			return err
		},
		"resolving": to(func(ctx context.Context, dst *registry.Destination) error {
			_, err := dst.Resolve(ctx, "1.0.0")
			return err
		}),
		"referrers": to(func(ctx context.Context, dst *registry.Destination) error {
			_, err := dst.Predecessors(ctx, s.root.desc)
			return err
		}),
		"a manifest": to(func(ctx context.Context, dst *registry.Destination) error {
			return dst.Push(ctx, s.root.desc, bytes.NewReader(s.root.data))
		}),
		"a blob": to(func(ctx context.Context, dst *registry.Destination) error {
			return dst.Push(ctx, s.imageLayer.desc, bytes.NewReader(s.imageLayer.data))
		}),
		"a file": func(_ context.Context, c *registry.Client) error {
			_, err := get(t, c, hotel.URL, hotel.URL+"/release.yaml")
			return err
		},
	} {
		err := do(t.Context(), client(t, quick()))
		var unreachable *registry.UnreachableError
		if !errors.As(err, &unreachable) || unreachable.Why != registry.WhyPage || unreachable.Host != hotel.host() || !strings.Contains(err.Error(), "answers with a web page") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Content that is a web page is content like any other.
func TestWebPageThatWasAskedFor(t *testing.T) {
	p := blob("text/html", loginPage)
	asPage := &registrytest.Fault{Status: 200, Header: http.Header{"Content-Type": {"text/html"}}, Body: loginPage}
	reg := registrytest.New(t, registrytest.Options{Fault: faultAt(p.desc.Digest.String(), asPage)})
	dst, err := client(t, quick()).Create(t.Context(), location(t, "oci://"+reg.Host+"/shop"))
	if err != nil {
		t.Fatal(err)
	}
	if err := dst.Push(t.Context(), p.desc, bytes.NewReader(p.data)); err != nil {
		t.Error(err)
	}
	if err := fetch(t.Context(), dst, p); err != nil {
		t.Error(err)
	}
	mislabelled := newWeb(t, false, func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(rw, "apiVersion: v1")
	})
	if got, err := get(t, client(t, quick()), mislabelled.URL, mislabelled.URL+"/index.yaml"); err != nil || got != "apiVersion: v1" {
		t.Errorf("a file with the wrong type: %q, %v", got, err)
	}
}

// A token service that is none is told as that, and not as a missing login.
func TestTokenServiceThatIsNone(t *testing.T) {
	for name, tc := range map[string]struct {
		realm string // in place of its own
		fault *registrytest.Fault
		why   registry.Why
		words string
	}{
		"no address":             {"not an address", nil, registry.WhyWrong, "sends logins to a token service that is no address"},
		"another scheme":         {"ftp://tokens.example/token", nil, registry.WhyWrong, "sends logins to a token service that is no address"},
		"no host":                {"http:///token", nil, registry.WhyWrong, "sends logins to a token service that is no address"},
		"a web page":             {"", &registrytest.Fault{Handler: http.HandlerFunc(page)}, registry.WhyPage, "answers with a web page"},
		"a web page, unlabelled": {"", &registrytest.Fault{Status: 200, Header: http.Header{"Content-Type": {"text/plain"}}, Body: loginPage}, registry.WhyWrong, "its token service gives no token"},
		"no token":               {"", &registrytest.Fault{Status: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: "{}"}, registry.WhyWrong, "its token service gives no token"},
		"nothing":                {"", &registrytest.Fault{Status: 200, Header: http.Header{"Content-Type": {"application/json"}}}, registry.WhyWrong, "its token service gives no token"},
		"redirects":              {"", &registrytest.Fault{Redirect: "/token"}, registry.WhyWrong, "redirects without end"},
	} {
		t.Run(name, func(t *testing.T) {
			opts := &registrytest.TokenOptions{Fault: func(*http.Request) *registrytest.Fault { return tc.fault }}
			if tc.realm != "" {
				opts.Realm = func(string) string { return tc.realm }
			}
			reg := registrytest.New(t, registrytest.Options{Username: "me", Password: "secret", Token: opts})
			settings := quick()
			settings.ConfigFile = configFile(t, reg.Host, "me", "secret")
			_, err := client(t, settings).Open(t.Context(), location(t, "oci://"+reg.Host+"/shop:1.0.0"))
			var unreachable *registry.UnreachableError
			if !errors.As(err, &unreachable) || unreachable.Why != tc.why || !strings.Contains(err.Error(), tc.words) || strings.Contains(err.Error(), "wants a login") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// A login of which only a half is written down is not sent.
func TestHalfALogin(t *testing.T) {
	reg := registrytest.New(t, registrytest.Options{Username: "me", Password: "secret"})
	for name, login := range map[string][2]string{"no password": {"me", ""}, "no user": {"", "secret"}} {
		settings := quick()
		settings.ConfigFile = configFile(t, reg.Host, login[0], login[1])
		_, err := client(t, settings).Open(t.Context(), location(t, "oci://"+reg.Host+"/shop:1.0.0"))
		var half *registry.CredentialsError
		if !errors.As(err, &half) || !strings.Contains(err.Error(), "only one of user and password") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// closesOn is a server with TLS that asks for a client's certificate, and closes
// every connection without a word once it has seen what it gets.
func closesOn(t *testing.T, authority, clients *registrytest.Authority) string {
	t.Helper()
	config := must(authority.ServerTLS(clients))(t)
	config.ClientAuth = tls.RequestClientCert
	listener := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			secure := tls.Server(conn, config)
			_ = secure.Handshake()
			_ = conn.(*net.TCPConn).SetLinger(0) // a reset overtakes what was said
			_ = conn.Close()
		}
	}()
	return listener.Addr().String()
}

// That a certificate is wanted is said also where the server's refusal is lost
// with its connection.
func TestClientCertificateRefusalLost(t *testing.T) {
	server, clients := must(registrytest.NewAuthority("servers"))(t), must(registrytest.NewAuthority("clients"))(t)
	cert, key, err := clients.Issue("a client")
	if err != nil {
		t.Fatal(err)
	}
	host := closesOn(t, server, clients)
	settings := registry.Settings{Retry: -1, TLSHosts: []string{host}, CAFiles: []string{pemFile(t, server.PEM())}}
	with := settings
	with.CertFile, with.KeyFile = pemFile(t, cert), pemFile(t, key)
	p := random(t, 5000)
	for words, s := range map[string]registry.Settings{"certificate required": settings, "was shown one and closed the connection": with} {
		dst, err := client(t, s).Create(t.Context(), location(t, "oci://"+host+"/shop"))
		if err != nil {
			t.Fatal(err)
		}
		_, listErr := client(t, s).List(t.Context(), location(t, "oci://"+host+"/shop"))
		for _, err := range []error{dst.Push(t.Context(), p.desc, bytes.NewReader(p.data)), listErr} {
			var unreachable *registry.UnreachableError
			if !errors.As(err, &unreachable) || !strings.Contains(err.Error(), words) || unreachable.NeedsCertificate() != (words == "certificate required") {
				t.Errorf("want %q: %v", words, err)
			}
		}
	}
}

// Where a certificate may be shown and need not, a lost connection is just that.
func TestClientCertificateNotRequired(t *testing.T) {
	reg := newUnstartedWeb(nil)
	authority := must(registrytest.NewAuthority("servers"))(t)
	reg.TLS = must(authority.ServerTLS(nil))(t)
	reg.TLS.ClientAuth = tls.RequestClientCert
	n := 0
	reg.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		if n++; n > 1 {
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(rw, `{"name":"shop","tags":[]}`)
	})
	reg.StartTLS()
	defer reg.Close()
	c := client(t, registry.Settings{Retry: -1, TLSHosts: []string{reg.host()}, CAFiles: []string{pemFile(t, authority.PEM())}})
	if _, err := c.List(t.Context(), location(t, "oci://"+reg.host()+"/shop")); err != nil {
		t.Fatal(err)
	}
	_, err := c.List(t.Context(), location(t, "oci://"+reg.host()+"/shop"))
	if err == nil || strings.Contains(err.Error(), "certificate") || !strings.Contains(err.Error(), "closed the connection") {
		t.Errorf("got %v", err)
	}
}
