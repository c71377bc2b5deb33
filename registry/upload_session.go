package registry

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	"oras.land/oras-go/v2/registry/remote/errcode"
)

// begin opens a session, or takes one that was offered.
func (u *blobUpload) begin(ctx context.Context) error {
	u.step = "opening the upload"
	u.starts++
	if offer, ok := u.place.offers.LoadAndDelete(u.desc.Digest); ok {
		return u.accept(offer.(*http.Response))
	}
	resp, err := u.send(ctx, http.MethodPost, u.place.uploads(), uploadPiece{}, http.Header{}, http.StatusAccepted) //nolint:bodyclose // drained by its callers
	if err != nil {
		return err
	}
	return u.accept(resp)
}

// accept goes on with the session that an answer opened.
func (u *blobUpload) accept(resp *http.Response) error {
	if resp.Header.Get("Location") == "" {
		return &ResponseError{Host: u.place.ref.Host, Ref: u.place.name(), Status: resp.StatusCode, Reason: "an upload was opened without saying where"}
	}
	u.minChunk = 0
	if wanted, err := strconv.ParseInt(resp.Header.Get("OCI-Chunk-Min-Length"), 10, 64); err == nil && wanted > 0 {
		u.minChunk = wanted
	}
	return u.follow(resp)
}

// status asks how many bytes the session has.
func (u *blobUpload) status(ctx context.Context) (int64, error) {
	resp, err := u.send(ctx, http.MethodGet, u.at, uploadPiece{}, http.Header{}, http.StatusNoContent, http.StatusOK, http.StatusAccepted) //nolint:bodyclose // drained by its callers
	if err != nil {
		return 0, err
	}
	size, ok := rangeEnd(resp.Header.Get("Range"))
	if !ok {
		return 0, errors.New("the registry does not say how far the upload is")
	}
	return size, u.follow(resp)
}

// cancelWithin is how long somebody who interrupts waits for a session to be
// taken back.
const cancelWithin = time.Second

// cancel takes the session back. That it fails is of no interest: registries
// forget sessions by themselves, later.
func (u *blobUpload) cancel(ctx context.Context) {
	if u.at == nil {
		return
	}
	defer func() { u.at = nil }()
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), cancelWithin)
	defer stop()
	for {
		_, err := u.send(ctx, http.MethodDelete, u.at, uploadPiece{}, http.Header{}, http.StatusNoContent) //nolint:bodyclose // drained by its callers
		var answer *answerError
		if !errors.As(err, &answer) || answer.status != http.StatusRequestedRangeNotSatisfiable {
			return
		}
		// Distribution wants to hear how far the session is, which its address says, and
		// may still be busy with a chunk that was broken off.
		if _, err := u.status(ctx); err != nil || sleep(ctx, cancelWithin/20) != nil {
			return
		}
	}
}

// send makes one request of the upload and reads the answer, whose body says
// nothing unless it is an error. The login goes to the registry alone. What
// writes is sent once: how far a lost request came must be found out first.
func (u *blobUpload) send(ctx context.Context, method string, at *url.URL, piece uploadPiece, header http.Header, want ...int) (*http.Response, error) {
	req, err := http.NewRequestWithContext(once(ctx), method, at.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header = header
	if piece.open != nil {
		if req.Body, err = piece.open(); err != nil {
			return nil, err
		}
		req.GetBody, req.ContentLength = piece.open, piece.size
	}
	began := time.Now()
	resp, err := u.place.do(req)
	if err != nil {
		return nil, err
	}
	defer drain(resp.Body)
	if slices.Contains(want, resp.StatusCode) {
		return resp, nil
	}
	answer := answerOf(resp)
	answer.took = time.Since(began)
	return nil, answer
}

// do sends a request with the login when it goes to the registry itself, and
// without when an upload leads to other storage.
func (p *remotePlace) do(req *http.Request) (*http.Response, error) {
	if origin(req.URL) == origin(p.uploads()) {
		return p.repo.Client.Do(req)
	}
	req.Header.Set("User-Agent", p.client.settings.UserAgent)
	resp, err := p.client.http.Do(req)
	if err != nil {
		return nil, &transferError{err}
	}
	return resp, nil
}

// uploads is where sessions are opened.
func (p *remotePlace) uploads() *url.URL {
	u := &url.URL{Scheme: "https", Host: p.repo.Reference.Host(), Path: "/v2/" + p.ref.Repository + "/blobs/uploads/"}
	if p.repo.PlainHTTP {
		u.Scheme = "http"
	}
	return u
}

// follow notes where the session goes on. An answer that doesn't say so leaves
// it where it was.
func (u *blobUpload) follow(resp *http.Response) error {
	location := resp.Header.Get("Location")
	if location == "" {
		return nil
	}
	at, err := resp.Request.URL.Parse(location)
	if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" {
		return &ResponseError{Host: u.place.ref.Host, Ref: u.place.name(), Status: resp.StatusCode, Reason: "the upload goes on at no http or https address"}
	}
	at.User = nil
	own := u.place.uploads()
	// Behind a proxy that ends TLS, registries may not know their own scheme and port.
	if strings.EqualFold(at.Hostname(), own.Hostname()) && (at.Port() == "" || hostPort(at) == hostPort(own)) && (own.Scheme == "https" || at.Scheme == own.Scheme) {
		at.Scheme, at.Host = own.Scheme, own.Host
	}
	if own.Scheme == "https" && at.Scheme != "https" {
		return &transferError{&downgradeError{from: own.Host, to: at.Host}}
	}
	u.at = at
	return nil
}

