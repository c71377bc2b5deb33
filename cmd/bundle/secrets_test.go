package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"waybill/internal/registrytest"
)

// The secrets that must not be found in anything that a program says or leaves
// behind, each from another source.
const (
	secretPassword  = "pAsswOrd-maRker/+="
	secretToken     = "tOken-maRker.of.the.service"
	secretSignature = "sIgnature-maRker"
	secretAddress   = "aDdress-maRker"
	secretNetrc     = "nEtrc-maRker"
	secretHelm      = "hElm-maRker"
	secretProxy     = "pRoxy-maRker"
	secretKey       = "kEy-maRker"
)

// secretForms are a secret in all the ways that it may be written: as it is, in
// an address, and in base64 wherever in a longer text it stood.
func secretForms(secret string) []string {
	forms := []string{secret, url.QueryEscape(secret), url.PathEscape(secret)}
	for before := range 3 {
		for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			encoded := encoding.EncodeToString([]byte(strings.Repeat("x", before) + secret))
			// The first and the last characters hold bits of what stood around it.
			forms = append(forms, encoded[(before*8+5)/6:len(encoded)-1])
		}
	}
	return forms
}

func checkSecrets(t *testing.T, where string, data []byte) {
	t.Helper()
	for _, secret := range []string{secretPassword, secretToken, secretSignature, secretAddress, secretNetrc, secretHelm, secretProxy, secretKey} {
		for _, form := range secretForms(secret) {
			if bytes.Contains(data, []byte(form)) {
				t.Errorf("%s holds %s (as %s):\n%s", where, secret, form, data)
				return
			}
		}
	}
}

// TestSecretForms shows that the search finds what it is to find.
func TestSecretForms(t *testing.T) {
	for _, text := range []string{"x" + secretPassword, base64.StdEncoding.EncodeToString([]byte("me:" + secretPassword)), base64.URLEncoding.EncodeToString([]byte("Basic " + secretPassword + " ")), "?a=" + url.QueryEscape(secretPassword)} {
		found := false
		for _, form := range secretForms(secretPassword) {
			found = found || strings.Contains(text, form)
		}
		if !found {
			t.Errorf("not found in %s", text)
		}
	}
}

// secretPlace is a home, a working folder and the hosts that refuse everything.
type secretPlace struct {
	basic, token, signed *registrytest.Server // ask for a login, refuse the token they gave, lead to a signed address
	web, gitHost         *registrytest.Server // chart repository and git host
	netrcWeb             *registrytest.Server // a chart repository that netrc has a login for
	work, temp           string
}

func newSecretPlace(t *testing.T) *secretPlace {
	t.Helper()
	p := &secretPlace{work: t.TempDir(), temp: t.TempDir()}
	p.basic = registrytest.New(t, registrytest.Options{Username: "me", Password: "another"})
	service := registrytest.New(t, registrytest.Options{Fault: func(*http.Request) *registrytest.Fault {
		return &registrytest.Fault{Status: 200, Body: fmt.Sprintf(`{"token":%q}`, secretToken)}
	}})
	p.token = registrytest.New(t, registrytest.Options{Fault: func(r *http.Request) *registrytest.Fault {
		if r.Header.Get("Authorization") == "Bearer "+secretToken {
			return &registrytest.Fault{Status: 403, Body: `{"errors":[{"code":"DENIED","message":"not you"}]}`}
		}
		return &registrytest.Fault{Status: 401, Header: http.Header{"Www-Authenticate": {`Bearer realm="` + service.URL + `/token"`}}}
	}})
	storage := registrytest.New(t, registrytest.Options{Fault: func(*http.Request) *registrytest.Fault { return &registrytest.Fault{Status: 403, Body: "<Error/>"} }})
	p.signed = registrytest.New(t, registrytest.Options{Fault: func(*http.Request) *registrytest.Fault {
		return &registrytest.Fault{Redirect: storage.URL + "/x?X-Amz-Signature=" + secretSignature}
	}})
	refusing := func(status int) *registrytest.Server {
		return registrytest.New(t, registrytest.Options{Fault: func(r *http.Request) *registrytest.Fault {
			if strings.HasSuffix(r.URL.Path, "/signed/index.yaml") {
				return &registrytest.Fault{Status: 200, Body: "apiVersion: v1\nentries:\n  web:\n  - {name: web, version: 1.0.0, apiVersion: v1, urls: ['web.tgz?X-Amz-Signature=" + secretSignature + "']}\n"}
			}
			return &registrytest.Fault{Status: status}
		}})
	}
	p.web, p.gitHost, p.netrcWeb = refusing(403), refusing(401), refusing(500)
	p.files(t)
	return p
}

