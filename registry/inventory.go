package registry

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"

	"waybill/internal/files"
	"waybill/internal/ref"
)

// Holdings are the blobs and manifests that a place has, by digest.
type Holdings struct {
	Reference string // the place
	Roots     []HeldRoot
	Delta     *Delta // what a place that is a delta leaves out; it is not held
	blobs     digestSet

	// Unreadable are the manifests that tags or other manifests name and that are not
	// there, or not what their digests say, one error for each. They are not held, nor
	// is what only they lead to.
	Unreadable []error
	// Undetermined are the look-ups for what hangs on a manifest that gave no answer;
	// what they would have led to is not held.
	Undetermined []Undetermined
}

// A HeldRoot is what somebody would open at a place.
type HeldRoot struct {
	Tag     string        `json:"tag,omitempty" jsonschema_description:"Its tag, or its name in an archive or a folder."`
	Name    string        `json:"name,omitempty" jsonschema_description:"The title that it gives itself."`
	Version string        `json:"version,omitempty" jsonschema_description:"The version that it gives itself."`
	Digest  digest.Digest `json:"digest" jsonschema_description:"Its digest."`
}

// Size is how much there is.
func (h *Holdings) Size() Amount { return Amount{Objects: h.blobs.len(), Bytes: h.blobs.bytes} }

// Bases are what is held, as a delta names it.
func (h *Holdings) Bases() []Base {
	var all []Base
	for _, r := range h.Roots {
		all = append(all, Base{Name: r.Name, Version: r.Version, Digest: r.Digest})
	}
	return all
}

// Each calls fn for everything held, in order of digest.
func (h *Holdings) Each(fn func(d digest.Digest, size int64) error) error { return h.blobs.each(fn) }

// digestSet holds digests with sizes, and as little beside as can be: a
// repository has a million.
type digestSet struct {
	sha256 map[[32]byte]int64
	others map[digest.Digest]int64
	bytes  int64
}

// add says whether a digest is new.
func (s *digestSet) add(d digest.Digest, size int64) bool {
	key, short := shortKey(d)
	_, there := s.find(d)
	switch {
	case there:
		return false
	case short && s.sha256 == nil:
		s.sha256 = map[[32]byte]int64{}
	case !short && s.others == nil:
		s.others = map[digest.Digest]int64{}
	}
	if short {
		s.sha256[key] = size
	} else {
		s.others[d] = size
	}
	s.bytes += size
	return true
}

func (s *digestSet) find(d digest.Digest) (int64, bool) {
	if key, short := shortKey(d); short {
		size, ok := s.sha256[key]
		return size, ok
	}
	size, ok := s.others[d]
	return size, ok
}

func (s *digestSet) remove(d digest.Digest) {
	size, ok := s.find(d)
	if !ok {
		return
	}
	s.bytes -= size
	if key, short := shortKey(d); short {
		delete(s.sha256, key)
		return
	}
	delete(s.others, d)
}

func (s *digestSet) len() int { return len(s.sha256) + len(s.others) }

func (s *digestSet) each(fn func(d digest.Digest, size int64) error) error {
	keys := make([][32]byte, 0, len(s.sha256))
	for key := range s.sha256 {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b [32]byte) int { return slices.Compare(a[:], b[:]) })
	for _, key := range keys {
		if err := fn(digest.NewDigestFromBytes(digest.SHA256, key[:]), s.sha256[key]); err != nil {
			return err
		}
	}
	var others []digest.Digest
	for d := range s.others {
		others = append(others, d)
	}
	slices.Sort(others)
	for _, d := range others {
		if err := fn(d, s.others[d]); err != nil {
			return err
		}
	}
	return nil
}

func shortKey(d digest.Digest) (key [32]byte, ok bool) {
	encoded, ok := strings.CutPrefix(d.String(), "sha256:")
	if !ok || len(encoded) != 64 {
		return key, false
	}
	_, err := hex.Decode(key[:], []byte(encoded))
	return key, err == nil
}

