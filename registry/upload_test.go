package registry_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"waybill/internal/registrytest"
	"waybill/registry"
)

// inChunks are settings under which the blobs of these tests go up in chunks.
func inChunks() registry.Settings {
	s := quick()
	s.ChunkSize = 1000
	return s
}

func random(t testing.TB, size int) piece {
	t.Helper()
	data := make([]byte, size)
	if _, err := rand.Read(data); err != nil {
		t.Fatal(err)
	}
	return piece{ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: digest.FromBytes(data), Size: int64(size)}, data}
}

// onceOnly is content that can't be read a second time, as from a network.
func onceOnly(p piece) io.Reader { return io.MultiReader(bytes.NewReader(p.data)) }

// pushed uploads a piece and fails unless the registry has it, whole.
func pushed(t *testing.T, c *registry.Client, host string, p piece, r io.Reader) {
	t.Helper()
	dst, err := c.Create(t.Context(), location(t, "oci://"+host+"/shop"))
	if err != nil {
		t.Fatal(err)
	}
	if err := dst.Push(t.Context(), p.desc, r); err != nil {
		t.Fatal(err)
	}
	if err := fetch(t.Context(), dst, p); err != nil {
		t.Fatal(err)
	}
}

// steps is the log of uploads: method and status, HEAD and blobs left out.
func steps(reg *registrytest.Server) string {
	var out []string
	for _, r := range reg.Requests() {
		if strings.Contains(r.Path, "/blobs/uploads/") {
			out = append(out, fmt.Sprintf("%s %d", r.Method, r.Status))
		}
	}
	return strings.Join(out, ", ")
}

// nth gives faults to the first, second, … request of a method on uploads.
func nth(method string, faults ...*registrytest.Fault) func(*http.Request) *registrytest.Fault {
	var n atomic.Int64
	return func(r *http.Request) *registrytest.Fault {
		if r.Method != method || !strings.Contains(r.URL.Path, "/blobs/uploads/") {
			return nil
		}
		if i := int(n.Add(1)) - 1; i < len(faults) {
			return faults[i]
		}
		return nil
	}
}

