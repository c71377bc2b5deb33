package charts

import (
	"path"

	"helm.sh/helm/v3/pkg/chart"
	"sigs.k8s.io/yaml"
)

// An imageList is a list of images that a chart carries.
type imageList struct {
	file, path, reason string
	references         []string
}

// imageLists are the lists of images that a chart and those of its dependencies
// that are switched on carry: annotations of Chart.yaml and lock files.
func imageLists(c *chart.Chart, below string) []imageList {
	var lists []imageList
	for _, key := range sortedKeys(c.Metadata.Annotations) {
		if key != "artifacthub.io/images" && key != "images" {
			continue
		}
		if references := listed(c.Metadata.Annotations[key]); len(references) > 0 {
			lists = append(lists, imageList{file: path.Join(below, "Chart.yaml"), path: "annotations." + key,
				references: references, reason: "the chart's own list of images"})
		}
	}
	for _, file := range c.Files {
		if file.Name != "Images.lock" && file.Name != ".imgpkg/images.yml" {
			continue
		}
		var lock struct {
			Images any `json:"images"`
		}
		if err := yaml.Unmarshal(file.Data, &lock); err != nil {
			continue
		}
		if references := listedIn(lock.Images); len(references) > 0 {
			lists = append(lists, imageList{file: path.Join(below, file.Name), path: "images",
				references: references, reason: "an image lock file of the chart"})
		}
	}
	for _, d := range c.Dependencies() {
		lists = append(lists, imageLists(d, path.Join(below, "charts", d.Name()))...)
	}
	return lists
}

// listed reads a list of images as annotations hold them: YAML text.
func listed(text string) []string {
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		return nil
	}
	return listedIn(v)
}

// listedIn reads a list whose items are references, or maps with one at image.
func listedIn(v any) []string {
	items, _ := v.([]any)
	var references []string
	for _, item := range items {
		switch item := item.(type) {
		case string:
			references = append(references, item)
		case map[string]any:
			if image, ok := item["image"].(string); ok {
				references = append(references, image)
			}
		}
	}
	return references
}
