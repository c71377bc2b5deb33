package bundle

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
)

// Spec is what [Build] packs.
type Spec struct {
	ReleaseFile []byte                   // as written
	Release     *Release                 // ReleaseFile parsed; nil: Build parses it
	Lock        *Lock                    // of MakeLock or ParseLock
	LockFile    []byte                   // the lock as it is on disk; nil: it is on no disk
	ValuesFiles map[string][]byte        // by the path the release file gives; others are left out
	Charts      map[string]Chart         // by component
	Indexes     map[digest.Digest][]byte // of locked images of which some platforms are carried
	Annotations map[string]string        // further annotations of the root

	// LeftOut are layers that are carried for no image, by the entry of the root
	// that would need them. Each must be one that [IsForeign].
	LeftOut map[digest.Digest][]digest.Digest
}

// BuildOptions are the options of [Build]. The zero value works.
type BuildOptions struct {
	Concurrency int // pushes at the same time; 4 when 0

	// Hooks, nil for none, that may run at the same time: before something is
	// looked for or pushed, after it was pushed, for what was there already
	// instead, and before something that was pushed is read back.
	OnPush     func(ocispec.Descriptor)
	OnPushed   func(ocispec.Descriptor)
	OnSkipped  func(ocispec.Descriptor)
	OnReadBack func(ocispec.Descriptor)
}

// Build packs a release into dst and returns the descriptor of its root: [Pack]
// and [Packed.Push] in one, with the errors of both.
func Build(ctx context.Context, dst content.Storage, spec Spec, opts BuildOptions) (ocispec.Descriptor, error) {
	packed, err := Pack(ctx, spec)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	return packed.Root, packed.Push(ctx, dst, opts)
}

// A Packed bundle is ready to be pushed to any number of places.
type Packed struct {
	Root ocispec.Descriptor // what every place will hold

	packing *packing
}

// Index returns the bytes of the root.
func (b *Packed) Index() []byte { return b.packing.manifests[b.Root.Digest].data }

// Amount returns how many blobs and manifests the bundle is, and their bytes.
func (b *Packed) Amount() (parts int, bytes int64) {
	for _, items := range []map[digest.Digest]item{b.packing.blobs, b.packing.manifests} {
		for _, i := range items {
			parts, bytes = parts+1, bytes+i.desc.Size
		}
	}
	return parts, bytes
}

// Pack makes the bundle of a release without pushing anything, so that its
// digest is known before a place is touched. The same spec gives the same
// digest, always and everywhere. What the entries of role image name is not part
// of it: whoever pushes has brought it to the place before.
//
// It returns a [FileError] for a release or values file that does not parse, a
// [LintError], a [StaleError] when lock, release file and charts do not belong
// together, an [AnnotationError], and a [ContentError] when a chart is not what
// it should be.
func Pack(ctx context.Context, spec Spec) (*Packed, error) {
	if spec.Release == nil {
		rel, err := ParseRelease("release file", spec.ReleaseFile)
		if err != nil {
			return nil, err
		}
		spec.Release = rel
	}
	if err := spec.check(); err != nil {
		return nil, err
	}
	p := newPacking()
	release, err := p.release(spec)
	if err != nil {
		return nil, err
	}
	charts, err := p.charts(ctx, spec)
	if err != nil {
		return nil, err
	}
	images, err := p.images(spec)
	if err != nil {
		return nil, err
	}
	p.entries = slices.Concat([]ocispec.Descriptor{release}, charts, images)
	root, err := p.root(spec)
	if err != nil {
		return nil, err
	}
	return &Packed{Root: root, packing: p}, nil
}