// withDigest adds the digest of a commit. The rest of the query is the
// registry's, and stays as it is: it may be signed.
func withDigest(at *url.URL, d digest.Digest) *url.URL {
	with := *at
	if with.RawQuery != "" {
		with.RawQuery += "&"
	}
	with.RawQuery += "digest=" + url.QueryEscape(d.String())
	return &with
}

// rangeEnd reads the end of a session's Range: 0-99 is 100 bytes. "0-0" is what
// an empty session says, in most registries.
func rangeEnd(value string) (int64, bool) {
	first, last, ok := strings.Cut(strings.TrimPrefix(value, "bytes="), "-")
	end, err := strconv.ParseInt(last, 10, 64)
	switch {
	case !ok || err != nil || first != "0" || end < 0:
		return 0, false
	case end == 0:
		return 0, true
	}
	return end + 1, true
}

// answerError is an answer that is not what was wanted.
type answerError struct {
	method     string
	status     int
	retryAfter string
	took       time.Duration
	*errcode.ErrorResponse
}

func (e *answerError) Unwrap() error { return e.ErrorResponse }

// maxErrorBody is what is read of an error's text.
const maxErrorBody = 8 << 10

func answerOf(resp *http.Response) *answerError {
	var body struct {
		Errors errcode.Errors `json:"errors"`
	}
	_ = json.NewDecoder(io.LimitReader(resp.Body, maxErrorBody)).Decode(&body) // many answer in HTML
	return &answerError{
		method: resp.Request.Method, status: resp.StatusCode, retryAfter: resp.Header.Get("Retry-After"),
		ErrorResponse: &errcode.ErrorResponse{Method: resp.Request.Method, URL: resp.Request.URL, StatusCode: resp.StatusCode, Errors: body.Errors},
	}
}

// passes says whether the same may be answered better later.
func (e *answerError) passes() bool { return busy(e.status) }

// isRefusal says whether an answer is about the request, and neither about who sends
// it, nor how much it is, nor where it begins.
func (e *answerError) isRefusal() bool {
	switch e.status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusRequestEntityTooLarge, http.StatusRequestedRangeNotSatisfiable:
		return false
	}
	return e.status/100 == 4
}

// refusesChunks says whether an answer to a chunk may mean that there are none
// here. Registries are of many minds.
func (e *answerError) refusesChunks() bool {
	switch e.status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusLengthRequired, http.StatusUnsupportedMediaType, http.StatusNotImplemented:
		return true
	}
	return false
}

func (e *answerError) has(code string) bool { return hasCode(e.ErrorResponse, code) }

// outcomeOf is an error as patience looks at it.
func outcomeOf(err error) outcome {
	var answer *answerError
	if errors.As(err, &answer) {
		return outcome{status: answer.status, retryAfter: answer.retryAfter}
	}
	return outcome{err: err}
}
