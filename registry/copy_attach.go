package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
)

// attachTries bounds how often a tag is written again that others change at the
// same time: registries have no way to change one only if it still is what was
// read.
const attachTries = 5

// attachAll makes every attachment that was planned be found at the target.
func (r *copyRun) attachAll(ctx context.Context) error {
	bySubject := r.attachmentGroups()
	err := each(ctx, r.opts.Concurrency, len(bySubject), func(ctx context.Context, i int) error {
		return r.attachGroup(ctx, bySubject[i])
	})
	slices.SortFunc(r.result.Attachments, func(a, b Attachment) int {
		return bytes.Compare([]byte(a.Subject.String()+a.Form+a.Tag+a.Digest.String()), []byte(b.Subject.String()+b.Form+b.Tag+b.Digest.String()))
	})
	return err
}

// attachmentGroups are the attachments of each subject whose manifests are at
// the target.
func (r *copyRun) attachmentGroups() [][]plannedAttachment {
	var groups [][]plannedAttachment
	for _, a := range r.plan.attachments {
		if r.failed[a.manifest] {
			continue
		}
		if last := len(groups) - 1; last >= 0 && groups[last][0].Subject == a.Subject {
			groups[last] = append(groups[last], a)
			continue
		}
		groups = append(groups, []plannedAttachment{a})
	}
	return groups
}

func (r *copyRun) attachGroup(ctx context.Context, group []plannedAttachment) error {
	var referrers []referrer
	var listed []plannedAttachment
	for _, a := range group {
		if a.Form == FormReferrer {
			data, err := r.plan.manifestData(ctx, a.manifest)
			if err != nil {
				return err
			}
			referrers, listed = append(referrers, referrer{a.listed, data}), append(listed, a)
			continue
		}
		state, err := r.attachTag(ctx, a)
		if err != nil {
			return r.target(a.manifest, "attaching", err)
		}
		r.attached(a.Attachment, state)
	}
	if len(referrers) == 0 {
		return nil
	}
	missing, err := r.dst.target.attach(ctx, group[0].subject.desc, referrers)
	if err != nil {
		return r.target(listed[0].manifest, "attaching", err)
	}
	for _, a := range listed {
		state := AttachmentThere
		if missing[a.Digest] {
			state = AttachmentCopied
		}
		r.attached(a.Attachment, state)
	}
	return nil
}

func (r *copyRun) attached(a Attachment, state string) {
	a.State = state
	r.mu.Lock()
	r.result.Attachments = append(r.result.Attachments, a)
	r.mu.Unlock()
	if r.opts.OnAttachment != nil {
		r.opts.OnAttachment(a)
	}
}

// attachTag puts a manifest under its tag, united with what is there.
func (r *copyRun) attachTag(ctx context.Context, a plannedAttachment) (state string, err error) {
	for range attachTries {
		want, did, err := r.uniteTag(ctx, a)
		if err != nil || did == AttachmentThere {
			return did, err
		}
		state = did
		now, err := r.dst.Resolve(ctx, a.Tag)
		if err != nil {
			return "", fmt.Errorf("reading back tag %s: %w", a.Tag, err)
		}
		if now.Digest == want {
			return state, nil
		}
	}
	return "", fmt.Errorf("tag %s is changed by others over and over", a.Tag)
}

// uniteTag writes the tag once and says what it names then.
func (r *copyRun) uniteTag(ctx context.Context, a plannedAttachment) (digest.Digest, string, error) {
	ours := a.manifest.desc
	now, found, err := r.tagAtTarget(ctx, a.Tag)
	switch {
	case err != nil:
		return "", "", err
	case !found:
		return ours.Digest, AttachmentCopied, r.dst.Tag(ctx, ours, a.Tag)
	case now.Digest == ours.Digest:
		return ours.Digest, AttachmentThere, nil
	}
	data, err := r.plan.manifestData(ctx, a.manifest)
	if err != nil {
		return "", "", err
	}
	theirs, err := content.FetchAll(ctx, r.dst, now)
	if err != nil {
		return "", "", err
	}
	u, err := unite(theirs, data)
	if err != nil {
		return "", "", fmt.Errorf("tag %s names %s at the target and %s at the source, which can't be united: %w", a.Tag, now.Digest, ours.Digest, err)
	}
	switch {
	case len(u.added) == 0:
		return now.Digest, AttachmentThere, nil
	case u.lacking == 0: // ours has all of theirs
		return ours.Digest, AttachmentUnited, r.dst.Tag(ctx, ours, a.Tag)
	}
	desc, err := u.write(ctx, r.dst, now.MediaType)
	if err != nil {
		return "", "", err
	}
	return desc.Digest, AttachmentUnited, r.dst.Tag(ctx, desc, a.Tag)
}

