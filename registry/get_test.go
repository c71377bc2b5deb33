package registry_test

import (
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"oras.land/oras-go/v2/errdef"

	"waybill/registry"
)

// web is a server that notes the login of every request.
type web struct {
	*httptest.Server
	mu   sync.Mutex
	seen []string // "PATH USER:PASSWORD"
}

func newWeb(t *testing.T, tls bool, answer http.HandlerFunc) *web {
	t.Helper()
	w := newUnstartedWeb(answer)
	if tls {
		w.StartTLS()
	} else {
		w.Start()
	}
	t.Cleanup(w.Close)
	return w
}

func newUnstartedWeb(answer http.HandlerFunc) *web {
	w := &web{}
	w.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		w.mu.Lock()
		w.seen = append(w.seen, r.URL.Path+" "+user+":"+password)
		w.mu.Unlock()
		answer(rw, r)
	}))
	w.Config.ErrorLog = log.New(io.Discard, "", 0)
	return w
}

func (w *web) host() string {
	return strings.TrimPrefix(strings.TrimPrefix(w.URL, "https://"), "http://")
}

func (w *web) logins() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.seen...)
}

func (w *web) ca(t *testing.T) string {
	data := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.Certificate().Raw})
	return write(t, filepath.Join(t.TempDir(), "ca.pem"), string(data), 0o600)
}

func hello(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "hello") }

// helmHome is settings with a home folder that holds these two files.
func helmHome(t *testing.T, repositories, netrc string) registry.Settings {
	t.Helper()
	settings := quick()
	settings.Home = t.TempDir()
	settings.Getenv = func(name string) string {
		if name == "HELM_CONFIG_HOME" {
			return filepath.Join(settings.Home, "helm")
		}
		return ""
	}
	if repositories != "" {
		write(t, filepath.Join(settings.Home, "helm", "repositories.yaml"), repositories, 0o600)
	}
	if netrc != "" {
		write(t, filepath.Join(settings.Home, ".netrc"), netrc, 0o600)
	}
	return settings
}

func get(t *testing.T, c *registry.Client, base, address string) (string, error) {
	t.Helper()
	rc, err := c.Get(t.Context(), base, address)
	if err != nil {
		return "", err
	}
	defer rc.Close()
	data, err := io.ReadAll(rc)
	return string(data), err
}

// The login of the longest prefix is sent, to the repository's own host and
// port, and to others when its entry says so.
func TestChartRepositoryLogins(t *testing.T) {
	repo, other := newWeb(t, false, hello), newWeb(t, false, hello)
	entries := func(all string) string {
		return fmt.Sprintf(`apiVersion: ""
repositories:
- {name: all, url: %q, username: all, password: one}
- {name: team, url: "%s/team/", username: team, password: two, pass_credentials_all: %s}
- {name: elsewhere, url: %q, username: elsewhere, password: three}
`, repo.URL, repo.URL, all, other.URL)
	}
	netrc := "machine 127.0.0.1 login net password rc"
	for name, tc := range map[string]struct {
		repositories, netrc, base, address string
		want                               string
	}{
		"no files":                 {"", "", repo.URL, repo.URL + "/index.yaml", ":"},
		"an entry":                 {entries("false"), netrc, repo.URL + "/", repo.URL + "/index.yaml", "all:one"},
		"the longest":              {entries("false"), netrc, repo.URL + "/team", repo.URL + "/team/index.yaml", "team:two"},
		"a part of a name":         {entries("false"), netrc, repo.URL + "/teams", repo.URL + "/teams/index.yaml", "all:one"},
		"below a prefix":           {entries("false"), netrc, repo.URL + "/team/a", repo.URL + "/x.tgz", "team:two"},
		"another port":             {entries("false"), "", repo.URL, other.URL + "/x.tgz", ":"},
		"another port, allowed":    {entries("true"), "", repo.URL + "/team", other.URL + "/x.tgz", "team:two"},
		"netrc":                    {"", netrc, repo.URL, repo.URL + "/x.tgz", "net:rc"},
		"netrc, another port":      {"", netrc, repo.URL, other.URL + "/x.tgz", ":"},
		"netrc, another machine":   {"", "machine elsewhere login a password b", repo.URL, repo.URL + "/x.tgz", ":"},
		"netrc, default":           {"", "default login a password b", repo.URL, repo.URL + "/x.tgz", ":"},
		"an entry without a login": {"repositories: [{name: a, url: " + repo.URL + "}]", netrc, repo.URL, repo.URL + "/x.tgz", "net:rc"},
	} {
		t.Run(name, func(t *testing.T) {
			c := client(t, helmHome(t, tc.repositories, tc.netrc))
			if got, err := get(t, c, tc.base, tc.address); err != nil || got != "hello" {
				t.Fatalf("got %q, %v", got, err)
			}
			server := repo
			if strings.HasPrefix(tc.address, other.URL) {
				server = other
			}
			seen := server.logins()
			if last := seen[len(seen)-1]; !strings.HasSuffix(last, " "+tc.want) {
				t.Errorf("the server saw %q, want %q", last, tc.want)
			}
		})
	}
}

