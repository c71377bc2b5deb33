package registry_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"waybill/internal/registrytest"
	"waybill/registry"
)

// faultAt is a fault for reading paths that end so.
func faultAt(suffix string, f *registrytest.Fault) func(*http.Request) *registrytest.Fault {
	return func(r *http.Request) *registrytest.Fault {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, suffix) {
			return f
		}
		return nil
	}
}

// times gives the faults one after the other, then none.
func times(suffix string, faults ...*registrytest.Fault) func(*http.Request) *registrytest.Fault {
	var n atomic.Int64
	at := faultAt(suffix, &registrytest.Fault{})
	return func(r *http.Request) *registrytest.Fault {
		if at(r) == nil {
			return nil
		}
		if i := int(n.Add(1)) - 1; i < len(faults) {
			return faults[i]
		}
		return nil
	}
}

// served is a registry with a sample in it, and the sample.
func served(t *testing.T, opts registrytest.Options) (*registrytest.Server, sample, string) {
	t.Helper()
	reg, s := registrytest.New(t, opts), newSample(t, "one")
	store(t, client(t, quick()), "oci://"+reg.Host+"/shop", "1.0.0", s)
	reg.Forget()
	return reg, s, "oci://" + reg.Host + "/shop:1.0.0"
}

// Every shape of "too many requests", one after the other, is waited out.
func TestRateLimited(t *testing.T) {
	date := time.Now().Add(time.Second).UTC().Format(http.TimeFormat)
	_, s, at := served(t, registrytest.Options{Fault: times("/manifests/1.0.0",
		&registrytest.Fault{Status: 429, Header: http.Header{"Retry-After": {"1"}}},
		&registrytest.Fault{Status: 429, Header: http.Header{"Retry-After": {date}}},
		&registrytest.Fault{Status: 429, Header: http.Header{"Content-Type": {"text/html"}}, Body: "<html>slow down</html>"},
		&registrytest.Fault{Status: 503},
	)})
	began := time.Now()
	src := open(t, client(t, registry.Settings{}), at)
	if src.Root.Digest != s.root.desc.Digest {
		t.Errorf("opened %s", src.Root.Digest)
	}
	if waited := time.Since(began); waited < time.Second {
		t.Errorf("waited %s, the registry asked for a second", waited)
	}
}

// One worker's 429 holds the others back too.
func TestRateLimitHoldsTheHost(t *testing.T) {
	reg, s, at := served(t, registrytest.Options{Fault: times("/manifests/1.0.0", nil,
		&registrytest.Fault{Status: 429, Header: http.Header{"Retry-After": {"1"}}})})
	c := client(t, registry.Settings{})
	src := open(t, c, at)
	var workers sync.WaitGroup
	workers.Go(func() { open(t, c, at) })
	for limited := false; !limited; time.Sleep(5 * time.Millisecond) {
		for _, r := range reg.Requests() {
			limited = limited || r.Status == 429
		}
	}
	time.Sleep(50 * time.Millisecond) // for the client to read the answer
	began := time.Now()
	if err := fetch(t.Context(), src, s.chart); err != nil {
		t.Fatal(err)
	}
	if waited := time.Since(began); waited < 500*time.Millisecond {
		t.Errorf("another request waited only %s", waited)
	}
	workers.Wait()
}

func TestPatienceIsSpent(t *testing.T) {
	for name, status := range map[string]int{"rate limited": 429, "answers 503": 503} {
		t.Run(name, func(t *testing.T) {
			reg, _, at := served(t, registrytest.Options{Fault: faultAt("/manifests/1.0.0", &registrytest.Fault{Status: status})})
			_, err := client(t, quick()).Open(t.Context(), location(t, at))
			var unreachable *registry.UnreachableError
			if !errors.As(err, &unreachable) || unreachable.Status != status || unreachable.Host != reg.Host || !strings.Contains(err.Error(), name) {
				t.Errorf("got %v", err)
			}
			if n := len(reg.Requests()); n != 3 {
				t.Errorf("%d requests, want one and two more", n)
			}
		})
	}
}

// What won't get better is not tried again, and says what it is.
func TestAnswers(t *testing.T) {
	for name, tc := range map[string]struct {
		fault registrytest.Fault
		check func(error) bool
	}{
		"400": {registrytest.Fault{Status: 400, Body: `{"errors":[{"code":"NAME_INVALID","message":"what\u001b[31m?"}]}`}, func(err error) bool {
			var e *registry.ResponseError
			return errors.As(err, &e) && e.Status == 400 && strings.Contains(err.Error(), "what [31m?")
		}},
		"403": {registrytest.Fault{Status: 403}, func(err error) bool {
			var e *registry.DeniedError
			return errors.As(err, &e) && e.Status == 403
		}},
		"401": {registrytest.Fault{Status: 401}, func(err error) bool {
			var e *registry.DeniedError
			return errors.As(err, &e) && e.Status == 401
		}},
	} {
		t.Run(name, func(t *testing.T) {
			reg, _, at := served(t, registrytest.Options{Fault: faultAt("/manifests/1.0.0", &tc.fault)})
			_, err := client(t, quick()).Open(t.Context(), location(t, at))
			if !tc.check(err) {
				t.Errorf("got %T %v", err, err)
			}
			if n := len(reg.Requests()); n != 1 {
				t.Errorf("%d requests, want 1", n)
			}
		})
	}
}

