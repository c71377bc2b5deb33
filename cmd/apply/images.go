package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"

	"waybill/bundle"
	"waybill/charts"
	"waybill/charts/images"
	"waybill/internal/flags"
	"waybill/internal/ref"
	"waybill/registry"
	"waybill/rollout"
)

// What becomes of image references.
const (
	imagesKeep     = "keep"     // sent as charts write them
	imagesRelocate = "relocate" // the bundle's repository, by digest
	imagesExpand   = "expand:"  // a repository for each image below a prefix
)

func imageFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "images", Usage: "what becomes of image references: relocate (to the bundle's repository, by digest), expand:PREFIX or keep (default: the site file's, else relocate for a bundle with images in a registry)"},
		&cli.StringFlag{Name: "image-registry", Usage: "the bundle's repository `HOST/PATH` by the name nodes reach it"},
		&cli.BoolFlag{Name: "allow-unknown-images", Usage: "warn of images that neither lock nor site file knows, instead of refusing; for trials"},
	}
}

// checkImageFlags finds what is wrong with the words themselves.
func checkImageFlags(c *cli.Context) error {
	if err := checkImageMode("--images", c.String("images")); err != nil {
		return err
	}
	return checkRepository("--image-registry", c.String("image-registry"))
}

func checkImageMode(name, mode string) error {
	prefix, expand := strings.CutPrefix(mode, imagesExpand)
	switch {
	case mode == "", mode == imagesKeep, mode == imagesRelocate:
		return nil
	case expand:
		return checkRepository(name+" expand", prefix)
	}
	return &flags.UsageError{Message: fmt.Sprintf("%s %q is unknown", name, mode), Hint: "it is relocate, expand:PREFIX or keep"}
}

// checkRepository takes HOST/PATH, or a host alone for a prefix.
func checkRepository(name, text string) error {
	if text == "" {
		return nil
	}
	r, err := ref.Parse(strings.TrimSuffix(text, "/") + "/x")
	if err != nil || r.Tag != "" || r.Digest != "" {
		return &flags.UsageError{Message: fmt.Sprintf("%s %q is no HOST/PATH", name, text), Hint: "such as harbor.site/platform/loko, without oci://, tag or digest"}
	}
	return nil
}

// chooseImages says where nodes pull from, of flags, site file and the place
// the bundle was read from, in this order.
func (s *source) chooseImages(c *cli.Context) error {
	mode, repository := c.String("images"), c.String("image-registry")
	var site bundle.SiteImages
	if s.site.site != nil && s.site.site.Images != nil {
		site = *s.site.site.Images
	}
	if mode == "" {
		mode = site.Mode
	}
	if repository == "" {
		repository = site.Registry
	}
	chosen := rollout.Images{Replace: site.Replace, Allow: site.Allow, AllowUnknown: c.Bool("allow-unknown-images")}
	if s.opened == nil {
		return nil // a release file without a bundle, whose images are kept; all else was refused
	}
	prefix, expand := strings.CutPrefix(mode, imagesExpand)
	switch {
	case expand:
		chosen.Prefix = prefix
	case mode == imagesKeep, mode == "" && s.opened.Bundle.Lock.Packed == bundle.PackedCharts:
	default:
		var err error
		if chosen.Repository, err = s.repository(repository); err != nil {
			return err
		}
	}
	switch {
	case chosen.Prefix != "", chosen.Repository != "" && !s.from(chosen.Repository):
		chosen.Missing = s.missing
	case chosen.Repository != "" && len(site.Replace) > 0:
		chosen.Missing = s.missingReplacements
	}
	s.request.Images = chosen
	return nil
}

// from is whether the bundle was read from that repository, and so known to be
// whole there.
func (s *source) from(repository string) bool {
	loc := s.opened.Location
	return loc.Kind == registry.Registry && loc.Ref.Name() == repository
}

// askedAtOnce is how many images are asked for at the same time.
const askedAtOnce = 8

// missing asks the registry that nodes will ask.
func (s *source) missing(ctx context.Context, references []string) ([]string, map[string]error) {
	var mu sync.Mutex
	var missing []string
	unasked := map[string]error{}
	var group errgroup.Group
	group.SetLimit(askedAtOnce)
	for _, reference := range references {
		group.Go(func() error {
			err := s.resolves(ctx, reference)
			var absent *registry.NotFoundError
			mu.Lock()
			defer mu.Unlock()
			switch {
			case errors.As(err, &absent):
				missing = append(missing, reference)
			case err != nil:
				unasked[reference] = err
			}
			return nil
		})
	}
	_ = group.Wait() // none of them fails
	slices.Sort(missing)
	return missing, unasked
}

// missingReplacements asks for the site's images only: the bundle's are known to
// be there.
func (s *source) missingReplacements(ctx context.Context, references []string) ([]string, map[string]error) {
	var asked []string
	for _, reference := range references {
		if slices.ContainsFunc(s.site.site.Images.Replace, func(r bundle.ReplaceImage) bool { return strings.HasSuffix(reference, "@"+r.Digest.String()) }) {
			asked = append(asked, reference)
		}
	}
	return s.missing(ctx, asked)
}

func (s *source) resolves(ctx context.Context, reference string) error {
	r, err := ref.Parse(reference)
	if err != nil {
		return err
	}
	repository, err := s.opened.Client.Repository(ctx, r.Name())
	if err != nil {
		return err
	}
	_, err = repository.Resolve(ctx, r.Digest.String())
	return err
}

// repository is where nodes find the bundle.
func (s *source) repository(named string) (string, error) {
	if named != "" {
		return strings.TrimSuffix(named, "/"), nil
	}
	if loc := s.opened.Location; loc.Kind == registry.Registry {
		return loc.Ref.Name(), nil
	}
	return "", &flags.UsageError{
		Message: fmt.Sprintf("%s is no registry that nodes could pull its images from", s.opened.Location),
		Hint:    "copy it to one and say --image-registry HOST/PATH, --images expand:PREFIX for a mirror of the images, or --images keep",
	}
}

// previewedImages is what the plan wants to know of rewritten references.
func previewedImages(r charts.Rewritten) rollout.PreviewedImages {
	var out rollout.PreviewedImages
	for _, c := range r.Changes {
		out.Changes = append(out.Changes, rollout.ImageChange{Object: c.Object, Path: c.Path, From: c.From, To: c.To})
	}
	out.Namespaces = r.Namespaces
	out.Unknown, out.Stuck, out.Left, out.Similar = imageUses(r.Unknown), imageUses(r.Stuck), imageUses(r.Left), imageUses(r.Similar)
	return out
}

func imageUses(uses []images.Use) []rollout.ImageUse {
	var out []rollout.ImageUse
	for _, u := range uses {
		out = append(out, rollout.ImageUse{Reference: u.Reference, Object: u.Object, Path: u.Path})
	}
	return out
}
