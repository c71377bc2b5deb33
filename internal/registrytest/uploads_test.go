package registrytest_test

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"waybill/internal/registrytest"
)

// ask sends one request and returns the answer, its body read.
func ask(t *testing.T, method, address, body, contentRange string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequest(method, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if contentRange != "" {
		req.Header.Set("Content-Range", contentRange)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(data)
}

// begin opens a session and returns where it is.
func begin(t *testing.T, s *registrytest.Server) string {
	t.Helper()
	resp, body := ask(t, http.MethodPost, s.URL+"/v2/shop/blobs/uploads/", "", "")
	if resp.StatusCode != http.StatusAccepted {
		t.Fatalf("answered %d %s", resp.StatusCode, body)
	}
	at, err := resp.Location()
	if err != nil {
		t.Fatal(err)
	}
	return at.String()
}

// A step of an upload, and what is answered.
type step struct {
	method, body, contentRange string
	want                       int
}

func TestUploads(t *testing.T) {
	commit := "?digest=" + digest.FromString("abcdef").String()
	for name, tc := range map[string]struct {
		opts  registrytest.Uploads
		steps []step
	}{
		"in chunks":                       {steps: []step{{"PATCH", "abc", "0-2", 202}, {"GET", "", "", 204}, {"PATCH", "def", "3-5", 202}, {"PUT", "", "", 201}}},
		"at once":                         {steps: []step{{"PUT", "abcdef", "", 201}}},
		"a chunk twice":                   {steps: []step{{"PATCH", "abc", "0-2", 202}, {"PATCH", "abc", "0-2", 416}}},
		"of another digest":               {steps: []step{{"PUT", "abc", "", 400}, {"GET", "", "", 404}}},
		"cancelled":                       {steps: []step{{"PATCH", "abc", "0-2", 202}, {"DELETE", "", "", 204}, {"PATCH", "def", "3-5", 404}}},
		"chunks are refused":              {registrytest.Uploads{RefuseChunks: 405}, []step{{"PATCH", "abc", "0-2", 405}, {"PUT", "abcdef", "", 201}}},
		"too large":                       {registrytest.Uploads{MaxBody: 4}, []step{{"PUT", "abcdef", "", 413}, {"PATCH", "abcd", "0-3", 202}, {"PATCH", "ef", "4-5", 202}, {"PUT", "", "", 201}}},
		"a small chunk that isn't last":   {registrytest.Uploads{MinChunk: 4}, []step{{"PATCH", "abc", "0-2", 202}, {"PATCH", "def", "3-5", 400}}},
		"the query of the session counts": {registrytest.Uploads{LocationQuery: "_state=x"}, []step{{"PUT", "abcdef", "", 400}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := registrytest.New(t, registrytest.Options{Uploads: tc.opts})
			at, _, _ := strings.Cut(begin(t, s), "?")
			for _, step := range tc.steps {
				address := at
				if step.method == http.MethodPut {
					address += commit
				}
				if resp, body := ask(t, step.method, address, step.body, step.contentRange); resp.StatusCode != step.want {
					t.Fatalf("%s %q: %d %s, want %d", step.method, step.body, resp.StatusCode, body, step.want)
				}
			}
			open := map[bool]int{true: 0, false: 1}[tc.steps[len(tc.steps)-1].want == 201 || name == "of another digest" || name == "cancelled"]
			if n := s.Sessions(); n != open {
				t.Errorf("%d sessions are open, want %d", n, open)
			}
		})
	}
}

func TestSessionExpires(t *testing.T) {
	s := registrytest.New(t, registrytest.Options{Uploads: registrytest.Uploads{Expires: 10 * time.Millisecond}})
	at := begin(t, s)
	time.Sleep(20 * time.Millisecond)
	if resp, body := ask(t, http.MethodPatch, at, "abc", "0-2"); resp.StatusCode != http.StatusNotFound || !strings.Contains(body, "BLOB_UPLOAD_UNKNOWN") {
		t.Errorf("answered %d %s", resp.StatusCode, body)
	}
}

// A part of a body that was taken counts, and the session says how far it is.
func TestTake(t *testing.T) {
	taken := false
	s := registrytest.New(t, registrytest.Options{Fault: func(r *http.Request) *registrytest.Fault {
		if r.Method == http.MethodPatch && !taken {
			taken = true
			return &registrytest.Fault{Take: 2}
		}
		return nil
	}})
	at := begin(t, s)
	req, err := http.NewRequest(http.MethodPatch, at, strings.NewReader("abcdef"))
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := http.DefaultClient.Do(req); err == nil {
		resp.Body.Close()
		t.Fatalf("answered %d", resp.StatusCode)
	}
	if resp, _ := ask(t, http.MethodGet, at, "", ""); resp.Header.Get("Range") != "0-1" {
		t.Errorf("the session is at %q", resp.Header.Get("Range"))
	}
}

func TestAbsentRepositories(t *testing.T) {
	for absent, want := range map[registrytest.Absent]int{registrytest.AbsentUnknown: 404, registrytest.AbsentLogin: 401, registrytest.AbsentDenied: 403, registrytest.AbsentClosed: 0} {
		s := registrytest.New(t, registrytest.Options{Absent: absent, Repositories: []string{"shop"}})
		begin(t, s)
		resp, err := http.Post(s.URL+"/v2/other/blobs/uploads/", "", nil)
		if err != nil {
			if want != 0 {
				t.Errorf("%s: %v", absent, err)
			}
			continue
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: answered %d, want %d", absent, resp.StatusCode, want)
		}
	}
}

// Uploads may lead to another host, with a query that must be kept.
func TestUploadElsewhere(t *testing.T) {
	var s *registrytest.Server
	storage := registrytest.New(t, registrytest.Options{Fault: func(*http.Request) *registrytest.Fault {
		return &registrytest.Fault{Handler: s.Storage()}
	}})
	s = registrytest.New(t, registrytest.Options{Uploads: registrytest.Uploads{Elsewhere: storage.URL, LocationQuery: "sig=x"}})
	at := begin(t, s)
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	if u.Host != storage.Host || u.RawQuery != "sig=x" {
		t.Errorf("the session is at %s", at)
	}
	if resp, body := ask(t, http.MethodPut, at+"&digest="+digest.FromString("abc").String(), "abc", ""); resp.StatusCode != http.StatusCreated {
		t.Errorf("answered %d %s", resp.StatusCode, body)
	}
	if resp, _ := ask(t, http.MethodHead, s.URL+"/v2/shop/blobs/"+digest.FromString("abc").String(), "", ""); resp.StatusCode != http.StatusOK {
		t.Errorf("the blob is not in the registry: %d", resp.StatusCode)
	}
}
