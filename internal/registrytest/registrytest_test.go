package registrytest_test

import (
	"encoding/json"
	"io"
	"net/http"
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
