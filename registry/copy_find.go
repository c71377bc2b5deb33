package registry

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
)

// finder looks for what hangs on a digest at one place.
type finder interface {
	// attachments finds everything, in every form, each manifest read and known
	// to belong to the subject. A look-up that was denied, or that leads to
	// nothing, is undetermined and no error.
	attachments(ctx context.Context, subject ocispec.Descriptor) ([]foundAttachment, []Undetermined, error)
	// learn makes many look-ups cheaper, if it can. There are tags that must be
	// known then, or what was learned is not relied on.
	learn(ctx context.Context, must []string)
}

// nothingHangs is the finder of a copy that leaves attachments where they are.
type nothingHangs struct{}

func (nothingHangs) learn(context.Context, []string) {}

func (nothingHangs) attachments(context.Context, ocispec.Descriptor) ([]foundAttachment, []Undetermined, error) {
	return nil, nil, nil
}

// Attached finds what hangs on a digest here, and what could not be determined
// about it, without looking at what hangs on that.
func (s *Source) Attached(ctx context.Context, desc ocispec.Descriptor) ([]Attachment, []Undetermined, error) {
	found, undetermined, err := s.place.finder().attachments(ctx, desc)
	var all []Attachment
	for _, f := range found {
		all = append(all, f.attachment(desc))
	}
	return all, undetermined, err
}

// tagSuffixes end the tags that cosign hangs on a digest.
var tagSuffixes = []string{".sig", ".att", ".sbom"}

// More manifests than anybody hangs on one digest.
const maxReferrers = 10_000

// foundAttachment is a manifest that hangs on a digest.
type foundAttachment struct {
	desc         ocispec.Descriptor
	data         []byte
	tag          string // of the tag form
	artifactType string
	annotations  map[string]string
}

func (f foundAttachment) form() string {
	if f.tag != "" {
		return FormTag
	}
	return FormReferrer
}

func (f foundAttachment) attachment(subject ocispec.Descriptor) Attachment {
	return Attachment{
		Subject: subject.Digest, Form: f.form(), Tag: f.tag, Digest: f.desc.Digest,
		ArtifactType: f.artifactType, predicate: f.annotations[predicateAnnotation],
	}
}

// name says what it is, for people.
func (f foundAttachment) name() string {
	for suffix, name := range map[string]string{".sig": "signature", ".att": "attestation", ".sbom": "SBOM"} {
		if strings.HasSuffix(f.tag, suffix) {
			return name
		}
	}
	if f.artifactType != "" {
		return printable(f.artifactType)
	}
	return "referrer"
}

// listed is how a list of referrers has it.
func (f foundAttachment) listed() ocispec.Descriptor {
	desc := entry(f.desc, "")
	desc.ArtifactType, desc.Annotations = f.artifactType, f.annotations
	return desc
}

// gathering is the finding for one subject.
type gathering struct {
	place        string
	fetcher      content.Fetcher
	subject      ocispec.Descriptor
	found        []foundAttachment
	undetermined []Undetermined
	seen         map[digest.Digest]bool
}

func newGathering(place string, fetcher content.Fetcher, subject ocispec.Descriptor) *gathering {
	return &gathering{place: place, fetcher: fetcher, subject: subject, seen: map[digest.Digest]bool{}}
}

// failed notes a look-up that gave no answer to rely on, and gives back any
// other error.
func (g *gathering) failed(lookup string, err error) error {
	u := Undetermined{Subject: g.subject.Digest, Lookup: lookup}
	var denied *DeniedError
	switch {
	case errors.As(err, &denied):
		u.Status, u.Reason = denied.Status, "the registry denies it"
	case errors.Is(err, errdef.ErrNotFound):
		u.Reason = "it is listed, and not there"
	default:
		return fmt.Errorf("%s: %w", lookup, err)
	}
	g.undetermined = append(g.undetermined, u)
	return nil
}

