// Package registrytest is an OCI registry inside the test process. It is
// strict, as good registries are: a manifest whose blobs or children are
// missing is refused. It can be told to be bad: no referrers list, a login, a
// token service, TLS of private authorities, and any fault on any request.
//
// It knows HTTP and nothing of the project's rooms, so that every room's tests
// may use it. Begin with [New] in a test, [Start] where there is no testing.TB.
package registrytest

import (
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"cuelabs.dev/go/oci/ociregistry"
	"cuelabs.dev/go/oci/ociregistry/ocimem"
	"cuelabs.dev/go/oci/ociregistry/ociserver"
	"github.com/opencontainers/go-digest"
)

// Options say in which ways the registry is bad. The zero value is a good one
// over plain HTTP.
type Options struct {
	NoReferrers bool   // no referrers API, as CNCF Distribution 2 and 3
	TLS         bool   // HTTPS with a certificate of a private authority of its own, see [Server.CA]
	Username    string // not empty: basic authentication with these
	Password    string
	HTTP2       bool // with TLS: HTTP/2 for clients that speak it
	NoRange     bool // blobs are given whole, whatever range is asked for
	FlatOnly    bool // an index inside an index is refused, as by old Quay, Nexus and GitLab
	Uploads     Uploads
	// Absent, when set, is what happens to requests for repositories that are
	// not among Repositories.
	Absent       Absent
	Repositories []string
	// Handler answers in place of the registry in memory: a registry that is
	// itself under test. nil is the one in memory.
	Handler http.Handler
	// Token, not nil, is a token service that the login is told to instead.
	Token *TokenOptions
	// Clients, not nil, is the authority that clients must have a TLS
	// certificate of.
	Clients *Authority
	// Fault is asked before every request (after the login check); nil or a nil
	// answer is no fault. It may be called at the same time.
	Fault func(*http.Request) *Fault
	// After is called when a request was answered; nil: nobody is told. It may be
	// called at the same time.
	After func(*http.Request)
}

// A Fault is something going wrong with one request. The first field that is
// set counts, in this order.
type Fault struct {
	Hang     bool                // accept the request and never answer
	Drop     bool                // close the connection without an answer
	Take     int                 // take so many bytes of the request's body, then close the connection
	Stick    int                 // take so many bytes of the request's body, then hold the connection
	Redirect string              // answer 307 to this address
	MovedTo  string              // answer 307 to the same path and query at this base URL
	Status   int                 // answer this, with Header and Body
	Header   http.Header         // also added to an answer that Edit changes; a name without values is taken out of it
	Body     string              //
	Edit     func([]byte) []byte // change the answer's body; its length is made to fit
	Corrupt  int                 // change this byte of the body, counted from 1, round and round
	CutHead  int                 // close the connection after so many bytes of the status line and the headers
	Cut      int                 // close the connection after so many bytes of the body
	Stall    int                 // stop sending after so many bytes of the body, hold the connection
	Handler  http.Handler        // answer with this, instead of the registry
}

// A Request is one line of the log.
type Request struct {
	Method, Path  string
	Query         string
	Authorization string // the scheme only: Basic, Bearer
	Status        int    // 0 when there was no answer
}

// A Server is a running registry.
type Server struct {
	Host    string // host:port, as it stands in a reference
	URL     string // with the scheme
	backend *ocimem.Registry
	handler http.Handler
	uploads *uploads
	opts    Options
	http    *httptest.Server
	closed  chan struct{}
	tokens  *tokenService // nil for a registry without

	authority *Authority

	mu  sync.Mutex
	log []Request
}

