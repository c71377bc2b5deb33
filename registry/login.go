package registry

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"

	orasregistry "oras.land/oras-go/v2/registry"

	"waybill/internal/credentials"
	"waybill/internal/ref"
)

// A Login is a user of a registry.
type Login struct{ Username, Password string }

// Stored says what became of a login.
type Stored struct {
	Registry string // HOST or HOST/PATH as it is looked up
	Place    string // the file, or the helper program and the file that names it
	Plain    bool   // anybody who reads the file reads the password
	Checked  bool   // the registry asked for a login and took this one
}

// Login tries a login at a registry and stores it where every later command,
// and docker, helm, skopeo and oras look: in Settings.ConfigFile, else in
// Docker's file, or in the credential helper that the file has for it. name is
// HOST or HOST/PATH; the Hub's names are all one. What else is in the file
// stays. Nothing is stored that the registry refused.
//
// Errors: *LocationError for a name that is none, *DeniedError,
// *UnreachableError, *ResponseError, *CredentialsError.
func (c *Client) Login(ctx context.Context, name string, login Login) (Stored, error) {
	r, err := parseRegistryName(name)
	if err != nil {
		return Stored{}, err
	}
	stored := Stored{Registry: strings.TrimSuffix(r.Name(), "/")}
	if stored.Checked, err = c.try(ctx, r, login); err != nil {
		return stored, err
	}
	stored.Place, stored.Plain, err = c.credentials.Put(ctx, stored.Registry, auth.Credential{Username: login.Username, Password: login.Password})
	return stored, err
}

// Removed says what a logout did.
type Removed struct {
	Registry string
	Places   []string // files and helpers that had a login; none for none
	Left     string   // where a login for the registry is found all the same; empty for nowhere
}

// Logout removes what [Client.Login] stores, in every spelling.
//
// Errors: *LocationError, *CredentialsError.
func (c *Client) Logout(ctx context.Context, name string) (Removed, error) {
	r, err := parseRegistryName(name)
	if err != nil {
		return Removed{}, err
	}
	removed := Removed{Registry: strings.TrimSuffix(r.Name(), "/")}
	if removed.Places, err = c.credentials.Remove(ctx, removed.Registry); err != nil {
		return removed, err
	}
	left, err := credentials.New(c.settings.places()).Where(ctx, removed.Registry)
	removed.Left = left
	return removed, err
}

// try asks the registry for its version, which takes a login where one is
// wanted. It says whether one was.
func (c *Client) try(ctx context.Context, r ref.Reference, login Login) (bool, error) {
	c.hosts.name(r.Host)
	wanted := false
	client := c.newLogin(r.Host, nil, func(_ context.Context, host string) (auth.Credential, error) {
		if !credentials.MayHave(r, host) {
			return auth.EmptyCredential, nil
		}
		wanted = true
		return auth.Credential{Username: login.Username, Password: login.Password}, nil
	})
	registry := remote.Registry{RepositoryOptions: remote.RepositoryOptions{
		Client: client, Reference: orasregistry.Reference{Registry: r.Host}, PlainHTTP: c.hosts.plain(r.Host),
	}}
	err := registry.Ping(ctx)
	q := asked{ref: r.Host, host: r.Host, what: "login", login: "the login that was given", sent: true}
	if errors.Is(err, errdef.ErrNotFound) {
		return wanted, &ResponseError{Host: r.Host, Ref: r.Host, Status: http.StatusNotFound, Reason: "there is no registry (/v2/ is not found)", Err: err}
	}
	return wanted, c.translate(err, q)
}

// parseRegistryName reads HOST or HOST/PATH, as a person types it or copies it
// out of Docker's file.
func parseRegistryName(s string) (ref.Reference, error) {
	fail := func(input, reason, meant string) (ref.Reference, error) {
		return ref.Reference{}, &LocationError{Input: input, Reason: reason, Meant: meant}
	}
	rest := strings.TrimPrefix(s, schemeRegistry)
	if bare, ok := credentials.WithoutScheme(rest); ok {
		rest = bare
	}
	rest = strings.TrimRight(rest, "/")
	host, path, _ := strings.Cut(rest, "/")
	if at := strings.LastIndexByte(host, '@'); at >= 0 {
		return fail("…"+host[at:], "has a login in it; give it with --username and --password-stdin", host[at+1:])
	}
	r, err := ref.Parse(host + "/" + strings.TrimPrefix(path+"/login", "/"))
	switch {
	case err != nil:
		return fail(s, "names no registry", "HOST or HOST/PATH")
	case r.Tag != "" || r.Digest != "":
		return fail(s, "has a tag or digest where a registry is wanted", "")
	}
	r.Repository = path
	if credentials.IsHub(host) {
		r.Host = "docker.io"
	}
	return r, nil
}

// HostOf is the host in HOST or HOST/PATH as [Client.Login] reads it. A
// *LocationError when that names no registry.
func HostOf(name string) (string, error) {
	r, err := parseRegistryName(name)
	return r.Host, err
}