// referrer opens what a list calls a referrer. What the list says of its type is
// not believed: some clients wrote the type of the empty config there. Neither
// is what it says of its subject.
func (g *gathering) referrer(ctx context.Context, desc ocispec.Descriptor) error {
	if g.seen[desc.Digest] || desc.Digest == g.subject.Digest {
		return nil
	}
	g.seen[desc.Digest] = true
	if len(g.seen) > maxReferrers {
		return &ContentError{Ref: g.place, Digest: g.subject.Digest, Reason: fmt.Sprintf("more than %d manifests hang on it", maxReferrers)}
	}
	lookup := "referrer " + desc.Digest.String()
	if !isManifest(desc.MediaType) {
		g.undetermined = append(g.undetermined, Undetermined{Subject: g.subject.Digest, Lookup: lookup, Reason: fmt.Sprintf("it is of type %q, which is not known", printable(desc.MediaType))})
		return nil
	}
	desc = entry(desc, "")
	data, err := content.FetchAll(ctx, g.fetcher, desc)
	if err != nil {
		return g.failed(lookup, err)
	}
	l, err := readLinks(data)
	if err != nil || l.Subject == nil || l.Subject.Digest != g.subject.Digest {
		return nil // it hangs on something else
	}
	g.found = append(g.found, foundAttachment{desc: desc, data: data, artifactType: l.artifact(), annotations: l.Annotations})
	return nil
}

// list opens the entries of a list under the tag that takes the place of the
// referrers API. Some registries answer such a tag with the subject itself.
func (g *gathering) list(ctx context.Context, desc ocispec.Descriptor, data []byte) error {
	if desc.Digest == g.subject.Digest {
		return nil
	}
	l, err := readLinks(data)
	if err != nil || l.kind() != ocispec.MediaTypeImageIndex {
		return nil // it is no list
	}
	for _, listed := range l.Manifests {
		if err := g.referrer(ctx, listed); err != nil {
			return err
		}
	}
	return nil
}

// tagged notes what is under one of cosign's tags.
func (g *gathering) tagged(tag string, desc ocispec.Descriptor, data []byte) {
	if l, err := readLinks(data); err != nil || l.kind() == "" || !isManifest(desc.MediaType) {
		g.undetermined = append(g.undetermined, Undetermined{Subject: g.subject.Digest, Lookup: "tag " + tag, Reason: "what it names is no manifest"})
		return
	}
	g.found = append(g.found, foundAttachment{desc: entry(desc, ""), data: data, tag: tag})
}

// remoteFinder looks in a repository of a registry.
type remoteFinder struct {
	place *remotePlace
	noAPI atomic.Bool
	tags  map[string]bool // all that there are; nil: each is asked for
}

func (p *remotePlace) finder() finder { return &remoteFinder{place: p} }

// learn lists the tags of the repository, twice: no digest tells whether a list
// is as it was sent, and a name that was changed on the way would be a signature
// that is left behind. A list that is denied, endless, old, another one each time,
// or of the length at which some registries cut it off without a word is not used.
func (f *remoteFinder) learn(ctx context.Context, must []string) {
	const cutAt = 50
	tags, err := f.list(ctx)
	if err != nil || len(tags)%cutAt == 0 {
		return
	}
	for _, tag := range must {
		if !tags[tag] {
			return
		}
	}
	if again, err := f.list(ctx); err == nil && maps.Equal(tags, again) {
		f.tags = tags
	}
}

// list reads all tags.
func (f *remoteFinder) list(ctx context.Context) (map[string]bool, error) {
	const most = 100_000
	tags := map[string]bool{}
	err := f.place.tags(ctx, func(page []string) error {
		for _, tag := range page {
			tags[tag] = true
		}
		if len(tags) > most {
			return fs.ErrInvalid // enough
		}
		return nil
	})
	return tags, err
}

func (f *remoteFinder) attachments(ctx context.Context, subject ocispec.Descriptor) ([]foundAttachment, []Undetermined, error) {
	g := newGathering(f.place.name(), f.place, subject)
	if err := f.fromAPI(ctx, g); err != nil {
		return nil, nil, err
	}
	// Registries with the API may hold the tag too, from a tool that knew no better.
	err := f.fromTag(ctx, g, referrersTag(subject), func(desc ocispec.Descriptor, data []byte) error { return g.list(ctx, desc, data) })
	if err != nil {
		return nil, nil, err
	}
	for _, suffix := range tagSuffixes {
		tag := referrersTag(subject) + suffix
		err := f.fromTag(ctx, g, tag, func(desc ocispec.Descriptor, data []byte) error { g.tagged(tag, desc, data); return nil })
		if err != nil {
			return nil, nil, err
		}
	}
	return g.found, g.undetermined, nil
}

