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
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http/httpproxy"

	"waybill/internal/files"
)

// newTransport builds the one way to any host:
//
//	retry ─► Settings.Wrap ─► idle timeout ─► TLS as the host's rules say
func newTransport(s Settings, hosts *hostRules) (*retryTransport, error) {
	config, err := tlsConfig(s)
	if err != nil {
		return nil, err
	}
	trusting := config.Clone()
	trusting.InsecureSkipVerify = true // only for hosts that were named
	var rt http.RoundTripper = &idleTransport{
		timeout: s.IdleTimeout,
		rate:    max(s.MinRate, 0),
		base:    &tlsByHost{hosts: hosts, strict: baseTransport(s, config), trusting: baseTransport(s, trusting)},
	}
	if s.Wrap != nil {
		rt = s.Wrap(rt)
	}
	return &retryTransport{base: rt, tries: max(s.Retry, 0) + 1, maxWait: s.MaxRetryWait, onPause: s.OnPause, pauses: map[string]time.Time{}}, nil
}

func baseTransport(s Settings, config *tls.Config) *connections {
	proxy, certificates := proxyFrom(s.Getenv), newCertificateWatch(config)
	return &connections{certificates: certificates, current: &http.Transport{
		Proxy:                 func(r *http.Request) (*url.URL, error) { return proxy(r.URL) },
		DialContext:           dialer(),
		TLSClientConfig:       certificates.config,
		TLSHandshakeTimeout:   15 * time.Second,
		ForceAttemptHTTP2:     true,
		MaxIdleConnsPerHost:   2*s.Concurrency + besideTransfers, // a copy within a host, and what looks at it
		IdleConnTimeout:       90 * time.Second,
		ExpectContinueTimeout: time.Second,
		DisableCompression:    true, // bytes are hashed as they are stored
		HTTP2:                 &http.HTTP2Config{SendPingTimeout: s.IdleTimeout / 2, PingTimeout: s.IdleTimeout / 2},
	}}
}

// dialer connects, and lets connections without TLS take what is sent in larger
// pieces than the standard library makes.
func dialer() func(ctx context.Context, network, address string) (net.Conn, error) {
	plain := &net.Dialer{Timeout: 15 * time.Second, KeepAlive: 30 * time.Second}
	buffers := &sync.Pool{New: func() any { return new([largePiece]byte) }}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := plain.DialContext(ctx, network, address)
		if tcp, ok := conn.(*net.TCPConn); ok && err == nil {
			return largeWrites{tcp, buffers}, nil
		}
		return conn, err
	}
}

type largeWrites struct {
	*net.TCPConn
	buffers *sync.Pool
}

func (c largeWrites) ReadFrom(r io.Reader) (int64, error) {
	buffer := c.buffers.Get().(*[largePiece]byte)
	defer c.buffers.Put(buffer)
	return io.CopyBuffer(struct{ io.Writer }{c.TCPConn}, r, buffer[:])
}

// proxyFrom reads the proxy variables in the spellings that Go and curl read.
func proxyFrom(getenv func(string) string) func(*url.URL) (*url.URL, error) {
	first := func(names ...string) string {
		for _, name := range names {
			if v := getenv(name); v != "" {
				return v
			}
		}
		return ""
	}
	config := httpproxy.Config{
		HTTPProxy:  first("HTTP_PROXY", "http_proxy"),
		HTTPSProxy: first("HTTPS_PROXY", "https_proxy"),
		NoProxy:    first("NO_PROXY", "no_proxy"),
		CGI:        getenv("REQUEST_METHOD") != "",
	}
	return config.ProxyFunc()
}

func tlsConfig(s Settings) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if err := addRoots(config, s.CAFiles...); err != nil {
		return nil, err
	}
	return config, addClientCertificate(config, s.CertFile, s.KeyFile)
}

// addRoots trusts the authorities in PEM files besides those that config, or
// else the system, trusts.
func addRoots(config *tls.Config, paths ...string) error {
	if len(paths) == 0 {
		return nil
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool() // a system without roots; the files still count
	}
	if config.RootCAs != nil {
		roots = config.RootCAs.Clone()
	}
	for _, path := range paths {
		pem, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("CA file %q: %w", path, files.PlainError(err))
		}
		if !roots.AppendCertsFromPEM(pem) {
			return fmt.Errorf("CA file %q: no PEM certificate in it", path)
		}
	}
	config.RootCAs = roots
	return nil
}

