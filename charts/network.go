package charts

import (
	"context"
	"errors"
	"io"
	"net/http"

	"oras.land/oras-go/v2/content"
)

// A Network brings the bytes of other hosts. It is used at the same time by
// several [Resolve] calls. Its errors say what was asked of which host; what is
// absent matches errdef.ErrNotFound with errors.Is, what is forbidden (403)
// [ErrForbidden].
type Network interface {
	// Get opens a file of the chart repository at base: login and certificates
	// are those of base. The login goes to no other host, unless the
	// repository's configuration says so.
	Get(ctx context.Context, base, url string) (io.ReadCloser, error)
	// Repository opens HOST/PATH of a registry.
	Repository(ctx context.Context, name string) (Repository, error)
	// Git says how the repository at a git URL is reached.
	Git(ctx context.Context, url string) (GitAccess, error)
	// RepositoryURL is the URL of the chart repository that Helm's
	// configuration (repositories.yaml) knows by this name: what "@name" and
	// "alias:name" mean in Chart.yaml. A name it does not know matches
	// errdef.ErrNotFound.
	RepositoryURL(ctx context.Context, name string) (string, error)
}

// ErrForbidden is what a [Network] wraps when a host says 403: object stores
// say so of files that are not there.
var ErrForbidden = errors.New("forbidden")

// A Repository is one repository of a registry. Resolve takes a tag or a
// digest.
type Repository interface {
	content.Fetcher
	content.Resolver
	// Tags calls fn with every page of the list of tags.
	Tags(ctx context.Context, fn func(tags []string) error) error
}

// GitAccess says how one git repository is reached. The zero value is without
// a login, with the system's roots and no proxy.
type GitAccess struct {
	// URL is where to go instead, empty for the URL that was asked about. What
	// is recorded stays the latter.
	URL string
	// Transport carries the requests of http:// and https:// URLs, with
	// certificates and proxy its own. Nil: one is made of the fields below.
	Transport http.RoundTripper

	Username, Password    string // a token is a password
	CABundle              []byte // PEM, added to the system's roots
	ClientCert, ClientKey []byte // PEM
	InsecureSkipTLS       bool
	Proxy                 string // URL, may hold a login

	// KnownHosts are files of ssh's known_hosts format. Empty: those that
	// SSH_KNOWN_HOSTS names, else the user's and the machine's.
	KnownHosts []string
}
