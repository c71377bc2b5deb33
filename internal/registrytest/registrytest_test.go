package registrytest_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

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
