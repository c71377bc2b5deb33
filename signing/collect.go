package signing

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote/errcode"
)

// Bounds on what strangers may attach to a digest. A signature takes some
// hundred bytes, with certificate, log entry and timestamp some ten thousand.
const (
	maxManifest  = 4 << 20 // as registries have it, distribution specification "Pushing Manifests"
	maxSignature = 1 << 20
	maxLayers    = 1000 // as cosign has it
	maxReferrers = 200
)

// collected is all that was found attached to a digest.
type collected struct {
	signatures []attachment
	denied     []error
	warnings   []string
	lost       []digest.Digest // listed as sigstore bundles, and not there
}

// collect finds the signatures of subject in both forms. Bytes that are not
// what their digests say are a [*ContentError]; a look-up that the registry
// denies is noted, any other failure ends it.
func collect(ctx context.Context, src Source, subject ocispec.Descriptor) (*collected, error) {
	if err := subject.Digest.Validate(); err != nil {
		return nil, fmt.Errorf("looking for signatures of %q: %w", subject.Digest, err)
	}
	c := &collector{src: src, subject: subject, blobs: map[digest.Digest][]byte{}}
	if err := c.tagForm(ctx); err != nil {
		return nil, err
	}
	if err := c.referrers(ctx); err != nil {
		return nil, err
	}
	return &c.collected, nil
}

type collector struct {
	collected
	src     Source
	subject ocispec.Descriptor
	blobs   map[digest.Digest][]byte // layers of one manifest often share their payload
	signed  int
}

func (c *collector) tagForm(ctx context.Context) error {
	tag := SignatureTag(c.subject.Digest)
	desc, err := c.src.Resolve(ctx, tag)
	switch {
	case errors.Is(err, errdef.ErrNotFound):
		return nil
	case isDenied(err):
		c.denied = append(c.denied, fmt.Errorf("signature tag %s: %w", tag, err))
		return nil
	case err != nil:
		return fmt.Errorf("looking for signatures at tag %s: %w", tag, err)
	}
	found := Found{Form: "tag", Manifest: desc.Digest}
	manifest, err := readManifest(ctx, c.src, desc)
	var unreadable *unreadableError
	switch {
	case errors.As(err, &unreadable):
		c.add(attachment{found: found}, err)
		return nil
	case errors.Is(err, errdef.ErrNotFound):
		return &ContentError{Digest: desc.Digest, Reason: "named by tag " + tag + ", but not there"}
	case err != nil:
		return err
	}
	return c.layers(ctx, found, manifest)
}

// referrers looks at everything that has the digest as its subject. What the
// list says of an entry's type is only used to look at likely ones first: on
// registries without the referrers API the list was kept by clients, and some
// wrote the type of the empty config there.
func (c *collector) referrers(ctx context.Context) error {
	list, err := c.src.Predecessors(ctx, c.subject)
	switch {
	case errors.Is(err, errdef.ErrNotFound), errors.Is(err, errdef.ErrUnsupported):
		return nil
	case isDenied(err):
		c.denied = append(c.denied, fmt.Errorf("referrers: %w", err))
		return nil
	case err != nil:
		return fmt.Errorf("listing what refers to %s: %w", c.subject.Digest, err)
	}
	list = slices.DeleteFunc(slices.Clone(list), func(d ocispec.Descriptor) bool {
		return d.MediaType != ocispec.MediaTypeImageManifest
	})
	slices.SortFunc(list, func(a, b ocispec.Descriptor) int {
		return cmp.Or(cmp.Compare(likelihood(a), likelihood(b)), cmp.Compare(a.Digest, b.Digest))
	})
	list = slices.CompactFunc(list, func(a, b ocispec.Descriptor) bool { return a.Digest == b.Digest })
	if len(list) > maxReferrers {
		c.warnings = append(c.warnings, fmt.Sprintf("%d manifests refer to %s; only the first %d were looked at", len(list), c.subject.Digest, maxReferrers))
		list = list[:maxReferrers]
	}
	for _, desc := range list {
		if err := c.referrer(ctx, desc); err != nil {
			return err
		}
	}
	return nil
}

func likelihood(desc ocispec.Descriptor) int {
	switch {
	case isBundleLayer(desc.ArtifactType):
		return 0
	case desc.ArtifactType == "", desc.ArtifactType == ocispec.MediaTypeEmptyJSON, desc.ArtifactType == ocispec.MediaTypeImageConfig:
		return 1
	default:
		return 2
	}
}