func TestUpload(t *testing.T) {
	small, large := random(t, 900), random(t, 3500)
	const inFour = "POST 202, PATCH 202, PATCH 202, PATCH 202, PATCH 202, PUT 201"
	for name, tc := range map[string]struct {
		p    piece
		opts registrytest.Options
		want string // steps
	}{
		"a small blob goes up at once": {small, registrytest.Options{}, "POST 202, PUT 201"},
		"an empty blob too":            {random(t, 0), registrytest.Options{}, "POST 202, PUT 201"},
		"a large one in chunks":        {large, registrytest.Options{}, inFour},
		"of exactly two chunks":        {random(t, 2000), registrytest.Options{}, "POST 202, PATCH 202, PATCH 202, PUT 201"},

		"the session is at a whole address":        {large, registrytest.Options{Uploads: registrytest.Uploads{Absolute: true}}, inFour},
		"the session has a query":                  {large, registrytest.Options{Uploads: registrytest.Uploads{LocationQuery: "_state=a%2Fb%3D%3D&x=+"}}, inFour},
		"chunks are answered with 201":             {large, registrytest.Options{Uploads: registrytest.Uploads{ChunkStatus: 201}}, strings.ReplaceAll(inFour, "PATCH 202", "PATCH 201")},
		"the registry wants larger chunks":         {large, registrytest.Options{Uploads: registrytest.Uploads{MinChunk: 2000}}, "POST 202, PATCH 202, PATCH 202, PUT 201"},
		"it wants chunks larger than we can hold":  {large, registrytest.Options{Uploads: registrytest.Uploads{MinChunk: 1 << 40}}, "POST 202, PUT 201"},
		"the commit tells no digest":               {large, registrytest.Options{Uploads: registrytest.Uploads{CommitDigest: "-"}}, inFour},
		"the commit tells another digest":          {large, registrytest.Options{Uploads: registrytest.Uploads{CommitDigest: digest.FromString("other").String()}}, inFour},
		"chunks are not found":                     {large, registrytest.Options{Uploads: registrytest.Uploads{RefuseChunks: 404}}, "POST 202, PATCH 404, DELETE 204, POST 202, PUT 201"},
		"chunks are not allowed":                   {large, registrytest.Options{Uploads: registrytest.Uploads{RefuseChunks: 405}}, "POST 202, PATCH 405, DELETE 204, POST 202, PUT 201"},
		"chunks are a bad request":                 {large, registrytest.Options{Uploads: registrytest.Uploads{RefuseChunks: 400}}, "POST 202, PATCH 400, DELETE 204, POST 202, PUT 201"},
		"the connection of a chunk is lost":        {large, registrytest.Options{Fault: nth("PATCH", nil, &registrytest.Fault{Drop: true})}, "POST 202, PATCH 202, PATCH 0, GET 204, PATCH 202, PATCH 202, PATCH 202, PUT 201"},
		"a part of the chunk has arrived":          {large, registrytest.Options{Fault: nth("PATCH", nil, &registrytest.Fault{Take: 700})}, "POST 202, PATCH 202, PATCH 0, GET 204, PATCH 202, PATCH 202, PUT 201"},
		"a chunk stands still":                     {large, registrytest.Options{Fault: nth("PATCH", &registrytest.Fault{Stick: 300})}, ""},
		"the answer to a chunk never comes":        {large, registrytest.Options{Fault: nth("PATCH", nil, &registrytest.Fault{Hang: true})}, ""},
		"a chunk is too many":                      {large, registrytest.Options{Fault: nth("PATCH", nil, &registrytest.Fault{Status: 429, Header: http.Header{"Retry-After": {"0"}}})}, "POST 202, PATCH 202, PATCH 429, GET 204, PATCH 202, PATCH 202, PATCH 202, PUT 201"},
		"a gateway has no answer":                  {large, registrytest.Options{Fault: nth("PATCH", &registrytest.Fault{Status: 504})}, "POST 202, PATCH 504, GET 204, " + inFour[len("POST 202, "):]},
		"the commit is lost":                       {large, registrytest.Options{Fault: nth("PUT", &registrytest.Fault{Drop: true})}, "POST 202, PATCH 202, PATCH 202, PATCH 202, PATCH 202, PUT 0, GET 204, PUT 201"},
		"the commit of a small blob is lost":       {small, registrytest.Options{Fault: nth("PUT", &registrytest.Fault{Drop: true})}, "POST 202, PUT 0, DELETE 204, POST 202, PUT 201"},
		"a small blob arrives in part":             {small, registrytest.Options{Fault: nth("PUT", &registrytest.Fault{Take: 100})}, "POST 202, PUT 0, DELETE 204, POST 202, PUT 201"},
		"only the answer to the commit is lost":    {large, registrytest.Options{Fault: nth("PUT", &registrytest.Fault{Take: 1 << 20})}, ""},
		"opening the session takes a second try":   {large, registrytest.Options{Fault: nth("POST", &registrytest.Fault{Drop: true})}, "POST 0, " + inFour},
		"a chunk begins elsewhere":                 {large, registrytest.Options{Fault: nth("PATCH", nil, &registrytest.Fault{Status: 416})}, ""},
		"the way takes only small bodies":          {random(t, 3<<20), registrytest.Options{Uploads: registrytest.Uploads{MaxBody: 1 << 20}}, ""},
		"and says so in GitHub's way":              {random(t, 3<<20), registrytest.Options{Uploads: registrytest.Uploads{MaxBody: 1 << 20, TooLarge: 416}}, ""},
		"a session that can't be asked is resumed": {large, registrytest.Options{Uploads: registrytest.Uploads{NoStatus: true}, Fault: nth("PATCH", nil, &registrytest.Fault{Drop: true})}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			reg := registrytest.New(t, tc.opts)
			settings := inChunks()
			if tc.p.desc.Size > 1<<20 {
				settings.ChunkSize = 0
			}
			c := client(t, settings)
			pushed(t, c, reg.Host, tc.p, bytes.NewReader(tc.p.data))
			if got := steps(reg); tc.want != "" && got != tc.want {
				t.Errorf("steps %s\n want %s", got, tc.want)
			}
			if n := reg.Sessions(); n != 0 {
				t.Errorf("%d sessions are left", n)
			}
			// Once there, a blob is not uploaded again.
			reg.Forget()
			pushed(t, c, reg.Host, tc.p, bytes.NewReader(tc.p.data))
			if got := steps(reg); got != "" {
				t.Errorf("uploaded again: %s", got)
			}
		})
	}
}