// check finds what does not belong together before anything is made.
func (s Spec) check() error {
	if err := s.Release.lintError(); err != nil {
		return err
	}
	lock, err := s.Lock.Encode()
	if err != nil {
		return err
	}
	if s.LockFile != nil && !bytes.Equal(lock, s.LockFile) {
		return &StaleError{Differences: []string{"the lock file was changed by hand: it is not in the encoding that lock writes"}}
	}
	if differences := s.differences(); len(differences) > 0 {
		return &StaleError{Differences: differences}
	}
	for _, path := range s.Release.ValuesFilePaths() {
		data, ok := s.ValuesFiles[path]
		if !ok {
			return fmt.Errorf("values file %q is named by the release file and not given", path)
		}
		if _, err := ParseValues(path, data); err != nil {
			return err
		}
	}
	for _, key := range sortedKeys(s.Annotations) {
		if err := CheckAnnotation(key); err != nil {
			return err
		}
	}
	return nil
}

// CheckAnnotation returns an [AnnotationError] for the key of an annotation
// that the bundle writes itself.
func CheckAnnotation(key string) error {
	if key == ocispec.AnnotationTitle || key == ocispec.AnnotationVersion || strings.HasPrefix(key, "waybill.") {
		return &AnnotationError{Key: key}
	}
	return nil
}

func (s Spec) differences() []string {
	var differences []string
	if s.Lock.Release.Name != s.Release.Name {
		differences = append(differences, fmt.Sprintf("the release is %s, locked is %s", s.Release.Name, s.Lock.Release.Name))
	}
	for _, name := range s.Release.ComponentNames() {
		locked, isLocked := s.Lock.Chart(name)
		chart, isThere := s.Charts[name]
		switch {
		case !isLocked:
			differences = append(differences, fmt.Sprintf("component %s is not in the lock", name))
		case !isThere:
			differences = append(differences, fmt.Sprintf("component %s has no chart", name))
		case chart.Descriptor().Digest != locked.Manifest:
			differences = append(differences, fmt.Sprintf("component %s: its chart is %s, locked is %s", name, chart.Descriptor().Digest, locked.Manifest))
		}
	}
	for _, locked := range s.Lock.Charts {
		if _, err := s.Release.Component(locked.Component); err != nil {
			differences = append(differences, fmt.Sprintf("component %s is locked and not in the release file", locked.Component))
		}
	}
	return differences
}

// A packing is a bundle about to be pushed.
type packing struct {
	blobs     map[digest.Digest]item
	manifests map[digest.Digest]item
	entries   []ocispec.Descriptor // of the root
}

// An item is content to push: bytes at hand, or a place to fetch them from.
type item struct {
	desc ocispec.Descriptor
	data []byte
	from content.Fetcher
	of   string // what it is part of, for messages; may be empty
}

// name is the digest, and what it is part of.
func (i item) name() string {
	if i.of == "" {
		return i.desc.Digest.String()
	}
	return i.of + ", " + i.desc.Digest.String()
}

func newPacking() *packing {
	return &packing{blobs: map[digest.Digest]item{}, manifests: map[digest.Digest]item{}}
}

func (p *packing) blob(mediaType string, data []byte) ocispec.Descriptor {
	desc := content.NewDescriptorFromBytes(mediaType, data)
	p.blobs[desc.Digest] = item{desc: desc, data: data, of: "the release"}
	return desc
}

func (p *packing) manifest(mediaType string, manifest any) (ocispec.Descriptor, error) {
	data, err := json.Marshal(manifest)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	desc := content.NewDescriptorFromBytes(mediaType, data)
	p.manifests[desc.Digest] = item{desc: desc, data: data}
	return desc, nil
}

// release makes the manifest of role release and returns its entry.
func (p *packing) release(spec Spec) (ocispec.Descriptor, error) {
	lock, err := spec.Lock.Encode()
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	layers := []ocispec.Descriptor{
		p.blob(MediaTypeReleaseFile, spec.ReleaseFile),
		p.blob(MediaTypeLock, lock),
	}
	for _, path := range spec.Release.ValuesFilePaths() {
		layer := p.blob(MediaTypeValues, spec.ValuesFiles[path])
		layer.Annotations = map[string]string{ocispec.AnnotationTitle: path}
		layers = append(layers, layer)
	}
	desc, err := p.manifest(ocispec.MediaTypeImageManifest, ocispec.Manifest{
		Versioned:    specs.Versioned{SchemaVersion: 2},
		MediaType:    ocispec.MediaTypeImageManifest,
		ArtifactType: ArtifactTypeRelease,
		Config:       p.blob(ocispec.MediaTypeEmptyJSON, []byte("{}")),
		Layers:       layers,
	})
	if err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("writing the release manifest: %w", err)
	}
	desc.Annotations = map[string]string{AnnotationRole: RoleRelease}
	return desc, nil
}

