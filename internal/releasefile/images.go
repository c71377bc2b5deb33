package releasefile

import (
	"fmt"
	"slices"

	"waybill/bundle"
	"waybill/charts"
)

// FoundImages is every image of a release, and for which Kubernetes versions
// the charts were rendered to find them.
type FoundImages struct {
	Images       []bundle.ListedImage // by reference
	KubeVersions []string             // sorted
}

// FindImages renders every chart for each of its profiles and of the release's
// Kubernetes versions, and lists what they name together with what the release
// file lists. packed are the charts by component, values the values files.
//
// Kinds that the release brings itself count as there, and as not there: a site
// has them by the time that later components are rendered.
//
// A Kubernetes version the release file does not name is the lowest minor that
// its range allows, and the newest known; without a range, the chart's. Errors
// name the component: values that don't parse, a chart that does not render, one
// that runs containers and names no image, a listed reference that is none.
func (f *File) FindImages(packed map[string]bundle.Chart, values map[string][]byte) (*FoundImages, error) {
	found := &FoundImages{}
	var uses []bundle.ImageUse
	searches, err := f.searches(packed, values)
	if err != nil {
		return nil, err
	}
	brought := f.brought(searches)
	for i, c := range f.Release.Components {
		renders := searches[i].renders
		for n := range renders {
			renders[n].AlsoWith = brought
		}
		images, err := searches[i].chart.FindImages(renders)
		if err != nil {
			return nil, fmt.Errorf("component %s: looking for images: %w", c.Name, err)
		}
		uses = append(uses, usesOf(c.Name, images)...)
		for _, r := range renders {
			found.KubeVersions = append(found.KubeVersions, r.KubeVersion)
		}
	}
	slices.Sort(found.KubeVersions)
	found.KubeVersions = slices.Compact(found.KubeVersions)
	found.Images, err = f.Release.ListImages(uses)
	return found, err
}

// A search is a chart and how it is rendered to look for images.
type search struct {
	chart   *charts.Chart
	renders []charts.RenderOptions
}

// searches are those of the release's components, in their order.
func (f *File) searches(packed map[string]bundle.Chart, values map[string][]byte) ([]search, error) {
	var all []search
	for _, c := range f.Release.Components {
		chart, ok := packed[c.Name].(*charts.Chart)
		if !ok {
			return nil, fmt.Errorf("component %s: there is no chart to look for images in", c.Name)
		}
		renders, err := f.Renders(c, chart, values)
		if err != nil {
			return nil, fmt.Errorf("component %s: %w", c.Name, err)
		}
		all = append(all, search{chart, renders})
	}
	return all, nil
}

// brought are the API versions that the components bring to a cluster, sorted. A
// chart that does not render brings none: looking for its images says why.
func (f *File) brought(searches []search) []string {
	var versions []string
	for i, c := range f.Release.Components {
		seen := map[string]bool{} // sets of values: CRDs hardly go by the version of Kubernetes
		for _, options := range searches[i].renders {
			if seen[options.ValuesName] {
				continue
			}
			seen[options.ValuesName] = true
			first, all, _ := searches[i].chart.Brings(options)
			if c.CRDPolicy() == charts.CRDsSkip {
				all = all[len(first):]
			}
			versions = append(versions, all...)
		}
	}
	slices.Sort(versions)
	return slices.Compact(versions)
}

func usesOf(component string, found []charts.FoundImage) []bundle.ImageUse {
	var uses []bundle.ImageUse
	for _, image := range found {
		for _, use := range image.Uses {
			uses = append(uses, bundle.ImageUse{
				Component: component, Reference: use.Reference, Normalized: use.Normalized, Confidence: string(use.Confidence),
				Object: use.Object, Path: use.Path, Render: use.Render, Reason: use.Reason,
			})
		}
	}
	return uses
}

// Renders are the renderings of a component's chart that discovery looks at:
// each set of values for each Kubernetes version.
func (f *File) Renders(c bundle.Component, chart *charts.Chart, files map[string][]byte) ([]charts.RenderOptions, error) {
	versions, err := f.kubeVersions(chart)
	if err != nil {
		return nil, err
	}
	var apiVersions []string
	if f.Release.Render != nil {
		apiVersions = f.Release.Render.APIVersions
	}
	var renders []charts.RenderOptions
	sets, err := valueSets(c, files)
	if err != nil {
		return nil, err
	}
	for n, values := range sets {
		name := ""
		if n > 0 {
			name = "profile " + c.Profiles[n-1].Name
		}
		for _, version := range versions {
			renders = append(renders, charts.RenderOptions{
				HelmRelease: c.HelmRelease(), Namespace: c.Namespace, Values: values, ValuesName: name,
				KubeVersion: version, APIVersions: apiVersions,
			})
		}
	}
	return renders, nil
}

func (f *File) kubeVersions(chart *charts.Chart) ([]string, error) {
	if r := f.Release.Render; r != nil && len(r.KubeVersions) > 0 {
		return r.KubeVersions, nil
	}
	if f.Release.Kubernetes != "" {
		return charts.RenderVersions(f.Release.Kubernetes)
	}
	return charts.RenderVersions(chart.Metadata().KubeVersion)
}
