package registry_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"waybill/internal/registrytest"
	"waybill/registry"
)

// Eight workers meet every shape of "too many requests", one after the other.
// Each pause holds all of them, and all come through.
func TestRateLimitWithEightWorkers(t *testing.T) {
	date := func() string { return time.Now().Add(2 * time.Second).UTC().Format(http.TimeFormat) }
	shapes := []func() *registrytest.Fault{
		func() *registrytest.Fault {
			return &registrytest.Fault{Status: 429, Header: http.Header{"Retry-After": {"1"}}}
		},
		func() *registrytest.Fault {
			return &registrytest.Fault{Status: 429, Header: http.Header{"Retry-After": {date()}}}
		},
		func() *registrytest.Fault {
			return &registrytest.Fault{Status: 429, Header: http.Header{"Content-Type": {"text/html"}}, Body: "<html>slow down</html>"}
		},
		func() *registrytest.Fault { return &registrytest.Fault{Status: 429} },
	}
	var mu sync.Mutex
	var until time.Time // a request before it came too early
	early, limited, at := 0, 0, 0
	reg := registrytest.New(t, registrytest.Options{Fault: func(r *http.Request) *registrytest.Fault {
		mu.Lock()
		defer mu.Unlock()
		at++
		if time.Now().Before(until) {
			early++
		}
		if at%20 != 10 || limited == len(shapes) {
			return nil
		}
		limited++
		if limited == 1 {
			until = time.Now().Add(time.Second)
			time.AfterFunc(100*time.Millisecond, func() { mu.Lock(); early = 0; mu.Unlock() }) // who was on the way
		}
		return shapes[limited-1]()
	}})
	var paused atomic.Int64
	c := client(t, registry.Settings{OnPause: func(host string, wait time.Duration) {
		if host == reg.Host && wait > 0 {
			paused.Add(1)
		}
	}})
	dst, err := c.Create(t.Context(), location(t, "oci://"+reg.Host+"/shop"))
	if err != nil {
		t.Fatal(err)
	}
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for range 5 {
				p := random(t, 100)
				if err := dst.Push(t.Context(), p.desc, bytes.NewReader(p.data)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	workers.Wait()
	mu.Lock()
	defer mu.Unlock()
	if limited != len(shapes) || early != 0 {
		t.Errorf("%d shapes met, want %d; %d requests came within the pause", limited, len(shapes), early)
	}
	if n := paused.Load(); n < 1 || n > int64(len(shapes)) {
		t.Errorf("the pause was said %d times", n)
	}
}

// A pause is as long as the cap at most, whatever is asked for.
func TestPauseIsCapped(t *testing.T) {
	_, s, at := served(t, registrytest.Options{Fault: times("/manifests/1.0.0", &registrytest.Fault{Status: 429, Header: http.Header{"Retry-After": {"3600"}}})})
	settings := quick()
	settings.MaxRetryWait = 200 * time.Millisecond
	began := time.Now()
	if src := open(t, client(t, settings), at); src.Root.Digest != s.root.desc.Digest || time.Since(began) > 5*time.Second {
		t.Errorf("opened %s after %s", src.Root.Digest, time.Since(began))
	}
}

// Which answers are worth another try, for reading and for each step of writing.
func TestWhatIsTriedAgain(t *testing.T) {
	p := random(t, 2500)
	for status, again := range map[int]bool{429: true, 502: true, 503: true, 504: true, 400: false, 403: false, 404: false, 409: false, 500: false} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			for _, method := range []string{"POST", "PATCH", "PUT"} {
				if method == "PATCH" && (status == 400 || status == 404) {
					continue // may mean that there are no chunks
				}
				if method == "PUT" && status == 404 {
					continue // a session that is lost
				}
				reg := registrytest.New(t, registrytest.Options{Fault: nth(method, &registrytest.Fault{Status: status})})
				dst, err := client(t, inChunks()).Create(t.Context(), location(t, "oci://"+reg.Host+"/shop"))
				if err != nil {
					t.Fatal(err)
				}
				err = dst.Push(t.Context(), p.desc, bytes.NewReader(p.data))
				if again != (err == nil) {
					t.Errorf("%s: %v", method, err)
				}
				if err != nil && status == 404 {
					if !strings.Contains(err.Error(), "/shop: repository not found") {
						t.Errorf("%s: %v", method, err)
					}
					continue
				}
				if err != nil && (!strings.Contains(err.Error(), fmt.Sprint(status)) || !strings.Contains(err.Error(), p.desc.Digest.String()) || !strings.Contains(err.Error(), reg.Host)) {
					t.Errorf("%s: the error names not all of it: %v", method, err)
				}
			}
		})
	}
}

