package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
)

// The two files of an OCI image layout beside its blobs, and how much of them
// is read: image specification, section "Image Layout".
const (
	layoutFile    = ocispec.ImageLayoutFile
	indexFile     = ocispec.ImageIndexFile
	maxLayoutFile = 4 << 10
	maxIndexFile  = 16 << 20 // names one manifest per bundle, signature and tag
)

func checkLayoutFile(data []byte, place string) error {
	var layout ocispec.ImageLayout
	if err := json.Unmarshal(data, &layout); err != nil {
		return &ContentError{Ref: place, Reason: layoutFile + " is not JSON", Err: err}
	}
	if !strings.HasPrefix(layout.Version, "1.") {
		return &ContentError{Ref: place, Reason: fmt.Sprintf("OCI layout version %q is not known", layout.Version)}
	}
	return nil
}

func layoutFileBytes() []byte {
	return []byte(`{"imageLayoutVersion":"` + ocispec.ImageLayoutVersion + `"}`)
}

func readIndex(data []byte, place string) (ocispec.Index, error) {
	var index ocispec.Index
	if err := json.Unmarshal(data, &index); err != nil {
		return index, &ContentError{Ref: place, Reason: indexFile + " is not JSON", Err: err}
	}
	for _, desc := range index.Manifests {
		if err := checkDescriptor(desc, place+": "+indexFile); err != nil {
			return index, err
		}
	}
	return index, nil
}

// writeIndex is the encoding of index.json: in order of name and digest, so that
// the same entries make the same bytes.
func writeIndex(index ocispec.Index) ([]byte, error) {
	index.Versioned = specs.Versioned{SchemaVersion: 2}
	index.MediaType = ocispec.MediaTypeImageIndex
	index.Manifests = slices.Clone(index.Manifests)
	if index.Manifests == nil {
		index.Manifests = []ocispec.Descriptor{}
	}
	slices.SortStableFunc(index.Manifests, func(a, b ocispec.Descriptor) int {
		if c := strings.Compare(nameOf(a), nameOf(b)); c != 0 {
			return c
		}
		return strings.Compare(a.Digest.String(), b.Digest.String())
	})
	return json.Marshal(index)
}

func nameOf(desc ocispec.Descriptor) string { return desc.Annotations[ocispec.AnnotationRefName] }

// entry is what index.json holds for a manifest: name empty for one that is
// found otherwise, by its subject.
func entry(desc ocispec.Descriptor, name string) ocispec.Descriptor {
	plain := ocispec.Descriptor{MediaType: desc.MediaType, Digest: desc.Digest, Size: desc.Size}
	if name != "" {
		plain.Annotations = map[string]string{ocispec.AnnotationRefName: name}
	}
	return plain
}

// merge puts entries into an index. A name belongs to one entry: what had it
// before stays listed by its digest, unless another name leads to it or it hangs
// on something else, whose list the new entry is.
func merge(index ocispec.Index, entries []ocispec.Descriptor) ocispec.Index {
	out := slices.Clone(index.Manifests)
	for _, e := range entries {
		out = put(out, e)
	}
	index.Manifests = out
	return index
}

func put(listed []ocispec.Descriptor, e ocispec.Descriptor) []ocispec.Descriptor {
	name := nameOf(e)
	var before []ocispec.Descriptor // what had the name
	out := slices.DeleteFunc(listed, func(old ocispec.Descriptor) bool {
		switch {
		case name != "" && nameOf(old) == name:
			before = append(before, entry(old, ""))
			return true
		case nameOf(old) == "":
			return old.Digest == e.Digest && !isAttachment(name)
		}
		return false
	})
	out = append(out, e)
	for _, old := range before {
		isListed := func(other ocispec.Descriptor) bool { return other.Digest == old.Digest }
		if !isAttachment(name) && !slices.ContainsFunc(out, isListed) {
			out = append(out, old)
		}
	}
	return out
}

// allNamed are the entries with a name, each digest once. More than one is no
// index of ours: the names of other tools may be tags of different repositories.
func allNamed(index ocispec.Index, name string) []ocispec.Descriptor {
	var named []ocispec.Descriptor
	for _, desc := range index.Manifests {
		if nameOf(desc) == name {
			named = append(named, desc)
		}
	}
	return sortedOnce(named)
}

// findNamed is the first entry with a name.
func findNamed(index ocispec.Index, name string) (ocispec.Descriptor, bool) {
	for _, desc := range index.Manifests {
		if nameOf(desc) == name {
			return entry(desc, ""), true
		}
	}
	return ocispec.Descriptor{}, false
}

// roots are the entries of an index that somebody would open: not the
// signatures and other things that hang on one of them. Where there is nothing
// else, these are what hangs on something that is not listed.
func roots(ctx context.Context, index ocispec.Index, fetcher content.Fetcher) ([]ocispec.Descriptor, error) {
	var out, hanging []ocispec.Descriptor
	listed := map[string]bool{}
	for _, desc := range index.Manifests {
		listed[desc.Digest.String()] = true
	}
	hangs := func(desc ocispec.Descriptor, subject string) {
		if !listed[subject] {
			hanging = append(hanging, desc)
		}
	}
	for _, desc := range index.Manifests {
		name := nameOf(desc)
		if on := attachmentName.FindStringSubmatch(name); on != nil {
			hangs(desc, strings.Replace(on[1], "-", ":", 1))
			continue
		}
		if name == "" && isManifest(desc.MediaType) {
			data, err := content.FetchAll(ctx, fetcher, entry(desc, ""))
			if err != nil {
				return nil, err
			}
			if l, err := readLinks(data); err == nil && l.Subject != nil {
				hangs(desc, l.Subject.Digest.String())
				continue
			}
		}
		out = append(out, desc)
	}
	if len(out) == 0 {
		return hanging, nil
	}
	return out, nil
}

// referrersIn finds what an index lists for a subject: manifests that say so
// themselves, and the lists under the tag that stands for the referrers API.
func referrersIn(ctx context.Context, index ocispec.Index, fetcher content.Fetcher, subject ocispec.Descriptor) ([]ocispec.Descriptor, error) {
	var all []ocispec.Descriptor
	for _, desc := range index.Manifests {
		if !isManifest(desc.MediaType) || desc.Digest == subject.Digest {
			continue
		}
		data, err := content.FetchAll(ctx, fetcher, entry(desc, ""))
		if err != nil {
			return nil, err
		}
		l, err := readLinks(data)
		if err != nil {
			continue // whoever opens it will hear of it
		}
		if nameOf(desc) == referrersTag(subject) {
			all = append(all, l.Manifests...)
		}
		if l.Subject != nil && l.Subject.Digest == subject.Digest {
			found := entry(desc, "")
			found.ArtifactType, found.Annotations = l.artifact(), l.Annotations
			all = append(all, found)
		}
	}
	return sortedOnce(all), nil
}

// errUnlisted is an answer within this package: nothing by that name or digest.
var errUnlisted = errors.New("not listed")