// A served folder takes chunks, and goes on where it is after a loss.
func TestUploadToServedFolder(t *testing.T) {
	for name, faults := range map[string][]*registrytest.Fault{
		"no fault":        nil,
		"lost chunks":     {nil, {Drop: true}, nil, {Drop: true}},
		"part of a chunk": {nil, {Take: 700}, {Take: 200}},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := registry.NewServer(location(t, "oci-layout:"+filepath.Join(t.TempDir(), "new")), registry.ServerOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			p, reg := random(t, 3500), registrytest.New(t, registrytest.Options{Handler: s, Fault: nth("PATCH", faults...)})
			pushed(t, client(t, inChunks()), reg.Host, p, onceOnly(p))
		})
	}
}

// Content that can be read only once survives what a session survives.
func TestUploadOfContentReadOnce(t *testing.T) {
	for name, opts := range map[string]registrytest.Options{
		"no fault":              {},
		"lost chunk":            {Fault: nth("PATCH", nil, &registrytest.Fault{Drop: true})},
		"part of a chunk":       {Fault: nth("PATCH", nil, &registrytest.Fault{Take: 10}, &registrytest.Fault{Take: 20})},
		"chunks are refused":    {Uploads: registrytest.Uploads{RefuseChunks: 405}},
		"first session is lost": {Uploads: registrytest.Uploads{LosesPart: true}, Fault: nth("PATCH", &registrytest.Fault{Take: 10})},
	} {
		t.Run(name, func(t *testing.T) {
			p, reg := random(t, 3500), registrytest.New(t, opts)
			pushed(t, client(t, inChunks()), reg.Host, p, onceOnly(p))
		})
	}
}

// A registry that loses sessions is sent the blob again from its beginning, when
// there is one; else the error says why not.
func TestLostSession(t *testing.T) {
	opts := func() registrytest.Options {
		return registrytest.Options{Uploads: registrytest.Uploads{LosesPart: true}, Fault: nth("PATCH", nil, nil, &registrytest.Fault{Take: 10})}
	}
	p, reg := random(t, 3500), registrytest.New(t, opts())
	pushed(t, client(t, inChunks()), reg.Host, p, bytes.NewReader(p.data))

	reg = registrytest.New(t, opts())
	dst, err := client(t, inChunks()).Create(t.Context(), location(t, "oci://"+reg.Host+"/shop"))
	if err != nil {
		t.Fatal(err)
	}
	err = dst.Push(t.Context(), p.desc, onceOnly(p))
	var unreachable *registry.UnreachableError
	if !errors.As(err, &unreachable) || !strings.Contains(err.Error(), "read only once") || !strings.Contains(err.Error(), p.desc.Digest.String()) {
		t.Errorf("got %v", err)
	}
}

// A session that is forgotten while the content is slow to come is opened anew.
func TestSessionExpires(t *testing.T) {
	p := random(t, 2500)
	reg := registrytest.New(t, registrytest.Options{Uploads: registrytest.Uploads{Expires: 100 * time.Millisecond}})
	pushed(t, client(t, inChunks()), reg.Host, p, &slow{Reader: bytes.NewReader(p.data), pauses: []time.Duration{0, 200 * time.Millisecond}})
}

// slow makes pauses before its first reads.
type slow struct {
	*bytes.Reader
	pauses []time.Duration
}

func (s *slow) Read(p []byte) (int, error) {
	if len(s.pauses) > 0 {
		time.Sleep(s.pauses[0])
		s.pauses = s.pauses[1:]
	}
	return s.Reader.Read(p[:min(len(p), 1000)])
}

// What was learnt of a host is not tried again with the next blob.
func TestHostWithoutChunksIsRemembered(t *testing.T) {
	reg := registrytest.New(t, registrytest.Options{Uploads: registrytest.Uploads{RefuseChunks: 405}})
	c := client(t, inChunks())
	first, second := random(t, 3500), random(t, 3500)
	pushed(t, c, reg.Host, first, onceOnly(first))
	reg.Forget()
	pushed(t, c, reg.Host, second, onceOnly(second))
	if got, want := steps(reg), "POST 202, PUT 201"; got != want {
		t.Errorf("steps %s, want %s", got, want)
	}
}

