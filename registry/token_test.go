package registry_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"waybill/internal/registrytest"
	"waybill/registry"
)

// shortLived is a registry whose tokens are good for so long.
func shortLived(lifetime time.Duration) registrytest.Options {
	return registrytest.Options{Username: "me", Password: "secret", Token: &registrytest.TokenOptions{Lifetime: lifetime}}
}

func loggedIn(t *testing.T, reg *registrytest.Server, settings registry.Settings) *registry.Client {
	t.Helper()
	settings.ConfigFile = configFile(t, reg.Host, "me", "secret")
	return client(t, settings)
}

// count is how many requests of a method were answered so.
func count(reg *registrytest.Server, method, in string, status int) int {
	n := 0
	for _, r := range reg.Requests() {
		if r.Method == method && strings.Contains(r.Path, in) && r.Status == status {
			n++
		}
	}
	return n
}

// A blob that takes longer than its token costs a new token and the step that
// was refused, and no byte twice. Three hundred small ones follow.
func TestTokenExpiresDuringUpload(t *testing.T) {
	reg := registrytest.New(t, shortLived(400*time.Millisecond))
	c := loggedIn(t, reg, inChunks())
	p := random(t, 5000)
	pushed(t, c, reg.Host, p, &slow{Reader: bytes.NewReader(p.data), pauses: []time.Duration{0, 0, 600 * time.Millisecond, 0, 600 * time.Millisecond}})
	if n := count(reg, http.MethodPatch, "/uploads/", 202); n != 5 {
		t.Errorf("%d chunks were taken, want 5", n)
	}
	if n := count(reg, http.MethodPatch, "/uploads/", 401); n != 2 {
		t.Errorf("%d chunks were refused, want 2", n)
	}
	dst, err := c.Create(t.Context(), location(t, "oci://"+reg.Host+"/shop"))
	if err != nil {
		t.Fatal(err)
	}
	config := blob("application/vnd.oci.empty.v1+json", "{}")
	if err := dst.Push(t.Context(), config.desc, bytes.NewReader(config.data)); err != nil {
		t.Fatal(err)
	}
	tokens := len(reg.TokenRequests())
	var workers sync.WaitGroup
	for worker := range 4 {
		workers.Go(func() {
			for i := range 75 {
				m := image(t, config, fmt.Sprintf("application/vnd.example.%d.%d", worker, i), nil, config)
				if err := dst.Push(t.Context(), m.desc, bytes.NewReader(m.data)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	workers.Wait()
	if n := count(reg, http.MethodPut, "/manifests/", 201); n != 300 {
		t.Errorf("%d manifests were taken, want 300", n)
	}
	if n := len(reg.TokenRequests()) - tokens; n > 40 {
		t.Errorf("%d tokens for 300 manifests", n)
	}
}

// The commit is refused for its token: it is repeated, and not the body.
func TestTokenExpiresBeforeTheCommit(t *testing.T) {
	for _, size := range []int{900, 3000} {
		revoked := false
		var reg *registrytest.Server
		opts := shortLived(time.Hour)
		opts.Token.Refuse = func(r *http.Request) string {
			if r.Method == http.MethodPut && !revoked {
				revoked = true
				return "invalid_token"
			}
			return ""
		}
		reg = registrytest.New(t, opts)
		p := random(t, size)
		pushed(t, loggedIn(t, reg, inChunks()), reg.Host, p, onceOnly(p))
		if n := count(reg, http.MethodPatch, "/uploads/", 202); size > 1000 && n != 3 {
			t.Errorf("%d chunks, want 3", n)
		}
		if got := count(reg, http.MethodPut, "/uploads/", 401); got != 1 {
			t.Errorf("%d commits were refused", got)
		}
	}
}

// A registry that looks at the token when it has the body, over a line on which a
// body takes longer than a token is good: the blob goes up in pieces that don't.
func TestTokenExpiresWithinABody(t *testing.T) {
	const lifetime, bytesASecond = 1200 * time.Millisecond, 200_000
	var reg *registrytest.Server
	opts := shortLived(time.Hour)
	opts.Fault = func(r *http.Request) *registrytest.Fault {
		if r.Method != http.MethodPut && r.Method != http.MethodPatch {
			return nil
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return &registrytest.Fault{Drop: true}
		}
		took := time.Duration(len(body)) * time.Second / bytesASecond
		time.Sleep(took)
		if took > lifetime {
			return &registrytest.Fault{Status: 401, Header: http.Header{"Www-Authenticate": {`Bearer realm="` + reg.TokenURL() + `",service="test",scope="repository:shop:pull,push",error="invalid_token"`}}}
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		return nil
	}
	reg = registrytest.New(t, opts)
	p := random(t, 300_000)
	pushed(t, loggedIn(t, reg, registry.Settings{}), reg.Host, p, onceOnly(p))
	if n := count(reg, http.MethodPut, "/uploads/", 401); n != 2 {
		t.Errorf("it was sent whole %d times, want once and once with a new token", n)
	}
}

// A host without chunks refuses the whole blob for its token before it has
// taken it: content that can be read only once is still there.
func TestTokenExpiresBeforeAWholeUpload(t *testing.T) {
	refused := false
	opts := shortLived(time.Hour)
	opts.Uploads.RefuseChunks = 405
	opts.Token.Refuse = func(r *http.Request) string {
		if r.Method == http.MethodPut && !refused {
			refused = true
			return "invalid_token"
		}
		return ""
	}
	reg := registrytest.New(t, opts)
	p := random(t, 300_000)
	pushed(t, loggedIn(t, reg, inChunks()), reg.Host, p, onceOnly(p))
}

// A login that is refused a second time ends the upload, says where the login
// came from, and leaves no session.
func TestSecondRefusal(t *testing.T) {
	for _, method := range []string{http.MethodPost, http.MethodPatch, http.MethodPut} {
		opts := shortLived(time.Hour)
		opts.Token.Refuse = func(r *http.Request) string {
			if r.Method == method {
				return "invalid_token"
			}
			return ""
		}
		reg := registrytest.New(t, opts)
		settings := inChunks()
		settings.ConfigFile = configFile(t, reg.Host, "me", "secret")
		dst, err := client(t, settings).Create(t.Context(), location(t, "oci://"+reg.Host+"/shop"))
		if err != nil {
			t.Fatal(err)
		}
		p := random(t, 2500)
		err = dst.Push(t.Context(), p.desc, bytes.NewReader(p.data))
		var denied *registry.DeniedError
		if !errors.As(err, &denied) || !strings.Contains(err.Error(), "credentials rejected for oci://"+reg.Host+"/shop") || !strings.Contains(err.Error(), settings.ConfigFile) {
			t.Errorf("%s: %v", method, err)
		}
		if n := count(reg, method, "/uploads/", 401); n > 3 {
			t.Errorf("%s was tried %d times", method, n)
		}
		if n := reg.Sessions(); n != 0 {
			t.Errorf("%s: %d sessions are left", method, n)
		}
	}
}

// Source and target of a copy have tokens of their own.
func TestTokensAreSeparate(t *testing.T) {
	a, b := registrytest.New(t, shortLived(time.Hour)), registrytest.New(t, shortLived(time.Hour))
	settings := quick()
	settings.ConfigFile = write(t, t.TempDir()+"/config.json", fmt.Sprintf(`{"auths":{%q:{"username":"me","password":"secret"},%q:{"username":"me","password":"secret"}}}`, a.Host, b.Host), 0o600)
	c, p := client(t, settings), random(t, 100)
	pushed(t, c, a.Host, p, bytes.NewReader(p.data))
	pushed(t, c, b.Host, p, bytes.NewReader(p.data))
	for _, reg := range []*registrytest.Server{a, b} {
		if len(reg.TokenRequests()) == 0 {
			t.Error("a registry gave no token")
		}
		for _, r := range reg.TokenRequests() {
			for _, scope := range r.Scopes {
				if !strings.HasPrefix(scope, "repository:shop:") {
					t.Errorf("asked for %q", scope)
				}
			}
		}
	}
}
