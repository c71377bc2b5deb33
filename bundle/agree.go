package bundle

import (
	"slices"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// agree holds the documents of a bundle and its index against each other: what
// one says the other must say too, so that no reader is told another story than
// the one that was signed for all.
func (b *Bundle) agree() error {
	if problems := b.Release.Check(); len(problems) > 0 {
		return b.wrong("%s", problems[0].in("release file"))
	}
	title, version := b.Index.Annotations[ocispec.AnnotationTitle], b.Index.Annotations[ocispec.AnnotationVersion]
	switch {
	case b.Release.Name != b.Lock.Release.Name:
		return b.wrong("its release file is of %s, its lock of %s", b.Release.Name, b.Lock.Release.Name)
	case title != b.Name() || version != b.Version():
		return b.wrong("it calls itself %q %q, its lock says %s %s", title, version, b.Name(), b.Version())
	}
	if err := b.agreeComponents(); err != nil {
		return err
	}
	if err := b.agreeCharts(); err != nil {
		return err
	}
	if err := b.agreeImages(); err != nil {
		return err
	}
	for _, path := range b.Release.ValuesFilePaths() {
		if b.ValuesFiles[path] == nil {
			return b.wrong("the values file %q is missing", path)
		}
	}
	return nil
}

// agreeComponents: the lock has one chart for every component, and no other.
func (b *Bundle) agreeComponents() error {
	locked := make([]string, len(b.Lock.Charts))
	for i, c := range b.Lock.Charts {
		locked[i] = c.Component
	}
	slices.Sort(locked)
	if names := b.Release.ComponentNames(); !slices.Equal(names, locked) {
		return b.wrong("its release file has the components %v, its lock %v", names, locked)
	}
	return nil
}

// agreeCharts: every component has one chart entry, the locked one, by its
// locked name and version.
func (b *Bundle) agreeCharts() error {
	entries := map[string]digest.Digest{}
	for _, entry := range b.Entries(RoleChart) {
		whose := entryOwner(entry)
		for _, component := range components(entry) {
			locked, ok := b.Lock.Chart(component)
			switch {
			case !ok:
				return whose.wrong(entry.Digest, "the lock has no component %q", component)
			case entries[component] != "":
				return whose.wrong(entry.Digest, "component %s has the chart %s too", component, entries[component])
			case locked.Manifest != entry.Digest:
				return whose.wrong(entry.Digest, "locked for component %s is %s", component, locked.Manifest)
			case entry.Annotations[ocispec.AnnotationTitle] != locked.Name, entry.Annotations[ocispec.AnnotationVersion] != locked.Version:
				return whose.wrong(entry.Digest, "locked for component %s is %s %s", component, locked.Name, locked.Version)
			}
			entries[component] = entry.Digest
		}
	}
	for _, locked := range b.Lock.Charts {
		if entries[locked.Component] == "" {
			return owner{locked.Component, locked.Name + " " + locked.Version}.wrong(locked.Manifest, "the bundle has no such entry")
		}
	}
	return nil
}

// agreeImages: every image entry is locked with its media type and size, and
// every locked image has its entry.
func (b *Bundle) agreeImages() error {
	locked := map[digest.Digest][]LockedImage{}
	for _, image := range b.Lock.Images {
		locked[image.Digest] = append(locked[image.Digest], image)
	}
	for _, entry := range b.Entries(RoleImage) {
		for _, image := range locked[entry.Digest] {
			if image.MediaType != entry.MediaType || image.Size != entry.Size {
				return owner{}.wrong(entry.Digest, "locked for %s is %s of %d bytes", image.References[0], image.MediaType, image.Size)
			}
		}
		switch {
		case locked[entry.Digest] == nil:
			return owner{}.wrong(entry.Digest, "the lock has no such image")
		case wrongLeftOut(entry) != "":
			return owner{}.wrong(entry.Digest, "%s", wrongLeftOut(entry))
		}
		delete(locked, entry.Digest)
	}
	for _, image := range b.Lock.Images {
		if _, left := locked[image.Digest]; left {
			return owner{}.wrong(image.Digest, "image %s is locked, the bundle has no such entry", image.References[0])
		}
	}
	return nil
}
