// Package credentials looks up the logins that docker login and helm registry
// login keep on this machine, in files and in the helper programs that the files
// name, and keeps and removes them there.
//
// It asks no registry, and knows none but the Hub, which has several names. Try
// [New] first.
package credentials

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"oras.land/oras-go/v2/registry/remote/auth"
	orascredentials "oras.land/oras-go/v2/registry/remote/credentials"

	"waybill/internal/files"
	"waybill/internal/ref"
)

// Places say where credentials files are looked for.
type Places struct {
	ConfigFile string              // looked into alone; empty: Docker's and Helm's files are
	Home       string              // the user's home folder; empty: none are looked for there
	Getenv     func(string) string // the environment: DOCKER_CONFIG and HELM_*; nil: empty
}

func (p Places) getenv(name string) string {
	if p.Getenv == nil {
		return ""
	}
	return p.Getenv(name)
}

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

// configFile is the part of Docker's config.json that tells logins.
type configFile struct {
	Auths       map[string]configEntry `json:"auths"`
	CredsStore  string                 `json:"credsStore"`
	CredHelpers map[string]string      `json:"credHelpers"`
}

type configEntry struct {
	Auth          string `json:"auth"`
	Username      string `json:"username"`
	Password      string `json:"password"`
	IdentityToken string `json:"identitytoken"`
	RegistryToken string `json:"registrytoken"`
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

// dockerConfig is where docker login writes.
func (p Places) dockerConfig() string {
	if dir := p.getenv("DOCKER_CONFIG"); dir != "" {
		return filepath.Join(dir, "config.json")
	}
	if p.Home == "" {
		return ""
	}
	return filepath.Join(p.Home, ".docker", "config.json")
}

// helmConfig is where helm registry login writes.
func (p Places) helmConfig() string {
	if file := p.getenv("HELM_REGISTRY_CONFIG"); file != "" {
		return file
	}
	return p.HelmFile("registry/config.json")
}

// HelmFile is a file in Helm's configuration folder, "" when nothing says where
// that is.
func (p Places) HelmFile(name string) string {
	if dir := p.getenv("HELM_CONFIG_HOME"); dir != "" {
		return filepath.Join(dir, name)
	}
	if dir := p.getenv("XDG_CONFIG_HOME"); dir != "" {
		return filepath.Join(dir, "helm", name)
	}
	switch {
	case runtime.GOOS == "windows":
		if dir := p.getenv("APPDATA"); dir != "" {
			return filepath.Join(dir, "helm", name)
		}
		return ""
	case p.Home == "":
		return ""
	case runtime.GOOS == "darwin":
		return filepath.Join(p.Home, "Library", "Preferences", "helm", name)
	}
	return filepath.Join(p.Home, ".config", "helm", name)
}

// ForRepository is the look-up for one repository. Whatever other host a request
// of its ends up at, as the registry says, gets no login.
func (c *Store) ForRepository(r ref.Reference) auth.CredentialFunc {
	return func(ctx context.Context, host string) (auth.Credential, error) {
		if host != r.Host && !(IsHub(host) && IsHub(r.Host)) {
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

// find looks for host/path and then for each shorter prefix of it.
func (f *configFile) find(ctx context.Context, file, name string) (auth.Credential, string, error) {
	for _, prefix := range prefixes(name) {
		for _, key := range spellings(prefix) {
			if helper := f.CredHelpers[key]; helper != "" {
				return askHelper(ctx, helper, file, key)
			}
		}
		entry, key, listed := f.entry(prefix)
		if cred, err := entry.credential(); err != nil || cred != auth.EmptyCredential {
			return cred, fmt.Sprintf("%s (%s)", file, key), err
		}
		// docker login with a credsStore leaves an empty entry behind.
		if f.CredsStore != "" && (listed || !strings.Contains(prefix, "/")) {
			if !listed {
				key = spellings(prefix)[0]
			}
			cred, source, err := askHelper(ctx, f.CredsStore, file, key)
			if err != nil || cred != auth.EmptyCredential {
				return cred, source, err
			}
		}
	}
	return auth.EmptyCredential, "", nil
}

// entry finds the entry of a prefix, under whatever spelling it was written.
func (f *configFile) entry(prefix string) (configEntry, string, bool) {
	for _, key := range spellings(prefix) {
		if entry, ok := f.Auths[key]; ok {
			return entry, key, true
		}
	}
	// Old files have URLs as keys.
	keys := make([]string, 0, len(f.Auths))
	for key := range f.Auths {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		if bare, ok := WithoutScheme(key); ok && bare == prefix {
			return f.Auths[key], key, true
		}
	}
	return configEntry{}, "", false
}

func (e configEntry) credential() (auth.Credential, error) {
	cred := auth.Credential{Username: e.Username, Password: e.Password, RefreshToken: e.IdentityToken, AccessToken: e.RegistryToken}
	if e.Auth == "" {
		return cred, nil
	}
	decoded, err := base64.StdEncoding.DecodeString(e.Auth)
	user, password, ok := strings.Cut(string(decoded), ":")
	if err != nil || !ok {
		return auth.EmptyCredential, errors.New("the entry's auth field is not base64 of USER:PASSWORD")
	}
	cred.Username, cred.Password = user, strings.TrimRight(password, "\x00")
	return cred, nil
}

// askHelper runs docker-credential-HELPER. That it knows nothing is no error,
// that it fails is one.
func askHelper(ctx context.Context, helper, file, key string) (auth.Credential, string, error) {
	cred, err := orascredentials.NewNativeStore(helper).Get(ctx, key)
	return cred, helperPlace(helper, file), err
}

// prefixes gives host/a/b, host/a, host.
func prefixes(name string) []string {
	var all []string
	for {
		all = append(all, name)
		at := strings.LastIndexByte(name, '/')
		if at < 0 {
			return all
		}
		name = name[:at]
	}
}

// hubNames are all one registry; the first is the key that docker login writes.
func hubNames() []string {
	return []string{"https://index.docker.io/v1/", "docker.io", "index.docker.io", "registry-1.docker.io"}
}

// IsHub says whether a host is one of the names of the Hub.
func IsHub(host string) bool { return slices.Contains(hubNames()[1:], host) }

// spellings are the keys a prefix may be stored under.
func spellings(prefix string) []string {
	host, path, hasPath := strings.Cut(prefix, "/")
	if !IsHub(host) {
		return []string{prefix}
	}
	if !hasPath {
		return hubNames()
	}
	var all []string
	for _, name := range hubNames()[1:] {
		all = append(all, name+"/"+path)
	}
	return all
}

// WithoutScheme takes https:// and the API's version off an old key.
func WithoutScheme(key string) (string, bool) {
	rest, ok := strings.CutPrefix(key, "https://")
	if !ok {
		rest, ok = strings.CutPrefix(key, "http://")
	}
	rest = strings.TrimRight(rest, "/")
	for _, version := range []string{"/v1", "/v2"} {
		rest = strings.TrimSuffix(rest, version)
	}
	return rest, ok
}

// An Error reports a credentials file or helper that does not work. Going on
// without a login would hide it.
type Error struct {
	Host   string
	Source string // the file, or the helper program and the file that names it
	Err    error
}

func (e *Error) Error() string {
	return fmt.Sprintf("credentials for %s from %s: %v", e.Host, e.Source, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }
