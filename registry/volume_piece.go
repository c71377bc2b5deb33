package registry

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
)

// Some volumes of many go into a registry as blobs, manifests too: what the last
// volume completes is read there. A piece of a blob is a blob by itself, named by
// a manifest under a tag, since its digest is only known to the volume it is in.
const pieceType = "application/vnd.waybill.piece.v1+json"

// pieceTag names the deposited piece of a blob.
func pieceTag(p volumePart) string {
	return pieceTagPrefix + p.Digest.Encoded()[:32] + "-" + strconv.Itoa(p.Piece)
}

const pieceTagPrefix = "waybill-piece-"

func isPieceTag(tag string) bool { return strings.HasPrefix(tag, pieceTagPrefix) }

// describePiece is a piece as a blob by itself.
func describePiece(p volumePart, sum digest.Digest) ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: octetStream, Digest: sum, Size: p.Length}
}

// readPiece finds the deposited piece of a blob.
func readPiece(ctx context.Context, dst *Destination, p volumePart) (ocispec.Descriptor, error) {
	desc, err := dst.Resolve(ctx, pieceTag(p))
	if err != nil {
		return desc, err
	}
	data, err := content.FetchAll(ctx, dst, desc)
	if err != nil {
		return desc, err
	}
	l, err := readLinks(data)
	if err != nil || l.ArtifactType != pieceType || len(l.Layers) != 1 || l.Layers[0].Size != p.Length {
		return desc, fmt.Errorf("tag %s names something else than a piece of %s: %w", pieceTag(p), p.Digest, errdef.ErrNotFound)
	}
	return l.Layers[0], nil
}
