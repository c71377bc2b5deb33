package registry

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/registry/remote/auth"
)

// Registries must refuse content that is not what its digest says (distribution
// specification, "Pushing a blob monolithically"). One that does so when it is
// tried hashes what is sent to it, and nothing is gained by hashing it here too:
// that takes as long as sending it. What it refuses then is read again and hashed,
// to tell whether the source or the way is to blame.
const (
	trustFrom = 1 << 20  // the size from which a blob need not be hashed here
	tryFrom   = 64 << 20 // bytes of a copy from which it is worth a try
)

// trusts says whether the target is left to hash a blob.
func (r *copyRun) trusts(ctx context.Context, n *copyNode) bool {
	target, ok := r.dst.target.(*remotePlace)
	return ok && n.desc.Size > trustFrom && r.size.Bytes >= tryFrom && target.client.uploads.refuses(ctx, target)
}

// refuses says whether a host refuses a wrong digest. It is tried once in a run.
func (l *uploadLimits) refuses(ctx context.Context, p *remotePlace) bool {
	l.mu.Lock()
	if l.refusing == nil {
		l.refusing = map[string]func() bool{}
	}
	try := l.refusing[p.ref.Host]
	if try == nil {
		try = sync.OnceValue(func() bool { return p.refusesWrongDigest(ctx) })
		l.refusing[p.ref.Host] = try
	}
	l.mu.Unlock()
	return try()
}

// refusesWrongDigest sends a few bytes under the digest of others.
func (p *remotePlace) refusesWrongDigest(ctx context.Context) bool {
	sent, named := []byte("these bytes have another digest"), digest.FromString("bytes that nobody sent")
	ctx = auth.AppendRepositoryScope(ctx, p.repo.Reference, auth.ActionPull, auth.ActionPush)
	u := &blobUpload{place: p, desc: ocispec.Descriptor{Digest: named, Size: int64(len(sent))}}
	if u.begin(ctx) != nil {
		return false
	}
	piece := uploadPiece{size: u.desc.Size, open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(sent)), nil }}
	_, err := u.send(ctx, http.MethodPut, withDigest(u.at, named), piece, http.Header{"Content-Type": {"application/octet-stream"}}, http.StatusCreated) //nolint:bodyclose // drained by send
	u.cancel(ctx)
	var answer *answerError
	return errors.As(err, &answer) && answer.refusesContent()
}

// refusesContent says whether an answer to a commit may mean that the content is
// not what its digest says.
func (e *answerError) refusesContent() bool {
	switch e.status {
	case http.StatusBadRequest, http.StatusConflict, http.StatusPreconditionFailed, http.StatusUnprocessableEntity:
		return true
	}
	return false
}
