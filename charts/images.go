package charts

import (
	"fmt"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"

	"waybill/charts/images"
	"waybill/internal/ref"
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
type NoImageError struct {
	Chart      string
	Unreadable []images.Use // what its containers have instead
}

func (e *NoImageError) Error() string {
	text := "chart " + e.Chart + " runs containers and no image was found in it"
	for _, use := range e.Unreadable {
		text += fmt.Sprintf("; %s %s is %q, which is no image reference", use.Object, use.Path, use.Reference)
	}
	return text
}

// FindImages renders the chart once for each of the options and lists the union
// of what the renderings name, by reference; then, as candidates, what the values
// name for parts that are off. Errors are those of [Chart.Render], and
// [*NoImageError].
func (c *Chart) FindImages(renders []RenderOptions) ([]FoundImage, error) {
	all := newUnion()
	containers, unreadable := 0, []images.Use(nil)
	for _, options := range renders {
		renderings, err := c.withAndWithout(options)
		if err != nil {
			return nil, err
		}
		for _, one := range renderings {
			found := one.rendered.look()
			containers += found.Containers
			unreadable = append(unreadable, found.Unreadable...)
			for _, use := range found.Uses {
				all.add(RenderedUse{use, one.name})
			}
		}
	}
	if containers > 0 && !all.certain() {
		return nil, &NoImageError{Chart: c.title(), Unreadable: unreadable}
	}
	rendered := all.rendered()
	for _, options := range renders {
		for _, use := range c.valuesImages(options.Values) {
			if !rendered.has(use) {
				all.add(RenderedUse{Use: use})
			}
		}
	}
	return all.list(), nil
}

// A namedRendering is one of those that a set of options stands for.
type namedRendering struct {
	rendered *Rendered
	name     string
}

// withAndWithout renders without and with [RenderOptions.AlsoWith]. The error is
// that of the first where none renders.
func (c *Chart) withAndWithout(options RenderOptions) ([]namedRendering, error) {
	without, err := c.Render(options)
	if len(options.AlsoWith) == 0 {
		return []namedRendering{{without, options.String()}}, err
	}
	var all []namedRendering
	if err == nil {
		all = append(all, namedRendering{without, options.String()})
	}
	name := options.String() + ", with the kinds of the release"
	options.APIVersions = slices.Concat(options.APIVersions, options.AlsoWith)
	with, withErr := c.Render(options)
	if withErr == nil {
		return append(all, namedRendering{with, name}), nil
	}
	return all, err
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

// valuesImages are the images that the values of the chart and all its
// dependencies name, once the user's are laid over them. Values that do not fit
// together name none: rendering says why.
func (c *Chart) valuesImages(user map[string]any) []images.Use {
	loaded, err := c.load()
	if err != nil {
		return nil
	}
	values, err := coalesceAll(loaded, helmValues(user))
	if err != nil {
		return nil
	}
	for _, below := range values {
		dropGlobals(below)
	}
	f := &images.Finder{}
	f.Values("values.yaml", values)
	return f.Uses
}

// dropGlobals takes away what subcharts have of their parents: it stands there.
func dropGlobals(values any) {
	m, _ := values.(map[string]any)
	delete(m, chartutil.GlobalKey)
	for _, below := range m {
		dropGlobals(below)
	}
}

// coalesceAll lays values over the defaults of a chart and of all its
// dependencies, those that are switched off included.
func coalesceAll(loaded *chart.Chart, values map[string]any) (all map[string]any, err error) {
	defer recoverAs(&err, "merging values")
	return chartutil.CoalesceValues(loaded, values)
}

// rendered are the references that renderings name, and their repositories,
// each with its host and without.
type rendered struct{ references, repositories map[string]bool }

func (u *union) rendered() rendered {
	r := rendered{references: map[string]bool{}, repositories: map[string]bool{}}
	for name := range u.images {
		r.references[name] = true
		if parsed, err := ref.Parse(name); err == nil {
			r.references[strings.TrimPrefix(name, parsed.Host+"/")] = true
			r.repositories[parsed.Name()], r.repositories[parsed.Repository] = true, true
		}
	}
	return r
}

// has is whether values name no other image than renderings do: the values may
// leave the tag or the registry to the templates.
func (r rendered) has(use images.Use) bool {
	parsed, err := ref.Parse(use.Normalized)
	if err != nil || r.references[use.Normalized] {
		return true
	}
	names, name := r.references, strings.TrimPrefix(use.Normalized, parsed.Host+"/")
	if parsed.Digest == "" && parsed.Tag == "latest" && !strings.HasSuffix(use.Reference, ":latest") {
		names, name = r.repositories, parsed.Repository
	}
	if names[name] {
		return true
	}
	for name := range names {
		if strings.HasSuffix(name, "/"+use.Reference) { // with what a registry has before it
			return true
		}
	}
	return false
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

// certain is whether an image is named beyond doubt.
func (u *union) certain() bool {
	for _, image := range u.images {
		if image.Confidence == images.Certain {
			return true
		}
	}
	return false
}

func (u *union) list() []FoundImage {
	var list []FoundImage
	for _, name := range sortedKeys(u.images) {
		list = append(list, *u.images[name])
	}
	return list
}