// charts takes in every chart and returns their entries, by digest.
func (p *packing) charts(ctx context.Context, spec Spec) ([]ocispec.Descriptor, error) {
	entries := map[string]ocispec.Descriptor{}
	for _, name := range spec.Release.ComponentNames() { // sorted, so the component lists are
		locked, _ := spec.Lock.Chart(name)
		chart := spec.Charts[name]
		key := chart.Descriptor().Digest.String()
		if entry, there := entries[key]; there {
			entry.Annotations[AnnotationComponent] += "," + name
			continue
		}
		if err := p.chart(ctx, chart, locked); err != nil {
			return nil, err
		}
		entries[key] = ocispec.Descriptor{
			MediaType: chart.Descriptor().MediaType,
			Digest:    chart.Descriptor().Digest,
			Size:      chart.Descriptor().Size,
			Annotations: map[string]string{
				AnnotationRole:            RoleChart,
				AnnotationComponent:       name,
				ocispec.AnnotationTitle:   locked.Name,
				ocispec.AnnotationVersion: locked.Version,
			},
		}
	}
	sorted := make([]ocispec.Descriptor, 0, len(entries))
	for _, key := range sortedKeys(entries) {
		sorted = append(sorted, entries[key])
	}
	return sorted, nil
}

func (p *packing) chart(ctx context.Context, chart Chart, locked LockedChart) error {
	desc := chart.Descriptor()
	whose := owner{component: locked.Component, chart: locked.Name + " " + locked.Version}
	data, err := fetch(ctx, chart, desc, maxManifestBytes, whose)
	if err != nil {
		return err
	}
	manifest, err := parseChartManifest(data, desc, whose)
	if err != nil {
		return err
	}
	if layer, err := chartLayer(manifest, desc, whose); err != nil {
		return err
	} else if layer.Digest != locked.Content {
		return whose.wrong(desc.Digest, "holds the chart %s, locked is %s", layer.Digest, locked.Content)
	}
	for _, blob := range append([]ocispec.Descriptor{manifest.Config}, manifest.Layers...) {
		p.blobs[blob.Digest] = item{desc: plain(blob), from: chart, of: "chart " + whose.chart}
	}
	p.manifests[desc.Digest] = item{desc: plain(desc), data: data, of: "chart " + whose.chart}
	return nil
}

// plain returns a descriptor without anything but what names the content.
func plain(desc ocispec.Descriptor) ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: desc.MediaType, Digest: desc.Digest, Size: desc.Size}
}

func (p *packing) root(spec Spec) (ocispec.Descriptor, error) {
	annotations := map[string]string{
		ocispec.AnnotationTitle:   spec.Lock.Release.Name,
		ocispec.AnnotationVersion: spec.Lock.Release.Version,
	}
	for key, value := range spec.Annotations {
		annotations[key] = value
	}
	root, err := p.manifest(ocispec.MediaTypeImageIndex, ocispec.Index{
		Versioned:    specs.Versioned{SchemaVersion: 2},
		MediaType:    ocispec.MediaTypeImageIndex,
		ArtifactType: ArtifactType,
		Manifests:    p.entries,
		Annotations:  annotations,
	})
	if err == nil && root.Size > maxManifestBytes {
		err = fmt.Errorf("it is %d bytes long; registries take %d", root.Size, maxManifestBytes)
	}
	if err != nil {
		return ocispec.Descriptor{}, fmt.Errorf("writing the bundle's index: %w", err)
	}
	return root, nil
}
