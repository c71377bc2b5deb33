package bundle

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
)

// Bounds on the graph. An image is at most an index, manifests and blobs deep;
// 1,000 images of 5 platforms and 30 layers are 150,000 nodes.
const (
	maxDepth = 5
	maxNodes = 1_000_000
)

// CheckOptions are the options of [Bundle.Check]. The zero value reads and
// hashes everything.
type CheckOptions struct {
	// ReadData reads and hashes every blob although Exists is given; ReadUpTo
	// those up to that many bytes.
	ReadData bool
	ReadUpTo int64
	// Exists asks whether a blob of that digest and size is there. nil: every
	// blob is read and hashed. It may be called at the same time.
	Exists func(ctx context.Context, desc ocispec.Descriptor) (bool, error)
	// Elsewhere says of a blob that it is somewhere else by design and is not to be
	// looked for; nil: none is.
	Elsewhere func(desc ocispec.Descriptor) bool
	// Concurrency is how many things are looked at at the same time; 4 when 0.
	Concurrency int

	// Hooks, nil for none, that may run at the same time: before something is
	// looked at, after n bytes of it were read, and when it was found right.
	OnCheck   func(ocispec.Descriptor)
	OnRead    func(n int64)
	OnChecked func(ocispec.Descriptor)
}

// CheckResult says what [Bundle.Check] looked at, each digest once.
type CheckResult struct {
	Manifests int   // read and hashed, the root included
	Blobs     int   // read and hashed, or asked for
	Bytes     int64 // the size of all of them

	// Elsewhere is how many blobs were not looked for, see [CheckOptions].
	Elsewhere int

	// LeftOut are the layers that are not there because the bundle was built
	// without them, see [AnnotationLeftOut]; by digest.
	LeftOut []ocispec.Descriptor
}

// Check walks the whole bundle from its root: every manifest is read and hashed,
// every blob is there (or read and hashed, see [CheckOptions]), every chart is
// the locked one. All that is missing or wrong is reported, as [ContentError]s,
// joined, in the order of the index; a source that cannot be asked ends the walk
// with its error.
func (b *Bundle) Check(ctx context.Context, opts CheckOptions) (CheckResult, error) {
	w := newWalk(b, opts)
	return w.all(ctx, w.unseen(b.Index.Manifests, nil))
}

// CheckArtifact is [Bundle.Check] of what is no bundle: an image, an index, a
// chart or any other artifact. Layers that may be missing where an image is
// ([IsForeign]) are not missed.
func CheckArtifact(ctx context.Context, src content.Fetcher, root ocispec.Descriptor, opts CheckOptions) (CheckResult, error) {
	b := &Bundle{Root: root, src: src}
	w := newWalk(b, opts)
	if !isManifest(root.MediaType) {
		return CheckResult{}, b.wrong("it is of type %q, which is no manifest", root.MediaType)
	}
	data, err := fetch(ctx, src, root, maxManifestBytes, owner{})
	if err != nil {
		return CheckResult{}, err
	}
	top := node{desc: root, plain: true}
	parts, err := successors(data, top)
	if err != nil {
		return CheckResult{}, err
	}
	return w.all(ctx, w.unseen(parts, &top))
}

func newWalk(b *Bundle, opts CheckOptions) *walk {
	return &walk{
		b: b, opts: opts, seen: map[digest.Digest]bool{b.Root.Digest: true}, needed: map[digest.Digest]bool{},
		result: CheckResult{Manifests: 1, Bytes: b.Root.Size},
	}
}

// all walks from a level to the end.
func (w *walk) all(ctx context.Context, level []node) (CheckResult, error) {
	for depth := 0; len(level) > 0; depth++ {
		if depth == maxDepth || len(w.seen) > maxNodes {
			return w.result, errors.Join(append(w.wrong, w.b.wrong("it is nested too deeply or has too many parts"))...)
		}
		next, err := w.visit(ctx, level)
		if err != nil {
			return w.result, err
		}
		level = next
	}
	slices.SortFunc(w.absent, func(a, b node) int { return cmp.Compare(a.desc.Digest, b.desc.Digest) })
	for _, n := range w.absent {
		if w.needed[n.desc.Digest] {
			w.wrong = append(w.wrong, n.owner.wrong(n.desc.Digest, "incomplete: it is missing"))
			continue
		}
		w.result.LeftOut = append(w.result.LeftOut, n.desc)
	}
	return w.result, errors.Join(w.wrong...)
}

type walk struct {
	b      *Bundle
	opts   CheckOptions
	seen   map[digest.Digest]bool
	needed map[digest.Digest]bool // by something that does not say it is left out
	absent []node                 // left out, as far as what was met first says
	result CheckResult
	wrong  []error
}

// A node is content to look at and whose it is.
type node struct {
	desc  ocispec.Descriptor
	owner owner
	entry bool // it stands in the root

	leftOut  []digest.Digest // the layers that may be missing below it
	optional bool            // it is one of those itself
	plain    bool            // it is part of what is no bundle
}

