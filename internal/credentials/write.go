package credentials

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"oras.land/oras-go/v2/registry/remote/auth"
	orascredentials "oras.land/oras-go/v2/registry/remote/credentials"

	"waybill/internal/files"
)

// file is the one that logins are written to: the one that was asked for, else
// Docker's.
func (c *Store) file() (string, error) {
	if len(c.files) == 0 {
		return "", &Error{Host: "registries", Source: "no file", Err: errors.New("neither a home folder nor DOCKER_CONFIG says where logins are kept; name a file with --registry-config")}
	}
	path := c.files[0]
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target // a link to the file stays one
	}
	return path, nil
}

// Put stores a login for HOST or HOST/PATH under the key that docker login
// uses, in the helper that the file has for it, else in the file.
func (c *Store) Put(ctx context.Context, name string, cred auth.Credential) (place string, plain bool, err error) {
	file, err := c.file()
	if err != nil {
		return "", false, err
	}
	config, err := c.load(file)
	if err != nil {
		return "", false, &Error{Host: name, Source: file, Err: err}
	}
	key, helper := config.keyAndHelper(name)
	inFile, err := orascredentials.NewFileStore(file)
	if err != nil {
		return "", false, &Error{Host: name, Source: file, Err: files.PlainError(err)}
	}
	if helper != "" {
		place = helperPlace(helper, file)
		if err := orascredentials.NewNativeStore(helper).Put(ctx, key, cred); err != nil {
			return place, false, &Error{Host: name, Source: place, Err: withoutSecret(err, cred.Password)}
		}
		cred = auth.EmptyCredential // an empty entry says that the helper has one
	} else {
		place, plain = file, true
	}
	defer c.forget()
	if err := inFile.Put(ctx, key, cred); err != nil {
		return place, plain, &Error{Host: name, Source: file, Err: files.PlainError(err)}
	}
	return place, plain, nil
}

// Remove forgets the logins for exactly this HOST or HOST/PATH.
func (c *Store) Remove(ctx context.Context, name string) ([]string, error) {
	file, err := c.file()
	if err != nil {
		return nil, err
	}
	config, err := c.load(file)
	if err != nil {
		return nil, &Error{Host: name, Source: file, Err: err}
	}
	defer c.forget()
	var places []string
	for _, key := range config.keys(name) {
		removed, err := c.removeKey(ctx, config, file, key)
		if err != nil {
			return places, err
		}
		places = append(places, removed...)
	}
	slices.Sort(places)
	return slices.Compact(places), nil
}

func (c *Store) removeKey(ctx context.Context, config *configFile, file, key string) (places []string, err error) {
	if helper := config.helper(key); helper != "" {
		place, store := helperPlace(helper, file), orascredentials.NewNativeStore(helper)
		fail := func(err error) error { return &Error{Host: key, Source: place, Err: err} }
		cred, err := store.Get(ctx, key)
		if err != nil {
			return nil, fail(err)
		}
		if cred != auth.EmptyCredential {
			if err := store.Delete(ctx, key); err != nil {
				return nil, fail(err)
			}
			places = append(places, place)
		}
	}
	entry, listed := config.Auths[key]
	if !listed {
		return places, nil
	}
	inFile, err := orascredentials.NewFileStore(file)
	if err == nil {
		err = inFile.Delete(ctx, key)
	}
	if err != nil {
		return places, &Error{Host: key, Source: file, Err: files.PlainError(err)}
	}
	if entry != (configEntry{}) {
		places = append(places, file)
	}
	return places, nil
}

// Where says where a login for a registry is found; "" for nowhere.
func (c *Store) Where(ctx context.Context, name string) (string, error) {
	if _, err := c.find(ctx, name); err != nil {
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used[name], nil
}

// forget reads the files anew next time.
func (c *Store) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.loaded)
}

// keyAndHelper is under which key docker login writes and what find looks at
// first: the spelling that has a helper of its own, else the usual one.
func (f *configFile) keyAndHelper(name string) (key, helper string) {
	all := spellings(name)
	for _, key := range all {
		if helper := f.CredHelpers[key]; helper != "" {
			return key, helper
		}
	}
	return all[0], f.CredsStore
}

// helper is the helper program that the file has for a key, "" for none.
func (f *configFile) helper(key string) string {
	if helper := f.CredHelpers[key]; helper != "" {
		return helper
	}
	return f.CredsStore
}

// keys are all under which a login for exactly this name may be.
func (f *configFile) keys(name string) []string {
	keys := spellings(name)
	for key := range f.Auths {
		if bare, ok := WithoutScheme(key); ok && slices.Contains(keys, bare) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

func helperPlace(helper, file string) string {
	return fmt.Sprintf("docker-credential-%s (named in %s)", helper, file)
}

// withoutSecret keeps a helper from repeating what it was given.
func withoutSecret(err error, secret string) error {
	if secret == "" || !strings.Contains(err.Error(), secret) {
		return err
	}
	return errors.New(strings.ReplaceAll(err.Error(), secret, "…"))
}
