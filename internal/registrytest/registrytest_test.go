package registrytest_test

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"waybill/internal/registrytest"
)

// A manifest that names a blob the registry hasn't got is refused.
func TestStrict(t *testing.T) {
	s := registrytest.New(t, registrytest.Options{})
	manifest := `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json",` +
		`"config":{"mediaType":"application/vnd.oci.empty.v1+json","digest":"sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","size":2},"layers":[]}`
	req, err := http.NewRequest(http.MethodPut, s.URL+"/v2/shop/manifests/1.0.0", strings.NewReader(manifest))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusNotFound || !strings.Contains(string(body), "MANIFEST_BLOB_UNKNOWN") {
		t.Errorf("answered %d %s", resp.StatusCode, body)
	}
}

func TestLoginAndFaults(t *testing.T) {
	s := registrytest.New(t, registrytest.Options{
		Username: "me", Password: "secret",
		Fault: func(r *http.Request) *registrytest.Fault {
			if r.URL.Path == "/v2/busy" {
				return &registrytest.Fault{Status: http.StatusTooManyRequests}
			}
			return nil
		},
	})
	for _, tc := range []struct {
		path, user string
		want       int
	}{
		{"/v2/", "", http.StatusUnauthorized},
		{"/v2/", "me", http.StatusOK},
		{"/v2/busy", "me", http.StatusTooManyRequests},
	} {
		req, err := http.NewRequest(http.MethodGet, s.URL+tc.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if tc.user != "" {
			req.SetBasicAuth(tc.user, "secret")
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != tc.want {
			t.Errorf("%s as %q: %d, want %d", tc.path, tc.user, resp.StatusCode, tc.want)
		}
	}
	if n := len(s.Requests()); n != 3 {
		t.Errorf("%d requests logged, want 3", n)
	}
}

// A registry with a token service takes tokens for what they were given for,
// and for as long.
func TestTokens(t *testing.T) {
	s := registrytest.New(t, registrytest.Options{Username: "me", Password: "secret", Token: &registrytest.TokenOptions{Lifetime: 200 * time.Millisecond}})
	ask := func(method, path, token string) *http.Response {
		t.Helper()
		req, err := http.NewRequest(method, s.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp
	}
	token := func(scope string) string {
		t.Helper()
		req, err := http.NewRequest(http.MethodGet, s.TokenURL()+"?scope="+scope, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.SetBasicAuth("me", "secret")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var answer struct{ Token string }
		if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || answer.Token == "" {
			t.Fatalf("no token: %v", err)
		}
		return answer.Token
	}
	want := func(resp *http.Response, words string) {
		t.Helper()
		if got := resp.Header.Get("WWW-Authenticate"); resp.StatusCode != http.StatusUnauthorized || !strings.Contains(got, words) {
			t.Errorf("%d %s, want %s", resp.StatusCode, got, words)
		}
	}
	want(ask(http.MethodGet, "/v2/shop/tags/list", ""), `scope="repository:shop:pull"`)
	pull := token("repository:shop:pull")
	if resp := ask(http.MethodGet, "/v2/shop/tags/list", pull); resp.StatusCode != http.StatusNotFound {
		t.Errorf("with a token: %d", resp.StatusCode)
	}
	want(ask(http.MethodPost, "/v2/shop/blobs/uploads/", pull), `scope="repository:shop:pull,push",error="insufficient_scope"`)
	want(ask(http.MethodGet, "/v2/other/tags/list", pull), "insufficient_scope")
	if resp := ask(http.MethodPost, "/v2/shop/blobs/uploads/", token("repository:shop:pull,push")); resp.StatusCode != http.StatusAccepted {
		t.Errorf("with a token to push: %d", resp.StatusCode)
	}
	time.Sleep(250 * time.Millisecond)
	want(ask(http.MethodGet, "/v2/shop/tags/list", pull), "invalid_token")
	if got := s.TokenRequests(); len(got) != 2 || got[0].Login != "me" || got[0].Scopes[0] != "repository:shop:pull" {
		t.Errorf("the token service was asked %+v", got)
	}
}

// What an injector is armed with happens to the request of its number, or from there
// on, and to no other.
func TestInjector(t *testing.T) {
	for _, forGood := range []bool{false, true} {
		var i registrytest.Injector
		s := registrytest.New(t, registrytest.Options{Fault: i.Fault})
		statuses := func() (out []int) {
			for range 4 {
				resp, _ := ask(t, http.MethodGet, s.URL+"/v2/", "", "")
				out = append(out, resp.StatusCode)
			}
			return out
		}
		i.Arm(1, forGood, registrytest.Fault{Status: 418})
		want := []int{200, 418, 200, 200}
		if forGood {
			want = []int{200, 418, 418, 418}
		}
		if got := statuses(); !slices.Equal(got, want) {
			t.Errorf("for good %v: %v, want %v", forGood, got, want)
		}
		if met, seen := i.Disarm(); met != "GET /v2/" || seen != 4 {
			t.Errorf("met %q of %d", met, seen)
		}
		if got := statuses(); !slices.Equal(got, []int{200, 200, 200, 200}) {
			t.Errorf("disarmed: %v", got)
		}
	}
}

// Answers can be spoiled at every byte.
func TestSpoiledAnswers(t *testing.T) {
	var i registrytest.Injector
	s := registrytest.New(t, registrytest.Options{Fault: i.Fault})
	twin := registrytest.New(t, registrytest.Options{Handler: s.WithoutFaults()})
	whole, body := ask(t, http.MethodGet, s.URL+"/v2/none/tags/list", "", "")
	for n := range 60 {
		i.Arm(0, true, registrytest.Fault{CutHead: 1 + n*7})
		if resp, err := http.Get(s.URL + "/v2/none/tags/list"); err == nil {
			resp.Body.Close()
			t.Errorf("the headers are cut off, and it is answered %d", resp.StatusCode)
		}
		i.Arm(0, true, registrytest.Fault{Corrupt: 1 + n})
		if _, got := ask(t, http.MethodGet, s.URL+"/v2/none/tags/list", "", ""); got == body || len(got) != len(body) {
			t.Errorf("byte %d: got %q", n, got)
		}
	}
	i.Arm(0, true, registrytest.Fault{MovedTo: twin.URL})
	if resp, got := ask(t, http.MethodGet, s.URL+"/v2/none/tags/list", "", ""); got != body || resp.StatusCode != whole.StatusCode || resp.Request.URL.Host != twin.Host {
		t.Errorf("moved: %d %q from %s", resp.StatusCode, got, resp.Request.URL.Host)
	}
	i.Arm(0, true, registrytest.Fault{Header: http.Header{"Content-Type": nil, "X-More": {"1"}}})
	if resp, _ := ask(t, http.MethodGet, s.URL+"/v2/none/tags/list", "", ""); resp.Header.Get("X-More") != "1" || strings.Contains(resp.Header.Get("Content-Type"), "json") {
		t.Errorf("the headers are %v", resp.Header)
	}
}
