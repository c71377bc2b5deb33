package charts

import (
	"path"
	"slices"

	"waybill/charts/images"
)

// look finds every image that the rendering names, crds/, hooks and tests
// included, and what the rendered charts list themselves.
func (r *Rendered) look() *images.Finder {
	f := &images.Finder{}
	for _, o := range r.everyObject() {
		f.Object(images.Object{APIVersion: o.APIVersion, Kind: o.Kind, Name: o.Name, Template: o.Template, Content: o.Content})
	}
	for _, list := range r.lists {
		f.List(list.file, list.path, list.reason, list.references)
	}
	return f
}

// everyObject is all that would reach the cluster, crds/ and tests included.
// What does not parse is left out: installing says what is wrong with it.
func (r *Rendered) everyObject() []Object {
	var all []Object
	take := func(text, template string) {
		objects, err := renderedObjects(text)
		if err != nil {
			return
		}
		for _, o := range objects {
			o.Template = template
			all = append(all, o)
		}
	}
	for _, crd := range r.CRDs {
		take(string(crd.Data), crd.Name)
	}
	all = append(all, r.Objects...)
	for _, h := range slices.Concat(r.Hooks, r.Tests) {
		take(h.Manifest, h.Path)
	}
	return all
}

// A FoundImage is one image of a chart and every place that names it.
type FoundImage struct {
	Normalized string
	Confidence images.Confidence // of the surest use
	Uses       []RenderedUse
}

// A RenderedUse is a use and the first rendering it was found in.
type RenderedUse struct {
	images.Use
	Render string // as [RenderOptions.String] has it; empty for the chart's values
}

// A NoImageError reports a chart that runs containers and names no image.
type NoImageError struct{ Chart string }

func (e *NoImageError) Error() string {
	return "chart " + e.Chart + " runs containers and no image was found in it"
}

// FindImages renders the chart once for each of the options and lists the union
// of what the renderings name, by reference; then, as candidates, what only the
// chart's default values name. Errors are those of [Chart.Render], and
// [*NoImageError].
func (c *Chart) FindImages(renders []RenderOptions) ([]FoundImage, error) {
	all := newUnion()
	containers := 0
	for _, options := range renders {
		rendered, err := c.Render(options)
		if err != nil {
			return nil, err
		}
		found := rendered.look()
		containers += found.Containers
		for _, use := range found.Uses {
			all.add(RenderedUse{use, options.String()})
		}
	}
	if containers > 0 && len(all.images) == 0 {
		return nil, &NoImageError{Chart: c.title()}
	}
	inRendering := all.names()
	for _, use := range c.valuesImages() {
		if !inRendering[use.Normalized] {
			all.add(RenderedUse{Use: use})
		}
	}
	return all.list(), nil
}

// String names a rendering in messages: Kubernetes version and value set.
func (o RenderOptions) String() string {
	text := "Kubernetes " + o.KubeVersion
	if o.KubeVersion == "" {
		text = "Kubernetes " + NewestKubeVersion()
	}
	if o.ValuesName != "" {
		text += ", " + o.ValuesName
	}
	return text
}

// valuesImages are the images that the default values of the chart and its
// dependencies name.
func (c *Chart) valuesImages() []images.Use {
	f := &images.Finder{}
	for _, file := range c.files {
		if path.Base(file.Name) != "values.yaml" {
			continue
		}
		values, err := parseValues(file.Data)
		if err != nil {
			continue
		}
		f.Values(file.Name, values)
	}
	return f.Uses
}

type union struct {
	images map[string]*FoundImage
	seen   map[[3]string]bool
}

func newUnion() *union {
	return &union{images: map[string]*FoundImage{}, seen: map[[3]string]bool{}}
}

func (u *union) add(use RenderedUse) {
	key := [3]string{use.Reference, use.Object, use.Path}
	if u.seen[key] {
		return
	}
	u.seen[key] = true
	image := u.images[use.Normalized]
	if image == nil {
		image = &FoundImage{Normalized: use.Normalized, Confidence: use.Confidence}
		u.images[use.Normalized] = image
	}
	if surer(use.Confidence, image.Confidence) {
		image.Confidence = use.Confidence
	}
	image.Uses = append(image.Uses, use)
}

func surer(a, b images.Confidence) bool {
	order := []images.Confidence{images.Certain, images.Recognised, images.Candidate}
	return slices.Index(order, a) < slices.Index(order, b)
}

func (u *union) names() map[string]bool {
	names := map[string]bool{}
	for name := range u.images {
		names[name] = true
	}
	return names
}

func (u *union) list() []FoundImage {
	var list []FoundImage
	for _, name := range sortedKeys(u.images) {
		list = append(list, *u.images[name])
	}
	return list
}