// unseen makes nodes of the descriptors that were not met before. With no
// parent they are entries of the root.
func (w *walk) unseen(descs []ocispec.Descriptor, parent *node) []node {
	var nodes []node
	for _, desc := range descs {
		n := node{desc: desc, owner: entryOwner(desc), entry: true, leftOut: leftOutOf(desc)}
		if parent != nil {
			n = node{desc: desc, owner: parent.owner, leftOut: parent.leftOut, optional: parent.mayLack(desc), plain: parent.plain}
		}
		if !n.optional {
			w.needed[desc.Digest] = true
		}
		if !w.seen[desc.Digest] {
			w.seen[desc.Digest] = true
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// visit looks at all nodes of a level and returns the next one.
func (w *walk) visit(ctx context.Context, level []node) ([]node, error) {
	type found struct {
		children []ocispec.Descriptor
		wrong    *ContentError
		absent   bool
	}
	var mu sync.Mutex
	results := map[digest.Digest]found{}
	err := each(ctx, w.opts.Concurrency, level, func(ctx context.Context, n node) error {
		tell(w.opts.OnCheck, n.desc)
		children, err := w.look(ctx, n)
		absent := errors.Is(err, errLeftOut)
		if err == nil || absent {
			tell(w.opts.OnChecked, n.desc)
		}
		var wrong *ContentError
		if err != nil && !absent && !errors.As(err, &wrong) {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		results[n.desc.Digest] = found{children, wrong, absent}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var next []node
	for _, n := range level {
		if wrong := results[n.desc.Digest].wrong; wrong != nil {
			w.wrong = append(w.wrong, wrong)
			continue
		}
		if results[n.desc.Digest].absent {
			w.absent = append(w.absent, n)
			continue
		}
		switch {
		case w.isElsewhere(n.desc):
			w.result.Elsewhere++
			continue
		case isManifest(n.desc.MediaType):
			w.result.Manifests++
		default:
			w.result.Blobs++
		}
		w.result.Bytes += n.desc.Size
		next = append(next, w.unseen(results[n.desc.Digest].children, &n)...)
	}
	return next, nil
}

// look reads a manifest and returns what it names, or checks a blob.
func (w *walk) look(ctx context.Context, n node) ([]ocispec.Descriptor, error) {
	if !isManifest(n.desc.MediaType) {
		return nil, w.blob(ctx, n)
	}
	data, err := fetch(ctx, w.b.src, n.desc, maxManifestBytes, n.owner)
	if err != nil {
		return nil, err
	}
	tell(w.opts.OnRead, n.desc.Size)
	if n.entry && n.desc.Annotations[AnnotationRole] == RoleChart {
		if _, err := w.b.lockedLayer(data, n.desc); err != nil {
			return nil, err
		}
	}
	return successors(data, n)
}

func (w *walk) isElsewhere(desc ocispec.Descriptor) bool {
	return w.opts.Elsewhere != nil && !isManifest(desc.MediaType) && w.opts.Elsewhere(desc)
}

func (w *walk) blob(ctx context.Context, n node) error {
	if err := n.desc.Digest.Validate(); err != nil || n.desc.Size < 0 {
		return n.owner.wrong(n.desc.Digest, "no usable digest or size")
	}
	if w.isElsewhere(n.desc) {
		return nil
	}
	if n.optional {
		there, err := w.present(ctx, n)
		switch {
		case err != nil:
			return fetchError(err, n.desc, n.owner)
		case !there:
			return errLeftOut
		}
	}
	if w.opts.Exists == nil || w.opts.ReadData || n.desc.Size <= w.opts.ReadUpTo {
		return hash(ctx, w.b.src, n.desc, n.owner, w.opts.OnRead)
	}
	there, err := w.opts.Exists(ctx, n.desc)
	if err != nil {
		return fetchError(err, n.desc, n.owner)
	}
	if !there {
		return n.owner.wrong(n.desc.Digest, "incomplete: it is missing")
	}
	return nil
}

// errLeftOut is a layer that is not there and need not be.
var errLeftOut = errors.New("left out")

func (w *walk) present(ctx context.Context, n node) (bool, error) {
	if w.opts.Exists != nil {
		return w.opts.Exists(ctx, n.desc)
	}
	rc, err := w.b.src.Fetch(ctx, n.desc)
	if errors.Is(err, errdef.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, rc.Close()
}

// tell calls a hook that may be nil.
func tell[T any](hook func(T), about T) {
	if hook != nil {
		hook(about)
	}
}

// Docker's names for what OCI took over (image-spec, "Compatibility Matrix").
const (
	dockerManifest     = "application/vnd.docker.distribution.manifest.v2+json"
	dockerManifestList = "application/vnd.docker.distribution.manifest.list.v2+json"
)

func isManifest(mediaType string) bool {
	switch mediaType {
	case ocispec.MediaTypeImageManifest, ocispec.MediaTypeImageIndex, dockerManifest, dockerManifestList:
		return true
	}
	return false
}

func isIndex(mediaType string) bool {
	return mediaType == ocispec.MediaTypeImageIndex || mediaType == dockerManifestList
}

// successors returns what a manifest or index names. A subject is not among
// them: it is what the manifest is about, not a part of it.
func successors(data []byte, n node) ([]ocispec.Descriptor, error) {
	var manifest struct {
		Config    *ocispec.Descriptor  `json:"config"`
		Layers    []ocispec.Descriptor `json:"layers"`
		Manifests []ocispec.Descriptor `json:"manifests"`
	}
	if err := json.Unmarshal(data, &manifest); err != nil {
		return nil, n.owner.wrong(n.desc.Digest, "no manifest: %s", err)
	}
	var descs []ocispec.Descriptor
	if manifest.Config != nil {
		descs = append(descs, *manifest.Config)
	}
	descs = append(descs, manifest.Layers...)
	return append(descs, manifest.Manifests...), nil
}