// Patience that is spent says so, and by which host.
func TestUploadPatienceIsSpent(t *testing.T) {
	p := random(t, 2500)
	for _, method := range []string{"POST", "PATCH", "PUT"} {
		for _, fault := range []registrytest.Fault{{Status: 429}, {Status: 503}, {Drop: true}, {Hang: true}} {
			reg := registrytest.New(t, registrytest.Options{Fault: func(r *http.Request) *registrytest.Fault {
				if r.Method != method {
					return nil
				}
				return &fault
			}})
			dst, err := client(t, inChunks()).Create(t.Context(), location(t, "oci://"+reg.Host+"/shop"))
			if err != nil {
				t.Fatal(err)
			}
			err = dst.Push(t.Context(), p.desc, bytes.NewReader(p.data))
			var unreachable *registry.UnreachableError
			if !errors.As(err, &unreachable) || unreachable.Host != reg.Host || unreachable.Status != fault.Status || !strings.Contains(err.Error(), p.desc.Digest.String()) {
				t.Errorf("%s %+v: %v", method, fault, err)
			}
			if n := len(reg.Requests()); n > 30 {
				t.Errorf("%s %+v: %d requests", method, fault, n)
			}
			if n := reg.Sessions(); n != 0 {
				t.Errorf("%s %+v: %d sessions are left", method, fault, n)
			}
		}
	}
}

// A host that has no time for anything any more is not asked for ever: each
// request has its tries, and their sum is bounded too.
func TestUploadIsGivenUpInTime(t *testing.T) {
	p := random(t, 3500)
	for _, fault := range []registrytest.Fault{{Status: 429, Header: http.Header{"Retry-After": {"0"}}}, {Status: 503}, {Drop: true}} {
		for at := range 8 {
			var n atomic.Int64
			reg := registrytest.New(t, registrytest.Options{Fault: func(*http.Request) *registrytest.Fault {
				if int(n.Add(1)) > at {
					return &fault
				}
				return nil
			}})
			dst, err := client(t, inChunks()).Create(t.Context(), location(t, "oci://"+reg.Host+"/shop"))
			if err != nil {
				t.Fatal(err)
			}
			err = dst.Push(t.Context(), p.desc, bytes.NewReader(p.data))
			var unreachable *registry.UnreachableError
			if met := int(n.Load()) > at; met && (!errors.As(err, &unreachable) || int(n.Load()) > at+10) || !met && err != nil {
				t.Errorf("%+v from request %d on: %d requests, %v", fault, at, n.Load(), err)
			}
		}
	}
}

// unhurried are settings for servers that pause within an answer.
func unhurried() registry.Settings {
	return registry.Settings{Retry: 2, IdleTimeout: 2 * time.Second, MinRate: 1000}
}

// trickle answers with a byte at a time.
func trickle(body []byte, every time.Duration) *registrytest.Fault {
	return &registrytest.Fault{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		for i := range body {
			if _, err := w.Write(body[i : i+1]); err != nil {
				return
			}
			_ = http.NewResponseController(w).Flush()
			select {
			case <-time.After(every):
			case <-r.Context().Done():
				return
			}
		}
	})}
}

// A byte now and then is no progress: the transfer goes on from there on a new
// connection, and ends when that is no better.
func TestTrickle(t *testing.T) {
	s := newSample(t, "one")
	settings := unhurried()
	_, _, at := served(t, registrytest.Options{Fault: times(s.imageLayer.desc.Digest.String(), trickle(s.imageLayer.data, 20*time.Millisecond))})
	if err := fetch(t.Context(), open(t, client(t, settings), at), s.imageLayer); err != nil {
		t.Errorf("after one slow answer: %v", err)
	}
	reg, _, at := served(t, registrytest.Options{Fault: faultAt(s.imageLayer.desc.Digest.String(), trickle(s.imageLayer.data, 20*time.Millisecond))})
	began := time.Now()
	err := fetch(t.Context(), open(t, client(t, settings), at), s.imageLayer)
	var unreachable *registry.UnreachableError
	if !errors.As(err, &unreachable) || unreachable.Host != reg.Host || !strings.Contains(err.Error(), "sent only") || time.Since(began) > 20*time.Second {
		t.Errorf("after %s: %v", time.Since(began), err)
	}
}

