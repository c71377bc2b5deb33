package registry_test

import (
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"waybill/internal/registrytest"
	"waybill/registry"
)

// What goes wrong at a signed address is told without the signature, whatever
// it is.
func TestSignedAddress(t *testing.T) {
	s := newSample(t, "one")
	for name, fault := range map[string]registrytest.Fault{
		"refused":         {Status: http.StatusForbidden},
		"absent":          {Status: http.StatusNotFound},
		"gone":            {Status: http.StatusGone, Body: "no"},
		"busy":            {Status: http.StatusServiceUnavailable},
		"no answer":       {Drop: true},
		"hanging":         {Hang: true},
		"another length":  {Status: 200, Body: "short"},
		"other bytes":     {Status: 200, Body: strings.Repeat("x", int(s.imageLayer.desc.Size))},
		"on and on":       {Redirect: "/again?X-Signature=marker"},
		"a login wanted":  {Status: 401, Header: http.Header{"Www-Authenticate": {`Basic realm="x"`}}},
		"another address": {Redirect: "http://nosuch.invalid/?X-Signature=marker"},
		"an odd address":  {Redirect: "http://me:marker@nosuch.invalid/%zz?X-Signature=marker"},
	} {
		t.Run(name, func(t *testing.T) {
			storage := registrytest.New(t, registrytest.Options{Fault: func(*http.Request) *registrytest.Fault { return &fault }})
			_, _, at := served(t, registrytest.Options{Fault: faultAt("/blobs/"+s.imageLayer.desc.Digest.String(), &registrytest.Fault{Redirect: storage.URL + "/blob?X-Signature=marker"})})
			settings := quick()
			settings.Retry = -1
			err := fetch(t.Context(), open(t, client(t, settings), at), s.imageLayer)
			if err == nil || strings.Contains(err.Error(), "marker") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// No login leaves for another host or port: not along a redirect, not along the
// next page of a list, and not to a host that has a login of its own.
func TestLoginStaysHome(t *testing.T) {
	seen := func(name string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if got := r.Header.Get("Authorization") + r.Header.Get("Cookie") + r.Header.Get("Referer"); got != "" {
				t.Errorf("%s: another host was sent %q", name, got)
			}
			w.Header().Set("Www-Authenticate", `Basic realm="mine"`)
			w.WriteHeader(http.StatusUnauthorized)
		}
	}
	for name, tc := range map[string]struct {
		token bool
		fault func(to string) *registrytest.Fault
	}{
		"redirect":            {false, func(to string) *registrytest.Fault { return &registrytest.Fault{Redirect: to + "/v2/x"} }},
		"redirect with token": {true, func(to string) *registrytest.Fault { return &registrytest.Fault{Redirect: to + "/v2/x"} }},
		"next page": {false, func(to string) *registrytest.Fault {
			return &registrytest.Fault{Status: 200, Body: `{"tags":["1.0.0"]}`, Header: http.Header{"Link": {fmt.Sprintf(`<%s/v2/shop/tags/list?last=1>; rel="next"`, to)}}}
		}},
		"next page with token": {true, func(to string) *registrytest.Fault {
			return &registrytest.Fault{Status: 200, Body: `{"tags":["1.0.0"]}`, Header: http.Header{"Link": {fmt.Sprintf(`<%s/v2/shop/tags/list?last=1>; rel="next"`, to)}}}
		}},
	} {
		other := newWeb(t, false, seen(name))
		opts := registrytest.Options{Username: "me", Password: "secret", Fault: func(*http.Request) *registrytest.Fault { return tc.fault(other.URL) }}
		if tc.token {
			opts.Token = &registrytest.TokenOptions{}
		}
		reg := registrytest.New(t, opts)
		settings := quick()
		settings.ConfigFile = write(t, filepath.Join(t.TempDir(), "config.json"), fmt.Sprintf(`{"auths":{%q:{"username":"me","password":"secret"},%q:{"username":"other","password":"other"}}}`, reg.Host, other.host()), 0o600)
		_, err := client(t, settings).List(t.Context(), location(t, "oci://"+reg.Host+"/shop"))
		if asked := len(other.logins()) > 0; err == nil || asked != strings.HasPrefix(name, "redirect") {
			t.Errorf("%s: %v; the other host was asked: %v", name, err, asked)
		}
	}
	for _, entry := range []string{"", ", pass_credentials_all: true"} {
		other := newWeb(t, false, seen("chart repository"))
		repo := newWeb(t, false, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL+"/x?sig=marker", http.StatusFound)
		})
		c := client(t, helmHome(t, fmt.Sprintf("repositories: [{name: corp, url: %s, username: me, password: secret%s}]", repo.URL, entry), ""))
		_, err := get(t, c, repo.URL, repo.URL+"/x?sig=marker")
		var denied *registry.DeniedError
		if !errors.As(err, &denied) || denied.Host != other.host() || strings.Contains(err.Error(), "marker") {
			t.Errorf("chart repository: %v", err)
		}
	}
}

// An identity token, in the file or from a helper, buys tokens; it goes to the
// token service and nowhere else.
func TestIdentityToken(t *testing.T) {
	kept := keychain(t, "mine")
	reg := registrytest.New(t, registrytest.Options{Username: "nobody", Password: "nothing", Token: &registrytest.TokenOptions{Identity: "marker"}})
	write(t, filepath.Join(kept, reg.Host), `{"Username":"<token>","Secret":"marker"}`, 0o600)
	for name, config := range map[string]string{
		"in the file":   fmt.Sprintf(`{"auths":{%q:{"auth":"","identitytoken":"marker"}}}`, reg.Host),
		"from a helper": `{"credsStore":"mine"}`,
	} {
		settings := quick()
		settings.ConfigFile = write(t, filepath.Join(t.TempDir(), "config.json"), config, 0o600)
		store(t, client(t, settings), "oci://"+reg.Host+"/shop", "1.0.0", newSample(t, name))
		requests := reg.TokenRequests()
		if last := requests[len(requests)-1]; last.Login != "identity" || last.Method != http.MethodPost {
			t.Errorf("%s: the token service was asked %+v", name, last)
		}
	}
	for _, r := range reg.Requests() {
		if r.Authorization != "" && r.Authorization != "Bearer" {
			t.Errorf("the registry was sent %s", r.Authorization)
		}
	}
}
