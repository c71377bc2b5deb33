package registry

import (
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"

	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"

	orasregistry "oras.land/oras-go/v2/registry"

	"waybill/internal/credentials"
	"waybill/internal/files"
	"waybill/internal/ref"
)

// Settings say how registries are reached. The zero value is HTTPS with the
// system's roots, plain HTTP on the loopback, no proxy and no credentials.
type Settings struct {
	CAFiles           []string // PEM files, added to the system's roots
	CertFile, KeyFile string   // PEM files of the TLS client certificate

	PlainHTTP bool // HTTP without TLS to the hosts that are opened or created
	Insecure  bool // no certificate checks for the hosts that are opened or created

	// Hosts, with or without port. Nothing falls back to these by itself.
	PlainHTTPHosts []string
	InsecureHosts  []string
	TLSHosts       []string // TLS although on the loopback

	ConfigFile string              // credentials are looked for here and nowhere else; else Docker's and Helm's files
	MakeConfig bool                // ConfigFile need not be there: Login makes it
	Home       string              // the user's home folder, for Docker's and Helm's files; empty: none are looked for there
	Getenv     func(string) string // the environment: proxies, DOCKER_CONFIG, HELM_*, NETRC; nil: empty

	// Where bytes are read from instead: HOST or HOST/PATH of an upstream, to
	// that of a cache. oci://, https:// or http:// before an upstream speaks of
	// registries or of chart repositories only. Nothing is written to a cache.
	Overrides map[string]string

	Concurrency  int           // connections kept per host; 0: 8
	Retry        int           // tries after the first; 0: 5, negative: none
	MaxRetryWait time.Duration // the longest pause between tries, also when a host asks for more; 0: two minutes
	IdleTimeout  time.Duration // a transfer without progress for so long is given up; 0: one minute
	MinRate      int64         // bytes a second that count as progress, over the idle timeout; 0: 128, negative: any
	ChunkSize    int64         // blobs larger than this are uploaded in chunks of this size; 0: those over 16 MiB, in chunks as large as they can be

	OnPause func(host string, wait time.Duration) // a host asks everybody to wait; nil: nobody is told

	UserAgent string                                    // empty: waybill
	Wrap      func(http.RoundTripper) http.RoundTripper // sees every request as it is sent, and its answer; nil: nobody does
}

func (s Settings) withDefaults() Settings {
	if s.Getenv == nil {
		s.Getenv = func(string) string { return "" }
	}
	if s.Concurrency <= 0 {
		s.Concurrency = 8
	}
	if s.Retry == 0 {
		s.Retry = 5
	}
	if s.MaxRetryWait <= 0 {
		s.MaxRetryWait = 2 * time.Minute
	}
	if s.IdleTimeout <= 0 {
		s.IdleTimeout = time.Minute
	}
	if s.MinRate == 0 {
		s.MinRate = 128
	}
	s.ChunkSize = max(s.ChunkSize, 0)
	if s.UserAgent == "" {
		s.UserAgent = "waybill"
	}
	return s
}

// places are where logins are kept.
func (s Settings) places() credentials.Places {
	return credentials.Places{ConfigFile: s.ConfigFile, Home: s.Home, Getenv: s.Getenv}
}

// A Client opens locations. All requests of a run go through one, so that TLS,
// credentials, retries and pauses are the same for every one of them. It is
// safe for use at the same time.
type Client struct {
	settings    Settings
	http        *http.Client
	retry       *retryTransport
	uploads     *uploadLimits
	hosts       *hostRules
	credentials *credentials.Store
	charts      *chartRepositories
	overrides   overrides

	mu    sync.Mutex
	repos map[string]*remoteClient // by host/path, so that logins are shared
}

// NewClient reads the certificate files that the settings name; a bad one is an
// error that names it, a bad override an *OverrideError. Nothing is dialled.
func NewClient(settings Settings) (*Client, error) {
	settings = settings.withDefaults()
	if settings.ConfigFile != "" && !settings.MakeConfig {
		// A file that was asked for must be there; the usual ones need not.
		if _, err := os.Stat(settings.ConfigFile); err != nil {
			return nil, &CredentialsError{Host: "all registries", Source: settings.ConfigFile, Err: files.PlainError(err)}
		}
	}
	overrides, err := newOverrides(settings.Overrides)
	if err != nil {
		return nil, err
	}
	hosts := newHostRules(settings)
	transport, err := newTransport(settings, hosts)
	if err != nil {
		return nil, err
	}
	return &Client{
		settings:    settings,
		http:        &http.Client{Transport: transport, CheckRedirect: checkRedirect},
		retry:       transport,
		uploads:     &uploadLimits{byHost: map[string]int64{}, whole: map[string]bool{}, ours: distributionChunk},
		hosts:       hosts,
		credentials: credentials.New(settings.places()),
		charts:      newChartRepositories(settings, hosts),
		overrides:   overrides,
		repos:       map[string]*remoteClient{},
	}, nil
}

// Limits on what a registry may make us read or ask.
const (
	// Registries accept manifests of 4 MiB at least, and few accept more:
	// distribution specification, section "Pushing Manifests".
	maxManifest = 4 << 20
	maxPages    = 10_000 // of a list of tags
	// Pages of a list of tags in a row that bring nothing new: some registries
	// filter what they list after they have cut it into pages.
	maxIdlePages     = 20
	maxReferrerPages = 200
)

// repository is the access to one repository. Credentials may differ by path,
// so each has a login of its own.
func (c *Client) repository(r ref.Reference) *remote.Repository {
	c.mu.Lock()
	defer c.mu.Unlock()
	login := c.repos[r.Name()]
	if login == nil {
		login = c.newLogin(r.Host, auth.NewCache(), c.credentials.ForRepository(r))
		c.repos[r.Name()] = login
	}
	return &remote.Repository{
		Client:               login,
		Reference:            orasregistry.Reference{Registry: r.Host, Repository: r.Repository},
		PlainHTTP:            c.hosts.plain(r.Host),
		MaxMetadataBytes:     maxManifest,
		TagListMaxPages:      maxPages,
		ReferrerListMaxPages: maxReferrerPages,
		SkipReferrersGC:      true, // many registries forbid deleting
	}
}

// remoteClient marks what went wrong on the way, as against what the answer
// says, so that errors are told apart by type.
type remoteClient struct {
	host string
	auth *auth.Client
}

// Do says of an error whether the way to the host was open.
func (c *remoteClient) Do(req *http.Request) (*http.Response, error) {
	if !isForBlob(req) {
		req = req.WithContext(wantWhole(req.Context()))
	}
	resp, err := c.auth.Do(req)
	if err != nil && !as[*url.Error](err) {
		return nil, &loginError{err}
	}
	if err != nil {
		return nil, &transferError{err}
	}
	hearDigest(req, resp)
	return resp, nil
}

// loginError is a request that was not made, or not again, because there was no
// token or no login for it: the way to the host was open.
type loginError struct{ error }

func (e *loginError) Unwrap() error { return e.error }

// transferError is a request that got no answer.
type transferError struct{ error }

func (e *transferError) Unwrap() error { return e.error }