// files are all the places that logins are kept in.
func (p *secretPlace) files(t *testing.T) {
	t.Helper()
	home := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(home, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	login := func(host string) string {
		return fmt.Sprintf(`%q:{"username":"me","password":%q}`, host, secretPassword)
	}
	write("config.json", `{"auths":{`+login(p.basic.Host)+","+login(p.token.Host)+","+login(p.signed.Host)+`}}`)
	for name, value := range map[string]string{
		"HOME": home, "USERPROFILE": home, "XDG_CONFIG_HOME": home, "XDG_CACHE_HOME": home, "DOCKER_CONFIG": home, "TMPDIR": p.temp, "TMP": p.temp,
		"HELM_REPOSITORY_CONFIG": write("repositories.yaml", fmt.Sprintf("repositories: [{name: corp, url: %s, username: me, password: %s}]", p.web.URL, secretHelm)),
		"NETRC":                  write("netrc", "machine 127.0.0.1 login me password "+secretNetrc),
		"COSIGN_PASSWORD":        secretKey,
		"HTTPS_PROXY":            "http://me:" + secretProxy + "@127.0.0.1:1",
	} {
		t.Setenv(name, value)
	}
	t.Chdir(p.work)
}

// release writes a release file with one chart from somewhere.
func (p *secretPlace) release(t *testing.T, name, chart string) string {
	t.Helper()
	text := fmt.Sprintf("apiVersion: waybill/v1\nkind: Release\nname: shop\nversion: 1.0.0\ncomponents:\n- {name: web, namespace: shop, chart: {%s}}\n", chart)
	if err := os.WriteFile(filepath.Join(p.work, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// Whatever fails, at the most talkative level: no secret is in what is said, in
// either form of result, nor in a file that is left.
func TestSecretsStaySecret(t *testing.T) {
	p := newSecretPlace(t)
	chartFile := func(name, chart string) []string {
		return []string{"lock", "--no-images", "-f", p.release(t, name, chart)}
	}
	local := p.release(t, "local.yaml", "path: charts/web")
	if err := os.MkdirAll("charts/web", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("charts/web/Chart.yaml", []byte("apiVersion: v2\nname: web\nversion: 1.0.0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("vendor.key", []byte("-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED SIGSTORE PRIVATE KEY-----\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	push := func(host string) []string {
		return []string{"build", "--no-images", "--unsigned", "-f", local, "-t", "oci://" + host + "/shop"}
	}
	for name, tc := range map[string]struct {
		args  []string
		in    string
		asked *registrytest.Server // was asked, or nil: nobody is
	}{
		"login":                        {[]string{"login", p.basic.Host, "-u", "me", "--password-stdin"}, secretPassword, p.basic},
		"login with token":             {[]string{"login", p.token.Host, "-u", "me", "--password-stdin"}, secretPassword, p.token},
		"login, helper absent":         {[]string{"login", p.basic.Host, "-u", "me", "--password-stdin", "--registry-config", "."}, secretPassword, nil},
		"login with an address":        {[]string{"login", "https://me:" + url.PathEscape(secretAddress) + "@" + p.basic.Host, "-u", "me", "--password-stdin"}, secretPassword, nil},
		"pull":                         {[]string{"inspect", "oci://" + p.basic.Host + "/shop:1.0.0"}, "", p.basic},
		"pull with token":              {[]string{"inspect", "oci://" + p.token.Host + "/shop:1.0.0"}, "", p.token},
		"pull from a signed address":   {[]string{"verify", "oci://" + p.signed.Host + "/shop:1.0.0", "--policy", "none"}, "", p.signed},
		"tags":                         {[]string{"list", "oci://" + p.token.Host + "/shop"}, "", p.token},
		"push":                         {push(p.basic.Host), "", p.basic},
		"push with token":              {push(p.token.Host), "", p.token},
		"push to a signed address":     {push(p.signed.Host), "", p.signed},
		"pull with an address":         {[]string{"inspect", "oci://me:" + secretAddress + "@" + p.basic.Host + "/shop:1.0.0"}, "", nil},
		"an override with a login":     {[]string{"list", "oci://x.invalid/shop", "--registry-override", "x.invalid=https://me:" + secretAddress + "@y.invalid"}, "", nil},
		"through a proxy":              {[]string{"list", "oci://x.invalid/shop", "--retry", "0"}, "", nil},
		"signing":                      {[]string{"sign", "oci://" + p.basic.Host + "/shop:1.0.0", "--key", "vendor.key"}, "", nil},
		"chart":                        {chartFile("chart.yaml", "repository: '"+p.web.URL+"', name: web, version: 1.0.0"), "", p.web},
		"chart at a signed address":    {chartFile("signed.yaml", "repository: '"+p.web.URL+"/signed', name: web, version: 1.0.0"), "", p.web},
		"chart with netrc":             {chartFile("netrc.yaml", "repository: '"+p.netrcWeb.URL+"', name: web, version: 1.0.0"), "", p.netrcWeb},
		"chart of a registry":          {chartFile("oci.yaml", "repository: 'oci://"+p.basic.Host+"/charts', name: web, version: 1.0.0"), "", p.basic},
		"chart, range, of a registry":  {chartFile("range.yaml", "repository: 'oci://"+p.token.Host+"/charts', name: web, version: ^1"), "", p.token},
		"chart through a proxy":        {chartFile("proxy.yaml", "repository: 'https://x.invalid', name: web, version: 1.0.0"), "", nil},
		"chart with an address":        {chartFile("address.yaml", "repository: 'https://me:"+secretAddress+"@x.invalid', name: web, version: 1.0.0"), "", nil},
		"chart with a bad address":     {chartFile("badaddress.yaml", "repository: 'https://me:"+secretAddress+"%zz@x.invalid', name: web, version: 1.0.0"), "", nil},
		"oci chart with an address":    {chartFile("ociaddress.yaml", "repository: 'oci://me:"+secretAddress+"@x.invalid/charts', name: web, version: 1.0.0"), "", nil},
		"git":                          {chartFile("git.yaml", "git: '"+p.gitHost.URL+"/charts.git', ref: v1, path: web"), "", p.gitHost},
		"git through a proxy":          {chartFile("gitproxy.yaml", "git: 'https://x.invalid/charts.git', ref: v1, path: web"), "", nil},
		"git with an address":          {chartFile("gitaddress.yaml", "git: 'https://me:"+secretAddress+"@x.invalid/charts.git', ref: v1, path: web"), "", nil},
		"git over ssh with an address": {chartFile("gitssh.yaml", "git: 'ssh://git:"+secretAddress+"@x.invalid/charts.git', ref: v1, path: web"), "", nil},
	} {
		for _, form := range []string{"text", "json"} {
			t.Run(name+", "+form, func(t *testing.T) {
				if tc.asked != nil {
					tc.asked.Forget()
				}
				var out, errOut bytes.Buffer
				args := append(append([]string{"bundle"}, tc.args...), "--debug", "-o", form)
				if code := run(context.Background(), args, strings.NewReader(tc.in), &out, &errOut); code == 0 {
					t.Errorf("it did not fail; stdout %s", &out)
				}
				if tc.asked != nil && len(tc.asked.Requests()) == 0 {
					t.Errorf("the host was not asked: %s", &errOut)
				}
				checkSecrets(t, "stdout", out.Bytes())
				checkSecrets(t, "stderr", errOut.Bytes())
				p.checkFiles(t)
			})
		}
	}
}

// checkFiles looks into every file that a run left, but not at what it was given.
func (p *secretPlace) checkFiles(t *testing.T) {
	t.Helper()
	for _, dir := range []string{p.work, p.temp} {
		err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || strings.HasSuffix(path, "address.yaml") || strings.HasSuffix(path, "gitssh.yaml") {
				return err
			}
			data, err := os.ReadFile(path)
			checkSecrets(t, path, data)
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}