func (c *collector) referrer(ctx context.Context, desc ocispec.Descriptor) error {
	manifest, err := readManifest(ctx, c.src, desc)
	var unreadable *unreadableError
	switch {
	case errors.As(err, &unreadable):
		return nil // it has no layer that claims to be a signature
	case errors.Is(err, errdef.ErrNotFound):
		c.warnings = append(c.warnings, fmt.Sprintf("%s refers to %s, but is not there", desc.Digest, c.subject.Digest))
		if isBundleLayer(desc.ArtifactType) {
			c.lost = append(c.lost, desc.Digest)
		}
		return nil
	case err != nil:
		return err
	}
	if manifest.Subject != nil && manifest.Subject.Digest != c.subject.Digest {
		return nil
	}
	return c.layers(ctx, Found{Form: "referrer", Manifest: desc.Digest}, manifest)
}

// layers takes the signatures out of a manifest, of whichever form.
func (c *collector) layers(ctx context.Context, found Found, manifest *ocispec.Manifest) error {
	for _, layer := range manifest.Layers {
		simple := layer.MediaType == MediaTypeSimpleSigning
		if !simple && !isBundleLayer(layer.MediaType) {
			continue
		}
		if c.signed++; c.signed > maxLayers {
			c.warnings = append(c.warnings, fmt.Sprintf("more than %d signatures are attached to %s; the rest was not looked at", maxLayers, c.subject.Digest))
			return nil
		}
		data, err := c.blob(ctx, layer)
		var unreadable *unreadableError
		switch {
		case errors.As(err, &unreadable):
			c.add(attachment{found: found}, err)
		case err != nil:
			return err
		case simple:
			proof, err := readTagProof(layer, data)
			s := attachment{found: found, payload: data}
			if err == nil {
				s.entity = proof
			}
			c.add(s, err)
		default:
			proof, err := readBundleProof(data)
			if errors.Is(err, errNotSignature) {
				continue
			}
			s := attachment{found: found}
			if err == nil {
				s.entity = proof
			}
			c.add(s, err)
		}
	}
	return nil
}

func (c *collector) blob(ctx context.Context, layer ocispec.Descriptor) ([]byte, error) {
	if data, ok := c.blobs[layer.Digest]; ok {
		return data, nil
	}
	data, err := read(ctx, c.src, layer, maxSignature)
	if errors.Is(err, errdef.ErrNotFound) {
		return nil, &ContentError{Digest: layer.Digest, Reason: "named by a signature manifest, but not there"}
	}
	if err == nil {
		c.blobs[layer.Digest] = data
	}
	return data, err
}

// add keeps a signature; problem says why it cannot be read.
func (c *collector) add(s attachment, problem error) {
	if problem == nil {
		content, err := s.entity.VerificationContent()
		if err != nil {
			problem, s.entity = err, nil
		} else {
			s.found.describe(content)
		}
	}
	if problem != nil {
		s.found.Problem = firstLine(problem)
	}
	c.signatures = append(c.signatures, s)
}

// An unreadableError reports true bytes that make no sense as a signature.
type unreadableError struct{ reason string }

func (e *unreadableError) Error() string { return e.reason }

func readManifest(ctx context.Context, src Source, desc ocispec.Descriptor) (*ocispec.Manifest, error) {
	data, err := read(ctx, src, desc, maxManifest)
	if err != nil {
		return nil, err
	}
	var manifest ocispec.Manifest
	if err := json.Unmarshal(data, &manifest); err != nil {
		return nil, &unreadableError{reason: "its manifest is not an image manifest"}
	}
	return &manifest, nil
}

// read fetches what desc describes, at most limit bytes, and requires that it
// is what the digest says.
func read(ctx context.Context, src Source, desc ocispec.Descriptor, limit int64) ([]byte, error) {
	if desc.Size > limit {
		return nil, &unreadableError{reason: fmt.Sprintf("%s is %d bytes, too large for a signature", desc.Digest, desc.Size)}
	}
	if err := desc.Digest.Validate(); err != nil || desc.Size < 0 {
		return nil, &unreadableError{reason: "it names content by no digest that is known"}
	}
	rc, err := src.Fetch(ctx, desc)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", desc.Digest, err)
	}
	defer rc.Close()
	data, err := io.ReadAll(io.LimitReader(rc, desc.Size+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", desc.Digest, err)
	}
	if int64(len(data)) != desc.Size {
		return nil, &ContentError{Digest: desc.Digest, Reason: fmt.Sprintf("its size is not the %d bytes it is described with", desc.Size)}
	}
	if got := desc.Digest.Algorithm().FromBytes(data); got != desc.Digest {
		return nil, &ContentError{Digest: desc.Digest, Reason: fmt.Sprintf("the bytes are %s", got)}
	}
	return data, nil
}

// isDenied tells a registry that does not let us look from one that has
// nothing: 401 or 403, as an answer in oras-go's words or as the error of
// another room that calls itself denied.
func isDenied(err error) bool {
	var answer *errcode.ErrorResponse
	if errors.As(err, &answer) {
		return answer.StatusCode == http.StatusForbidden || answer.StatusCode == http.StatusUnauthorized
	}
	var denied interface{ Denied() bool }
	return errors.As(err, &denied) && denied.Denied()
}