// Inventory lists what a place holds: of a repository all that its tags and what
// hangs on it lead to, of an archive or a layout everything that is in it. A tag,
// name or digest in the location makes it what that leads to, attachments
// included. No blob is read. onRead is told of each manifest of a registry, and
// may be called at the same time; nil for nobody.
//
// Errors: those of [Client.Open] but *ChoiceError.
func (c *Client) Inventory(ctx context.Context, l Location, onRead func()) (*Holdings, error) {
	if l.Name != "" || l.Digest != "" || l.Kind == Registry && l.Ref.Tag != "" {
		return c.inventoryOf(ctx, l, onRead)
	}
	if l.Kind != Registry {
		p, err := openLocal(l)
		if err != nil {
			return nil, err
		}
		h, err := p.inventory(ctx)
		return h, errors.Join(err, p.Close())
	}
	p := c.reading(l.Ref)
	w := newInventoryWalk(p, c.settings.Concurrency, onRead)
	var all []string
	err := p.tags(ctx, func(page []string) error {
		all = append(all, page...)
		if len(all) > maxCopyNodes {
			return &ContentError{Ref: p.name(), Reason: "it has more tags than can be looked at"}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	w.find.learn(ctx, nil)
	return w.fromTags(ctx, all)
}

// inventoryOf is what one root leads to.
func (c *Client) inventoryOf(ctx context.Context, l Location, onRead func()) (_ *Holdings, err error) {
	src, err := c.Open(ctx, l)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	w := newInventoryWalk(src.place, c.settings.Concurrency, onRead)
	w.holdings.Reference, w.holdings.Delta = src.Location.String(), src.Delta()
	tag := src.Name()
	return w.from(ctx, []heldTag{{tag: tag, desc: src.Root}})
}

// inventory lists all of a local place.
func (p *localPlace) inventory(ctx context.Context) (*Holdings, error) {
	h := &Holdings{Reference: p.place, Delta: p.delta}
	if err := eachBlob(p.blobs, func(d digest.Digest, size int64) error {
		h.blobs.add(d, size)
		return ctx.Err()
	}); err != nil {
		return nil, err
	}
	all, err := roots(ctx, p.index, p)
	if err != nil {
		return nil, err
	}
	for _, desc := range all {
		root := HeldRoot{Tag: nameOf(desc), Digest: desc.Digest}
		if isManifest(desc.MediaType) {
			data, err := content.FetchAll(ctx, p, entry(desc, ""))
			if isContentProblem(err) {
				h.blobs.remove(desc.Digest)
				h.Unreadable = append(h.Unreadable, err)
				continue
			}
			if err != nil {
				return nil, err
			}
			root.describe(data)
		}
		h.Roots = append(h.Roots, root)
	}
	h.sort()
	return h, nil
}

func (h *Holdings) sort() {
	slices.SortFunc(h.Roots, func(a, b HeldRoot) int {
		if c := strings.Compare(a.Tag, b.Tag); c != 0 {
			return c
		}
		return strings.Compare(a.Digest.String(), b.Digest.String())
	})
	h.Roots = slices.Compact(h.Roots)
	slices.SortStableFunc(h.Undetermined, func(a, b Undetermined) int { return strings.Compare(a.Subject.String(), b.Subject.String()) })
	slices.SortFunc(h.Unreadable, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	h.Unreadable = slices.CompactFunc(h.Unreadable, func(a, b error) bool { return a.Error() == b.Error() })
}

// describe takes over what a manifest says of itself.
func (r *HeldRoot) describe(data []byte) {
	if l, err := readLinks(data); err == nil {
		r.Name, r.Version = printable(l.Annotations[ocispec.AnnotationTitle]), printable(l.Annotations[ocispec.AnnotationVersion])
	}
}

// eachBlob lists a store.
func eachBlob(blobs blobStore, fn func(d digest.Digest, size int64) error) error {
	switch b := blobs.(type) {
	case *archiveBlobs:
		for name, at := range b.entries {
			if d, ok := digestOfName(name); ok {
				if err := fn(d, at.size); err != nil {
					return err
				}
			}
		}
	case *volumeSet:
		for d, at := range b.where {
			if b.atHand(d) {
				if err := fn(d, at.size); err != nil {
					return err
				}
			}
		}
	case layered:
		return errors.Join(eachBlob(b.first, fn), eachBlob(b.second, fn))
	case folder:
		return b.each(fn)
	}
	return nil
}

func digestOfName(name string) (digest.Digest, bool) {
	rest, ok := strings.CutPrefix(name, ocispec.ImageBlobsDir+"/")
	if !ok {
		return "", false
	}
	algorithm, encoded, _ := strings.Cut(rest, "/")
	d := digest.Digest(algorithm + ":" + encoded)
	return d, ref.CheckDigest(d.String()) == nil
}

// each lists the blobs of a layout folder, some names at a time.
func (f folder) each(fn func(d digest.Digest, size int64) error) error {
	for _, algorithm := range []string{"sha256", "sha512"} {
		dir, err := os.Open(filepath.Join(string(f), ocispec.ImageBlobsDir, algorithm))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return files.PlainError(err)
		}
		err = eachIn(dir, algorithm, fn)
		if err = errors.Join(err, dir.Close()); err != nil {
			return err
		}
	}
	return nil
}

func eachIn(dir *os.File, algorithm string, fn func(d digest.Digest, size int64) error) error {
	for {
		entries, err := dir.ReadDir(1000)
		for _, e := range entries {
			d := digest.Digest(algorithm + ":" + e.Name())
			info, statErr := e.Info()
			if ref.CheckDigest(d.String()) != nil || statErr != nil || !info.Mode().IsRegular() {
				continue
			}
			if err := fn(d, info.Size()); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return files.PlainError(err)
		}
	}
}

// inventoryWalk follows manifests and holds nothing of them but digests.
type inventoryWalk struct {
	place       place
	find        finder
	concurrency int
	onRead      func()

	mu       sync.Mutex
	holdings *Holdings
}

func newInventoryWalk(p place, concurrency int, onRead func()) *inventoryWalk {
	if onRead == nil {
		onRead = func() {}
	}
	return &inventoryWalk{place: p, find: p.finder(), concurrency: concurrency, onRead: onRead, holdings: &Holdings{Reference: p.name()}}
}

// heldTag is a tag and what it names.
type heldTag struct {
	tag  string
	desc ocispec.Descriptor
}

// fromTags walks from every tag. One that is gone by now leads nowhere.
func (w *inventoryWalk) fromTags(ctx context.Context, tags []string) (*Holdings, error) {
	found := make([]heldTag, len(tags))
	err := each(ctx, w.concurrency, len(tags), func(ctx context.Context, i int) error {
		desc, err := w.place.Resolve(ctx, tags[i])
		if errors.Is(err, errdef.ErrNotFound) {
			return nil
		}
		if isContentProblem(err) {
			w.cannotRead(err)
			return nil
		}
		found[i] = heldTag{tags[i], desc}
		return err
	})
	if err != nil {
		return nil, err
	}
	return w.from(ctx, slices.DeleteFunc(found, func(t heldTag) bool { return t.desc.Digest == "" }))
}

func (w *inventoryWalk) from(ctx context.Context, tags []heldTag) (*Holdings, error) {
	named := map[digest.Digest][]string{}
	var round []ocispec.Descriptor
	for _, t := range tags {
		if isAttachment(t.tag) || isAnchor(t.tag) {
			round = append(round, w.isNew(t.desc)...)
			continue
		}
		named[t.desc.Digest] = append(named[t.desc.Digest], t.tag)
		round = append(round, w.isNew(t.desc)...)
	}
	for len(round) > 0 {
		var next []ocispec.Descriptor
		err := each(ctx, w.concurrency, len(round), func(ctx context.Context, i int) error {
			found, err := w.visit(ctx, round[i], named[round[i].Digest])
			w.mu.Lock()
			defer w.mu.Unlock()
			next = append(next, found...)
			return err
		})
		if err != nil {
			return nil, err
		}
		round = next
	}
	w.holdings.sort()
	return w.holdings, nil
}

// isNew notes something held, and gives it back when it is a manifest to read.
func (w *inventoryWalk) isNew(desc ocispec.Descriptor) []ocispec.Descriptor {
	w.mu.Lock()
	defer w.mu.Unlock()
	if checkDescriptor(desc, w.place.name()) != nil || !w.holdings.blobs.add(desc.Digest, desc.Size) || !isManifest(desc.MediaType) {
		return nil
	}
	return []ocispec.Descriptor{entry(desc, "")}
}

// visit reads one manifest and gives those that it leads to. One that is not
// there, or not right, is not held.
func (w *inventoryWalk) visit(ctx context.Context, desc ocispec.Descriptor, tags []string) ([]ocispec.Descriptor, error) {
	data, err := content.FetchAll(ctx, w.place, desc)
	if isContentProblem(err) {
		w.forget(desc, err)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	w.onRead()
	l, err := readLinks(data)
	if err != nil {
		w.forget(desc, &ContentError{Ref: w.place.name(), Digest: desc.Digest, Reason: "is no manifest", Err: err})
		return nil, nil
	}
	for _, tag := range tags {
		root := HeldRoot{Tag: tag, Digest: desc.Digest}
		root.describe(data)
		w.mu.Lock()
		w.holdings.Roots = append(w.holdings.Roots, root)
		w.mu.Unlock()
	}
	var next []ocispec.Descriptor
	for _, part := range append(l.blobs(), l.Manifests...) {
		next = append(next, w.isNew(part)...)
	}
	attached, undetermined, err := w.find.attachments(ctx, desc)
	if isContentProblem(err) {
		w.cannotRead(err)
		err = nil
	}
	w.mu.Lock()
	w.holdings.Undetermined = append(w.holdings.Undetermined, undetermined...)
	w.mu.Unlock()
	for _, a := range attached {
		next = append(next, w.isNew(a.desc)...)
	}
	if err == nil && w.isFull() {
		err = &ContentError{Ref: w.place.name(), Reason: "it holds more than can be listed"}
	}
	return next, err
}

func (w *inventoryWalk) isFull() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.holdings.blobs.len() > maxCopyNodes
}

func (w *inventoryWalk) cannotRead(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.holdings.Unreadable = append(w.holdings.Unreadable, err)
}

// forget takes back what was held before it was read, and tells why.
func (w *inventoryWalk) forget(desc ocispec.Descriptor, why error) {
	w.cannotRead(why)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.holdings.blobs.remove(desc.Digest)
}
