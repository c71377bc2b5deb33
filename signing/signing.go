// Package signing signs one descriptor and says who signed it.
//
// It knows cosign's two ways of attaching a signature to a digest, and the
// policy that decides whose signatures count:
//
//	tag form       an image manifest at the tag sha256-<hex>.sig beside what is
//	               signed; each layer is a simple signing payload, its signature
//	               an annotation of the layer
//	referrer form  an image manifest whose subject is what is signed; its layer
//	               is a sigstore bundle: a DSSE envelope with an in-toto
//	               statement that has the digest as its subject
//
// Both are always read, whatever a registry claims about their types; the
// signed words decide, not where they were found. Verifying never uses the
// network beyond the [Source] it is given, and never the clock: a certificate
// is judged at the time that a timestamp authority or a transparency log vouches for.
//
// What a descriptor leads to (bundle, chart, image) is for other rooms, as are
// locations and credentials (registry), flags and policy files. Begin with
// [LoadSigner] and [Signer.Sign], or with [LoadKey] and [Verify].
//
// See cosign's specs/SIGNATURE_SPEC.md and specs/BUNDLE_SPEC.md, sigstore's
// sigstore_bundle.proto, and the OCI distribution specification on referrers.
package signing

import (
	"context"
	"io"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
)

// Media types, types and annotation keys of signatures, from cosign's
// specifications. Written by [Signer.Sign], read by [Verify] and [Signers].
const (
	// MediaTypeSimpleSigning is a layer of the tag form.
	MediaTypeSimpleSigning = "application/vnd.dev.cosign.simplesigning.v1+json"
	// MediaTypeSigstoreBundle is the artifact type and the layer of the
	// referrer form.
	MediaTypeSigstoreBundle = "application/vnd.dev.sigstore.bundle.v0.3+json"
	// PredicateTypeSignature is the in-toto predicate type of a sigstore bundle
	// that is a signature and not an attestation.
	PredicateTypeSignature = "https://sigstore.dev/cosign/sign/v1"

	annotationSignature   = "dev.cosignproject.cosign/signature"
	annotationCertificate = "dev.sigstore.cosign/certificate"
	annotationLogEntry    = "dev.sigstore.cosign/bundle"
	annotationTimestamp   = "dev.sigstore.cosign/rfc3161timestamp"

	annotationBundleContent   = "dev.sigstore.bundle.content"
	annotationBundlePredicate = "dev.sigstore.bundle.predicateType"

	// mediaTypeBundlePrefix begins the media type of a sigstore bundle of any
	// version: "….bundle.v0.3+json" and "….bundle+json;version=0.3".
	mediaTypeBundlePrefix = "application/vnd.dev.sigstore.bundle"
)

// A Source is a place to read signatures from: a remote repository, a layout,
// an archive. Absence is errdef.ErrNotFound.
type Source interface {
	content.Resolver
	content.Fetcher
	content.PredecessorFinder
}

// A Target is a place to write signatures to. Push of a manifest with a
// subject keeps the referrers tag up to date where a registry needs one, as
// oras-go's remote repository does.
type Target interface {
	Source
	Exists(ctx context.Context, target ocispec.Descriptor) (bool, error)
	Push(ctx context.Context, expected ocispec.Descriptor, content io.Reader) error
	Tag(ctx context.Context, desc ocispec.Descriptor, reference string) error
}

// SignatureTag is the tag of the tag form for d: "sha256-<hex>.sig".
func SignatureTag(d digest.Digest) string {
	return d.Algorithm().String() + "-" + d.Encoded() + ".sig"
}
