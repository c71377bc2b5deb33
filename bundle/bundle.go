package bundle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
)

// A Bundle is an opened bundle: its root and its documents, held against their
// digests and against each other. Charts and images are read when asked for.
type Bundle struct {
	Root        ocispec.Descriptor // as given to Open
	RootBytes   []byte             // the index, byte for byte
	Index       ocispec.Index      // the index, decoded
	Release     *Release
	ReleaseFile []byte // as written
	Lock        *Lock
	LockFile    []byte            // as written
	ValuesFiles map[string][]byte // by the path the release file gives: a key, never a path to write to

	src content.Fetcher
}

// Open reads the bundle at root from src: the index, the release manifest, and
// its documents. Nothing else is fetched; [Bundle.Check] does that. Who signed
// the root is asked elsewhere, before Open.
//
// It returns [ErrNotBundle] (wrapped) for other content, a [NewerError] for a
// bundle of a later version, a [ContentError] for content that is missing, is
// not what its digest says, or contradicts itself, and src's own errors.
func Open(ctx context.Context, src content.Fetcher, root ocispec.Descriptor) (*Bundle, error) {
	if root.MediaType != ocispec.MediaTypeImageIndex {
		return nil, fmt.Errorf("%s is of type %q: %w", root.Digest, root.MediaType, ErrNotBundle)
	}
	data, err := fetch(ctx, src, root, maxManifestBytes, owner{})
	if err != nil {
		return nil, err
	}
	b := &Bundle{Root: root, RootBytes: data, src: src}
	if err := b.readIndex(); err != nil {
		return nil, err
	}
	if err := b.readRelease(ctx); err != nil {
		return nil, err
	}
	if err := b.agree(); err != nil {
		return nil, err
	}
	return b, nil
}

// Name returns the release's name.
func (b *Bundle) Name() string { return b.Lock.Release.Name }

// Version returns the release's version: the lock's, which the release file may
// leave open.
func (b *Bundle) Version() string { return b.Lock.Release.Version }

// Entries returns the root's entries of a role, in the root's order.
func (b *Bundle) Entries(role string) []ocispec.Descriptor {
	var entries []ocispec.Descriptor
	for _, entry := range b.Index.Manifests {
		if entry.Annotations[AnnotationRole] == role {
			entries = append(entries, entry)
		}
	}
	return entries
}

// UnknownRoles returns the roles of entries that this program does not know,
// sorted. They are carried and not installed.
func (b *Bundle) UnknownRoles() []string {
	var unknown []string
	for _, entry := range b.Index.Manifests {
		switch role := entry.Annotations[AnnotationRole]; role {
		case RoleRelease, RoleChart, RoleImage:
		default:
			unknown = append(unknown, role)
		}
	}
	slices.Sort(unknown)
	return slices.Compact(unknown)
}

// Installable returns an [UnknownRoleError] for a bundle with entries this
// program does not know: leaving them out could leave out what the rest needs.
func (b *Bundle) Installable() error {
	if unknown := b.UnknownRoles(); len(unknown) > 0 {
		return &UnknownRoleError{Roles: unknown}
	}
	return nil
}

// ChartDescriptor returns the root's entry for the component's chart, or an
// [UnknownComponentError].
func (b *Bundle) ChartDescriptor(component string) (ocispec.Descriptor, error) {
	for _, entry := range b.Entries(RoleChart) {
		if slices.Contains(components(entry), component) {
			return entry, nil
		}
	}
	return ocispec.Descriptor{}, &UnknownComponentError{Name: component, Known: b.Release.ComponentNames()}
}

// Chart returns the component's chart as a .tgz, held against the root and the
// lock. Errors are an [UnknownComponentError], a [ContentError], or the source's.
func (b *Bundle) Chart(ctx context.Context, component string) ([]byte, error) {
	entry, err := b.ChartDescriptor(component)
	if err != nil {
		return nil, err
	}
	whose := entryOwner(entry)
	data, err := fetch(ctx, b.src, entry, maxManifestBytes, whose)
	if err != nil {
		return nil, err
	}
	layer, err := b.lockedLayer(data, entry)
	if err != nil {
		return nil, err
	}
	return fetch(ctx, b.src, layer, maxBlobBytes, whose)
}

// lockedLayer returns the layer with the .tgz of a chart's manifest, which the
// lock must know.
func (b *Bundle) lockedLayer(manifestBytes []byte, entry ocispec.Descriptor) (ocispec.Descriptor, error) {
	whose := entryOwner(entry)
	manifest, err := parseChartManifest(manifestBytes, entry, whose)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	layer, err := chartLayer(manifest, entry, whose)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	for _, component := range components(entry) {
		if locked, _ := b.Lock.Chart(component); locked.Content != layer.Digest {
			return ocispec.Descriptor{}, whose.wrong(entry.Digest, "holds the chart %s, locked is %s", layer.Digest, locked.Content)
		}
	}
	return layer, nil
}

// components returns the components an entry is for.
func components(entry ocispec.Descriptor) []string {
	return strings.Split(entry.Annotations[AnnotationComponent], ",")
}

func entryOwner(entry ocispec.Descriptor) owner {
	return owner{
		component: entry.Annotations[AnnotationComponent],
		chart:     strings.TrimSpace(entry.Annotations[ocispec.AnnotationTitle] + " " + entry.Annotations[ocispec.AnnotationVersion]),
	}
}

func (b *Bundle) wrong(format string, args ...any) error {
	return owner{}.wrong(b.Root.Digest, format, args...)
}

