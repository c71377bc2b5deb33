package registry

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
)

// place is what registry, archive and layout have in common for reading.
type place interface {
	content.ReadOnlyGraphStorage
	content.Resolver
	has(ctx context.Context, desc ocispec.Descriptor) (bool, error)
	tags(ctx context.Context, fn func([]string) error) error
	// openAt gives content from an offset on, unchecked. Content that isn't there, or
	// not with its size, is a *ContentError.
	openAt(ctx context.Context, desc ocispec.Descriptor, offset int64) (io.ReadCloser, error)
	name() string
	local() bool
	finder() finder
	Close() error
}

// A Source is an opened location: one root, and everything beside it that can be
// reached by digest or tag. It is an oras.ReadOnlyGraphTarget, safe for use at
// the same time, and never writes.
type Source struct {
	Location Location           // as it was opened, with the root's digest
	Root     ocispec.Descriptor // resolved once
	place    place
	client   *Client
	rootData []byte // read and checked by Open; nil for local places

	mu     sync.Mutex
	holds  int // archives that have yet to read from it
	closed bool
}

// Open resolves a location to one root, for reading. Without tag, name or
// digest, a place with one root gives that; else the error lists the choices.
//
// Errors: *LocationError, *ChoiceError, *NotFoundError, *DeniedError,
// *CredentialsError, *UnreachableError, *ContentError, *ResponseError.
func (c *Client) Open(ctx context.Context, l Location) (*Source, error) {
	if l.Kind == Registry {
		return c.openRemote(ctx, l)
	}
	p, err := openLocal(l)
	if err != nil {
		return nil, err
	}
	root, err := chooseRoot(ctx, p, l)
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return &Source{Location: l.WithDigest(root.Digest), Root: root, place: p, client: c}, nil
}

// List gives the tags of a repository, or the names in an archive or layout,
// without opening any of them. Signatures and the like are left out.
func (c *Client) List(ctx context.Context, l Location) ([]string, error) {
	var p place
	if l.Kind == Registry {
		p = c.reading(l.Ref)
	} else {
		opened, err := openLocal(l)
		if err != nil {
			return nil, err
		}
		p = opened
	}
	names, err := versions(ctx, p)
	return names, errors.Join(err, p.Close())
}

// Unnamed gives the digests of the roots of an archive or layout that no name
// leads to, in order. A registry does not list such.
func (c *Client) Unnamed(ctx context.Context, l Location) ([]digest.Digest, error) {
	if l.Kind == Registry {
		return nil, nil
	}
	p, err := openLocal(l)
	if err != nil {
		return nil, err
	}
	all, err := roots(ctx, p.index, p)
	var found []digest.Digest
	for _, desc := range all {
		if name := nameOf(desc); name == "" || isAttachment(name) {
			found = append(found, desc.Digest)
		}
	}
	slices.Sort(found)
	return slices.Compact(found), errors.Join(err, p.Close())
}

func openLocal(l Location) (*localPlace, error) {
	if isDirectory(l.Path) {
		if l.Kind == Archive {
			return nil, &LocationError{Input: l.String(), Reason: "is a folder, not an archive", Meant: Location{Kind: Layout, Path: l.Path, Name: l.Name, Digest: l.Digest}.String()}
		}
		return openLayout(l)
	}
	if l.Kind == Layout && exists(l.Path) {
		return nil, &LocationError{Input: l.String(), Reason: "is a file, not a folder", Meant: Location{Kind: Archive, Path: l.Path, Name: l.Name, Digest: l.Digest}.String()}
	}
	if l.Kind == Archive {
		return openArchiveOrVolumes(l)
	}
	return openLayout(l)
}

func (c *Client) openRemote(ctx context.Context, l Location) (*Source, error) {
	p := c.reading(l.Ref)
	reference := l.Ref.Tag
	if l.Digest != "" {
		reference = l.Digest.String()
	}
	if reference == "" {
		return nil, chooseTag(ctx, p, l)
	}
	desc, data, err := p.read(ctx, reference)
	if err != nil {
		return nil, p.explainMissing(ctx, err)
	}
	root := ocispec.Descriptor{MediaType: desc.MediaType, Digest: desc.Digest, Size: desc.Size}
	return &Source{Location: l.WithDigest(root.Digest), Root: root, place: p, client: c, rootData: data}, nil
}

// newest is how many versions a message names.
const newest = 5

// chooseTag makes the error for a registry location with neither tag nor digest.
func chooseTag(ctx context.Context, p *remotePlace, l Location) error {
	names, err := versions(ctx, p)
	if err != nil {
		return err
	}
	choice := &ChoiceError{Location: l.String()}
	for _, tag := range names[:min(newest, len(names))] {
		at := l
		at.Ref.Tag = tag
		choice.Choices = append(choice.Choices, at.String())
	}
	return choice
}

// explainMissing tells a repository that isn't there from a tag that isn't, and
// says what is there. Some registries answer both alike, so the tag list is asked.
func (p *remotePlace) explainMissing(ctx context.Context, err error) error {
	var notFound *NotFoundError
	if !errors.As(err, &notFound) {
		return err
	}
	names, listErr := versions(ctx, p)
	var noList *NotFoundError
	switch {
	case errors.As(listErr, &noList):
		notFound.What = "repository"
	case listErr == nil:
		notFound.Known = names[:min(newest, len(names))]
	}
	return notFound
}

