package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"waybill/bundle"
	"waybill/internal/releasefile"
	"waybill/internal/ui"
	"waybill/registry"
)

// An imageSearch finds and resolves the images of a release file and shows how
// far it is.
type imageSearch struct {
	file   *releasefile.File
	values map[string][]byte
	client *registry.Client // for resolve
	talk   *ui.Talk
}

// find renders the charts and says for what.
func (s imageSearch) find(packed map[string]bundle.Chart) (*releasefile.FoundImages, error) {
	step := s.talk.Progress(ui.Step{Doing: "looking for images in the charts", Did: "looked for images in the charts", Brief: true})
	defer step.Close()
	found, err := s.file.FindImages(packed, s.values)
	if err != nil {
		return nil, err
	}
	step.End()
	s.talk.Sayf("rendered for Kubernetes %s: %s, %s", strings.Join(found.KubeVersions, " and "),
		ui.Count(len(found.Images)-len(candidates(found.Images)), "image"), ui.Count(len(candidates(found.Images)), "candidate"))
	return found, nil
}

// resolve asks the registries.
func (s imageSearch) resolve(ctx context.Context, images []bundle.ListedImage, opts releasefile.ImageOptions) (*releasefile.ResolvedImages, error) {
	step := s.talk.Progress(ui.Step{
		Doing: "resolving images", Did: "resolved images", Unit: "image", Items: len(images) - len(candidates(images)),
	})
	defer step.Close()
	opts.OnResolved = func(reference string) { step.Finish(reference) }
	resolved, err := s.file.ResolveImages(ctx, s.client, images, opts)
	if err != nil {
		return nil, err
	}
	step.End()
	for _, moved := range resolved.Moved {
		s.talk.Warnf("%s", moved)
	}
	return resolved, nil
}

// candidates are the references that may be images and are not carried.
func candidates(images []bundle.ListedImage) []string {
	var names []string
	for _, image := range images {
		if !image.Carried() {
			names = append(names, image.Reference)
		}
	}
	return names
}

func sayCandidates(talk *ui.Talk, names []string) {
	if len(names) > 0 {
		talk.Warnf("%s in the charts may be images and will not be carried; `bundle images` lists them; declare each under images or ignoreImages",
			ui.Count(len(names), "text"))
	}
}

// A candidatesError is the answer of --strict.
type candidatesError struct{ names []string }

func (e *candidatesError) Error() string {
	return fmt.Sprintf("%s may be images, and the release file does not say: %s", ui.Count(len(e.names), "text"), strings.Join(e.names, ", "))
}

func (e *candidatesError) Hint() string {
	return "list each under images when it is one, under ignoreImages when it is none"
}

// staleImages says where images and lock disagree.
func staleImages(images []bundle.ListedImage, lock *bundle.Lock) []string {
	locked := map[string]bool{}
	for _, image := range lock.Images {
		for _, reference := range image.References {
			locked[reference] = true
		}
	}
	var differences []string
	for _, image := range images {
		if image.Carried() && !locked[image.Reference] {
			differences = append(differences, fmt.Sprintf("image %s (%s) is not in the lock", image.Reference, strings.Join(image.Components, ", ")))
		}
		delete(locked, image.Reference)
	}
	var left []string
	for reference := range locked {
		left = append(left, fmt.Sprintf("image %s is locked and no chart uses it", reference))
	}
	slices.Sort(left)
	return append(differences, left...)
}

// sameImages refuses a lock that says of an image what is no longer so, such as
// its platforms.
func sameImages(locked, resolved []bundle.LockedImage) error {
	var differences []string
	now := map[string]bundle.LockedImage{}
	for _, image := range resolved {
		now[image.Digest.String()] = image
	}
	for _, image := range locked {
		found, ok := now[image.Digest.String()]
		switch {
		case !ok:
			differences = append(differences, fmt.Sprintf("image %s: locked is %s, which is not what would be carried", image.References[0], image.Digest))
		case !slices.Equal(image.References, found.References), !slices.Equal(image.Components, found.Components), !slices.Equal(image.Spellings, found.Spellings):
			differences = append(differences, fmt.Sprintf("image %s: the charts use it otherwise than was locked", image.References[0]))
		}
		delete(now, image.Digest.String())
	}
	for _, image := range now {
		differences = append(differences, fmt.Sprintf("image %s: %s would be carried, which is not locked", image.References[0], image.Digest))
	}
	if len(differences) == 0 {
		return nil
	}
	slices.Sort(differences)
	return &bundle.StaleError{Differences: differences}
}
