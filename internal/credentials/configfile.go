package credentials

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"oras.land/oras-go/v2/registry/remote/auth"
	orascredentials "oras.land/oras-go/v2/registry/remote/credentials"
)

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