// versions lists the tags of a place, the newest version first, those of an
// archive or a folder by name (shop-1.1.0, shop-1.0.0), then what is no version in
// alphabetical order.
func versions(ctx context.Context, p place) ([]string, error) {
	var all []string
	err := p.tags(ctx, func(tags []string) error {
		for _, tag := range tags {
			if !isAttachment(tag) && !isAnchor(tag) {
				all = append(all, tag)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	parsed := make(map[string]versionName, len(all))
	for _, tag := range all {
		parsed[tag] = parseVersionName(tag)
	}
	slices.SortFunc(all, func(a, b string) int {
		return cmp.Or(parsed[a].compare(parsed[b]), strings.Compare(a, b))
	})
	return slices.Compact(all), nil
}

// chooseRoot finds the root that a location speaks of in an archive or layout.
func chooseRoot(ctx context.Context, p *localPlace, l Location) (ocispec.Descriptor, error) {
	if l.Name != "" {
		named := allNamed(p.index, l.Name)
		if l.Digest != "" {
			named = slices.DeleteFunc(named, func(desc ocispec.Descriptor) bool { return desc.Digest != l.Digest })
		}
		switch len(named) {
		case 0:
			return ocispec.Descriptor{}, notHere(ctx, p, l)
		case 1:
			return entry(named[0], ""), nil
		}
		return ocispec.Descriptor{}, &ChoiceError{Location: l.String(), Choices: choices(named, l)}
	}
	if l.Digest != "" {
		desc, err := resolveIn(p.index, p.blobs, l.Digest.String(), p.place)
		if errors.Is(err, errUnlisted) {
			return desc, notHere(ctx, p, l)
		}
		return desc, err
	}
	all, err := roots(ctx, p.index, p)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	if once := sortedOnce(slices.Clone(all)); len(once) == 1 {
		return entry(once[0], ""), nil
	} else if len(once) == 0 {
		return ocispec.Descriptor{}, &ContentError{Ref: p.place, Reason: "there is nothing in it"}
	}
	return ocispec.Descriptor{}, &ChoiceError{Location: p.place, Choices: choices(all, l)}
}

func notHere(ctx context.Context, p *localPlace, l Location) error {
	what := fmt.Sprintf("%q", l.Name)
	if l.Name == "" {
		what = l.Digest.String()
	} else if l.Digest != "" {
		what += " as " + l.Digest.String()
	}
	e := &NotFoundError{Ref: p.place, What: what}
	if all, err := roots(ctx, p.index, p); err == nil {
		e.Known = choices(all, l)
	}
	return e
}

// choices are complete locations: by name where the name can be typed and is
// unlike the others, else by digest.
func choices(all []ocispec.Descriptor, l Location) []string {
	names := map[string]digest.Digest{}
	shared := map[string]bool{}
	for _, desc := range all {
		name := nameOf(desc)
		if d, ok := names[name]; ok && d != desc.Digest {
			shared[name] = true
		}
		names[name] = desc.Digest
	}
	var out []string
	for _, desc := range all {
		at := Location{Kind: l.Kind, Path: l.Path, Name: nameOf(desc)}
		if read, err := ParseLocation(at.String()); at.Name == "" || shared[at.Name] || err != nil || read != at {
			at.Name, at.Digest = "", desc.Digest
		}
		out = append(out, at.String())
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Fetch gives the content of a descriptor. What is read is checked against size
// and digest: a reader that ends with io.EOF gave the right bytes. Content that
// isn't there is a *ContentError: a descriptor promised it.
func (s *Source) Fetch(ctx context.Context, desc ocispec.Descriptor) (io.ReadCloser, error) {
	if s.rootData != nil && content.Equal(desc, s.Root) {
		return io.NopCloser(bytes.NewReader(s.rootData)), nil
	}
	return s.place.Fetch(ctx, desc)
}

// Exists is Has under the name that oras-go asks for.
func (s *Source) Exists(ctx context.Context, desc ocispec.Descriptor) (bool, error) {
	return s.place.has(ctx, desc)
}

// Has says whether content is there with its size, without reading it. Content
// of another size is a *ContentError.
func (s *Source) Has(ctx context.Context, desc ocispec.Descriptor) (bool, error) {
	return s.place.has(ctx, desc)
}

// Resolve finds a tag, a name or a digest in the same place: the tags of
// signatures, for one. A *NotFoundError when there is none.
func (s *Source) Resolve(ctx context.Context, reference string) (ocispec.Descriptor, error) {
	return s.place.Resolve(ctx, reference)
}

// Predecessors lists the manifests that have desc as their subject, by digest,
// with artifact types and annotations where the place tells them.
func (s *Source) Predecessors(ctx context.Context, desc ocispec.Descriptor) ([]ocispec.Descriptor, error) {
	return s.place.Predecessors(ctx, desc)
}

// Tags calls fn with the tags or names of the place, page by page, as they are.
func (s *Source) Tags(ctx context.Context, fn func(tags []string) error) error {
	return s.place.tags(ctx, fn)
}

// Name is the tag or name that the root goes by here: the one it was opened by,
// else the first that it has in an archive or layout. It may be empty.
func (s *Source) Name() string {
	if s.Location.Kind == Registry {
		return s.Location.Ref.Tag
	}
	if p, ok := s.place.(*localPlace); ok && s.Location.Name == "" {
		for _, e := range p.index.Manifests {
			if e.Digest == s.Root.Digest && nameOf(e) != "" {
				return nameOf(e)
			}
		}
	}
	return s.Location.Name
}

// Local says whether reading everything costs no network.
func (s *Source) Local() bool { return s.place.local() }

// Close ends reading. Readers from Fetch are closed on their own. An archive to
// which something was copied reads what it was promised when it is committed:
// that still works.
func (s *Source) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	return s.closeUnheld()
}

// hold keeps the source open until what it returns is called, whoever closes it
// before.
func (s *Source) hold() (release func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holds++
	return sync.OnceValue(func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.holds--
		return s.closeUnheld()
	})
}

func (s *Source) closeUnheld() error {
	if !s.closed || s.holds > 0 {
		return nil
	}
	return s.place.Close()
}
