package charts

import (
	"path"
	"regexp"
	"strings"

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
		if path.Base(key) != "images" { // images, artifacthub.io/images
			continue
		}
		if references := listed(filledIn(c.Metadata, c.Metadata.Annotations[key])); len(references) > 0 {
			lists = append(lists, imageList{file: path.Join(below, "Chart.yaml"), path: "annotations." + key,
				references: references, reason: "the chart's own list of images"})
		}
	}
	for _, file := range c.Files {
		if !isImageLock(file.Name) {
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

// chartVersion is what lists have in place of the chart's own versions.
var chartVersion = regexp.MustCompile(`\{\{-?\s*\.Chart\.(AppVersion|Version)\s*-?\}\}`)

// filledIn puts the versions of a chart in the place of templates for them.
func filledIn(meta *chart.Metadata, text string) string {
	return chartVersion.ReplaceAllStringFunc(text, func(template string) string {
		if strings.Contains(template, "AppVersion") {
			return meta.AppVersion
		}
		return meta.Version
	})
}

// isImageLock is whether a file of a chart pins its images: Images.lock, or
// what imgpkg writes.
func isImageLock(name string) bool {
	return name == ".imgpkg/images.yml" || imageLockName.MatchString(name)
}

var imageLockName = regexp.MustCompile(`^(?i)images?[._-]lock(\.(ya?ml|json))?$`)

// listed reads a list of images as annotations hold them: YAML text, or
// references between commas or in lines.
func listed(text string) []string {
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		return nil
	}
	if plain, ok := v.(string); ok {
		return strings.FieldsFunc(plain, func(r rune) bool { return strings.ContainsRune(", \t\r\n", r) })
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
