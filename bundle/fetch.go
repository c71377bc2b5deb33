package bundle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
)

// Bounds on what is read into memory.
const (
	maxManifestBytes = 4 << 20   // what registries take for a manifest (distribution-spec, "Pushing Manifests")
	maxBlobBytes     = 128 << 20 // one blob of a chart; Helm itself loads 100 MiB unpacked
	maxReleaseBytes  = 64 << 20  // all layers of the release manifest
)

// An owner says what content belongs to, for errors.
type owner struct{ component, chart string }

func (o owner) wrong(d digest.Digest, format string, args ...any) error {
	return &ContentError{Digest: d, Reason: fmt.Sprintf(format, args...), Component: o.component, Chart: o.chart}
}

// fetch reads content whole, held against size and digest. What is missing, too
// long or something else is a [ContentError]; other errors are the source's.
func fetch(ctx context.Context, src content.Fetcher, desc ocispec.Descriptor, limit int64, o owner) ([]byte, error) {
	if err := desc.Digest.Validate(); err != nil {
		return nil, o.wrong(desc.Digest, "no usable digest: %s", err)
	}
	if desc.Size < 0 || desc.Size > limit {
		return nil, o.wrong(desc.Digest, "its size is given as %d bytes, more than the %d that are read", desc.Size, limit)
	}
	rc, err := src.Fetch(ctx, desc)
	if err != nil {
		return nil, fetchError(err, desc, o)
	}
	defer rc.Close() // nothing was written
	data, err := io.ReadAll(io.LimitReader(rc, desc.Size+1))
	switch {
	case err != nil && !errors.Is(err, io.ErrUnexpectedEOF):
		return nil, fetchError(err, desc, o)
	case int64(len(data)) != desc.Size:
		return nil, o.wrong(desc.Digest, "corrupt: is not %d bytes long", desc.Size)
	}
	if got := desc.Digest.Algorithm().FromBytes(data); got != desc.Digest {
		return nil, o.wrong(desc.Digest, "corrupt: content is %s", got)
	}
	return data, nil
}

// hash reads content and holds it against size and digest, keeping nothing.
// onRead, when not nil, is told of the bytes as they come.
func hash(ctx context.Context, src content.Fetcher, desc ocispec.Descriptor, o owner, onRead func(int64)) error {
	rc, err := src.Fetch(ctx, desc)
	if err != nil {
		return fetchError(err, desc, o)
	}
	defer rc.Close() // nothing was written
	verifier := desc.Digest.Verifier()
	n, err := io.Copy(counter{verifier, onRead}, io.LimitReader(rc, desc.Size+1))
	switch {
	case err != nil && !errors.Is(err, io.ErrUnexpectedEOF):
		return fetchError(err, desc, o)
	case n != desc.Size:
		return o.wrong(desc.Digest, "corrupt: is not %d bytes long", desc.Size)
	case !verifier.Verified():
		return o.wrong(desc.Digest, "corrupt: content is something else of the same length")
	}
	return nil
}

// A counter tells a hook what is written.
type counter struct {
	io.Writer
	hook func(int64)
}

func (c counter) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	tell(c.hook, int64(n))
	return n, err
}

// fetchError tells content that is not there or not right from a place that
// could not be asked.
func fetchError(err error, desc ocispec.Descriptor, o owner) error {
	switch {
	case errors.Is(err, errdef.ErrNotFound):
		return o.wrong(desc.Digest, "incomplete: it is missing")
	case errors.Is(err, content.ErrMismatchedDigest), errors.Is(err, content.ErrTrailingData), errors.Is(err, content.ErrInvalidDescriptorSize):
		return o.wrong(desc.Digest, "%s", err)
	}
	return fmt.Errorf("reading %s: %w", desc.Digest, err)
}

func alreadyThere(err error) bool { return errors.Is(err, errdef.ErrAlreadyExists) }

// each runs f for all items, some at the same time, and returns the first error.
func each[T any](ctx context.Context, concurrency int, items []T, f func(context.Context, T) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(orDefault(concurrency))
	for _, i := range items {
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return f(ctx, i)
		})
	}
	return group.Wait()
}

// parseChartManifest reads the manifest of a Helm chart (Helm's "OCI-based
// registries": an image manifest with Helm's config and a content layer).
func parseChartManifest(data []byte, desc ocispec.Descriptor, o owner) (ocispec.Manifest, error) {
	var manifest ocispec.Manifest
	if err := json.Unmarshal(data, &manifest); err != nil {
		return manifest, o.wrong(desc.Digest, "no manifest: %s", err)
	}
	if manifest.Config.MediaType != MediaTypeHelmConfig {
		return manifest, o.wrong(desc.Digest, "no Helm chart: its config is %q", manifest.Config.MediaType)
	}
	return manifest, nil
}

// chartLayer returns the descriptor of the chart's .tgz.
func chartLayer(manifest ocispec.Manifest, desc ocispec.Descriptor, o owner) (ocispec.Descriptor, error) {
	for _, layer := range manifest.Layers {
		if layer.MediaType == MediaTypeHelmChart || layer.MediaType == MediaTypeHelmChartOld {
			return layer, nil
		}
	}
	return ocispec.Descriptor{}, o.wrong(desc.Digest, "no Helm chart: it has no layer of type %s", MediaTypeHelmChart)
}
