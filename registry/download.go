package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/registry/remote/auth"
)

// resumingReader goes on with content where the connection was lost or stood
// still: with a Range, and where the server knows none, from the start again
// without handing out what was handed out.
type resumingReader struct {
	place *remotePlace
	ctx   context.Context // of the fetch that this reader is the rest of
	desc  ocispec.Descriptor
	rc    io.ReadCloser
	done  int64
	from  int64 // where the last loss was
	tries int   // without progress
}

func (r *resumingReader) Read(p []byte) (int, error) {
	n, err := r.rc.Read(p)
	r.done += int64(n)
	if err == nil || errors.Is(err, io.EOF) {
		return n, err // too short: the check after this one says so
	}
	if r.done-r.from >= r.progress() {
		r.tries = 0
	}
	r.from = r.done
	r.tries++
	again, waitErr := r.place.client.retry.again(r.ctx, r.place.ref.Host, r.tries, outcome{err: err})
	switch {
	case waitErr != nil:
		return n, waitErr
	case !again:
		return n, r.fail(err)
	}
	if err := r.resume(); err != nil {
		return n, r.fail(err)
	}
	return n, nil
}

// progress is how many bytes between two losses make a new start. A server that
// gives a byte before each loss must not be asked for ever.
func (r *resumingReader) progress() int64 {
	s := r.place.client.settings
	return min(max(1<<10, int64(float64(s.MinRate)*s.IdleTimeout.Seconds())), r.desc.Size)
}

func (r *resumingReader) resume() error {
	if r.rc != nil {
		_ = r.rc.Close()
	}
	ctx := auth.AppendRepositoryScope(r.ctx, r.place.repo.Reference, auth.ActionPull)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.place.contentURL(r.desc), nil)
	if err != nil {
		return err
	}
	if isManifest(r.desc.MediaType) {
		req.Header.Set("Accept", r.desc.MediaType)
	} else if r.done > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", r.done, r.desc.Size-1))
	}
	resp, err := r.place.do(req) //nolint:bodyclose // becomes the reader's, or is drained
	if err != nil {
		return err
	}
	r.rc = resp.Body
	switch resp.StatusCode {
	case http.StatusPartialContent:
		if said := resp.Header.Get("Content-Range"); !strings.HasPrefix(said, fmt.Sprintf("bytes %d-", r.done)) {
			return &ContentError{Ref: r.place.name(), Digest: r.desc.Digest, Reason: fmt.Sprintf("asked for it from byte %d on, the registry gives %q", r.done, printable(said))}
		}
		return nil
	case http.StatusOK:
		_, err = io.CopyN(io.Discard, resp.Body, r.done)
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	return answerOf(resp)
}

// contentURL is where a blob or a manifest is.
func (p *remotePlace) contentURL(desc ocispec.Descriptor) string {
	kind := "blobs"
	if isManifest(desc.MediaType) {
		kind = "manifests"
	}
	u := p.uploads()
	u.Path = "/v2/" + p.ref.Repository + "/" + kind + "/" + desc.Digest.String()
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

func (r *resumingReader) fail(err error) error {
	return r.place.failed(err, describe(r.desc), r.desc, true)
}

func (r *resumingReader) Close() error { return r.rc.Close() }
