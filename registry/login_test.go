package registry_test

import (
	"encoding/json"
	"errors"

	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"waybill/internal/registrytest"
	"waybill/registry"
)

// keychain is a credential helper that keeps what it is given in a folder. It is
// put into PATH.
func keychain(t *testing.T, name string) string {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the helper is a shell script")
	}
	bin, kept := t.TempDir(), t.TempDir()
	write(t, filepath.Join(bin, "docker-credential-"+name), `#!/bin/sh
cd `+kept+`
input=$(cat)
case $1 in
store) key=$(echo "$input" | sed 's/.*"ServerURL":"\([^"]*\)".*/\1/' | tr '/' '_'); echo "$input" >"$key" ;;
get) key=$(echo "$input" | tr '/' '_'); if [ -f "$key" ]; then cat "$key"; else echo 'credentials not found in native keychain'; exit 1; fi ;;
erase) rm "$(echo "$input" | tr '/' '_')" ;;
esac
`, 0o755)
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	return kept
}

// What login writes, every command reads back, in each form; logout takes it
// away, and what else is in the file stays.
func TestLoginRoundTrip(t *testing.T) {
	kept := keychain(t, "mine")
	basic := registrytest.New(t, registrytest.Options{Username: "me", Password: "pass word:1"})
	token := registrytest.New(t, registrytest.Options{Username: "me", Password: "pass word:1", Token: &registrytest.TokenOptions{}})
	hub := []string{"docker.io", "registry-1.docker.io", "index.docker.io"}
	for name, tc := range map[string]struct {
		reg    *registrytest.Server
		login  string // what is logged in to; HOST is the registry's
		config string // what the file holds before
		at     string // what is read then
		key    string // in the file
		helper string
	}{
		"basic":               {basic, "HOST", "", "HOST/team/shop", "HOST", ""},
		"token service":       {token, "HOST", "", "HOST/team/shop", "HOST", ""},
		"a path":              {basic, "HOST/team", "", "HOST/team/shop", "HOST/team", ""},
		"a scheme":            {basic, "https://HOST/v2/", "", "HOST/team/shop", "HOST", ""},
		"a location":          {basic, "oci://HOST/team/", "", "HOST/team/shop", "HOST/team", ""},
		"credsStore":          {basic, "HOST", `"credsStore": "mine"`, "HOST/team/shop", "HOST", "mine"},
		"credsStore, a path":  {token, "HOST/team", `"credsStore": "mine"`, "HOST/team/shop", "HOST/team", "mine"},
		"credHelpers":         {basic, "HOST", `"credHelpers": {"HOST": "mine"}`, "HOST/team/shop", "HOST", "mine"},
		"another's helper":    {basic, "HOST", `"credHelpers": {"other.example": "absent"}`, "HOST/team/shop", "HOST", ""},
		"an old login":        {basic, "HOST", `"auths": {"https://HOST/v1/": {"auth": "b2xkOm9sZA=="}}`, "HOST/team/shop", "HOST", ""},
		"the Hub":             {basic, "docker.io", "", "docker.io/team/shop", "https://index.docker.io/v1/", ""},
		"the Hub's old name":  {basic, "https://index.docker.io/v1/", "", "docker.io/team/shop", "https://index.docker.io/v1/", ""},
		"the Hub's third":     {basic, "registry-1.docker.io", "", "index.docker.io/team/shop", "https://index.docker.io/v1/", ""},
		"the Hub, helper":     {basic, "docker.io", `"credHelpers": {"index.docker.io": "mine"}`, "docker.io/team/shop", "index.docker.io", "mine"},
		"the Hub, credsStore": {basic, "index.docker.io", `"credsStore": "mine"`, "docker.io/team/shop", "https://index.docker.io/v1/", "mine"},
		"the Hub, a path":     {basic, "index.docker.io/team", "", "docker.io/team/shop", "docker.io/team", ""},
	} {
		t.Run(name, func(t *testing.T) {
			fill := func(s string) string { return strings.ReplaceAll(s, "HOST", tc.reg.Host) }
			file := filepath.Join(t.TempDir(), "deep", "config.json")
			settings := quick()
			settings.ConfigFile, settings.MakeConfig, settings.PlainHTTPHosts = file, true, hub
			settings.Getenv = func(name string) string { return map[string]string{"HTTP_PROXY": tc.reg.URL}[name] }
			if tc.config != "" {
				write(t, file, fill(`{"HttpHeaders": {"X": "y"}, "big": 12345678901234567890, `+tc.config+`}`), 0o644)
			}
			stored, err := client(t, settings).Login(t.Context(), fill(tc.login), registry.Login{Username: "me", Password: "pass word:1"})
			if err != nil {
				t.Fatal(err)
			}
			if !stored.Checked || stored.Plain != (tc.helper == "") || tc.helper != "" && !strings.Contains(stored.Place, "docker-credential-"+tc.helper) {
				t.Errorf("stored %+v", stored)
			}
			data := checkConfig(t, file, fill(tc.key), tc.config != "")
			if strings.Contains(data, "bWU6cGFzcyB3b3JkOjE=") != (tc.helper == "") || strings.Contains(data, "pass word") {
				t.Errorf("the file has %s", data)
			}
			store(t, client(t, settings), "oci://"+fill(tc.at), "1.0.0", newSample(t, "one"))

			removed, err := client(t, settings).Logout(t.Context(), fill(tc.login))
			if err != nil || len(removed.Places) != 1 || removed.Left != "" {
				t.Errorf("logout: %+v, %v", removed, err)
			}
			var denied *registry.DeniedError
			if _, err := client(t, settings).Open(t.Context(), location(t, "oci://"+fill(tc.at)+":1.0.0")); !errors.As(err, &denied) {
				t.Errorf("after logout: %v", err)
			}
			if left, _ := os.ReadDir(kept); len(left) != 0 {
				t.Errorf("the helper still keeps %s", left[0].Name())
			}
			if removed, err = client(t, settings).Logout(t.Context(), fill(tc.login)); err != nil || len(removed.Places) != 0 {
				t.Errorf("a second logout: %+v, %v", removed, err)
			}
		})
	}
}

