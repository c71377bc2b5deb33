package registry

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"path"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/registry/remote"
)

// contentDigest is the header in which a registry says the digest of what it gives
// or took (distribution specification, "Pulling manifests" and "Pushing Manifests").
// Some leave it out, and some, or a proxy before them, say another.
const contentDigest = "Docker-Content-Digest"

// hearDigest takes the header out of an answer where it tells nothing that is relied
// on: content that is asked for by its digest is hashed when it is read, and what was
// pushed is looked at when the header says something else.
func hearDigest(req *http.Request, resp *http.Response) {
	name := path.Base(req.URL.Path)
	switch req.Method {
	case http.MethodGet, http.MethodHead:
		if digest.Digest(name).Validate() == nil {
			resp.Header.Del(contentDigest)
		}
	case http.MethodPut:
		if said, ok := req.Context().Value(saidKey{}).(*string); ok {
			*said = resp.Header.Get(contentDigest)
			resp.Header.Del(contentDigest)
		}
	}
}

// saidKey is for where a push hears what the registry said of the digest.
type saidKey struct{}

// put writes a manifest by tag or digest. Where the registry says that it took
// another, it is read back.
func (p *remotePlace) put(ctx context.Context, repo *remote.Repository, desc ocispec.Descriptor, data []byte, reference string) error {
	var said string
	err := repo.Manifests().PushReference(context.WithValue(ctx, saidKey{}, &said), desc, bytes.NewReader(data), reference)
	if err != nil || said == "" || said == desc.Digest.String() {
		return err
	}
	got, _, err := p.read(ctx, reference)
	if err == nil && got.Digest != desc.Digest {
		return &ContentError{Ref: p.name(), Digest: desc.Digest, Reason: fmt.Sprintf("the registry took it and has %s in its place", got.Digest)}
	}
	return err
}
