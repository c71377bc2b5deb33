package releasefile

import (
	"waybill/bundle"
	"waybill/charts"
)

// Layers returns the layers of values that the release file gives a component,
// later ones winning; files are the values files by the path it names them.
func Layers(c bundle.Component, files map[string][]byte) []charts.Layer {
	var layers []charts.Layer
	for _, name := range c.ValuesFiles {
		layers = append(layers, charts.Layer{Name: "release values file " + name, YAML: files[name]})
	}
	if len(c.Values) > 0 {
		layers = append(layers, charts.Layer{Name: "release values", Values: c.Values})
	}
	return layers
}

// valueSets returns the sets of values a component may be used with: without a
// profile, and with each.
func valueSets(c bundle.Component, files map[string][]byte) ([]map[string]any, error) {
	layers := Layers(c, files)
	plain, err := charts.Merge(layers...)
	if err != nil {
		return nil, err
	}
	sets := []map[string]any{plain}
	for _, profile := range c.Profiles {
		with, err := charts.Merge(append(layers[:len(layers):len(layers)], charts.Layer{Name: "profile " + profile.Name, Values: profile.Values})...)
		if err != nil {
			return nil, err
		}
		sets = append(sets, with)
	}
	return sets, nil
}