func addClientCertificate(config *tls.Config, certFile, keyFile string) error {
	if certFile == "" && keyFile == "" {
		return nil
	}
	if certFile == "" || keyFile == "" {
		return errors.New("a TLS client certificate needs both the certificate and the key file")
	}
	cert, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return fmt.Errorf("TLS client certificate %q with key %q: %w", certFile, keyFile, files.PlainError(err))
	}
	config.Certificates = []tls.Certificate{cert}
	return nil
}

// checkRedirect follows redirects to anywhere, but not without end and never
// from TLS to plain HTTP, and takes the login off as soon as the host or port
// is another.
func checkRedirect(req *http.Request, via []*http.Request) error {
	if len(via) >= 10 {
		return &redirectsError{from: via[0].URL.Host}
	}
	req.Header.Del("Referer") // the address before may be signed
	for _, earlier := range via {
		if earlier.URL.Scheme == "https" && req.URL.Scheme != "https" {
			return &downgradeError{from: earlier.URL.Host, to: req.URL.Host}
		}
		if hostPort(earlier.URL) != hostPort(req.URL) {
			req.Header.Del("Authorization")
			req.Header.Del("Cookie")
		}
	}
	return nil
}

// redirectsError is a host that sends round in circles.
type redirectsError struct{ from string }

func (e *redirectsError) Error() string {
	return e.from + " redirects without end, stopped after 10 redirects"
}

// downgradeError is a redirect from TLS to plain HTTP.
type downgradeError struct{ from, to string }

func (e *downgradeError) Error() string {
	return fmt.Sprintf("%s redirects to %s without TLS, which is refused", e.from, e.to)
}

func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// tlsByHost checks certificates except for hosts that were named as insecure.
type tlsByHost struct {
	hosts            *hostRules
	strict, trusting *connections
}

func (t *tlsByHost) RoundTrip(req *http.Request) (*http.Response, error) {
	own, ok := req.Context().Value(ownTLSKey{}).(*ownTLS)
	switch {
	case ok && own.origin == origin(req.URL):
		return own.itself.RoundTrip(req)
	case t.hosts.insecure(req.URL.Host):
		return t.trusting.RoundTrip(req)
	case ok:
		return own.others.RoundTrip(req)
	}
	return t.strict.RoundTrip(req)
}

// ownTLS is TLS as one chart repository has it. It travels in the context of
// the requests that are made for the repository, redirects included.
type ownTLS struct {
	origin string       // of the repository
	itself *connections // with its certificates, unchecked when it says so
	others *connections // redirects to other hosts: its roots, and nothing else of it
}

type ownTLSKey struct{}

// origin is scheme, host and port: what a login or a certificate is given to.
func origin(u *url.URL) string { return u.Scheme + "://" + hostPort(u) }

// hostRules say how each host is spoken to.
type hostRules struct {
	settings Settings

	mu    sync.Mutex
	named map[string]bool // opened or created; the plain booleans speak of these
}

func newHostRules(s Settings) *hostRules {
	return &hostRules{settings: s, named: map[string]bool{}}
}

func (h *hostRules) name(host string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.named[strings.ToLower(host)] = true
}

func (h *hostRules) isNamed(host string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.named[strings.ToLower(host)]
}

// plain says whether host is spoken to without TLS.
func (h *hostRules) plain(host string) bool {
	s := h.settings
	switch {
	case listed(s.PlainHTTPHosts, host), s.PlainHTTP && h.isNamed(host):
		return true
	case listed(s.TLSHosts, host):
		return false
	}
	return isLoopback(host)
}

func (h *hostRules) insecure(host string) bool {
	s := h.settings
	return listed(s.InsecureHosts, host) || s.Insecure && h.isNamed(host)
}

// listed says whether host is in the list, as it is or without its port.
func listed(hosts []string, host string) bool {
	name := hostName(host)
	for _, h := range hosts {
		if strings.EqualFold(h, host) || strings.EqualFold(h, name) {
			return true
		}
	}
	return false
}

func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.Trim(host, "[]")
}

func isLoopback(host string) bool {
	name := hostName(host)
	if strings.EqualFold(name, "localhost") {
		return true
	}
	ip := net.ParseIP(name)
	return ip != nil && ip.IsLoopback()
}
