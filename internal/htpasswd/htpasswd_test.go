package htpasswd_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"waybill/internal/htpasswd"
)

func ExampleParse() {
	_, err := htpasswd.Parse([]byte("me:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ="))
	fmt.Println(err)
	// Output: line 1: the password of "me" is not hashed with bcrypt (htpasswd -B)
}

// What is guarded is open to nobody else.
func TestGuard(t *testing.T) {
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	logins, err := htpasswd.Parse([]byte("# who may\n\nme:" + string(hash) + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(logins.Guard(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	defer server.Close()
	for _, tc := range []struct {
		user, password string
		want           int
	}{{"", "", 401}, {"me", "secret", 200}, {"me", "secret", 200}, {"me", "wrong", 401}, {"you", "secret", 401}, {"", "secret", 401}} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/v2/", nil)
		if err != nil {
			t.Fatal(err)
		}
		if tc.user+tc.password != "" {
			req.SetBasicAuth(tc.user, tc.password)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != tc.want || tc.want == 401 && !strings.HasPrefix(resp.Header.Get("WWW-Authenticate"), "Basic ") {
			t.Errorf("%s with %q: %d, want %d", tc.user, tc.password, resp.StatusCode, tc.want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"nobody": "# none\n", "no hash": "me\n", "no name": ":" + string(hash), "another hash": "me:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=", "twice": "me:" + string(hash) + "\nme:" + string(hash),
	} {
		if _, err := htpasswd.Parse([]byte(text)); err == nil || strings.Contains(err.Error(), "5en6G6") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
