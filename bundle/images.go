package bundle

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"waybill/internal/ref"
)

// How sure it is that a text names an image that the chart runs; see the
// format's description.
const (
	ImageCertain    = "certain"
	ImageRecognised = "recognised"
	ImageCandidate  = "candidate"
)

// An ImageUse is one place where a component's chart, or the release file,
// names an image.
type ImageUse struct {
	Component  string `json:"component,omitempty"`
	Reference  string `json:"-"` // as written there
	Normalized string `json:"-"`
	Confidence string `json:"-"`
	Object     string `json:"object,omitempty"` // kind/name, or a file
	Path       string `json:"path,omitempty"`   // the field in it
	Render     string `json:"render,omitempty"` // which rendering, empty for files
	Reason     string `json:"reason"`
}

// A ListedImage is one image of a release by its normalised reference, with
// everything that names it.
type ListedImage struct {
	Reference  string
	Confidence string   // of the surest use
	Spellings  []string // as written, sorted
	Components []string // sorted; none: the release lists it
	Platforms  []string // what to carry of it; nil: what the release says
	Uses       []ImageUse
}

// Carried is whether the image belongs into the bundle: candidates do not.
func (i ListedImage) Carried() bool { return i.Confidence != ImageCandidate }

// ListImages puts together what was found in the charts and what the release
// file lists, by normalised reference: what is listed is certain, candidates
// that ignoreImages matches are left out. The error names a listed reference
// that is none.
func (r *Release) ListImages(found []ImageUse) ([]ListedImage, error) {
	listed, err := r.listedUses()
	if err != nil {
		return nil, err
	}
	ignored := map[string][]*regexp.Regexp{}
	for _, c := range r.Components {
		for _, pattern := range c.IgnoreImages {
			ignored[c.Name] = append(ignored[c.Name], ImagePattern(pattern))
		}
	}
	all := map[string]*ListedImage{}
	for _, use := range slices.Concat(listed, found) {
		if use.Confidence != ImageCertain && matches(ignored[use.Component], use) {
			continue
		}
		image := all[use.Normalized]
		if image == nil {
			image = &ListedImage{Reference: use.Normalized, Confidence: use.Confidence, Platforms: r.platformsOf(use.Normalized)}
			all[use.Normalized] = image
		}
		image.add(use)
	}
	var images []ListedImage
	for _, name := range sortedKeys(all) {
		images = append(images, *all[name])
	}
	return images, nil
}

func (i *ListedImage) add(use ImageUse) {
	if rank(use.Confidence) < rank(i.Confidence) {
		i.Confidence = use.Confidence
	}
	i.Uses = append(i.Uses, use)
	i.Spellings = insert(i.Spellings, use.Reference)
	if use.Component != "" {
		i.Components = insert(i.Components, use.Component)
	}
}

func rank(confidence string) int {
	return slices.Index([]string{ImageCertain, ImageRecognised, ImageCandidate}, confidence)
}

func insert(sorted []string, s string) []string {
	at, there := slices.BinarySearch(sorted, s)
	if there {
		return sorted
	}
	return slices.Insert(sorted, at, s)
}

// listedUses are the images that the release file itself names.
func (r *Release) listedUses() ([]ImageUse, error) {
	var uses []ImageUse
	add := func(component string, images []ImageRef) error {
		for n, image := range images {
			normalized, err := ref.Normalize(image.Ref)
			if err != nil {
				return fmt.Errorf("images of %s: %w", ownerWords(component), err)
			}
			reason := image.Reason
			if reason == "" {
				reason = "listed in the release file"
			}
			uses = append(uses, ImageUse{
				Component: component, Reference: image.Ref, Normalized: normalized, Confidence: ImageCertain,
				Object: "release file", Path: fmt.Sprintf("images[%d]", n), Reason: reason,
			})
		}
		return nil
	}
	if err := add("", r.Images); err != nil {
		return nil, err
	}
	for _, c := range r.Components {
		if err := add(c.Name, c.Images); err != nil {
			return nil, err
		}
	}
	return uses, nil
}

func ownerWords(component string) string {
	if component == "" {
		return "the release"
	}
	return "component " + component
}

// platformsOf is what the release file says of one image, nil for nothing.
func (r *Release) platformsOf(normalized string) []string {
	lists := [][]ImageRef{r.Images}
	for _, c := range r.Components {
		lists = append(lists, c.Images)
	}
	var platforms []string
	for _, image := range slices.Concat(lists...) {
		if name, err := ref.Normalize(image.Ref); err == nil && name == normalized {
			for _, p := range image.Platforms {
				platforms = insert(platforms, p)
			}
		}
	}
	return platforms
}

// ImagePattern reads a pattern of references, of ignoreImages here and of
// images.allow in a site file: * stands for any text, all else for itself.
func ImagePattern(pattern string) *regexp.Regexp {
	return regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, ".*") + "$")
}

func matches(patterns []*regexp.Regexp, use ImageUse) bool {
	return slices.ContainsFunc(patterns, func(p *regexp.Regexp) bool {
		return p.MatchString(use.Reference) || p.MatchString(use.Normalized)
	})
}
