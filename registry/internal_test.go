package registry

import (
	"math"
	"net/http"
	"net/url"
	"testing"
	"time"
)

func TestHostRules(t *testing.T) {
	named := newHostRules(Settings{PlainHTTP: true, Insecure: true})
	named.name("Registry.example:5000")
	listed := newHostRules(Settings{PlainHTTPHosts: []string{"plain.example"}, InsecureHosts: []string{"weak.example:443"}, TLSHosts: []string{"localhost:5001"}})
	for _, tc := range []struct {
		rules           *hostRules
		host            string
		plain, insecure bool
	}{
		{named, "registry.example:5000", true, true},
		{named, "registry.example", false, false},
		{named, "tokens.example", false, false},
		{listed, "plain.example:80", true, false},
		{listed, "weak.example:443", false, true},
		{listed, "weak.example", false, false},
		{listed, "localhost:5000", true, false},
		{listed, "localhost:5001", false, false},
		{listed, "127.1.2.3:5000", true, false},
		{listed, "[::1]:5000", true, false},
		{listed, "localhost.example", false, false},
		{listed, "10.0.0.1:5000", false, false},
	} {
		if got := tc.rules.plain(tc.host); got != tc.plain {
			t.Errorf("plain(%s) = %v", tc.host, got)
		}
		if got := tc.rules.insecure(tc.host); got != tc.insecure {
			t.Errorf("insecure(%s) = %v", tc.host, got)
		}
	}
}

// Content that can be read from anywhere goes up in as few chunks as a registry takes;
// Distribution brings each to its disk, and gets them smaller.
func TestChunkSize(t *testing.T) {
	for _, tc := range []struct {
		name, session string
		setting, want int64
	}{
		{"of a registry that nothing is known of", "https://registry.example/v2/x/blobs/uploads/1", 0, math.MaxInt64},
		{"of Distribution", "https://registry.example/v2/x/blobs/uploads/1?_state=abc", 0, distributionChunk},
		{"as it was asked for", "https://registry.example/v2/x/blobs/uploads/1?_state=abc", 1 << 30, 1 << 30},
	} {
		at, err := url.Parse(tc.session)
		if err != nil {
			t.Fatal(err)
		}
		u := &blobUpload{
			at:    at,
			body:  &uploadBody{again: new(sourceReader)},
			place: &remotePlace{client: &Client{settings: Settings{ChunkSize: tc.setting}, uploads: &uploadLimits{ours: distributionChunk}}},
		}
		if got := u.chunkSize(); got != tc.want {
			t.Errorf("%s: chunks of %d bytes, want %d", tc.name, got, tc.want)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for in, want := range map[string]time.Duration{
		"2": 2 * time.Second,
		now.Add(time.Minute).Format(http.TimeFormat): time.Minute,
		now.Add(-time.Hour).Format(http.TimeFormat):  0,
	} {
		if got, ok := retryAfter(in, now); !ok || got != want {
			t.Errorf("%q: %s, %v", in, got, ok)
		}
	}
	for _, in := range []string{"", "soon", "-1", "1.5"} {
		if got, ok := retryAfter(in, now); ok {
			t.Errorf("%q was read as %s", in, got)
		}
	}
	transport := &retryTransport{maxWait: time.Second}
	if got := transport.wait(1, "3600"); got != time.Second {
		t.Errorf("waits %s, the cap is a second", got)
	}
}

// Without a word from the host a pause doubles with each try, differs from one client
// to the next, and is capped.
func TestBackoff(t *testing.T) {
	transport := &retryTransport{maxWait: 20 * time.Second}
	for try := 1; try <= 20; try++ {
		middle := min(firstWait<<(try-1), firstWait<<10)
		seen := map[time.Duration]bool{}
		for range 50 {
			got := transport.wait(try, "")
			if got < min(middle/2, transport.maxWait) || got > min(middle*3/2, transport.maxWait) {
				t.Errorf("try %d: waits %s, want something about %s", try, got, middle)
			}
			seen[got] = true
		}
		if len(seen) < 10 && middle*3/2 < transport.maxWait {
			t.Errorf("try %d: only %d different pauses", try, len(seen))
		}
	}
}

// The login is taken off for another host and for another port.
func TestCheckRedirect(t *testing.T) {
	request := func(url string) *http.Request {
		r, err := http.NewRequest(http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Basic c2VjcmV0")
		return r
	}
	for to, kept := range map[string]bool{
		"https://registry.example/other":      true,
		"https://registry.example:443/other":  true,
		"https://registry.example:8443/other": false,
		"https://storage.example/other":       false,
	} {
		next := request(to)
		if err := checkRedirect(next, []*http.Request{request("https://registry.example/v2/")}); err != nil {
			t.Errorf("%s: %v", to, err)
		}
		if got := next.Header.Get("Authorization") != ""; got != kept {
			t.Errorf("to %s the login goes along: %v", to, got)
		}
	}
	if err := checkRedirect(request("http://registry.example/"), []*http.Request{request("https://registry.example/")}); err == nil {
		t.Error("a redirect to plain HTTP was followed")
	}
}