// tagAtTarget looks for a tag. Where the registry denies to look at one that
// isn't there, the list of tags tells.
func (r *copyRun) tagAtTarget(ctx context.Context, tag string) (ocispec.Descriptor, bool, error) {
	desc, err := r.dst.Resolve(ctx, tag)
	switch {
	case err == nil:
		return desc, true, nil
	case errors.Is(err, errdef.ErrNotFound):
		return desc, false, nil
	case as[*DeniedError](err) && r.dst.target.lacksTag(ctx, tag):
		return desc, false, nil
	}
	return desc, false, fmt.Errorf("looking at tag %s: %w", tag, err)
}

// lacksTag says whether the list of tags can be had and has not got a tag.
func (p *remotePlace) lacksTag(ctx context.Context, tag string) bool {
	err := p.tags(ctx, func(page []string) error {
		if slices.Contains(page, tag) {
			return fs.ErrExist
		}
		return nil
	})
	return err == nil
}

// referrer is a manifest as a list of referrers has it, with its bytes.
type referrer struct {
	desc ocispec.Descriptor
	data []byte
}

// putManifest writes a manifest by its digest, and leaves to attach what is to
// be done about its subject.
func (p *remotePlace) putManifest(ctx context.Context, desc ocispec.Descriptor, data []byte) error {
	repo := p.client.repository(p.ref)
	if err := repo.SetReferrersCapability(true); err != nil { // or oras-go keeps a list of its own
		return err
	}
	return p.failed(p.put(ctx, repo, desc, data, desc.Digest.String()), describe(desc), desc, false)
}

