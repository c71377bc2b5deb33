package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"slices"

	"cuelabs.dev/go/oci/ociregistry"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"waybill/internal/files"
)

// serveBackend is a [store] in the words of ociregistry. What is not in it is
// not supported: deleting blobs, which other manifests may need.
type serveBackend struct {
	*ociregistry.Funcs
	store *store
}

// newServeBackend offers reading, and for a layout writing.
func newServeBackend(s *store) ociregistry.Interface {
	b := serveBackend{&ociregistry.Funcs{}, s}
	if s.folder == "" {
		return b
	}
	return writableBackend{b}
}

func (b serveBackend) GetBlob(_ context.Context, _ string, d digest.Digest) (ociregistry.BlobReader, error) {
	return b.open(ocispec.Descriptor{MediaType: octetStream, Digest: d}, ociregistry.ErrBlobUnknown)
}

func (b serveBackend) open(desc ocispec.Descriptor, unknown error) (ociregistry.BlobReader, error) {
	file, size, err := b.store.blobs.open(desc.Digest)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, unknown
	}
	if err != nil {
		return nil, files.PlainError(err)
	}
	desc.Size = size
	return servedBlob{file, desc}, nil
}

type servedBlob struct {
	blobFile
	desc ocispec.Descriptor
}

func (b servedBlob) Descriptor() ocispec.Descriptor { return b.desc }

func (b serveBackend) ResolveBlob(_ context.Context, _ string, d digest.Digest) (ocispec.Descriptor, error) {
	size, err := b.store.blobs.size(d)
	if errors.Is(err, fs.ErrNotExist) {
		err = ociregistry.ErrBlobUnknown
	}
	return ocispec.Descriptor{MediaType: octetStream, Digest: d, Size: size}, files.PlainError(err)
}

func (b serveBackend) GetManifest(ctx context.Context, repository string, d digest.Digest) (ociregistry.BlobReader, error) {
	desc, err := b.ResolveManifest(ctx, repository, d)
	if err != nil {
		return nil, err
	}
	return b.open(desc, ociregistry.ErrManifestUnknown)
}

func (b serveBackend) ResolveManifest(_ context.Context, _ string, d digest.Digest) (ocispec.Descriptor, error) {
	v, err := b.store.current()
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	return b.store.manifest(v, d)
}

// manifest describes a manifest: as index.json lists it, else as it says itself.
func (s *store) manifest(v *view, d digest.Digest) (ocispec.Descriptor, error) {
	if desc, ok := v.listed[d]; ok {
		if there, err := hasIn(s.blobs, desc, s.place); there || err != nil {
			return desc, err
		}
		return desc, ociregistry.ErrManifestUnknown
	}
	desc, err := manifestIn(s.blobs, d, s.place)
	if errors.Is(err, errUnlisted) || as[*ContentError](err) {
		return desc, ociregistry.ErrManifestUnknown
	}
	return desc, err
}

func (b serveBackend) GetTag(ctx context.Context, repository, tag string) (ociregistry.BlobReader, error) {
	desc, err := b.ResolveTag(ctx, repository, tag)
	if err != nil {
		return nil, err
	}
	return b.open(desc, ociregistry.ErrManifestUnknown)
}

func (b serveBackend) ResolveTag(_ context.Context, repository, tag string) (ocispec.Descriptor, error) {
	v, err := b.store.current()
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	if desc, ok := v.attached[tag]; ok {
		return desc, nil
	}
	tags, ok := v.tags[repository]
	if !ok {
		return ocispec.Descriptor{}, ociregistry.ErrNameUnknown
	}
	desc, ok := tags[tag]
	if !ok {
		return desc, ociregistry.ErrManifestUnknown
	}
	return desc, nil
}

func (b serveBackend) Repositories(_ context.Context, after string) iter.Seq2[string, error] {
	v, err := b.store.current()
	if err != nil {
		return ociregistry.ErrorSeq[string](err)
	}
	return namesAfter(slices.Sorted(maps.Keys(v.tags)), after)
}

