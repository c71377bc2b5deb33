// Package credentials looks up the logins that docker login and helm registry
// login keep on this machine, in files and in the helper programs that the files
// name, and keeps and removes them there.
//
// It asks no registry, and knows none but the Hub, which has several names. Try
// [New] first.
package credentials

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"strings"
	"sync"

	"oras.land/oras-go/v2/registry/remote/auth"

	"waybill/internal/files"
	"waybill/internal/ref"
)

// A Store looks up logins in the files that docker login and helm registry login
// write. Order: [Places].ConfigFile alone when given; else Docker's file, then
// Helm's. In each, the longest prefix of host/path first, and for each prefix the
// helper of that name, the entry in the file, then the file's credsStore.
type Store struct {
	files []string

	mu     sync.Mutex
	loaded map[string]*configFile
	used   map[string]string // by HOST/PATH: where the login came from, for messages
}

// New is the store of the files at places; each is read when it is first asked for.
func New(p Places) *Store {
	store := &Store{loaded: map[string]*configFile{}, used: map[string]string{}}
	if p.ConfigFile != "" {
		store.files = []string{p.ConfigFile}
		return store
	}
	for _, file := range []string{p.dockerConfig(), p.helmConfig()} {
		if file != "" {
			store.files = append(store.files, file)
		}
	}
	return store
}

// MayHave says whether a host may be told the login of a repository: it alone,
// under any of its names.
func MayHave(r ref.Reference, host string) bool {
	return host == r.Host || IsHub(host) && IsHub(r.Host)
}

// ForRepository is the look-up for one repository. Whatever other host a request
// of its ends up at, as the registry says, gets no login.
func (c *Store) ForRepository(r ref.Reference) auth.CredentialFunc {
	return func(ctx context.Context, host string) (auth.Credential, error) {
		if !MayHave(r, host) {
			return auth.EmptyCredential, nil
		}
		return c.find(ctx, r.Name())
	}
}

// Source says where the login for HOST/PATH came from, in words for a message.
func (c *Store) Source(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if source, ok := c.used[name]; ok {
		return "credentials from " + source
	}
	if len(c.files) == 0 {
		return "no credentials file was looked at"
	}
	return "no credentials in " + strings.Join(c.files, " or ")
}

// Knows says whether a login for HOST/PATH was found.
func (c *Store) Knows(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.used[name]
	return ok
}

// find looks for the login for HOST/PATH.
func (c *Store) find(ctx context.Context, name string) (auth.Credential, error) {
	for _, file := range c.files {
		config, err := c.load(file)
		if err != nil {
			return auth.EmptyCredential, &Error{Host: name, Source: file, Err: err}
		}
		cred, source, err := config.find(ctx, file, name)
		if err != nil {
			return auth.EmptyCredential, &Error{Host: name, Source: source, Err: err}
		}
		if isHalf(cred) {
			return auth.EmptyCredential, &Error{Host: name, Source: source, Err: errors.New("there is only one of user and password")}
		}
		if cred != auth.EmptyCredential {
			c.mu.Lock()
			c.used[name] = source
			c.mu.Unlock()
			return cred, nil
		}
	}
	return auth.EmptyCredential, nil
}

// isHalf says whether a login lacks a part.
func isHalf(cred auth.Credential) bool {
	return cred.RefreshToken == "" && cred.AccessToken == "" && (cred.Username == "") != (cred.Password == "")
}

// load reads a file once. One that isn't there has no logins.
func (c *Store) load(file string) (*configFile, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if config := c.loaded[file]; config != nil {
		return config, nil
	}
	config := &configFile{}
	data, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, files.PlainError(err)
	case len(data) > 0:
		if err := json.Unmarshal(data, config); err != nil {
			return nil, errors.New("the file is not JSON as docker login writes it") // the decoder's words may quote a secret
		}
	}
	c.loaded[file] = config
	return config, nil
}
