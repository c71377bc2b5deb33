package registry_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"waybill/internal/registrytest"
	"waybill/registry"
)

// Reading goes to the cache with the cache's login, under the upstream's name;
// writing goes to the upstream.
func TestOverrideRegistry(t *testing.T) {
	cache := registrytest.New(t, registrytest.Options{Username: "me", Password: "secret"})
	upstream, s := registrytest.New(t, registrytest.Options{}), newSample(t, "one")
	settings := quick()
	settings.ConfigFile = configFile(t, cache.Host, "me", "secret")
	store(t, client(t, settings), "oci://"+cache.Host+"/hub/team/shop", "1.0.0", s)
	cache.Forget()

	settings.Overrides = map[string]string{upstream.Host: cache.Host + "/elsewhere", upstream.Host + "/team": "oci://" + cache.Host + "/hub/team/"}
	c, at := client(t, settings), "oci://"+upstream.Host+"/team/shop"
	src := open(t, c, at+":1.0.0")
	contractContent(t, src, s)
	if got := src.Location.String(); got != at+":1.0.0@"+s.root.desc.Digest.String() {
		t.Errorf("the location is %s", got)
	}
	if tags, err := c.List(t.Context(), location(t, at)); err != nil || len(tags) != 1 {
		t.Errorf("tags: %q, %v", tags, err)
	}
	repository, err := c.Repository(t.Context(), upstream.Host+"/team/shop")
	if err != nil {
		t.Fatal(err)
	}
	if desc, err := repository.Resolve(t.Context(), "1.0.0"); err != nil || desc.Digest != s.root.desc.Digest {
		t.Errorf("repository: %v, %v", desc, err)
	}
	if n := len(upstream.Requests()); n != 0 {
		t.Errorf("%d requests went upstream", n)
	}
	if _, err := c.Open(t.Context(), location(t, at+":2.0.0")); err == nil || !strings.Contains(err.Error(), at+" (read from "+cache.Host+"/hub/team/shop): tag 2.0.0 not found") {
		t.Errorf("absent: %v", err)
	}

	cache.Forget()
	store(t, c, at, "2.0.0", newSample(t, "two"))
	for _, r := range cache.Requests() {
		t.Errorf("writing asked the cache: %s %s", r.Method, r.Path)
	}
	settings.Overrides = nil
	open(t, client(t, settings), at+":2.0.0")
}

// Chart repositories are read from the cache too, with its login; an address
// that the index gives of another host has an override of its own.
func TestOverrideChartRepository(t *testing.T) {
	cache, upstream, files := newWeb(t, false, hello), newWeb(t, false, hello), newWeb(t, false, hello)
	settings := helmHome(t, fmt.Sprintf("repositories: [{name: c, url: %s/charts, username: me, password: secret},{name: u, url: %s, username: up, password: stream}]", cache.URL, upstream.URL), "")
	settings.Overrides = map[string]string{
		upstream.host():      cache.host() + "/charts/a",
		files.URL + "/files": cache.URL + "/charts/b%20b",
	}
	c := client(t, settings)
	for _, address := range []string{upstream.URL + "/x/index.yaml?a=b", files.URL + "/files/x.tgz", cache.URL + "/z.tgz"} {
		if got, err := get(t, c, upstream.URL+"/x", address); err != nil || got != "hello" {
			t.Fatalf("%s: %q, %v", address, got, err)
		}
	}
	want := "/charts/a/x/index.yaml me:secret, /charts/b b/x.tgz me:secret, /z.tgz me:secret"
	if got := strings.Join(cache.logins(), ", "); got != want {
		t.Errorf("the cache saw %s\nwant          %s", got, want)
	}
	if n := len(upstream.logins()) + len(files.logins()); n != 0 {
		t.Errorf("%d requests went upstream", n)
	}
	if _, err := get(t, c, files.URL, files.URL+"/filesystem"); err != nil || len(files.logins()) != 1 {
		t.Errorf("a part of a name was taken for a prefix: %v", err)
	}
}

// All names of the Hub are one, whichever the override has and whichever is read.
func TestOverrideHub(t *testing.T) {
	cache, s := registrytest.New(t, registrytest.Options{}), newSample(t, "one")
	store(t, client(t, quick()), "oci://"+cache.Host+"/hub/team/shop", "1.0.0", s)
	for _, name := range []string{"docker.io", "index.docker.io", "registry-1.docker.io", "oci://docker.io:443"} {
		settings := quick()
		settings.Overrides = map[string]string{name: cache.Host + "/hub", "https://docker.io": "https://nosuch.invalid"}
		for _, at := range []string{"docker.io", "registry-1.docker.io", "index.docker.io"} {
			open(t, client(t, settings), "oci://"+at+"/team/shop:1.0.0")
		}
	}
}

func TestBadOverride(t *testing.T) {
	for name, overrides := range map[string]map[string]string{
		"no cache":      {"quay.io": ""},
		"no upstream":   {"": "cache.example"},
		"a login":       {"quay.io": "https://me:marker@cache.example"},
		"other schemes": {"ftp://quay.io": "cache.example"},
		"two kinds":     {"oci://quay.io": "https://cache.example"},
		"twice":         {"quay.io": "cache.example", "QUAY.IO/": "elsewhere.example"},
		"a query":       {"quay.io": "cache.example/x?y"},
		"a way up":      {"quay.io": "cache.example/../x"},
	} {
		settings := quick()
		settings.Overrides = overrides
		var wrong *registry.OverrideError
		if _, err := registry.NewClient(settings); !errors.As(err, &wrong) || strings.Contains(err.Error(), "marker") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A chart repository that its entry trusts needs no other flag; the certificate
// files that the entry names must be there.
func TestChartRepositoryAuthority(t *testing.T) {
	repo := newWeb(t, true, hello)
	entry := "repositories: [{name: corp, url: " + repo.URL + ", %s}]"
	for name, ok := range map[string]bool{"caFile: " + repo.ca(t): true, "insecure_skip_tls_verify: true": true, "username: me": false, "caFile: " + filepath.Join(t.TempDir(), "none"): false} {
		got, err := get(t, client(t, helmHome(t, fmt.Sprintf(entry, name), "")), repo.URL, repo.URL+"/index.yaml")
		if (err == nil && got == "hello") != ok {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