func (f *remoteFinder) fromAPI(ctx context.Context, g *gathering) error {
	if f.noAPI.Load() {
		return nil
	}
	listed, api, err := f.place.referrersAPI(ctx, g.subject)
	if err != nil {
		return g.failed("referrers", err)
	}
	if !api && !f.place.listsReferrers.Load() {
		f.noAPI.Store(true)
	}
	for _, desc := range listed {
		if err := g.referrer(ctx, desc); err != nil {
			return err
		}
	}
	return nil
}

func (f *remoteFinder) fromTag(ctx context.Context, g *gathering, tag string, use func(ocispec.Descriptor, []byte) error) error {
	if f.tags != nil && !f.tags[tag] {
		return nil
	}
	desc, data, err := f.place.read(ctx, tag)
	if as[*NotFoundError](err) {
		return nil
	}
	if err != nil {
		return g.failed("tag "+tag, err)
	}
	return use(desc, data)
}

// referrersAPI asks the registry's referrers API, and says whether there is one. That
// there is none is believed when it is said twice: what hangs on everything else would
// be left behind for it.
func (p *remotePlace) referrersAPI(ctx context.Context, subject ocispec.Descriptor) ([]ocispec.Descriptor, bool, error) {
	repo := p.client.repository(p.ref)
	if err := repo.SetReferrersCapability(true); err != nil {
		return nil, false, err
	}
	listed, err := repo.Predecessors(ctx, subject)
	if err != nil && isNoReferrers(err) {
		listed, err = repo.Predecessors(ctx, subject)
	}
	if err != nil && isNoReferrers(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, p.failed(err, "referrers of "+subject.Digest.String(), subject, true)
	}
	p.listsReferrers.Store(true)
	return listed, true, nil
}

// localFinder knows all of an index.json.
type localFinder struct {
	place *localPlace

	once  sync.Once
	named map[string]ocispec.Descriptor          // the tags that hang on a digest
	by    map[digest.Digest][]ocispec.Descriptor // by subject
	err   error
}

func (p *localPlace) finder() finder { return &localFinder{place: p} }

// learn is not needed: index.json is at hand.
func (f *localFinder) learn(context.Context, []string) {}

// read looks once at what every entry hangs on.
func (f *localFinder) read(ctx context.Context) {
	f.named, f.by = map[string]ocispec.Descriptor{}, map[digest.Digest][]ocispec.Descriptor{}
	for _, e := range f.place.index.Manifests {
		desc := entry(e, "")
		if isAttachment(nameOf(e)) {
			f.named[nameOf(e)] = desc
			continue
		}
		if !isManifest(e.MediaType) {
			continue
		}
		data, err := content.FetchAll(ctx, f.place, desc)
		if err != nil {
			f.err = err
			return
		}
		if l, err := readLinks(data); err == nil && l.Subject != nil {
			f.by[l.Subject.Digest] = append(f.by[l.Subject.Digest], desc)
		}
	}
}

func (f *localFinder) attachments(ctx context.Context, subject ocispec.Descriptor) ([]foundAttachment, []Undetermined, error) {
	if f.once.Do(func() { f.read(ctx) }); f.err != nil {
		return nil, nil, f.err
	}
	g := newGathering(f.place.place, f.place, subject)
	for _, desc := range f.by[subject.Digest] {
		if err := g.referrer(ctx, desc); err != nil {
			return nil, nil, err
		}
	}
	for _, suffix := range append([]string{""}, tagSuffixes...) {
		if err := f.fromName(ctx, g, referrersTag(subject)+suffix, suffix == ""); err != nil {
			return nil, nil, err
		}
	}
	return g.found, g.undetermined, nil
}

func (f *localFinder) fromName(ctx context.Context, g *gathering, name string, isList bool) error {
	desc, ok := f.named[name]
	if !ok {
		return nil
	}
	data, err := content.FetchAll(ctx, f.place, desc)
	if err != nil {
		return g.failed("tag "+name, err)
	}
	if isList {
		return g.list(ctx, desc, data)
	}
	g.tagged(name, desc, data)
	return nil
}
