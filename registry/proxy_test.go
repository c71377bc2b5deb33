package registry_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"waybill/internal/registrytest"
	"waybill/registry"
)

// tunnel is a proxy that brings every connection to one host.
type tunnel struct {
	to    string
	mu    sync.Mutex
	asked []string
}

func (p *tunnel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.asked = append(p.asked, r.Method+" "+r.Host)
	p.mu.Unlock()
	if r.Method != http.MethodConnect {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	there, err := net.Dial("tcp", p.to)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer there.Close()
	w.WriteHeader(http.StatusOK)
	here, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer here.Close()
	go func() { _, _ = io.Copy(there, here) }()
	_, _ = io.Copy(here, there)
}

func (p *tunnel) seen() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.asked...)
}

// environment is one with these variables alone.
func environment(variables map[string]string) func(string) string {
	return func(name string) string { return variables[name] }
}

// A registry with TLS is reached through the proxy of the environment, in either
// spelling, with its own certificate.
func TestProxyWithTLS(t *testing.T) {
	reg := registrytest.New(t, registrytest.Options{TLS: true})
	for _, name := range []string{"HTTPS_PROXY", "https_proxy"} {
		proxy := &tunnel{to: reg.Host}
		server := newWeb(t, false, proxy.ServeHTTP)
		settings := quick()
		settings.InsecureHosts = []string{"registry.invalid"} // its certificate has no such name
		settings.Getenv = environment(map[string]string{name: server.URL})
		c, s := client(t, settings), newSample(t, name)
		store(t, c, "oci://registry.invalid/shop", "1.0.0", s)
		contractContent(t, open(t, c, "oci://registry.invalid/shop:1.0.0"), s)
		for _, asked := range proxy.seen() {
			if asked != "CONNECT registry.invalid:443" {
				t.Errorf("%s: the proxy was asked to %s", name, asked)
			}
		}
		if len(proxy.seen()) == 0 {
			t.Errorf("%s: the proxy was not asked", name)
		}
	}
}

// What NO_PROXY names, in any of its forms, is asked itself; and this machine always.
func TestNoProxy(t *testing.T) {
	proxy := &tunnel{}
	server := newWeb(t, false, proxy.ServeHTTP)
	for noProxy, direct := range map[string]bool{
		"registry.invalid": true, ".invalid": true, "invalid": true, "*": true, "other.example, registry.invalid": true, "registry.invalid:5000": true,
		"": false, "other.invalid": false, "registry.invalid:5001": false, "gistry.invalid": false,
	} {
		for _, variable := range []string{"NO_PROXY", "no_proxy"} {
			before := len(proxy.seen())
			settings := registry.Settings{Retry: -1, PlainHTTPHosts: []string{"registry.invalid"}, Getenv: environment(map[string]string{"HTTP_PROXY": server.URL, variable: noProxy})}
			_, err := client(t, settings).List(t.Context(), location(t, "oci://registry.invalid:5000/shop"))
			if asked := len(proxy.seen()) > before; asked == direct || err == nil {
				t.Errorf("%s=%q: the proxy was asked: %v; %v", variable, noProxy, asked, err)
			}
			var unreachable *registry.UnreachableError
			if direct && (!errors.As(err, &unreachable) || !strings.Contains(err.Error(), "registry.invalid")) {
				t.Errorf("%s=%q: %v", variable, noProxy, err)
			}
		}
	}
	reg, _, at := served(t, registrytest.Options{})
	settings := quick()
	settings.Getenv = environment(map[string]string{"HTTP_PROXY": server.URL})
	before := len(proxy.seen())
	open(t, client(t, settings), at)
	if len(proxy.seen()) > before || len(reg.Requests()) == 0 {
		t.Error("this machine was asked through the proxy")
	}
}