func (b serveBackend) Tags(_ context.Context, repository, after string) iter.Seq2[string, error] {
	v, err := b.store.current()
	if err != nil {
		return ociregistry.ErrorSeq[string](err)
	}
	tags, ok := b.store.tagList(v, repository)
	if !ok {
		return ociregistry.ErrorSeq[string](ociregistry.ErrNameUnknown)
	}
	return namesAfter(tags, after)
}

func namesAfter(sorted []string, after string) iter.Seq2[string, error] {
	at, found := slices.BinarySearch(sorted, after)
	if found {
		at++
	}
	return ociregistry.SliceSeq(sorted[at:])
}

func (b serveBackend) Referrers(_ context.Context, _ string, subject digest.Digest, artifactType string) iter.Seq2[ocispec.Descriptor, error] {
	v, err := b.store.current()
	if err != nil {
		return ociregistry.ErrorSeq[ocispec.Descriptor](err)
	}
	var all []ocispec.Descriptor
	for _, desc := range v.referrers[subject] {
		if artifactType == "" || desc.ArtifactType == artifactType {
			all = append(all, desc)
		}
	}
	return ociregistry.SliceSeq(all)
}

// writableBackend adds what a layout takes.
type writableBackend struct{ serveBackend }

func (b writableBackend) PushBlob(ctx context.Context, repository string, desc ocispec.Descriptor, r io.Reader) (ocispec.Descriptor, error) {
	return b.store.pushBlob(ctx, repository, desc, r)
}

func (b writableBackend) PushBlobChunked(_ context.Context, repository string, _ int) (ociregistry.BlobWriter, error) {
	return b.store.beginUpload(repository)
}

func (b writableBackend) PushBlobChunkedResume(_ context.Context, repository, id string, offset int64, _ int) (ociregistry.BlobWriter, error) {
	return b.store.resumeUpload(repository, id, offset)
}

// pushManifest stores a manifest and lists it when it has a tag or a subject,
// which it gives back. One whose parts are not all there is refused: who finds it
// finds the whole.
func (s *store) pushManifest(ctx context.Context, repository, tag string, desc ocispec.Descriptor, data []byte) (subject digest.Digest, err error) {
	l, err := readLinks(data)
	if err != nil {
		return "", invalidManifest("it is no manifest: " + err.Error())
	}
	if kind := l.kind(); !isManifest(desc.MediaType) || kind != desc.MediaType {
		return "", invalidManifest(fmt.Sprintf("it was sent as %q and is %q", desc.MediaType, kind))
	}
	s.removing.RLock()
	defer s.removing.RUnlock()
	if err := s.checkParts(l); err != nil {
		return "", err
	}
	if err := s.folder.write(desc, bytes.NewReader(data), s.place); err != nil {
		return "", err
	}
	s.remember(desc.Digest, l)
	if l.Subject != nil {
		subject = l.Subject.Digest
	}
	if tag == "" && subject == "" {
		return "", nil
	}
	err = s.change(ctx, func(entries []ocispec.Descriptor) ([]ocispec.Descriptor, bool) {
		listed, moved := false, false
		if subject != "" {
			entries, listed = listUnnamed(entries, desc)
		}
		if tag != "" {
			entries, moved = s.setTag(entries, servedName{repository, tag}, desc)
		}
		return entries, listed || moved
	})
	if err == nil && tag != "" {
		s.onPush(repository, tag, desc.Digest)
	}
	return subject, err
}

func invalidManifest(reason string) error {
	return ociregistry.NewError(reason, ociregistry.ErrManifestInvalid.Code(), nil)
}

// checkParts refuses a manifest that names what isn't there. Its subject may
// come later (distribution specification, "Pushing Manifests with Subject"), and
// layers that may not be given on stay where their addresses say.
func (s *store) checkParts(l links) error {
	for _, part := range append(l.blobs(), l.Manifests...) {
		if err := checkDescriptor(part, "manifest"); err != nil {
			return invalidManifest(err.Error())
		}
		there, err := hasIn(s.blobs, part, s.place)
		switch {
		case as[*ContentError](err):
			return invalidManifest(err.Error())
		case err != nil:
			return err
		case !there && len(part.URLs) == 0:
			return ociregistry.NewError("there is no "+part.Digest.String(), ociregistry.ErrManifestBlobUnknown.Code(), nil)
		}
	}
	return nil
}

