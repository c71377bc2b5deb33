package charts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"helm.sh/helm/v3/pkg/registry"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
)

// What the parts of a chart in a registry may weigh, besides its archive.
const (
	maxManifestBytes = 4 << 20
	maxTags          = 200_000
)

// fromRegistry finds a chart in a registry. Its name is the last part of the
// repository's, its version the tag. An exact version is one question for one
// tag; everything after it is asked by digest.
func (f *finder) fromRegistry(ctx context.Context, o order) (*Chart, error) {
	name := strings.TrimSuffix(strings.TrimPrefix(o.repository, schemeRegistry), "/") + "/" + o.name()
	repo, err := f.net.Repository(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("chart %s: %w", o.name(), err)
	}
	if o.pin != nil && o.pin.manifest != "" {
		return f.pinnedManifest(ctx, o, repo)
	}
	version, desc, err := f.tagged(ctx, o, repo)
	if err != nil {
		return nil, err
	}
	c, err := f.fromManifest(ctx, o, version, repo, desc)
	if err != nil {
		return nil, err
	}
	return c, checkPin(c, o)
}

// tagged finds the version that is meant and the manifest it names.
func (f *finder) tagged(ctx context.Context, o order, repo Repository) (version string, desc ocispec.Descriptor, err error) {
	if o.want.exact == nil {
		if version, err = f.newestTag(ctx, o, repo); err != nil {
			return "", desc, err
		}
		desc, err = f.resolveTag(ctx, o, repo, strings.ReplaceAll(version, "+", "_"))
		return plus(version), desc, err
	}
	tag, err := o.want.tag()
	if err != nil {
		return "", desc, err
	}
	desc, err = f.resolveTag(ctx, o, repo, tag)
	if !errors.Is(err, errdef.ErrNotFound) {
		return o.want.text, desc, err
	}
	// Not there to the letter. Only now the list is worth a request: it may
	// hold builds of that version, and else says what there is.
	version, listErr := f.newestTag(ctx, o, repo)
	var ambiguous *AmbiguousError
	var missing *NotFoundError
	switch {
	case errors.As(listErr, &ambiguous), errors.As(listErr, &missing):
		return "", desc, listErr
	case listErr != nil:
		return "", desc, err
	}
	desc, err = f.resolveTag(ctx, o, repo, strings.ReplaceAll(version, "+", "_"))
	return plus(version), desc, err
}

// resolveTag asks once what a tag names.
func (f *finder) resolveTag(ctx context.Context, o order, repo Repository, tag string) (ocispec.Descriptor, error) {
	f.onFetch(fmt.Sprintf("chart %s %s from %s", o.name(), plus(tag), o.where()))
	desc, err := repo.Resolve(ctx, tag)
	if err != nil {
		return desc, fmt.Errorf("finding chart %s %s: %w", o.name(), plus(tag), err)
	}
	return desc, nil
}

