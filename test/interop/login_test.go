package interop_test

import (
	"testing"

	"golang.org/x/crypto/bcrypt"
)

const password = "pass word:of the tests"

// testLogin logs in with ours and reads with every tool, then logs in with every
// tool and reads with ours, at registries that want a login.
func (b *bench) testLogin(t *testing.T) {
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	b.write(t, "htpasswd", "me:"+string(hash)+"\n")
	b.write(t, "password", password+"\n")
	for _, name := range []string{"distribution-2.8", "distribution-3"} {
		r, ok := b.startRegistry(t, name, "auth: {htpasswd: {realm: tests, path: "+b.path("htpasswd")+"}}")
		if !ok {
			continue
		}
		t.Run(name+"/ours", func(t *testing.T) { b.oursThenTheirs(t, r) })
		t.Run(name+"/theirs", func(t *testing.T) { b.theirsThenOurs(t, r) })
	}
}

// fromStdin runs a program with the password on its standard input.
func (b *bench) fromStdin(t *testing.T, name string, args ...string) (string, error) {
	t.Helper()
	path, err := b.find(name)
	if err != nil {
		t.Skip(err)
	}
	return b.run(t, "sh", append([]string{"-c", `"$0" "$@" <password`, path}, args...)...)
}

func (b *bench) oursThenTheirs(t *testing.T, r registry) {
	if _, err := b.run(t, "bundle", "list", "oci://"+r.host+"/shop"); err == nil {
		t.Fatal("the registry wants no login")
	}
	if out, err := b.fromStdin(t, "bundle", "login", r.host, "--username", "me", "--password-stdin"); err != nil {
		t.Fatal(out, err)
	}
	b.must(t, "bundle", "build", "--no-images", "--unsigned", "-t", "oci://"+r.host+"/shop")
	for _, tool := range []struct {
		name string
		args []string
	}{
		{"oras", []string{"manifest", "fetch", "--plain-http", r.at("shop", tag)}},
		{"crane", []string{"digest", "--insecure", r.at("shop", tag)}},
		{"regctl", regctl([]registry{r}, "manifest", "head", r.at("shop", tag))},
		{"skopeo", []string{"inspect", "--raw", "--tls-verify=false", "docker://" + r.at("shop", tag)}},
		{"helm", []string{"pull", "--plain-http", "-d", "home", "oci://" + r.at("shop", b.release.charts["web"])}},
		{"docker", []string{"manifest", "inspect", "--insecure", r.at("shop", tag)}},
	} {
		t.Run(tool.name, func(t *testing.T) { b.must(t, tool.name, tool.args...) })
	}
	b.must(t, "bundle", "logout", r.host)
	if out, err := b.run(t, "bundle", "list", "oci://"+r.host+"/shop"); err == nil {
		t.Errorf("after logout: %s", out)
	}
	if out, err := b.run(t, "crane", "digest", "--insecure", r.at("shop", tag)); err == nil {
		t.Errorf("after logout: %s", out)
	}
}

func (b *bench) theirsThenOurs(t *testing.T, r registry) {
	for _, tool := range []struct {
		name          string
		login, logout []string
	}{
		{"oras", []string{"login", r.host, "--plain-http", "-u", "me", "--password-stdin"}, []string{"logout", r.host}},
		{"crane", []string{"auth", "login", r.host, "-u", "me", "--password-stdin"}, []string{"auth", "logout", r.host}},
		{"helm", []string{"registry", "login", r.host, "--plain-http", "-u", "me", "--password-stdin"}, []string{"registry", "logout", r.host}},
		{"skopeo", []string{"login", r.host, "--tls-verify=false", "--authfile", b.path("home/.docker/config.json"), "-u", "me", "--password-stdin"}, nil},
		{"docker", []string{"login", r.host, "-u", "me", "--password-stdin"}, []string{"logout", r.host}},
	} {
		t.Run(tool.name, func(t *testing.T) {
			if out, err := b.fromStdin(t, tool.name, tool.login...); err != nil {
				t.Fatal(out, err)
			}
			b.must(t, "bundle", "list", "oci://"+r.host+"/shop")
			if tool.logout != nil {
				b.must(t, tool.name, tool.logout...)
			}
			b.must(t, "bundle", "logout", r.host)
			if out, err := b.run(t, "bundle", "list", "oci://"+r.host+"/shop"); err == nil {
				t.Errorf("after logout: %s", out)
			}
		})
	}
}