// New starts a registry that lives as long as the test.
func New(t testing.TB, opts Options) *Server {
	t.Helper()
	s, err := Start(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// Start starts a registry on a free loopback port. The caller closes it.
func Start(opts Options) (*Server, error) {
	s := &Server{opts: opts, backend: ocimem.New(), handler: opts.Handler, closed: make(chan struct{})}
	if s.handler == nil {
		s.uploads = newUploads(opts.Uploads, s.backend)
		s.handler = s.route(ociserver.New(strict{s.backend}, &ociserver.Options{DisableReferrersAPI: opts.NoReferrers}))
	}
	var err error
	if opts.Token != nil {
		if s.tokens, err = startTokens(opts, s.fail); err != nil {
			return nil, err
		}
	}
	if s.authority, err = NewAuthority("authority of the registry"); err != nil {
		return nil, err
	}
	if s.http, err = startServer(s, opts.TLS, opts.HTTP2, s.authority, opts.Clients); err != nil {
		return nil, err
	}
	s.URL, s.Host = s.http.URL, s.http.Listener.Addr().String()
	return s, nil
}

// startServer starts a server on a free loopback port.
func startServer(handler http.Handler, secure, http2 bool, authority, clients *Authority) (*httptest.Server, error) {
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	if !secure {
		server.Start()
		return server, nil
	}
	var err error
	if server.TLS, err = authority.ServerTLS(clients); err != nil {
		server.Close()
		return nil, err
	}
	server.EnableHTTP2 = http2
	server.StartTLS()
	return server, nil
}

// Close ends the registry and all its connections. A second time it does nothing.
func (s *Server) Close() {
	s.mu.Lock()
	select {
	case <-s.closed:
		s.mu.Unlock()
		return
	default:
		close(s.closed)
		s.mu.Unlock()
	}
	s.http.CloseClientConnections()
	s.http.Close()
	if s.tokens != nil {
		s.tokens.http.CloseClientConnections()
		s.tokens.http.Close()
	}
}

// CA is the PEM certificate that vouches for a registry with TLS.
func (s *Server) CA() []byte {
	return s.authority.PEM()
}

// Requests is what was asked so far, in order.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.log...)
}

// Forget empties the request log.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = nil
}

// RemoveBlob loses a blob of the registry in memory, as a careless garbage
// collection does.
func (s *Server) RemoveBlob(repository string, d digest.Digest) error {
	return s.backend.DeleteBlob(context.Background(), repository, d)
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	logged := &recorder{ResponseWriter: w, noSubject: s.opts.NoReferrers}
	scheme, _, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	entry := Request{Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery, Authorization: scheme}
	defer func() {
		entry.Status = logged.status
		s.mu.Lock()
		s.log = append(s.log, entry)
		s.mu.Unlock()
		if s.opts.After != nil {
			s.opts.After(r)
		}
	}()
	if challenge := s.challenge(r); challenge != "" {
		w.Header().Set("WWW-Authenticate", challenge)
		_ = ociregistry.WriteError(logged, ociregistry.ErrUnauthorized)
		return
	}
	if s.opts.Fault != nil {
		if f := s.opts.Fault(r); f != nil {
			s.fail(logged, r, f)
			return
		}
	}
	s.handler.ServeHTTP(logged, r)
}

// route gives uploads to the part that is strict about them.
func (s *Server) route(rest http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.refuses(w, r) || s.opts.FlatOnly && refusesNested(w, r) {
			return
		}
		if repository, id, ok := uploadPath(r.URL.Path); ok && !r.URL.Query().Has("digest") || ok && id != "" {
			s.uploads.serve(w, r, repository, id)
			return
		}
		if s.opts.NoRange {
			r.Header.Del("Range")
		}
		rest.ServeHTTP(w, r)
	})
}

// challenge is the header that asks for a login, "" when the request has one
// that is good.
func (s *Server) challenge(r *http.Request) string {
	if s.tokens != nil {
		return s.tokens.challenge(r)
	}
	user, password, ok := r.BasicAuth()
	if s.opts.Username == "" || ok && user == s.opts.Username && password == s.opts.Password {
		return ""
	}
	return `Basic realm="test registry"`
}

// strict answers a manifest with missing parts as the distribution
// specification says, where ocimem has no code for it.
type strict struct{ *ocimem.Registry }

func (r strict) PushManifest(ctx context.Context, repo, tag string, data []byte, mediaType string) (ociregistry.Descriptor, error) {
	desc, err := r.Registry.PushManifest(ctx, repo, tag, data, mediaType)
	if err != nil {
		return desc, ociregistry.NewError(err.Error(), ociregistry.ErrManifestBlobUnknown.Code(), nil)
	}
	return desc, nil
}
