package registrytest

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
)

// recorder notes the status on its way out.
type recorder struct {
	http.ResponseWriter
	status    int
	noSubject bool // a registry without the referrers API doesn't know subjects
}

func (r *recorder) WriteHeader(status int) {
	if r.noSubject {
		r.Header().Del("OCI-Subject")
	}
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

// Unwrap lets handlers flush.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (r *recorder) Write(p []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.ResponseWriter.Write(p)
}

func (s *Server) fail(w *recorder, r *http.Request, f *Fault) {
	switch {
	case f.Hang:
		s.hang(r)
	case f.Drop:
		panic(http.ErrAbortHandler)
	case f.Take > 0 || f.Stick > 0:
		s.interrupt(r, f)
	case f.Redirect != "":
		http.Redirect(w, r, f.Redirect, http.StatusTemporaryRedirect)
	case f.MovedTo != "":
		http.Redirect(w, r, f.MovedTo+r.URL.RequestURI(), http.StatusTemporaryRedirect)
	case f.Status != 0:
		addHeader(w, f.Header)
		w.WriteHeader(f.Status)
		_, _ = io.WriteString(w, f.Body)
	case f.Handler != nil:
		f.Handler.ServeHTTP(w, r)
	default:
		s.spoil(w, r, f)
	}
}

// spoil answers the request and does to the body what the fault says.
func (s *Server) spoil(w *recorder, r *http.Request, f *Fault) {
	answer := httptest.NewRecorder()
	s.handler.ServeHTTP(answer, r)
	body := answer.Body.Bytes()
	if f.Edit != nil {
		body = f.Edit(body)
	}
	if f.Corrupt > 0 && len(body) > 0 {
		body[(f.Corrupt-1)%len(body)] ^= 1
	}
	addHeader(w, answer.Result().Header)
	addHeader(w, f.Header)
	if r.Method != http.MethodHead {
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	if f.CutHead > 0 {
		cutHead(w, answer.Code, f.CutHead)
	}
	w.WriteHeader(answer.Code)
	part := body
	if n := f.Cut + f.Stall; n > 0 && n < len(body) {
		part = body[:n]
	}
	_, _ = w.Write(part)
	if len(part) == len(body) {
		return
	}
	_ = http.NewResponseController(w.ResponseWriter).Flush()
	if f.Stall > 0 {
		s.hang(r)
	}
	panic(http.ErrAbortHandler)
}

// cutHead sends a part of the status line and the headers, never all of them.
func cutHead(w *recorder, status, size int) {
	var head bytes.Buffer
	fmt.Fprintf(&head, "HTTP/1.1 %d %s\r\n", status, http.StatusText(status))
	_ = w.Header().Write(&head) // to memory
	conn, buf, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil {
		_, _ = buf.Write(head.Bytes()[:1+(size-1)%head.Len()])
		_ = buf.Flush()
		_ = conn.Close()
	}
	panic(http.ErrAbortHandler)
}

// interrupt lets the registry have a part of the request's body.
func (s *Server) interrupt(r *http.Request, f *Fault) {
	part := r.Clone(r.Context())
	part.Body = io.NopCloser(io.MultiReader(io.LimitReader(r.Body, int64(f.Take+f.Stick)), broken{}))
	s.handler.ServeHTTP(httptest.NewRecorder(), part)
	if f.Stick > 0 {
		select {
		case <-r.Context().Done():
		case <-s.closed:
		}
	}
	panic(http.ErrAbortHandler)
}

// broken is what is read of a connection that was lost.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// hang holds the connection until the client leaves or the registry ends.
func (s *Server) hang(r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	select {
	case <-r.Context().Done():
	case <-s.closed:
	}
	panic(http.ErrAbortHandler)
}

func addHeader(w http.ResponseWriter, header http.Header) {
	for name, values := range header {
		if len(values) == 0 {
			w.Header().Del(name)
			continue
		}
		w.Header()[name] = values
	}
}
