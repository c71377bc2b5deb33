package credentials

import (
	"os"
	"path/filepath"
	"testing"

	"oras.land/oras-go/v2/registry/remote/auth"

	"waybill/internal/ref"
)

// All names of the Hub are one.
func TestHubNames(t *testing.T) {
	for _, key := range []string{"https://index.docker.io/v1/", "docker.io", "index.docker.io", "registry-1.docker.io", "docker.io/team", "index.docker.io/team/shop"} {
		file := filepath.Join(t.TempDir(), "config.json")
		if err := os.WriteFile(file, []byte(`{"auths":{"`+key+`":{"username":"me","password":"secret"}}}`), 0o600); err != nil {
			t.Fatal(err)
		}
		store := New(Places{ConfigFile: file})
		find := store.ForRepository(ref.Reference{Host: "docker.io", Repository: "team/shop"})
		cred, err := find(t.Context(), "registry-1.docker.io")
		if err != nil || cred != (auth.Credential{Username: "me", Password: "secret"}) {
			t.Errorf("under %s: %+v, %v", key, cred, err)
		}
		if store.Source("docker.io/team/shop") == "no credentials in "+file {
			t.Errorf("under %s: the source is forgotten", key)
		}
		if cred, err := find(t.Context(), "elsewhere.example"); err != nil || cred != auth.EmptyCredential {
			t.Errorf("under %s: another host gets %+v, %v", key, cred, err)
		}
	}
}

func TestConfigFiles(t *testing.T) {
	for name, tc := range map[string]struct {
		places Places
		want   []string
	}{
		"given":     {Places{ConfigFile: "mine.json", Home: "/home/me"}, []string{"mine.json"}},
		"variables": {Places{Home: "/home/me", Getenv: env("DOCKER_CONFIG", "/d", "HELM_REGISTRY_CONFIG", "/h.json")}, []string{"/d/config.json", "/h.json"}},
		"helm home": {Places{Home: "/home/me", Getenv: env("HELM_CONFIG_HOME", "/h")}, []string{"/home/me/.docker/config.json", "/h/registry/config.json"}},
		"xdg":       {Places{Getenv: env("XDG_CONFIG_HOME", "/x")}, []string{"/x/helm/registry/config.json"}},
		"none":      {Places{}, nil},
	} {
		got := New(tc.places).files
		if len(got) != len(tc.want) {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
			continue
		}
		for i := range got {
			if filepath.ToSlash(got[i]) != tc.want[i] {
				t.Errorf("%s: %v, want %v", name, got, tc.want)
			}
		}
	}
}

func env(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}