func (b *Bundle) readIndex() error {
	if err := json.Unmarshal(b.RootBytes, &b.Index); err != nil {
		return b.wrong("no index: %s", err)
	}
	switch {
	case b.Index.MediaType != ocispec.MediaTypeImageIndex:
		return fmt.Errorf("%s is of type %q: %w", b.Root.Digest, b.Index.MediaType, ErrNotBundle)
	case b.Index.ArtifactType == ArtifactType:
	case otherVersion(b.Index.ArtifactType, ArtifactType):
		return &NewerError{Digest: b.Root.Digest, Type: b.Index.ArtifactType}
	default:
		return fmt.Errorf("%s is an index of artifact type %q: %w", b.Root.Digest, b.Index.ArtifactType, ErrNotBundle)
	}
	if n := len(b.Entries(RoleRelease)); n != 1 {
		return b.wrong("it has %d entries of role %s, not one", n, RoleRelease)
	}
	type entryKey struct{ role, digest string }
	seen := map[entryKey]bool{}
	for _, entry := range b.Index.Manifests {
		key := entryKey{entry.Annotations[AnnotationRole], entry.Digest.String()}
		if seen[key] {
			return b.wrong("it has two entries of role %s for %s", key.role, key.digest)
		}
		seen[key] = true
	}
	return nil
}

// otherVersion reports whether a type is one of ours in another version:
// application/vnd.waybill.bundle.v2+json.
func otherVersion(mediaType, ours string) bool {
	prefix, _, _ := strings.Cut(ours, ".v1+")
	return strings.HasPrefix(mediaType, prefix+".v") && mediaType != ours
}

// readRelease reads the release manifest and its layers.
func (b *Bundle) readRelease(ctx context.Context) error {
	entry := b.Entries(RoleRelease)[0]
	data, err := fetch(ctx, b.src, entry, maxManifestBytes, owner{})
	if err != nil {
		return err
	}
	var manifest ocispec.Manifest
	if err := json.Unmarshal(data, &manifest); err != nil {
		return owner{}.wrong(entry.Digest, "no manifest: %s", err)
	}
	if otherVersion(manifest.ArtifactType, ArtifactTypeRelease) {
		return &NewerError{Digest: entry.Digest, Type: manifest.ArtifactType}
	}
	if manifest.ArtifactType != ArtifactTypeRelease {
		return owner{}.wrong(entry.Digest, "it is no release manifest but of type %q", manifest.ArtifactType)
	}
	if b.ReleaseFile, b.LockFile, b.ValuesFiles, err = b.readLayers(ctx, entry, manifest.Layers); err != nil {
		return err
	}
	if b.Release, err = parseHeld(entry, "release file", b.ReleaseFile, ParseRelease); err != nil {
		return err
	}
	b.Lock, err = parseHeld(entry, "lock", b.LockFile, ParseLock)
	return err
}

// parseHeld parses a document that a bundle holds: what the reader of a file
// would have to mend is content here.
func parseHeld[T any](entry ocispec.Descriptor, what string, data []byte, parse func(string, []byte) (*T, error)) (*T, error) {
	var head struct {
		APIVersion string `json:"apiVersion"`
	}
	if doc, problems := readDocument(data); problems == nil && decodeJSON(doc.json, &head) == nil {
		if strings.HasPrefix(head.APIVersion, "waybill/") && head.APIVersion != APIVersion {
			return nil, &NewerError{Digest: entry.Digest, Type: head.APIVersion}
		}
	}
	parsed, err := parse(what, data)
	var bad *FileError
	if errors.As(err, &bad) {
		return nil, owner{}.wrong(entry.Digest, "%s", strings.ReplaceAll(bad.Error(), "\n", "; "))
	}
	return parsed, err
}

func (b *Bundle) readLayers(ctx context.Context, entry ocispec.Descriptor, layers []ocispec.Descriptor) (releaseFile, lock []byte, values map[string][]byte, err error) {
	values = map[string][]byte{}
	total := int64(0)
	for _, layer := range layers {
		for _, ours := range []string{MediaTypeReleaseFile, MediaTypeLock, MediaTypeValues} {
			if otherVersion(layer.MediaType, ours) {
				return nil, nil, nil, &NewerError{Digest: entry.Digest, Type: layer.MediaType}
			}
		}
		title := layer.Annotations[ocispec.AnnotationTitle]
		switch {
		case layer.MediaType != MediaTypeReleaseFile && layer.MediaType != MediaTypeLock && layer.MediaType != MediaTypeValues:
			continue // of a later version, which says it can be done without
		case layer.MediaType == MediaTypeReleaseFile && releaseFile != nil, layer.MediaType == MediaTypeLock && lock != nil,
			layer.MediaType == MediaTypeValues && values[title] != nil:
			return nil, nil, nil, owner{}.wrong(entry.Digest, "it has two layers %s %q", layer.MediaType, title)
		}
		data, err := fetch(ctx, b.src, layer, maxDocumentBytes, owner{})
		if err != nil {
			return nil, nil, nil, err
		}
		if total += layer.Size; total > maxReleaseBytes {
			return nil, nil, nil, owner{}.wrong(entry.Digest, "its layers are more than %d bytes", maxReleaseBytes)
		}
		switch layer.MediaType {
		case MediaTypeReleaseFile:
			releaseFile = data
		case MediaTypeLock:
			lock = data
		default:
			values[title] = data
		}
	}
	if releaseFile == nil || lock == nil {
		return nil, nil, nil, owner{}.wrong(entry.Digest, "it has no layer %s or no layer %s", MediaTypeReleaseFile, MediaTypeLock)
	}
	return releaseFile, lock, values, nil
}
