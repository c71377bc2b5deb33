package main

import (
	"context"
	"fmt"
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

// resolve asks the registries. Beside an error it returns what was resolved.
func (s imageSearch) resolve(ctx context.Context, images []bundle.ListedImage, opts releasefile.ImageOptions) (*releasefile.ResolvedImages, error) {
	step := s.talk.Progress(ui.Step{
		Doing: "resolving images", Did: "resolved images", Unit: "image", Items: len(images) - len(candidates(images)),
	})
	defer step.Close()
	opts.OnResolved = func(reference string) { step.Finish(reference) }
	resolved, err := s.file.ResolveImages(ctx, s.client, images, opts)
	if err != nil {
		return resolved, err
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
