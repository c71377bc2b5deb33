package registry

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"

	"oras.land/oras-go/v2/registry/remote/errcode"
)

// Get opens a file of the chart repository at base, an http or https address.
// Login, roots and client certificate are those that Helm's repositories.yaml
// has for base, else the login that netrc has for its host. A login goes to the
// scheme, host and port of base and nowhere else, unless the repository's entry
// says pass_credentials_all. An override of the settings changes where the file
// is read from; login and certificates are the cache's then. The caller bounds
// what it reads, and closes it.
//
// Errors, also from the reader: *LocationError for an address that is none or
// has a login in it, *NotFoundError, *DeniedError, *CredentialsError,
// *UnreachableError, *ResponseError.
func (c *Client) Get(ctx context.Context, base, address string) (io.ReadCloser, error) {
	repository, err := parseAddress(base)
	if err != nil {
		return nil, err
	}
	named, err := parseAddress(address)
	if err != nil {
		return nil, err
	}
	q := asked{ref: printAddress(named), what: "file"}
	repository = c.overrides.address(repository, c.hosts)
	cached := c.overrides.address(named, c.hosts)
	if cached != named {
		q.ref += " (read from " + printAddress(cached) + ")"
		if origin(cached) != origin(repository) {
			repository = cached
		}
	}
	q.host = cached.Host
	access, err := c.charts.access(repository)
	if err != nil {
		return nil, err
	}
	q.login, q.sent = access.source, access.goesTo(cached)
	if repository.Scheme == "https" && cached.Scheme == "http" && !listed(c.settings.PlainHTTPHosts, cached.Host) {
		return nil, c.translate(&transferError{&downgradeError{from: repository.Host, to: cached.Host}}, q)
	}
	if access.tls, err = c.ownTLS(access); err != nil {
		return nil, err
	}
	file, err := c.newFileReader(ctx, access, cached, q)
	if err != nil {
		return nil, c.translate(err, q)
	}
	return file, nil
}

// statusError is an answer that is no success, in the type that registries'
// answers have.
func statusError(resp *http.Response) error {
	return &errcode.ErrorResponse{Method: resp.Request.Method, URL: resp.Request.URL, StatusCode: resp.StatusCode}
}

// translatingReader gives its errors the types of this package.
type translatingReader struct {
	rc     io.ReadCloser
	client *Client
	asked  asked
}

func (r *translatingReader) Read(p []byte) (int, error) {
	n, err := r.rc.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = r.client.translate(&transferError{err}, r.asked)
	}
	return n, err
}

func (r *translatingReader) Close() error { return r.rc.Close() }

// parseAddress reads an http or https address. One with a login in it is
// refused: such an address ends up in files that are given away.
func parseAddress(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return nil, &LocationError{Input: "…", Reason: "is no http or https address", Err: errors.Unwrap(err)} // the input may hold a password
	case u.User != nil:
		meant := *u
		meant.User = nil
		return nil, &LocationError{
			Input: printAddress(u), Reason: "has a login in it; keep that in netrc or in Helm's repositories.yaml (helm repo add)", Meant: printAddress(&meant),
		}
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, &LocationError{Input: printAddress(u), Reason: "is no http or https address"}
	}
	return u, nil
}

// printAddress is an address without what may be secret: a login, and the
// values of a query.
func printAddress(u *url.URL) string {
	masked := *u
	if masked.User != nil {
		masked.User = url.User("masked")
	}
	if query := masked.Query(); len(query) > 0 || masked.RawQuery != "" {
		for key := range query {
			query.Set(key, "masked")
		}
		masked.RawQuery = query.Encode()
	}
	return masked.String()
}
