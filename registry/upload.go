package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/registry/remote/auth"
)

// A blobUpload brings one blob into a repository: distribution specification,
// sections "Pushing a blob monolithically" and "Pushing a blob in chunks".
//
//	POST ─► PUT                      a blob of one chunk, or a host that takes no chunks
//	POST ─► PATCH … PATCH ─► PUT     larger ones
//
// Content that can be read from any offset goes on as it comes, in one chunk unless
// the host takes less; of other content one chunk is held in memory, and no more
// of the blob. A step that failed in a way that passes is repeated from where the registry says the session is. When
// the session is gone, the upload starts again if the content can be read again.
type blobUpload struct {
	place *remotePlace
	desc  ocispec.Descriptor
	body  *uploadBody
	step  string // what is being done, for messages

	at       *url.URL // of the session; nil: none is open
	minChunk int64    // what the session wants of every chunk but the last
	maxChunk int64    // what this upload found to be too much for the way; 0: nothing yet
	sent     int64    // bytes that the registry has
	failures int      // since the last progress
	starts   int
	hurried  bool // chunks were made smaller, to be through before a token runs out
}

// maxStarts bounds how often one upload starts from nothing. A registry that
// loses more sessions does not do what it says.
const maxStarts = 4

// pushBlob uploads a blob unless it is there. Content that can be read again, an
// io.Seeker, survives a session that is lost; other content only a connection
// that is lost. After a failure no session is left behind, as far as the registry
// lets itself be told.
func (p *remotePlace) pushBlob(ctx context.Context, desc ocispec.Descriptor, r io.Reader) error {
	body, err := newUploadBody(desc, r, "content for "+p.name(), &p.client.uploads.spare)
	if err != nil {
		return err
	}
	// Pushing needs the right to pull too, in most registries.
	ctx = auth.AppendRepositoryScope(ctx, p.repo.Reference, auth.ActionPull, auth.ActionPush)
	if p.isThere(ctx, desc) {
		return nil
	}
	u := &blobUpload{place: p, desc: desc, body: body}
	defer body.close()
	if err := u.run(ctx); err != nil {
		u.cancel(ctx)
		return u.explain(err)
	}
	return nil
}

// isThere asks whether a blob need not be uploaded. Somebody who may write but
// not read gets no answer, and uploads.
func (p *remotePlace) isThere(ctx context.Context, desc ocispec.Descriptor) bool {
	if _, asked := p.absent.LoadAndDelete(desc.Digest); asked {
		return false
	}
	there, err := p.has(ctx, desc)
	return err == nil && there
}

func (u *blobUpload) run(ctx context.Context) error {
	for {
		err := u.attempt(ctx)
		if err == nil {
			return nil
		}
		if there, err := u.recover(ctx, err); err != nil || there {
			return err
		}
	}
}

// attempt goes on from where the upload is, to its end.
func (u *blobUpload) attempt(ctx context.Context) error {
	if u.at == nil {
		if err := u.begin(ctx); err != nil {
			return err
		}
	}
	if !u.inChunks() {
		return u.putWhole(ctx)
	}
	for u.sent < u.desc.Size {
		if err := u.patch(ctx, u.chunkSize()); err != nil {
			return err
		}
	}
	return u.commit(ctx)
}

// patch sends one chunk.
func (u *blobUpload) patch(ctx context.Context, size int64) error {
	piece, err := u.body.piece(u.sent, size)
	if err != nil {
		return err
	}
	last := u.sent + piece.size - 1
	u.step = fmt.Sprintf("sending bytes %d-%d of %d", u.sent, last, u.desc.Size)
	resp, err := u.send(withPatience(ctx, piece.size, assembling), http.MethodPatch, u.at, piece, http.Header{ //nolint:bodyclose // drained below
		"Content-Type":  {"application/octet-stream"},
		"Content-Range": {fmt.Sprintf("%d-%d", u.sent, last)},
	}, http.StatusAccepted, http.StatusCreated, http.StatusNoContent) // Amazon's ECR answers 201
	if err != nil {
		return err
	}
	if err := u.follow(resp); err != nil {
		return err
	}
	end, ok := rangeEnd(resp.Header.Get("Range"))
	if ok && u.sent < end && end <= last {
		u.sent = end // less was taken than was sent
	} else {
		u.sent = last + 1
	}
	u.failures = 0
	return nil
}

// putWhole sends the blob and commits it with one request.
func (u *blobUpload) putWhole(ctx context.Context) error {
	u.step = fmt.Sprintf("sending all %d bytes", u.desc.Size)
	whole, err := u.body.whole(u.chunkSize())
	if err != nil {
		return err
	}
	header := http.Header{"Content-Type": {"application/octet-stream"}}
	if whole.once || whole.size > wholeBelow {
		// Who refuses the login or the size can say so before the content is gone.
		header.Set("Expect", "100-continue")
	}
	return u.finish(ctx, whole, header)
}

// commit ends an upload whose bytes are all there.
func (u *blobUpload) commit(ctx context.Context) error {
	u.step = "committing"
	return u.finish(ctx, uploadPiece{}, http.Header{"Content-Type": {"application/octet-stream"}})
}

// assembling is the speed at which a registry is expected to put away a chunk, or to
// read a blob again, before it answers, in bytes a second. Distribution does it on S3.
const assembling = 20 << 20

func (u *blobUpload) finish(ctx context.Context, piece uploadPiece, header http.Header) error {
	ctx = withPatience(ctx, u.desc.Size, assembling)
	resp, err := u.send(ctx, http.MethodPut, withDigest(u.at, u.desc.Digest), piece, header, http.StatusCreated, http.StatusOK, http.StatusNoContent, http.StatusAccepted)
	if err != nil {
		return err
	}
	u.at = nil
	return u.confirm(ctx, resp)
}

// confirm looks at what the registry says that it has stored.
func (u *blobUpload) confirm(ctx context.Context, resp *http.Response) error {
	said := resp.Header.Get("Docker-Content-Digest")
	if said == u.desc.Digest.String() && resp.StatusCode == http.StatusCreated {
		return nil
	}
	u.step = "looking at what was stored"
	there, err := u.place.has(ctx, u.desc)
	switch {
	case err != nil:
		return err
	case !there:
		return &ContentError{Ref: u.place.name(), Digest: u.desc.Digest, Reason: "the registry said that it has the blob, and does not"}
	case said == "":
		return nil
	}
	// Another digest was said: only the bytes themselves tell.
	rc, err := u.place.Fetch(ctx, u.desc)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, rc)
	return errors.Join(err, rc.Close())
}

// explain gives an error the place, the blob and the step.
func (u *blobUpload) explain(err error) error {
	var source *sourceError
	if errors.As(err, &source) {
		return source.err
	}
	p := u.place
	what := describe(u.desc) + ": " + u.step
	var answer *answerError
	if errors.As(err, &answer) && answer.method == http.MethodPost && answer.status == http.StatusNotFound {
		what = "repository"
	}
	told := p.client.translate(err, asked{ref: p.name(), host: p.ref.Host, account: p.ref.Name(), what: what, digest: u.desc.Digest})
	if errors.Is(err, errReadOnce) {
		return fmt.Errorf("%w; %w", told, errReadOnce)
	}
	return told
}
