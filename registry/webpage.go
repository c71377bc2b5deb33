package registry

import (
	"bufio"
	"bytes"
	"io"
	"mime"
	"net/http"
	"strings"
)

// pageGuard finds out that a web page came where a registry or its token service
// should answer: the page of a network that wants a login first, of a proxy, or of
// another service at that address.
type pageGuard struct{ next http.RoundTripper }

func (g *pageGuard) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := g.next.RoundTrip(req)
	if err != nil || resp.StatusCode != http.StatusOK || !isPage(resp) || isForBlob(req) {
		return resp, err
	}
	drain(resp.Body)
	return nil, &pageError{host: req.URL.Host}
}

// isPage says whether an answer says of itself that it is a web page. No part of
// the distribution specification is one.
func isPage(resp *http.Response) bool {
	mediaType, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return err == nil && (mediaType == "text/html" || mediaType == "application/xhtml+xml")
}

// isForBlob says whether a request is for a blob, which may be anything, of any
// size: its digest tells. Where it was redirected to does not matter.
func isForBlob(req *http.Request) bool {
	for req.Response != nil && req.Response.Request != nil {
		req = req.Response.Request
	}
	return (req.Method == http.MethodGet || req.Method == http.MethodHead) && strings.Contains(req.URL.Path, "/blobs/") && !strings.Contains(req.URL.Path, "/blobs/uploads/")
}

// pageError is a web page in place of an answer.
type pageError struct {
	host string
	file bool // in place of a file
}

func (e *pageError) Error() string { return e.host + " " + e.reason() }

func (e *pageError) reason() string {
	if e.file {
		return "answers with a web page, not with the file"
	}
	return "answers with a web page, which no registry does"
}

// noPage is the body of an answer to a request for a file of a web server, which
// may say anything of its type: a page is one that looks like one, too.
func noPage(resp *http.Response) (io.ReadCloser, error) {
	if !isPage(resp) {
		return resp.Body, nil
	}
	body := bufio.NewReaderSize(resp.Body, pageStart)
	start, _ := body.Peek(pageStart) // what there is of it
	if bytes.HasPrefix(bytes.TrimLeft(start, " \t\r\n\ufeff"), []byte("<")) {
		drain(resp.Body)
		return nil, &transferError{&pageError{host: resp.Request.URL.Host, file: true}}
	}
	return struct {
		io.Reader
		io.Closer
	}{body, resp.Body}, nil
}

// pageStart is how much white space a page may begin with.
const pageStart = 512
