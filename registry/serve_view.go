package registry

import (
	"io"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// artifact is what a server keeps of a manifest that it has read: what it is
// listed under and where it leads.
type artifact struct {
	title, version string
	artifactType   string
	annotations    map[string]string
	subject        digest.Digest
	manifests      []ocispec.Descriptor
}

// view is one state of index.json as a registry.
type view struct {
	tags     map[string]map[string]ocispec.Descriptor // by repository and tag
	attached map[string]ocispec.Descriptor            // sha256-<hex>.sig and the like, of every repository
	listed   map[digest.Digest]ocispec.Descriptor
	// referrers are, by subject, the manifests that say so themselves.
	referrers map[digest.Digest][]ocispec.Descriptor
	clashes   []Clash
}

// A Clash is a tag that two entries of one index.json would have. The first
// has it; the other is reached by its digest.
type Clash struct {
	Repository, Tag string
	Digest          digest.Digest // of the one without tag
}

// viewOf makes a registry of the entries of an index.json. What cannot be read
// of an entry is not known of it; who asks for it by digest hears of it.
func (s *store) viewOf(index ocispec.Index) *view {
	v := &view{
		tags: map[string]map[string]ocispec.Descriptor{}, attached: map[string]ocispec.Descriptor{},
		listed: map[digest.Digest]ocispec.Descriptor{}, referrers: map[digest.Digest][]ocispec.Descriptor{},
	}
	for _, e := range namedFirst(index.Manifests) {
		if !isManifest(e.MediaType) {
			continue
		}
		plain := entry(e, "")
		v.listed[e.Digest] = plain
		about := s.about(plain)
		if name := nameOf(e); isAttachment(name) {
			v.attached[name] = plain
		} else if about.subject == "" || name != "" {
			v.add(nameEntry(name, about, s.base), plain)
		}
		if about.subject != "" {
			listed := plain
			listed.ArtifactType, listed.Annotations = about.artifactType, about.annotations
			v.referrers[about.subject] = append(v.referrers[about.subject], listed)
		}
	}
	for subject, all := range v.referrers {
		v.referrers[subject] = sortedOnce(all)
	}
	return v
}

// namedFirst puts what has a name before what only says of itself which it would
// have, such as the bundle that had the name until it was moved.
func namedFirst(entries []ocispec.Descriptor) []ocispec.Descriptor {
	named := slices.DeleteFunc(slices.Clone(entries), func(e ocispec.Descriptor) bool { return nameOf(e) == "" })
	return append(named, slices.DeleteFunc(slices.Clone(entries), func(e ocispec.Descriptor) bool { return nameOf(e) != "" })...)
}

func (v *view) add(name servedName, desc ocispec.Descriptor) {
	if name.repository == "" || name.tag == "" {
		return
	}
	if v.tags[name.repository] == nil {
		v.tags[name.repository] = map[string]ocispec.Descriptor{}
	}
	if before, taken := v.tags[name.repository][name.tag]; taken {
		if before.Digest != desc.Digest {
			v.clashes = append(v.clashes, Clash{name.repository, name.tag, desc.Digest})
		}
		return
	}
	v.tags[name.repository][name.tag] = desc
}

// about reads a manifest once.
func (s *store) about(desc ocispec.Descriptor) artifact {
	s.mu.Lock()
	known, ok := s.known[desc.Digest]
	s.mu.Unlock()
	if ok {
		return known
	}
	rc, err := fetchFrom(s.blobs, desc, s.place)
	if err != nil {
		return artifact{}
	}
	defer rc.Close()
	data, err := io.ReadAll(rc)
	if err != nil {
		return artifact{}
	}
	l, err := readLinks(data)
	if err != nil {
		return artifact{}
	}
	return s.remember(desc.Digest, l)
}

// maxKnown bounds what is remembered of manifests.
const maxKnown = 100_000

func (s *store) remember(d digest.Digest, l links) artifact {
	a := artifact{
		title: l.Annotations[ocispec.AnnotationTitle], version: l.Annotations[ocispec.AnnotationVersion],
		manifests: l.Manifests,
	}
	if l.Subject != nil { // only then somebody asks for these
		a.subject, a.artifactType, a.annotations = l.Subject.Digest, l.artifact(), l.Annotations
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) >= maxKnown {
		clear(s.known)
	}
	s.known[d] = a
	return a
}

// tagList lists the tags of a repository in order, and whether there is such a
// repository. The tags of what hangs on a digest are the repository's when its
// tags lead to the digest.
func (s *store) tagList(v *view, repository string) ([]string, bool) {
	tags, ok := v.tags[repository]
	if !ok {
		return nil, false
	}
	all := make([]string, 0, len(tags))
	for tag := range tags {
		all = append(all, tag)
	}
	if len(v.attached) > 0 {
		all = append(all, s.attachedTo(v, tags)...)
	}
	slices.Sort(all)
	return all, true
}

func (s *store) attachedTo(v *view, tags map[string]ocispec.Descriptor) []string {
	byHex := map[string][]string{} // the tags that hang on a digest, by how tags spell it
	for tag := range v.attached {
		hex, _, _ := strings.Cut(tag, ".")
		byHex[hex] = append(byHex[hex], tag)
	}
	var found []string
	seen := map[digest.Digest]bool{}
	var visit func(desc ocispec.Descriptor)
	visit = func(desc ocispec.Descriptor) {
		if seen[desc.Digest] || !isManifest(desc.MediaType) {
			return
		}
		seen[desc.Digest] = true
		for _, tag := range byHex[referrersTag(desc)] {
			found = append(found, tag)
			visit(v.attached[tag])
		}
		for _, child := range s.about(desc).manifests {
			visit(child)
		}
		for _, referrer := range v.referrers[desc.Digest] {
			visit(referrer)
		}
	}
	for _, desc := range tags {
		visit(desc)
	}
	return found
}