// newestTag is the newest tag that fits, of every page of the list.
func (f *finder) newestTag(ctx context.Context, o order, repo Repository) (string, error) {
	tags, err := cached(f.cache, "tags "+o.source(), func() ([]string, error) {
		f.onFetch(fmt.Sprintf("versions of chart %s at %s", o.name(), o.where()))
		var all []string
		err := repo.Tags(ctx, func(page []string) error {
			if all = append(all, page...); len(all) > maxTags {
				return &RepositoryError{Repository: o.where(), Chart: o.name(), Reason: fmt.Sprintf("has more than %d tags; name an exact version", maxTags)}
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("listing the versions of chart %s: %w", o.name(), err)
		}
		return all, nil
	})
	if err != nil {
		return "", err
	}
	return o.want.choose(o.where(), tags)
}

// pinnedManifest fetches what is locked by its digest, and asks no tag unless
// it has gone, or the caller wants to know.
func (f *finder) pinnedManifest(ctx context.Context, o order, repo Repository) (*Chart, error) {
	if f.again {
		if err := f.checkTag(ctx, o, repo); err != nil {
			return nil, err
		}
	}
	f.onFetch(fmt.Sprintf("chart %s %s from %s", o.name(), o.pin.version, o.where()))
	desc, err := repo.Resolve(ctx, o.pin.manifest.String())
	if errors.Is(err, errdef.ErrNotFound) {
		if moved := f.checkTag(ctx, o, repo); moved != nil {
			return nil, moved
		}
	}
	if err != nil {
		return nil, fmt.Errorf("fetching chart %s %s as it is locked: %w", o.name(), o.pin.version, err)
	}
	if desc.Digest != o.pin.manifest {
		return nil, &MovedError{Name: o.name(), Version: o.pin.version, Repository: o.where(), What: "manifest", Locked: o.pin.manifest, Served: desc.Digest}
	}
	c, err := f.fromManifest(ctx, o, o.pin.version, repo, desc)
	if err != nil {
		return nil, err
	}
	return c, checkPin(c, o)
}

// checkTag finds a tag that names other content than is locked.
func (f *finder) checkTag(ctx context.Context, o order, repo Repository) error {
	tag, err := o.want.tag()
	if err != nil {
		return err
	}
	desc, err := f.resolveTag(ctx, o, repo, tag)
	switch {
	case errors.Is(err, errdef.ErrNotFound):
		return nil
	case err != nil:
		return err
	case desc.Digest != o.pin.manifest:
		return &MovedError{Name: o.name(), Version: o.pin.version, Repository: o.where(), What: "manifest", Locked: o.pin.manifest, Served: desc.Digest}
	}
	return nil
}

// fromIndexedRegistry fetches a chart that a chart repository lists and a
// registry holds.
func (f *finder) fromIndexedRegistry(ctx context.Context, o order, entry indexEntry, address string, want digest.Digest) (*Chart, error) {
	name, tag := strings.TrimPrefix(address, schemeRegistry), ""
	if at := strings.LastIndex(name, ":"); at > strings.LastIndex(name, "/") {
		name, tag = name[:at], name[at+1:]
	}
	if !tagGrammar.MatchString(tag) {
		return nil, o.wrong(entry.Version, "the URL in its index entry (%q) has no tag", masked(address))
	}
	repo, err := f.net.Repository(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("chart %s: %w", o.name(), err)
	}
	desc, err := f.resolveTag(ctx, o, repo, tag)
	if err != nil {
		return nil, err
	}
	c, err := f.fromManifest(ctx, o, entry.Version, repo, desc)
	if err != nil {
		return nil, err
	}
	if want != "" && want != c.Content {
		return nil, o.wrong(entry.Version, "%s is %s, its entry in index.yaml says %s", masked(address), c.Content, want)
	}
	return c, checkPin(c, o)
}

// fromManifest fetches a chart's manifest and every blob it names, and keeps
// them as they are.
func (f *finder) fromManifest(ctx context.Context, o order, version string, repo Repository, desc ocispec.Descriptor) (*Chart, error) {
	data, manifest, err := f.manifest(ctx, o, version, repo, desc)
	if err != nil {
		return nil, err
	}
	blobs := map[digest.Digest][]byte{desc.Digest: data}
	for _, part := range append([]ocispec.Descriptor{manifest.Config}, manifest.Layers...) {
		if _, have := blobs[part.Digest]; have {
			continue
		}
		blob, err := content.FetchAll(ctx, repo, part)
		if err != nil {
			return nil, fmt.Errorf("fetching chart %s %s: %w", o.name(), version, err)
		}
		blobs[part.Digest] = blob
	}
	c, err := openArchive(blobs[archiveLayer(manifest).Digest], nil)
	if err != nil {
		return nil, titled(err, fmt.Sprintf("%s %s of %s", o.name(), version, o.where()))
	}
	if err := checkName(c, o, version); err != nil {
		return nil, err
	}
	c.blobs = blobs
	c.descriptor = ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: desc.Digest, Size: desc.Size}
	c.Manifest = desc.Digest
	return c, nil
}

// manifest fetches a manifest and makes sure that it is a chart's.
func (f *finder) manifest(ctx context.Context, o order, version string, repo Repository, desc ocispec.Descriptor) ([]byte, *ocispec.Manifest, error) {
	switch desc.MediaType {
	case ocispec.MediaTypeImageManifest:
	case ocispec.MediaTypeImageIndex, "application/vnd.docker.distribution.manifest.list.v2+json":
		return nil, nil, o.wrong(version, "is an index of several manifests, not a Helm chart: name a chart's own repository and version")
	default:
		return nil, nil, o.wrong(version, "is no Helm chart (its manifest is %q)", desc.MediaType)
	}
	if desc.Size > maxManifestBytes {
		return nil, nil, o.wrong(version, "its manifest is larger than %d bytes", maxManifestBytes)
	}
	data, err := content.FetchAll(ctx, repo, desc)
	if err != nil {
		return nil, nil, fmt.Errorf("fetching the manifest of chart %s %s: %w", o.name(), version, err)
	}
	manifest := &ocispec.Manifest{}
	if err := json.Unmarshal(data, manifest); err != nil {
		return nil, nil, o.wrong(version, "its manifest does not parse: %v", err)
	}
	if manifest.MediaType != "" && manifest.MediaType != ocispec.MediaTypeImageManifest {
		return nil, nil, o.wrong(version, "its manifest says it is a %q", manifest.MediaType)
	}
	if reason := notAChart(manifest); reason != "" {
		return nil, nil, o.wrong(version, "%s", reason)
	}
	return data, manifest, nil
}

// notAChart says why a manifest is no chart's, or nothing.
func notAChart(manifest *ocispec.Manifest) string {
	if manifest.Config.MediaType != MediaTypeConfig {
		what := manifest.ArtifactType
		if what == "" {
			what = manifest.Config.MediaType
		}
		switch manifest.Config.MediaType {
		case ocispec.MediaTypeImageConfig, "application/vnd.docker.container.image.v1+json":
			return "is a container image, not a Helm chart"
		}
		return fmt.Sprintf("is no Helm chart, but an artifact of type %q", what)
	}
	archives, total := 0, manifest.Config.Size
	for _, layer := range manifest.Layers {
		if isArchiveLayer(layer) {
			archives++
		}
		if layer.Size < 0 || layer.Size > maxArchiveBytes {
			return fmt.Sprintf("has a part of %d bytes; a chart may have %d", layer.Size, int64(maxArchiveBytes))
		}
		total += layer.Size
	}
	switch {
	case archives != 1:
		return fmt.Sprintf("is no Helm chart: its manifest names %d chart archives, one is right", archives)
	case manifest.Config.Size < 0 || manifest.Config.Size > maxManifestBytes || total > maxArchiveBytes+maxProvenanceBytes+maxManifestBytes:
		return fmt.Sprintf("is larger than a chart may be (%d bytes)", int64(maxArchiveBytes))
	}
	return ""
}

// isArchiveLayer is whether a layer is the chart's archive, by the type Helm
// gives it now or the one it gave before version 3.7.
func isArchiveLayer(layer ocispec.Descriptor) bool {
	return layer.MediaType == MediaTypeContent || layer.MediaType == registry.LegacyChartLayerMediaType
}

func archiveLayer(manifest *ocispec.Manifest) ocispec.Descriptor {
	for _, layer := range manifest.Layers {
		if isArchiveLayer(layer) {
			return layer
		}
	}
	return ocispec.Descriptor{}
}
