package registry_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"waybill/internal/registrytest"
	"waybill/registry"
)

// One error lists every repository that must be created or granted, in words
// that tell the one from the other where the registry does. Nothing is left.
func TestProbe(t *testing.T) {
	for absent, tc := range map[registrytest.Absent]struct {
		state registry.TargetState
		words string
	}{
		registrytest.AbsentUnknown: {registry.TargetAbsent, "to create (404: repository name not known to registry): "},
		registrytest.AbsentClosed:  {registry.TargetClosed, "to create, probably (the connection is closed"},
		registrytest.AbsentDenied:  {registry.TargetDenied, "to grant the right to push for (403: requested access to the resource is denied; credentials from "},
		registrytest.AbsentLogin:   {registry.TargetUnclear, "to create, or to grant the right to push for (401: authentication required; the login is good: credentials from "},
	} {
		t.Run(string(absent), func(t *testing.T) {
			reg := registrytest.New(t, registrytest.Options{Username: "me", Password: "secret", Absent: absent, Repositories: []string{"there"}})
			settings := quick()
			settings.ConfigFile = configFile(t, reg.Host, "me", "secret")
			c := client(t, settings)
			at := func(name string) registry.Location { return location(t, "oci://"+reg.Host+"/"+name+":1.0.0") }
			if err := c.Probe(t.Context(), at("there"), location(t, "./layout/")); err != nil {
				t.Errorf("a repository that is there: %v", err)
			}
			err := c.Probe(t.Context(), at("b"), at("there"), at("a"), at("b"))
			var targets *registry.TargetsError
			if !errors.As(err, &targets) || len(targets.Targets) != 2 || targets.Targets[0].State != tc.state || targets.Targets[1].State != tc.state {
				t.Fatalf("got %v", err)
			}
			if !strings.Contains(err.Error(), tc.words) || !strings.HasSuffix(err.Error(), ": "+reg.Host+"/a "+reg.Host+"/b") || !strings.Contains(err.Error(), "nothing was uploaded") {
				t.Errorf("says %v", err)
			}
			if n := reg.Sessions(); n != 0 {
				t.Errorf("%d sessions are left", n)
			}
			asked := 0
			for _, r := range reg.Requests() {
				if r.Method == http.MethodPost && strings.Contains(r.Path, "/v2/b/") && r.Authorization != "" {
					asked++
				}
			}
			if asked > 4 {
				t.Errorf("asked %d times for the same", asked)
			}
		})
	}
}

// A login that is not there or no good is another matter than a repository.
func TestProbeWithoutLogin(t *testing.T) {
	for _, opts := range []registrytest.Options{
		{Username: "me", Password: "secret"},
		{Username: "me", Password: "secret", Token: &registrytest.TokenOptions{}},
	} {
		reg := registrytest.New(t, opts)
		for _, password := range []string{"", "wrong"} {
			settings := quick()
			settings.ConfigFile = configFile(t, "other.example", "me", "x")
			if password != "" {
				settings.ConfigFile = configFile(t, reg.Host, "me", password)
			}
			err := client(t, settings).Probe(t.Context(), location(t, "oci://"+reg.Host+"/shop"))
			var targets *registry.TargetsError
			if !errors.As(err, &targets) || targets.Targets[0].State != registry.TargetLogin || !strings.Contains(err.Error(), settings.ConfigFile) || strings.Contains(err.Error(), "secret") {
				t.Errorf("password %q: %v", password, err)
			}
		}
	}
}

// A host that is not there is no matter of repositories.
func TestProbeUnreachable(t *testing.T) {
	gone := registrytest.New(t, registrytest.Options{})
	absent := registrytest.New(t, registrytest.Options{Absent: registrytest.AbsentUnknown})
	gone.Close()
	err := client(t, quick()).Probe(t.Context(), location(t, "oci://"+gone.Host+"/shop"), location(t, "oci://"+absent.Host+"/shop"))
	var unreachable *registry.UnreachableError
	var targets *registry.TargetsError
	if !errors.As(err, &unreachable) || unreachable.Host != gone.Host || !errors.As(err, &targets) {
		t.Errorf("got %v", err)
	}
}

func TestCommandsToCreate(t *testing.T) {
	e := &registry.TargetsError{Targets: []registry.Target{
		{Host: "1234.dkr.ecr.eu-west-1.amazonaws.com", Repository: "team/shop"},
		{Host: "1234.dkr.ecr.eu-west-1.amazonaws.com", Repository: "team/denied", State: registry.TargetDenied},
		{Host: "registry.example", Repository: "team/shop"},
	}}
	if got := strings.Join(e.Commands(), "\n"); got != "aws ecr create-repository --region eu-west-1 --repository-name team/shop" {
		t.Errorf("got %q", got)
	}
}