// checkConfig looks at the file that login wrote: its mode, the key, and that
// the rest is as it was.
func checkConfig(t *testing.T, path, key string, hadMore bool) string {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the file's mode is %v", info.Mode())
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Auths       map[string]any
		HTTPHeaders map[string]string `json:"HttpHeaders"`
		Big         json.Number
	}
	if err := json.Unmarshal(data, &config); err != nil {
		t.Fatal(err)
	}
	if _, ok := config.Auths[key]; !ok {
		t.Errorf("no entry %s in %s", key, data)
	}
	if hadMore && (config.HTTPHeaders["X"] != "y" || config.Big != "12345678901234567890") {
		t.Errorf("what else was in the file is lost: %s", data)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*")); len(left) != 1 {
		t.Errorf("left beside the file: %q", left)
	}
	return string(data)
}

// A login that the registry, its token service or the helper refuses is not
// stored, and the file stays as it was.
func TestLoginRefused(t *testing.T) {
	keychain(t, "mine")
	basic := registrytest.New(t, registrytest.Options{Username: "me", Password: "secret"})
	token := registrytest.New(t, registrytest.Options{Username: "me", Password: "secret", Token: &registrytest.TokenOptions{}})
	none := registrytest.New(t, registrytest.Options{Fault: func(*http.Request) *registrytest.Fault { return &registrytest.Fault{Status: 404} }})
	before := `{"auths":{"other.example":{"auth":"b2xkOm9sZA=="}}}`
	for name, tc := range map[string]struct {
		host, password, config string
		words                  string
	}{
		"basic":             {basic.Host, "marker", before, "credentials rejected for " + basic.Host + " by " + basic.Host + " (401): authentication required; the login that was given"},
		"token service":     {token.Host, "marker", before, "the token service does not know you"},
		"an absent helper":  {basic.Host, "secret", `{"credsStore": "nosuch"}`, "docker-credential-nosuch"},
		"no file of logins": {basic.Host, "secret", `["auths"]`, "not JSON as docker login writes it"},
		"no registry":       {none.Host, "secret", before, "there is no registry"},
	} {
		file := write(t, filepath.Join(t.TempDir(), "config.json"), tc.config, 0o600)
		settings := quick()
		settings.ConfigFile = file
		_, err := client(t, settings).Login(t.Context(), tc.host, registry.Login{Username: "me", Password: tc.password})
		if err == nil || !strings.Contains(err.Error(), tc.words) || strings.Contains(err.Error(), "marker") {
			t.Errorf("%s: %v", name, err)
		}
		if data, _ := os.ReadFile(file); string(data) != tc.config {
			t.Errorf("%s: the file is now %s", name, data)
		}
	}
	for _, name := range []string{"", "me:marker@registry.example", "registry.example/Team", "registry.example/team:1", "ftp://x", "a b"} {
		_, err := client(t, quick()).Login(t.Context(), name, registry.Login{Username: "me", Password: "secret"})
		var wrong *registry.LocationError
		if !errors.As(err, &wrong) || strings.Contains(err.Error(), "marker") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// A link to the file stays a link, and logout names who else has a login.
func TestLoginThroughLink(t *testing.T) {
	reg := registrytest.New(t, registrytest.Options{Username: "me", Password: "secret"})
	settings := quick()
	settings.Home = t.TempDir()
	target := write(t, filepath.Join(settings.Home, "dotfiles", "config.json"), "{}", 0o644)
	link := filepath.Join(settings.Home, ".docker", "config.json")
	if err := os.MkdirAll(filepath.Dir(link), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, link); err != nil {
		t.Skip(err)
	}
	write(t, filepath.Join(settings.Home, ".config", "helm", "registry", "config.json"), auths(reg.Host, "me", "secret"), 0o600)
	login := registry.Login{Username: "me", Password: "secret"}
	if _, err := client(t, settings).Login(t.Context(), reg.Host, login); err != nil {
		t.Fatal(err)
	}
	if got, err := os.Readlink(link); err != nil || got != target {
		t.Errorf("the link leads to %q, %v", got, err)
	}
	removed, err := client(t, settings).Logout(t.Context(), reg.Host)
	if err != nil || !slices.Equal(removed.Places, []string{target}) || runtime.GOOS == "linux" && !strings.Contains(removed.Left, "helm") {
		t.Errorf("%+v, %v", removed, err)
	}
}

// A registry that asks for no login gets one stored, and that nobody looked at
// it is said.
func TestLoginUnasked(t *testing.T) {
	reg := registrytest.New(t, registrytest.Options{})
	settings := quick()
	settings.ConfigFile, settings.MakeConfig = filepath.Join(t.TempDir(), "config.json"), true
	stored, err := client(t, settings).Login(t.Context(), reg.Host, registry.Login{Username: "me", Password: "secret"})
	if err != nil || stored.Checked {
		t.Errorf("%+v, %v", stored, err)
	}
}
