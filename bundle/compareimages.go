package bundle

import (
	"fmt"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
)

// CompareImages returns where the images that a release uses are not those that
// the lock has references of, one fact each: what [CompareLock] cannot know
// without rendering the charts.
func CompareImages(images []ListedImage, lock *Lock) []string {
	locked := map[string]bool{}
	for _, image := range lock.Images {
		for _, reference := range image.References {
			locked[reference] = true
		}
	}
	var differences []string
	for _, image := range images {
		if image.Carried() && !locked[image.Reference] {
			differences = append(differences, fmt.Sprintf("image %s (%s) is not in the lock", image.Reference, usersOf(image.Components)))
		}
		delete(locked, image.Reference)
	}
	for _, reference := range sortedKeys(locked) {
		differences = append(differences, fmt.Sprintf("image %s is locked and no chart uses it", reference))
	}
	return differences
}

func usersOf(components []string) string {
	if len(components) == 0 {
		return "listed by the release"
	}
	return "used by " + strings.Join(components, ", ")
}

// CompareResolved returns where the lock says of an image what is no longer so
// when it is resolved again, such as its platforms; one fact each.
func (l *Lock) CompareResolved(resolved []LockedImage) []string {
	now := slices.Clone(resolved)
	var differences []string
	// take compares with one of those that are the same, and takes it away.
	take := func(image LockedImage, same func(LockedImage) bool) bool {
		at := slices.IndexFunc(now, func(i LockedImage) bool { return i.Digest == image.Digest && same(i) })
		if at < 0 {
			return false
		}
		if d := image.difference(now[at]); d != "" {
			differences = append(differences, fmt.Sprintf("image %s: %s", image.References[0], d))
		}
		now = slices.Delete(now, at, at+1)
		return true
	}
	var left []LockedImage // of another upstream, if of any
	for _, image := range l.Images {
		if !take(image, func(i LockedImage) bool { return i.Upstream == image.Upstream }) {
			left = append(left, image)
		}
	}
	for _, image := range left {
		if !take(image, func(LockedImage) bool { return true }) {
			differences = append(differences, fmt.Sprintf("image %s: locked is %s, which is not what would be carried", image.References[0], image.Digest))
		}
	}
	for _, image := range now {
		differences = append(differences, fmt.Sprintf("image %s: %s would be carried, which is not locked", image.References[0], image.Digest))
	}
	slices.Sort(differences)
	return differences
}

// difference names the first thing that another entry of one digest says
// otherwise. A lock may lack the manifests.
func (i LockedImage) difference(o LockedImage) string {
	switch {
	case !slices.Equal(i.References, o.References), !slices.Equal(i.Spellings, o.Spellings), !slices.Equal(i.Components, o.Components):
		return "the charts use it otherwise than was locked"
	case i.MediaType != o.MediaType, i.Size != o.Size:
		return fmt.Sprintf("it is %s of %d bytes, locked is %s of %d", o.MediaType, o.Size, i.MediaType, i.Size)
	case !slices.Equal(i.Platforms, o.Platforms):
		return fmt.Sprintf("its platforms are %s, locked are %s", orNothing(strings.Join(o.Platforms, ", ")), orNothing(strings.Join(i.Platforms, ", ")))
	case i.Upstream != o.Upstream:
		return fmt.Sprintf("upstream's index is %s, locked is %s", orNothing(o.Upstream.String()), orNothing(i.Upstream.String()))
	case len(i.Manifests) > 0 && !slices.Equal(sortedManifests(i.Manifests), sortedManifests(o.Manifests)):
		return "the manifests of its platforms are not those that are locked"
	}
	return ""
}

// An ImageChange is what a new lock says otherwise of a reference than an old one.
type ImageChange struct {
	Reference string          `json:"reference"`
	From      []digest.Digest `json:"from,omitempty"` // empty for one that was added; several of a flat bundle
	To        []digest.Digest `json:"to,omitempty"`   // empty for one that was dropped
}

// String says the change in one line, without the reference.
func (c ImageChange) String() string {
	switch from, to := digestWords(c.From), digestWords(c.To); {
	case from == "":
		return "added, " + to
	case to == "":
		return "dropped, was " + from
	default:
		return from + " → " + to
	}
}

func digestWords(digests []digest.Digest) string {
	var words []string
	for _, d := range digests {
		words = append(words, d.String())
	}
	return strings.Join(words, ", ")
}

// ImageChanges returns what the lock says of its images otherwise than previous,
// by reference. Nil as previous is a lock of nothing.
func (l *Lock) ImageChanges(previous *Lock) []ImageChange {
	before, now := previous.byReference(), l.byReference()
	var changes []ImageChange
	for _, reference := range slices.Compact(slices.Sorted(slices.Values(append(sortedKeys(before), sortedKeys(now)...)))) {
		if from, to := before[reference], now[reference]; !slices.Equal(from, to) {
			changes = append(changes, ImageChange{Reference: reference, From: from, To: to})
		}
	}
	return changes
}

// byReference are the digests that each reference means, sorted.
func (l *Lock) byReference() map[string][]digest.Digest {
	all := map[string][]digest.Digest{}
	if l == nil {
		return all
	}
	for _, image := range l.Images {
		for _, reference := range image.References {
			all[reference] = append(all[reference], image.Digest)
			slices.Sort(all[reference])
		}
	}
	return all
}
