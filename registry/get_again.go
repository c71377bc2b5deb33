package registry

import (
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"net/http"
	"net/url"
)

// fileReader goes on with a file of a chart repository where the connection was
// lost or stood still. Nobody says what the file's digest is, and few servers
// have validators that can be relied on, so it is read from the start again and
// must begin with what was handed out.
type fileReader struct {
	client *Client
	ctx    context.Context // of the call that this reader is the rest of
	access repositoryAccess
	file   *url.URL
	asked  asked

	rc    io.ReadCloser
	sum   hash.Hash // of what was handed out
	done  int64
	from  int64 // where the last loss was
	tries int   // without progress
}

// errChanged is a file that is another one than a moment ago.
var errChanged = errors.New("the file changed while it was read")

// progress is how many bytes between two losses make a new start.
const progress = 1 << 10

func (c *Client) newFileReader(ctx context.Context, access repositoryAccess, file *url.URL, q asked) (*fileReader, error) {
	r := &fileReader{client: c, ctx: ctx, access: access, file: file, asked: q, sum: sha256.New()}
	return r, r.open()
}

// open makes the request.
func (r *fileReader) open() error {
	ctx := r.ctx
	if r.access.tls != nil {
		ctx = context.WithValue(ctx, ownTLSKey{}, r.access.tls)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.file.String(), nil)
	if err != nil {
		return err
	}
	req.Header.Set("User-Agent", r.client.settings.UserAgent)
	if r.access.goesTo(r.file) {
		req.SetBasicAuth(r.access.username, r.access.password)
	}
	resp, err := r.client.http.Do(req)
	if err != nil {
		return &transferError{err}
	}
	if resp.StatusCode != http.StatusOK {
		drain(resp.Body)
		return statusError(resp)
	}
	r.rc, err = noPage(resp)
	return err
}

func (r *fileReader) Read(p []byte) (int, error) {
	n, err := r.rc.Read(p)
	r.sum.Write(p[:n])
	r.done += int64(n)
	if err == nil || errors.Is(err, io.EOF) {
		return n, err
	}
	if r.done-r.from >= progress {
		r.tries = 0
	}
	r.from = r.done
	r.tries++
	again, waitErr := r.client.retry.again(r.ctx, r.file.Host, r.tries, outcome{err: err})
	switch {
	case waitErr != nil:
		return n, waitErr
	case again:
		err = r.again()
	default:
		err = &transferError{err}
	}
	return n, r.client.translate(err, r.asked)
}

// again opens the file anew and goes to where the last reader was.
func (r *fileReader) again() error {
	_ = r.rc.Close()
	if err := r.open(); err != nil {
		return err
	}
	same := sha256.New()
	if _, err := io.CopyN(same, r.rc, r.done); err != nil && !errors.Is(err, io.EOF) {
		return &transferError{err}
	}
	if string(same.Sum(nil)) != string(r.sum.Sum(nil)) {
		return &transferError{errChanged}
	}
	return nil
}

func (r *fileReader) Close() error { return r.rc.Close() }