// attach makes manifests be found as the referrers of a subject: by the
// registry's API, or where there is none in the list under the subject's tag
// (distribution specification, "Referrers Tag Schema"). It says which of them
// were not, and reads back that all are.
func (p *remotePlace) attach(ctx context.Context, subject ocispec.Descriptor, all []referrer) (map[digest.Digest]bool, error) {
	missing := map[digest.Digest]bool{}
	for range attachTries {
		listed, api, err := p.listed(ctx, subject)
		if err != nil {
			return nil, err
		}
		absent := slices.DeleteFunc(slices.Clone(all), func(r referrer) bool { return listed[r.desc.Digest] })
		if len(absent) == 0 {
			return missing, nil
		}
		for _, r := range absent {
			missing[r.desc.Digest] = true
		}
		if api {
			err = p.pushAgain(ctx, absent)
		} else {
			err = p.extendList(ctx, subject, absent)
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, errNotListed
}

// listed are the referrers that the place has listed by now.
func (p *remotePlace) listed(ctx context.Context, subject ocispec.Descriptor) (map[digest.Digest]bool, bool, error) {
	list, api, err := p.referrersAPI(ctx, subject)
	if err != nil {
		return nil, false, err
	}
	if !api {
		tagged, err := p.readList(ctx, subject)
		if err != nil {
			return nil, false, err
		}
		list = tagged.descriptors()
	}
	out := map[digest.Digest]bool{}
	for _, desc := range list {
		out[desc.Digest] = true
	}
	return out, api, nil
}

// pushAgain lets the registry see the subject of manifests that it has and does
// not list, as one does that learnt of subjects later.
func (p *remotePlace) pushAgain(ctx context.Context, all []referrer) error {
	for _, r := range all {
		if err := p.putManifest(ctx, entry(r.desc, ""), r.data); err != nil {
			return err
		}
	}
	return nil
}

// referrerList is the list under a subject's tag. What others wrote into it
// stays as they wrote it.
type referrerList struct {
	specs.Versioned
	MediaType   string            `json:"mediaType"`
	Manifests   []json.RawMessage `json:"manifests"`
	Annotations json.RawMessage   `json:"annotations,omitempty"`
}

func (l referrerList) descriptors() []ocispec.Descriptor {
	var out []ocispec.Descriptor
	for _, raw := range l.Manifests {
		var desc ocispec.Descriptor
		if json.Unmarshal(raw, &desc) == nil {
			out = append(out, desc)
		}
	}
	return out
}

func (p *remotePlace) readList(ctx context.Context, subject ocispec.Descriptor) (referrerList, error) {
	list := referrerList{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: []json.RawMessage{}}
	tag := referrersTag(subject)
	desc, data, err := p.read(ctx, tag)
	switch {
	case as[*NotFoundError](err), err == nil && desc.Digest == subject.Digest, as[*DeniedError](err) && p.lacksTag(ctx, tag):
		return list, nil
	case err != nil:
		return list, fmt.Errorf("looking at tag %s: %w", tag, err)
	}
	if l, err := readLinks(data); err != nil || l.kind() != ocispec.MediaTypeImageIndex {
		return list, fmt.Errorf("tag %s names something that is no list of referrers; it was not changed", tag)
	}
	return list, json.Unmarshal(data, &list)
}

// extendList adds referrers, each with its true type.
func (p *remotePlace) extendList(ctx context.Context, subject ocispec.Descriptor, all []referrer) error {
	list, err := p.readList(ctx, subject)
	if err != nil {
		return err
	}
	for _, r := range all {
		raw, err := marshal(r.desc)
		if err != nil {
			return err
		}
		list.Manifests = append(list.Manifests, raw)
	}
	err = p.pushList(ctx, subject, list)
	if !as[*NotFoundError](err) && !as[*ResponseError](err) {
		return err
	}
	// Registries refuse a list of what isn't there: collections of garbage leave
	// such lists behind.
	if list, err = p.withoutLost(ctx, list); err != nil {
		return err
	}
	return p.pushList(ctx, subject, list)
}

func (p *remotePlace) pushList(ctx context.Context, subject ocispec.Descriptor, list referrerList) error {
	data, err := marshal(list)
	if err != nil {
		return err
	}
	desc := content.NewDescriptorFromBytes(ocispec.MediaTypeImageIndex, data)
	tag := referrersTag(subject)
	return p.failed(p.put(ctx, p.repo, desc, data, tag), "tag "+tag, desc, false)
}

func (p *remotePlace) withoutLost(ctx context.Context, list referrerList) (referrerList, error) {
	var kept []json.RawMessage
	for _, raw := range list.Manifests {
		var desc ocispec.Descriptor
		if err := json.Unmarshal(raw, &desc); err != nil {
			continue
		}
		there, err := p.has(ctx, desc)
		if err != nil && !isContentProblem(err) {
			return list, err
		}
		if there {
			kept = append(kept, raw)
		}
	}
	list.Manifests = kept
	return list, nil
}

// keep lists a manifest that has no name. In a registry there is no such list.
func (p *remotePlace) keep(context.Context, ocispec.Descriptor) error { return nil }

func (s *staged) keep(ctx context.Context, desc ocispec.Descriptor) error {
	if _, err := content.FetchAll(ctx, s, desc); err != nil {
		return err
	}
	isListed := func(e ocispec.Descriptor) bool { return e.Digest == desc.Digest }
	if !slices.ContainsFunc(s.index().Manifests, isListed) {
		s.list(entry(desc, ""))
	}
	return nil
}

func (s *staged) putManifest(ctx context.Context, desc ocispec.Descriptor, data []byte) error {
	return s.Push(ctx, desc, bytes.NewReader(data))
}

// attach lists manifests with a subject, also those that another writer has put
// there and not listed.
func (s *staged) attach(_ context.Context, _ ocispec.Descriptor, all []referrer) (map[digest.Digest]bool, error) { //nolint:unparam // as every target has it
	missing := map[digest.Digest]bool{}
	for _, r := range all {
		isListed := func(e ocispec.Descriptor) bool { return e.Digest == r.desc.Digest }
		if s.before == nil || !slices.ContainsFunc(s.before.index.Manifests, isListed) {
			missing[r.desc.Digest] = true
		}
		if !slices.ContainsFunc(s.index().Manifests, isListed) {
			s.list(entry(r.desc, ""))
		}
	}
	return missing, nil
}

// lacksTag is never asked of a place that denies nothing.
func (s *staged) lacksTag(context.Context, string) bool { return false }

func asCopyError(err error, target **CopyError) bool { return errors.As(err, target) }