func TestRepositoryOrTagNotFound(t *testing.T) {
	reg, _, _ := served(t, registrytest.Options{})
	for at, what := range map[string]string{"/shop:2.0.0": "tag 2.0.0 not found; there is 1.0.0", "/nothing:1.0.0": "repository not found"} {
		_, err := client(t, quick()).Open(t.Context(), location(t, "oci://"+reg.Host+at))
		var notFound *registry.NotFoundError
		if !errors.As(err, &notFound) || !strings.Contains(err.Error(), what) || notFound.Host != reg.Host {
			t.Errorf("%s: %v", at, err)
		}
	}
}

// No tag: the newest five are named, as locations that can be opened.
func TestNewestVersions(t *testing.T) {
	reg, s, _ := served(t, registrytest.Options{})
	c := client(t, quick())
	dst, err := c.Create(t.Context(), location(t, "oci://"+reg.Host+"/shop"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tag := range []string{"0.9.0", "1.10.0", "1.9.0", "1.10.0-rc.1", "latest", "1.2.0_build"} {
		if err := dst.Tag(t.Context(), s.root.desc, tag); err != nil {
			t.Fatal(err)
		}
	}
	_, err = c.Open(t.Context(), location(t, "oci://"+reg.Host+"/shop"))
	var choice *registry.ChoiceError
	if !errors.As(err, &choice) {
		t.Fatal(err)
	}
	got := strings.ReplaceAll(strings.Join(choice.Choices, " "), "oci://"+reg.Host+"/shop:", "")
	if want := "1.10.0 1.10.0-rc.1 1.9.0 1.2.0_build 1.0.0"; got != want {
		t.Errorf("choices %s, want %s", got, want)
	}
	open(t, c, choice.Choices[0])
}

// A host that stands still is given up, before and within an answer, and asked
// again on a new connection.
func TestIdle(t *testing.T) {
	s := newSample(t, "one")
	for name, f := range map[string]*registrytest.Fault{"no answer": {Hang: true}, "stops within": {Stall: 1000}} {
		t.Run(name, func(t *testing.T) {
			_, _, at := served(t, registrytest.Options{Fault: times(s.imageLayer.desc.Digest.String(), f)})
			if err := fetch(t.Context(), open(t, client(t, quick()), at), s.imageLayer); err != nil {
				t.Errorf("the second try failed: %v", err)
			}
		})
		t.Run(name+" for ever", func(t *testing.T) {
			reg, _, at := served(t, registrytest.Options{Fault: faultAt(s.imageLayer.desc.Digest.String(), f)})
			settings := quick()
			settings.Retry = -1
			err := fetch(t.Context(), open(t, client(t, settings), at), s.imageLayer)
			var unreachable *registry.UnreachableError
			if !errors.As(err, &unreachable) || !strings.Contains(err.Error(), "sent nothing for 300ms") || unreachable.Host != reg.Host {
				t.Errorf("got %v", err)
			}
		})
	}
}

// Interrupting ends a wait at once.
func TestInterrupt(t *testing.T) {
	_, _, at := served(t, registrytest.Options{Fault: faultAt("/manifests/1.0.0", &registrytest.Fault{Hang: true})})
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	began := time.Now()
	_, err := client(t, registry.Settings{}).Open(ctx, location(t, at))
	if !errors.Is(err, context.Canceled) || time.Since(began) > time.Second {
		t.Errorf("ended after %s with %v", time.Since(began), err)
	}
}

// A connection that is lost within a blob costs only the rest of the blob.
func TestLostConnection(t *testing.T) {
	s := newSample(t, "one")
	_, _, at := served(t, registrytest.Options{Fault: times(s.imageLayer.desc.Digest.String(), &registrytest.Fault{Drop: true}, &registrytest.Fault{Cut: 2000}, &registrytest.Fault{Cut: 9000})})
	if err := fetch(t.Context(), open(t, client(t, registry.Settings{}), at), s.imageLayer); err != nil {
		t.Error(err)
	}
}

// A redirect to other storage is followed without the login, and what comes
// from there is checked all the same.
func TestRedirect(t *testing.T) {
	s := newSample(t, "one")
	body, seen := string(s.imageLayer.data), make(chan http.Header, 4)
	storage := registrytest.New(t, registrytest.Options{Fault: func(r *http.Request) *registrytest.Fault {
		seen <- r.Header.Clone()
		return &registrytest.Fault{Status: 200, Body: body}
	}})
	reg := registrytest.New(t, registrytest.Options{Username: "me", Password: "secret",
		Fault: faultAt("/blobs/"+s.imageLayer.desc.Digest.String(), &registrytest.Fault{Redirect: storage.URL + "/v2/signed?X-Signature=hidden"})})
	settings := quick()
	settings.ConfigFile = configFile(t, reg.Host, "me", "secret")
	c := client(t, settings)
	store(t, c, "oci://"+reg.Host+"/shop", "1.0.0", s)
	src := open(t, c, "oci://"+reg.Host+"/shop:1.0.0")
	if err := fetch(t.Context(), src, s.imageLayer); err != nil {
		t.Fatal(err)
	}
	if login := (<-seen).Get("Authorization"); login != "" {
		t.Errorf("the storage was sent the login %q", login)
	}
	body = strings.Replace(body, "one", "two", 1)
	wantContentError(t, fetch(t.Context(), src, s.imageLayer), s.imageLayer)
}

func TestRedirectWithoutEndOrTLS(t *testing.T) {
	plain := registrytest.New(t, registrytest.Options{})
	var secure *registrytest.Server
	var to atomic.Value
	secure = registrytest.New(t, registrytest.Options{TLS: true, Fault: func(r *http.Request) *registrytest.Fault {
		return &registrytest.Fault{Redirect: to.Load().(string) + r.URL.Path}
	}})
	settings := quick()
	settings.TLSHosts, settings.CAFiles = []string{secure.Host}, []string{caFile(t, secure)}
	for target, words := range map[string]string{plain.URL: "without TLS, which is refused", secure.URL: "stopped after 10 redirects"} {
		to.Store(target)
		_, err := client(t, settings).Open(t.Context(), location(t, "oci://"+secure.Host+"/shop:1.0.0"))
		var unreachable *registry.UnreachableError
		if !errors.As(err, &unreachable) || !strings.Contains(err.Error(), words) {
			t.Errorf("to %s: %v", target, err)
		}
	}
	if n := len(plain.Requests()); n != 0 {
		t.Errorf("%d requests went to the host without TLS", n)
	}
}

func caFile(t *testing.T, reg *registrytest.Server) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, reg.CA(), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestUnreachable(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host := listener.Addr().String()
	listener.Close()
	plain := registrytest.New(t, registrytest.Options{})
	for at, words := range map[string]string{
		host:             "connection refused",
		"nosuch.invalid": "nosuch.invalid",
		plain.Host:       "plain HTTP where TLS was expected",
	} {
		settings := quick()
		settings.TLSHosts = []string{plain.Host}
		_, err := client(t, settings).Open(t.Context(), location(t, "oci://"+at+"/shop:1.0.0"))
		var unreachable *registry.UnreachableError
		if !errors.As(err, &unreachable) || unreachable.Host != at || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v", at, err)
		}
	}
}

// A bad certificate file is named before anything is dialled.
func TestBadFiles(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]registry.Settings{
		"absent.pem":    {CAFiles: []string{"absent.pem"}},
		"empty.pem":     {CAFiles: []string{empty}},
		"both":          {CertFile: empty},
		"key.pem":       {CertFile: empty, KeyFile: "key.pem"},
		"absent-config": {ConfigFile: "absent-config"},
	} {
		if _, err := registry.NewClient(s); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWrapSeesEveryRequest(t *testing.T) {
	reg, _, at := served(t, registrytest.Options{})
	var n atomic.Int64
	settings := quick()
	settings.Wrap = func(rt http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) { n.Add(1); return rt.RoundTrip(r) })
	}
	open(t, client(t, settings), at)
	if got, want := int(n.Load()), len(reg.Requests()); got != want || got == 0 {
		t.Errorf("saw %d of %d requests", got, want)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A proxy that can't be reached is named, without its login, and not the host
// behind it.
func TestProxyUnreachable(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	proxy := listener.Addr().String()
	listener.Close()
	for _, scheme := range []string{"HTTP", "HTTPS"} {
		settings := registry.Settings{Retry: -1, Getenv: func(name string) string {
			return map[string]string{scheme + "_PROXY": "http://me:marker@" + proxy}[name]
		}}
		if scheme == "HTTP" {
			settings.PlainHTTPHosts = []string{"registry.invalid"}
		}
		_, err := client(t, settings).List(t.Context(), location(t, "oci://registry.invalid/shop"))
		var unreachable *registry.UnreachableError
		if !errors.As(err, &unreachable) || !strings.Contains(err.Error(), "the proxy of the environment, "+proxy+": connection refused") || strings.Contains(err.Error(), "marker") {
			t.Errorf("%s: %v", scheme, err)
		}
	}
}