func listUnnamed(entries []ocispec.Descriptor, desc ocispec.Descriptor) ([]ocispec.Descriptor, bool) {
	if slices.ContainsFunc(entries, func(e ocispec.Descriptor) bool { return e.Digest == desc.Digest && nameOf(e) == "" }) {
		return entries, false
	}
	return append(entries, entry(desc, "")), true
}

// setTag gives a manifest a tag in a repository, and takes it from whoever has
// it by any of the ways that [nameEntry] reads.
func (s *store) setTag(entries []ocispec.Descriptor, name servedName, desc ocispec.Descriptor) ([]ocispec.Descriptor, bool) {
	has := s.hasName(name)
	if i := slices.IndexFunc(entries, has); i >= 0 && entries[i].Digest == desc.Digest {
		return entries, false
	}
	return append(slices.DeleteFunc(entries, has), entry(desc, indexName(name))), true
}

// indexName is the name in index.json: what hangs on a digest has its tag alone,
// as in every layout.
func indexName(name servedName) string {
	if isAttachment(name.tag) {
		return name.tag
	}
	return name.layoutName()
}

func (s *store) hasName(name servedName) func(ocispec.Descriptor) bool {
	return func(e ocispec.Descriptor) bool {
		if isAttachment(name.tag) || isAttachment(nameOf(e)) {
			return nameOf(e) == name.tag
		}
		about := s.about(entry(e, ""))
		if nameOf(e) == "" && about.subject != "" {
			return false
		}
		return nameEntry(nameOf(e), about, s.base) == name
	}
}

// DeleteTag takes a tag away. The content stays: others may have it too.
func (b writableBackend) DeleteTag(ctx context.Context, repository, tag string) error {
	return b.remove(ctx, b.store.hasName(servedName{repository, tag}))
}

// DeleteManifest takes away the tags of a manifest in a repository, and all of
// it when no entry of index.json leads to it any more.
func (b writableBackend) DeleteManifest(ctx context.Context, repository string, d digest.Digest) error {
	s := b.store
	v, err := s.current()
	if err != nil {
		return err
	}
	if _, err := s.manifest(v, d); err != nil {
		return err
	}
	err = b.remove(ctx, func(e ocispec.Descriptor) bool {
		if e.Digest != d {
			return false
		}
		about := s.about(entry(e, ""))
		return nameOf(e) == "" || isAttachment(nameOf(e)) || nameEntry(nameOf(e), about, s.base).repository == repository
	})
	if err != nil && !errors.Is(err, ociregistry.ErrManifestUnknown) {
		return err
	}
	return s.dropManifest(ctx, d)
}

func (b writableBackend) remove(ctx context.Context, which func(ocispec.Descriptor) bool) error {
	found := false
	err := b.store.change(ctx, func(entries []ocispec.Descriptor) ([]ocispec.Descriptor, bool) {
		before := len(entries)
		entries = slices.DeleteFunc(entries, which)
		found = len(entries) < before
		return entries, found
	})
	if err == nil && !found {
		return ociregistry.ErrManifestUnknown
	}
	return err
}

// dropManifest removes a manifest's bytes when nothing leads to them.
func (s *store) dropManifest(ctx context.Context, d digest.Digest) error {
	s.removing.Lock()
	defer s.removing.Unlock()
	var failed error
	err := s.change(ctx, func(entries []ocispec.Descriptor) ([]ocispec.Descriptor, bool) {
		seen := map[digest.Digest]bool{}
		var visit func(ocispec.Descriptor)
		visit = func(desc ocispec.Descriptor) {
			if seen[desc.Digest] || !isManifest(desc.MediaType) {
				return
			}
			seen[desc.Digest] = true
			for _, child := range s.about(desc).manifests {
				visit(child)
			}
		}
		for _, e := range entries {
			visit(entry(e, ""))
		}
		if seen[d] {
			return entries, false
		}
		path, err := s.folder.path(d)
		if err == nil {
			err = files.PlainError(removeFile(path))
		}
		failed = err
		return entries, false
	})
	return errors.Join(err, failed)
}