// What a chart repository refuses says what was asked and where the login came from.
func TestChartRepositoryErrors(t *testing.T) {
	status := http.StatusNotFound
	repo := newWeb(t, false, func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(status) })
	settings := helmHome(t, "repositories: [{name: corp, url: "+repo.URL+", username: me, password: marker}]", "")
	c, address := client(t, settings), repo.URL+"/index.yaml?sig=marker"
	_, err := get(t, c, repo.URL, address)
	var notFound *registry.NotFoundError
	if !errors.As(err, &notFound) || !errors.Is(err, errdef.ErrNotFound) || !strings.Contains(err.Error(), repo.URL+"/index.yaml?sig=masked") {
		t.Errorf("absent: %v", err)
	}
	for _, status = range []int{http.StatusUnauthorized, http.StatusForbidden} {
		_, err := get(t, c, repo.URL, address)
		var denied *registry.DeniedError
		want := "credentials from " + filepath.Join(settings.Home, "helm", "repositories.yaml") + " (corp)"
		if !errors.As(err, &denied) || denied.Status != status || denied.Credentials != want || strings.Contains(err.Error(), "marker") {
			t.Errorf("%d: %v", status, err)
		}
		_, err = get(t, client(t, helmHome(t, "", "")), repo.URL, address)
		if !errors.As(err, &denied) || !strings.Contains(denied.Credentials, "no credentials in ") || !strings.Contains(denied.Credentials, ".netrc") {
			t.Errorf("%d without a login: %v", status, err)
		}
	}
	status = http.StatusServiceUnavailable
	var unreachable *registry.UnreachableError
	if _, err := get(t, c, repo.URL, address); !errors.As(err, &unreachable) || unreachable.Status != status {
		t.Errorf("busy: %v", err)
	}
	if n := len(repo.logins()); n < 7 { // five answers, and a busy one three times
		t.Errorf("%d requests: a busy host was asked once only", n)
	}
	repo.Close()
	if _, err := get(t, c, repo.URL, address); !errors.As(err, &unreachable) || strings.Contains(err.Error(), "marker") {
		t.Errorf("gone: %v", err)
	}
}

// An address with a login in it is refused, and not repeated.
func TestLoginInAddress(t *testing.T) {
	c := client(t, quick())
	ask := map[string]func(string) error{
		"get":    func(s string) error { _, err := get(t, c, s, s); return err },
		"a file": func(s string) error { _, err := get(t, c, "https://charts.example", s); return err },
		"git":    func(s string) error { _, err := c.Git(t.Context(), s); return err },
		"repository": func(s string) error {
			_, err := c.Repository(t.Context(), strings.TrimPrefix(s, "https://"))
			return err
		},
	}
	for name, ask := range ask {
		for _, login := range []string{"marker", "me:marker", ":marker", "me:mar%zzker"} {
			err := ask("https://" + login + "@charts.example/x")
			var wrong *registry.LocationError
			if !errors.As(err, &wrong) || strings.Contains(err.Error(), "mar") {
				t.Errorf("%s with %s: %v", name, login, err)
			}
		}
	}
	for address, ok := range map[string]bool{"ssh://git@host.example/x": true, "git@host.example:x": true, "ssh://git:marker@host.example/x": false} {
		_, err := c.Git(t.Context(), address)
		if (err == nil) != ok || err != nil && strings.Contains(err.Error(), "marker") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// Names of repositories are those that helm repo add gave.
func TestRepositoryURL(t *testing.T) {
	c := client(t, helmHome(t, "repositories: [{name: corp, url: https://charts.example/x}]", ""))
	if got, err := c.RepositoryURL("corp"); err != nil || got != "https://charts.example/x" {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := c.RepositoryURL("corpse"); !errors.Is(err, errdef.ErrNotFound) || !strings.Contains(err.Error(), "there is corp") {
		t.Errorf("unknown: %v", err)
	}
	var broken *registry.CredentialsError
	settings := helmHome(t, "repositories: [marker", "")
	if _, err := client(t, settings).RepositoryURL("corp"); !errors.As(err, &broken) || strings.Contains(err.Error(), "marker") {
		t.Errorf("a broken file: %v", err)
	}
}

// A file whose connection is lost, or stands still, is read to its end all the
// same; one that changed meanwhile is not pieced together.
func TestChartRepositoryLosses(t *testing.T) {
	content := strings.Repeat("an index of charts\n", 10_000)
	for name, tc := range map[string]struct {
		cut   []int // where each answer is cut off
		stall bool
		now   func(n int) string // the content of the nth answer
		words string             // of the error, empty for none
	}{
		"lost thrice":    {cut: []int{0, 5000, 90_000}},
		"stands still":   {cut: []int{70_000}, stall: true},
		"lost too often": {cut: []int{100, 101, 102, 103, 104}, words: "unexpected EOF"},
		"changed":        {cut: []int{5000}, now: func(n int) string { return fmt.Sprint(n) + content }, words: "the file changed while it was read"},
		"shorter now":    {cut: []int{5000}, now: func(n int) string { return content[:len(content)>>(n*8)] }, words: "the file changed while it was read"},
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			repo := newWeb(t, false, func(w http.ResponseWriter, r *http.Request) {
				text := content
				if tc.now != nil {
					text = tc.now(n)
				}
				w.Header().Set("Content-Length", fmt.Sprint(len(text)))
				if n++; n > len(tc.cut) {
					_, _ = io.WriteString(w, text)
					return
				}
				_, _ = io.WriteString(w, text[:tc.cut[n-1]])
				_ = http.NewResponseController(w).Flush()
				if tc.stall {
					<-r.Context().Done()
				}
				panic(http.ErrAbortHandler)
			})
			got, err := get(t, client(t, quick()), repo.URL, repo.URL+"/index.yaml")
			var unreachable *registry.UnreachableError
			switch {
			case tc.words == "" && (err != nil || got != content):
				t.Errorf("%d bytes, %v", len(got), err)
			case tc.words != "" && (!errors.As(err, &unreachable) || !strings.Contains(err.Error(), tc.words)):
				t.Errorf("got %v", err)
			}
		})
	}
}