// A slow line that moves is left alone, however long the whole takes.
func TestSlowButMoving(t *testing.T) {
	s := newSample(t, "one")
	slow := &registrytest.Fault{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for data := s.imageLayer.data; len(data) > 0; data = data[min(len(data), 2000):] {
			_, _ = w.Write(data[:min(len(data), 2000)])
			_ = http.NewResponseController(w).Flush()
			time.Sleep(50 * time.Millisecond)
		}
	})}
	reg, _, at := served(t, registrytest.Options{Fault: faultAt(s.imageLayer.desc.Digest.String(), slow)})
	if err := fetch(t.Context(), open(t, client(t, unhurried()), at), s.imageLayer); err != nil {
		t.Error(err)
	}
	n := 0
	for _, r := range reg.Requests() {
		if strings.HasSuffix(r.Path, s.imageLayer.desc.Digest.String()) {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}

// What stood still is not asked again on the same connection, nor on another
// that was open at the time: HTTP/1, and HTTP/2 where one carries all.
func TestStallLeavesItsConnections(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		var mu sync.Mutex
		var seen []string
		s := newSample(t, "one")
		reg := registrytest.New(t, registrytest.Options{TLS: true, HTTP2: http2, Fault: func(r *http.Request) *registrytest.Fault {
			if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, s.imageLayer.desc.Digest.String()) {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, fmt.Sprint(r.ProtoMajor, " ", r.RemoteAddr))
			if len(seen) == 1 {
				return &registrytest.Fault{Stall: 100}
			}
			return nil
		}})
		settings := quick()
		settings.InsecureHosts, settings.TLSHosts = []string{reg.Host}, []string{reg.Host}
		c := client(t, settings)
		store(t, c, "oci://"+reg.Host+"/shop", "1.0.0", s)
		if err := fetch(t.Context(), open(t, c, "oci://"+reg.Host+"/shop:1.0.0"), s.imageLayer); err != nil {
			t.Error(err)
		}
		if len(seen) != 2 || seen[0] == seen[1] || strings.HasPrefix(seen[0], "2") != http2 {
			t.Errorf("HTTP/2 %v: asked on %q", http2, seen)
		}
	}
}

// ranges is the log of a blob's reads: the status of each.
func ranges(reg *registrytest.Server, p piece) string {
	var out []string
	for _, r := range reg.Requests() {
		if r.Method == http.MethodGet && strings.HasSuffix(r.Path, p.desc.Digest.String()) {
			out = append(out, fmt.Sprint(r.Status))
		}
	}
	return strings.Join(out, " ")
}

// A download goes on at its offset; where the server knows no ranges, it is read
// again and not handed out twice.
func TestDownloadGoesOn(t *testing.T) {
	s := newSample(t, "one")
	for name, tc := range map[string]struct {
		opts registrytest.Options
		want string
	}{
		"with ranges":    {registrytest.Options{}, "200 206 206"},
		"without ranges": {registrytest.Options{NoRange: true}, "200 200 200"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.opts.Fault = times(s.imageLayer.desc.Digest.String(), &registrytest.Fault{Cut: 9000}, &registrytest.Fault{Stall: 12000})
			reg, _, at := served(t, tc.opts)
			if err := fetch(t.Context(), open(t, client(t, quick()), at), s.imageLayer); err != nil {
				t.Fatal(err)
			}
			got := ranges(reg, s.imageLayer)
			for range 100 { // a request is logged when its connection is seen to be gone
				if got == tc.want {
					break
				}
				time.Sleep(20 * time.Millisecond)
				got = ranges(reg, s.imageLayer)
			}
			if got != tc.want {
				t.Errorf("answers %s, want %s", got, tc.want)
			}
		})
	}
	t.Run("from elsewhere", func(t *testing.T) {
		wrong := &registrytest.Fault{Status: 206, Header: http.Header{"Content-Range": {"bytes 5-10/64000"}}, Body: "wrong"}
		_, _, at := served(t, registrytest.Options{Fault: times(s.imageLayer.desc.Digest.String(), &registrytest.Fault{Cut: 9000}, wrong)})
		wantContentError(t, fetch(t.Context(), open(t, client(t, quick()), at), s.imageLayer), s.imageLayer)
	})
	t.Run("a manifest too", func(t *testing.T) {
		_, _, at := served(t, registrytest.Options{Fault: times("/manifests/1.0.0", &registrytest.Fault{Cut: 100})})
		open(t, client(t, quick()), at)
	})
	t.Run("a byte before each loss", func(t *testing.T) {
		reg, _, at := served(t, registrytest.Options{Fault: faultAt(s.imageLayer.desc.Digest.String(), &registrytest.Fault{Cut: 1})})
		if err := fetch(t.Context(), open(t, client(t, quick()), at), s.imageLayer); err == nil || len(reg.Requests()) > 20 {
			t.Errorf("ended after %d requests with %v", len(reg.Requests()), err)
		}
	})
}

// Interrupting ends every kind of wait.
func TestInterruptEndsEveryWait(t *testing.T) {
	s := newSample(t, "one")
	for name, f := range map[string]*registrytest.Fault{
		"no answer":   {Hang: true},
		"half a blob": {Stall: 1000},
		"a pause":     {Status: 429, Header: http.Header{"Retry-After": {"100"}}},
		"a trickle":   trickle(s.imageLayer.data, 10*time.Millisecond),
	} {
		t.Run(name, func(t *testing.T) {
			_, _, at := served(t, registrytest.Options{Fault: faultAt(s.imageLayer.desc.Digest.String(), f)})
			src := open(t, client(t, registry.Settings{}), at)
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(100*time.Millisecond, cancel)
			began := time.Now()
			if err := fetch(ctx, src, s.imageLayer); !errors.Is(err, context.Canceled) || time.Since(began) > time.Second {
				t.Errorf("ended after %s with %v", time.Since(began), err)
			}
		})
	}
}
