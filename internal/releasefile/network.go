package releasefile

import (
	"context"
	"errors"
	"io"
	"net/http"

	"waybill/charts"
	"waybill/registry"
)

// Network is a registry client as the room charts asks for one: chart
// repositories, registries and git all go through its transport, with its
// certificates, logins and patience.
func Network(client *registry.Client) charts.Network { return network{client} }

type network struct{ client *registry.Client }

func (n network) Get(ctx context.Context, base, url string) (io.ReadCloser, error) {
	rc, err := n.client.Get(ctx, base, url)
	return rc, forbidden(err)
}

func (n network) Repository(ctx context.Context, name string) (charts.Repository, error) {
	repository, err := n.client.Repository(ctx, name)
	if err != nil {
		return nil, err
	}
	return repository, nil
}

func (n network) Git(ctx context.Context, url string) (charts.GitAccess, error) {
	access, err := n.client.Git(ctx, url)
	return charts.GitAccess{
		Transport: access.Transport, Username: access.Username, Password: access.Password,
		CABundle: access.CABundle, ClientCert: access.ClientCert, ClientKey: access.ClientKey,
		InsecureSkipTLS: access.InsecureSkipTLS, Proxy: access.Proxy,
	}, err
}

func (n network) RepositoryURL(_ context.Context, name string) (string, error) {
	return n.client.RepositoryURL(name)
}

// forbidden gives a refusal (403) the name that charts has for it.
func forbidden(err error) error {
	var denied *registry.DeniedError
	if errors.As(err, &denied) && denied.Status == http.StatusForbidden {
		return &forbiddenError{err}
	}
	return err
}

// A forbiddenError is the registry's error, and [charts.ErrForbidden].
type forbiddenError struct{ error }

func (e *forbiddenError) Unwrap() []error { return []error{e.error, charts.ErrForbidden} }
