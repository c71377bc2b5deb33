package registry_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"waybill/internal/registrytest"
	"waybill/registry"
)

func auths(key, user, password string) string {
	return fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, key, base64.StdEncoding.EncodeToString([]byte(user+":"+password)))
}

func configFile(t *testing.T, key, user, password string) string {
	t.Helper()
	return write(t, filepath.Join(t.TempDir(), "config.json"), auths(key, user, password), 0o600)
}

func write(t *testing.T, path, data string, mode os.FileMode) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(data), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func locked(t *testing.T) (*registrytest.Server, string) {
	t.Helper()
	reg := registrytest.New(t, registrytest.Options{Username: "me", Password: "secret"})
	settings := quick()
	settings.ConfigFile = configFile(t, reg.Host, "me", "secret")
	store(t, client(t, settings), "oci://"+reg.Host+"/team/shop", "1.0.0", newSample(t, "one"))
	return reg, "oci://" + reg.Host + "/team/shop:1.0.0"
}

// Every form a login is stored in is read.
func TestCredentialForms(t *testing.T) {
	reg, at := locked(t)
	good, bad := func(key string) string { return auths(key, "me", "secret") }, auths(reg.Host, "me", "wrong")
	for name, tc := range map[string]struct {
		docker, helm string
		denied       bool
	}{
		"docker's file":           {docker: good(reg.Host)},
		"helm's file":             {helm: good(reg.Host)},
		"docker's before helm's":  {docker: bad, helm: good(reg.Host), denied: true},
		"an old URL":              {docker: good("http://" + reg.Host + "/v1/")},
		"user and password":       {docker: fmt.Sprintf(`{"auths":{%q:{"username":"me","password":"secret"}}}`, reg.Host)},
		"a prefix":                {docker: good(reg.Host + "/team")},
		"the repository":          {docker: good(reg.Host + "/team/shop")},
		"the longest prefix":      {docker: strings.TrimSuffix(bad, "}}") + "," + strings.TrimPrefix(good(reg.Host+"/team"), `{"auths":{`)},
		"another prefix":          {docker: good(reg.Host + "/other"), denied: true},
		"half a name":             {docker: good(reg.Host + "/te"), denied: true},
		"another host's":          {docker: good("registry.example"), denied: true},
		"nothing":                 {denied: true},
		"an empty file":           {docker: " ", helm: good(reg.Host), denied: true},
		"an entry without a word": {docker: fmt.Sprintf(`{"auths":{%q:{}}}`, reg.Host), helm: good(reg.Host)},
	} {
		t.Run(name, func(t *testing.T) {
			settings := quick()
			settings.Home = t.TempDir()
			settings.Getenv = func(name string) string {
				if name == "HELM_REGISTRY_CONFIG" {
					return filepath.Join(settings.Home, "helm.json")
				}
				return ""
			}
			if tc.docker != "" {
				write(t, filepath.Join(settings.Home, ".docker", "config.json"), tc.docker, 0o600)
			}
			if tc.helm != "" {
				write(t, filepath.Join(settings.Home, "helm.json"), tc.helm, 0o600)
			}
			src, err := client(t, settings).Open(t.Context(), location(t, at))
			if err == nil {
				err = src.Close()
			}
			if (err != nil) != tc.denied {
				t.Errorf("got %v", err)
			}
		})
	}
}

// A refused login says where it came from, and not what it is.
func TestDeniedNamesTheSource(t *testing.T) {
	reg, at := locked(t)
	settings := quick()
	settings.ConfigFile = configFile(t, reg.Host, "me", "wrong-word")
	_, err := client(t, settings).Open(t.Context(), location(t, at))
	var denied *registry.DeniedError
	if !errors.As(err, &denied) || denied.Status != 401 || !strings.Contains(err.Error(), "credentials from "+settings.ConfigFile) {
		t.Errorf("with a wrong password: %v", err)
	}
	settings.ConfigFile = configFile(t, "registry.example", "me", "wrong-word")
	_, err = client(t, settings).Open(t.Context(), location(t, at))
	if !errors.As(err, &denied) || !strings.Contains(err.Error(), "no credentials in "+settings.ConfigFile) || strings.Contains(err.Error(), "wrong-word") {
		t.Errorf("without a login: %v", err)
	}
}