// Content that isn't what its descriptor says is never committed, and no session
// stays behind.
func TestUploadChecksContent(t *testing.T) {
	p := random(t, 3500)
	for name, data := range map[string][]byte{
		"other":     append([]byte("x"), p.data[1:]...),
		"truncated": p.data[:3000],
		"longer":    append(bytes.Clone(p.data), 'x'),
	} {
		for _, opts := range []registrytest.Uploads{{}, {RefuseChunks: 405}} {
			reg := registrytest.New(t, registrytest.Options{Uploads: opts})
			c := client(t, inChunks())
			dst, err := c.Create(t.Context(), location(t, "oci://"+reg.Host+"/shop"))
			if err != nil {
				t.Fatal(err)
			}
			wantContentError(t, dst.Push(t.Context(), p.desc, bytes.NewReader(data)), p)
			if there, err := dst.Exists(t.Context(), p.desc); there || err != nil {
				t.Errorf("%s: it is there: %v, %v", name, there, err)
			}
			if n := reg.Sessions(); n != 0 {
				t.Errorf("%s: %d sessions are left", name, n)
			}
		}
	}
}

// A registry that says it stored a blob and did not is found out.
func TestCommitThatStoresNothing(t *testing.T) {
	p := random(t, 100)
	for _, said := range []string{"", digest.FromString("other").String()} {
		reg := registrytest.New(t, registrytest.Options{Fault: nth("PUT", &registrytest.Fault{Status: 201, Header: http.Header{"Docker-Content-Digest": {said}}})})
		dst, err := client(t, quick()).Create(t.Context(), location(t, "oci://"+reg.Host+"/shop"))
		if err != nil {
			t.Fatal(err)
		}
		wantContentError(t, dst.Push(t.Context(), p.desc, bytes.NewReader(p.data)), p)
	}
}

// An upload may go on at another host: without the login, and with its query.
func TestUploadElsewhere(t *testing.T) {
	var reg *registrytest.Server
	storage := registrytest.New(t, registrytest.Options{Fault: func(*http.Request) *registrytest.Fault {
		return &registrytest.Fault{Handler: reg.Storage()}
	}})
	reg = registrytest.New(t, registrytest.Options{
		Username: "me", Password: "secret",
		Uploads: registrytest.Uploads{Elsewhere: storage.URL, LocationQuery: "X-Signature=a%2Bb"},
	})
	settings := inChunks()
	settings.ConfigFile = configFile(t, reg.Host, "me", "secret")
	p := random(t, 2500)
	pushed(t, client(t, settings), reg.Host, p, bytes.NewReader(p.data))
	if len(storage.Requests()) == 0 {
		t.Error("nothing went to the storage")
	}
	for _, r := range storage.Requests() {
		if r.Authorization != "" {
			t.Errorf("%s %s was sent a login", r.Method, r.Path)
		}
	}
}

// An interrupted upload ends at once and takes its session back.
func TestUploadIsInterrupted(t *testing.T) {
	for name, fault := range map[string]func(*http.Request) *registrytest.Fault{
		"in a chunk":        nth("PATCH", nil, &registrytest.Fault{Stick: 100}),
		"before its answer": nth("PATCH", nil, &registrytest.Fault{Hang: true}),
		"in the commit":     nth("PUT", &registrytest.Fault{Hang: true}),
		"in a pause":        nth("PATCH", &registrytest.Fault{Status: 429, Header: http.Header{"Retry-After": {"60"}}}),
	} {
		t.Run(name, func(t *testing.T) {
			p, reg := random(t, 3500), registrytest.New(t, registrytest.Options{Fault: fault})
			settings := inChunks()
			settings.IdleTimeout = time.Minute
			dst, err := client(t, settings).Create(t.Context(), location(t, "oci://"+reg.Host+"/shop"))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			began := time.AfterFunc(200*time.Millisecond, cancel)
			defer began.Stop()
			start := time.Now()
			err = dst.Push(ctx, p.desc, bytes.NewReader(p.data))
			if took := time.Since(start); err == nil || ctx.Err() == nil || took > 2*time.Second {
				t.Errorf("ended after %s with %v", took, err)
			}
			if n := reg.Sessions(); n != 0 && name != "in a pause" {
				t.Errorf("%d sessions are left", n)
			}
		})
	}
}
