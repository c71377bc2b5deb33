package registry

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"sync"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"
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

// reliesOnManifests says whether the target is left to look for the blobs of each
// manifest that it takes: then these need not be read back.
func (r *copyRun) reliesOnManifests(ctx context.Context) bool {
	target, ok := r.dst.target.(*remotePlace)
	return ok && r.size.Bytes >= tryFrom && target.client.uploads.tried("missing blobs at "+target.ref.Host, func() bool { return target.refusesMissingBlobs(ctx) })
}

// refuses says whether a host refuses a wrong digest.
func (l *uploadLimits) refuses(ctx context.Context, p *remotePlace) bool {
	return l.tried("wrong digests at "+p.ref.Host, func() bool { return p.refusesWrongDigest(ctx) })
}

// tried is what came of a trial, which is made once in a run.
func (l *uploadLimits) tried(what string, try func() bool) bool {
	l.mu.Lock()
	if l.trials == nil {
		l.trials = map[string]func() bool{}
	}
	once := l.trials[what]
	if once == nil {
		once = sync.OnceValue(try)
		l.trials[what] = once
	}
	l.mu.Unlock()
	return once()
}

// refusesMissingBlobs sends a manifest whose blob is nowhere.
func (p *remotePlace) refusesMissingBlobs(ctx context.Context) bool {
	nowhere := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageConfig, Digest: digest.FromString("bytes that nobody sent"), Size: 22}
	data, err := marshal(ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, Config: nowhere, Layers: []ocispec.Descriptor{}})
	if err != nil {
		return false
	}
	desc := content.NewDescriptorFromBytes(ocispec.MediaTypeImageManifest, data)
	at, err := url.Parse(p.contentURL(desc))
	if err != nil {
		return false
	}
	ctx = auth.AppendRepositoryScope(ctx, p.repo.Reference, auth.ActionPull, auth.ActionPush)
	u := &blobUpload{place: p, desc: desc}
	piece := uploadPiece{size: desc.Size, open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }}
	_, err = u.send(ctx, http.MethodPut, at, piece, http.Header{"Content-Type": {desc.MediaType}}, http.StatusCreated) //nolint:bodyclose // drained by send
	if err == nil {
		_, _ = u.send(ctx, http.MethodDelete, at, uploadPiece{}, http.Header{}, http.StatusAccepted) //nolint:bodyclose // drained by send
	}
	var answer *answerError
	return errors.As(err, &answer) && (answer.has(errcode.ErrorCodeManifestBlobUnknown) || answer.has(errcode.ErrorCodeBlobUnknown))
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