// A file or helper that doesn't work is an error that names it, not anonymity.
func TestFailingCredentials(t *testing.T) {
	reg, at := locked(t)
	for want, config := range map[string]string{
		"docker-credential-nosuch": fmt.Sprintf(`{"credHelpers":{%q:"nosuch"}}`, reg.Host),
		"docker-credential-absent": `{"credsStore":"absent"}`,
		"not JSON":                 `{"auths":{"secret-word`,
		"base64":                   fmt.Sprintf(`{"auths":{%q:{"auth":"secret-word"}}}`, reg.Host),
	} {
		settings := quick()
		settings.ConfigFile = write(t, filepath.Join(t.TempDir(), "config.json"), config, 0o600)
		_, err := client(t, settings).Open(t.Context(), location(t, at))
		var failed *registry.CredentialsError
		if !errors.As(err, &failed) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret-word") {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// Helpers, per host and for all hosts, are asked.
func TestCredentialHelper(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the helper is a shell script")
	}
	reg, at := locked(t)
	bin := t.TempDir()
	write(t, filepath.Join(bin, "docker-credential-works"), `#!/bin/sh
read host
if [ "$host" = "`+reg.Host+`" ]; then
	echo '{"ServerURL":"","Username":"me","Secret":"secret"}'
else
	echo 'credentials not found in native keychain'; exit 1
fi
`, 0o755)
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	for _, config := range []string{
		fmt.Sprintf(`{"credHelpers":{%q:"works"}}`, reg.Host),
		fmt.Sprintf(`{"credsStore":"works","auths":{%q:{}}}`, reg.Host),
		`{"credsStore":"works"}`,
	} {
		settings := quick()
		settings.ConfigFile = write(t, filepath.Join(t.TempDir(), "config.json"), config, 0o600)
		open(t, client(t, settings), at)
	}
}

// A registry that wants a token gets one with the login, and the login goes to
// the token service alone.
func TestTokenService(t *testing.T) {
	var logins []string
	tokens := registrytest.New(t, registrytest.Options{Fault: func(r *http.Request) *registrytest.Fault {
		user, password, _ := r.BasicAuth()
		logins = append(logins, user+":"+password+" "+r.URL.Query().Get("scope"))
		return &registrytest.Fault{Status: 200, Body: `{"token":"of the service"}`}
	}})
	reg := registrytest.New(t, registrytest.Options{Fault: func(r *http.Request) *registrytest.Fault {
		switch r.Header.Get("Authorization") {
		case "Bearer of the service":
			return nil
		case "":
			return &registrytest.Fault{Status: 401, Header: http.Header{"Www-Authenticate": {`Bearer realm="` + tokens.URL + `/token",service="test"`}}}
		}
		t.Errorf("the registry was sent %q", r.Header.Get("Authorization"))
		return &registrytest.Fault{Status: 403}
	}})
	settings := quick()
	settings.ConfigFile = configFile(t, reg.Host, "me", "secret")
	c, at := client(t, settings), "oci://"+reg.Host+"/shop"
	store(t, c, at, "1.0.0", newSample(t, "one"))
	open(t, c, at+":1.0.0")
	if len(logins) == 0 || len(logins) > 2 || logins[0] != "me:secret repository:shop:pull,push" {
		t.Errorf("the token service was asked %q", logins)
	}
}

// The proxy of the environment is used for hosts that are not on the loopback.
func TestProxy(t *testing.T) {
	proxy := registrytest.New(t, registrytest.Options{})
	settings := quick()
	settings.PlainHTTPHosts = []string{"registry.invalid"}
	settings.Getenv = func(name string) string {
		return map[string]string{"HTTP_PROXY": proxy.URL, "NO_PROXY": "direct.invalid"}[name]
	}
	c, s := client(t, settings), newSample(t, "one")
	store(t, c, "oci://registry.invalid/shop", "1.0.0", s)
	contractContent(t, open(t, c, "oci://registry.invalid/shop:1.0.0"), s)
	if len(proxy.Requests()) == 0 {
		t.Error("the proxy saw nothing")
	}
}
