package ui

import (
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"time"
)

// LogRequests returns a wrapper for HTTP transports that logs every request
// and its answer to w. Headers are not logged; of addresses, user information
// and the values in the query are masked.
func LogRequests(w io.Writer) func(http.RoundTripper) http.RoundTripper {
	log := slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			begin := time.Now()
			resp, err := next.RoundTrip(req)
			attrs := []any{"method", req.Method, "url", Mask(req.URL), "took", time.Since(begin).Round(time.Millisecond)}
			if err != nil {
				log.Debug("request failed", append(attrs, "error", err)...)
				return resp, err
			}
			log.Debug("request", append(attrs, "status", resp.StatusCode)...)
			return resp, nil
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// Mask returns the address without what may be secret: user information and
// the values of the query, where signed addresses carry their signature.
func Mask(u *url.URL) string {
	masked := *u
	if masked.User != nil {
		masked.User = url.User("masked")
	}
	if masked.RawQuery != "" {
		query := url.Values{}
		for key := range masked.Query() {
			query.Set(key, "masked")
		}
		masked.RawQuery = query.Encode()
	}
	return masked.String()
}
