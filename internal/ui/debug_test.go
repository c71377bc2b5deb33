package ui

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

func TestMask(t *testing.T) {
	tests := map[string]struct{ in, want string }{
		"plain":          {"https://registry.example/v2/", "https://registry.example/v2/"},
		"a password":     {"https://me:secret@registry.example/v2/", "https://masked@registry.example/v2/"},
		"a signed query": {"https://storage.example/blob?X-Sig=secret&e=1", "https://storage.example/blob?X-Sig=masked&e=masked"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			u, err := url.Parse(tt.in)
			if err != nil {
				t.Fatal(err)
			}
			if got := Mask(u); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// No header, no password and no query value of a request reaches the log.
func TestLogRequestsKeepsSecrets(t *testing.T) {
	var log bytes.Buffer
	transport := LogRequests(&log)(roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(""))}, nil
	}))
	req, err := http.NewRequest(http.MethodGet, "https://me:marker-one@registry.example/v2/?sig=marker-two", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer marker-three")
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if strings.Contains(log.String(), "marker") || !strings.Contains(log.String(), "registry.example") {
		t.Errorf("logged %q", log.String())
	}
}
