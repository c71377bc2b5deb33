package charts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"

	"helm.sh/helm/v3/pkg/chart"
	"sigs.k8s.io/yaml"
)

// Helm hands every number of a values file to templates as a float64, and
// templates print a float64 of a million and more as 1e+06. Integers from
// there on are given as int64, which prints digit for digit; smaller ones stay
// float64, because charts test for that type.
const wholeFrom = 1_000_000

// exactFloat is the largest magnitude up to which every integer is a float64
// of its own (2^53).
const exactFloat = 1 << 53

// helmValues is a copy of values as Helm's templates and records take them:
// [json.Number] becomes int64 or float64, all else stays.
func helmValues(values map[string]any) map[string]any {
	if values == nil {
		return map[string]any{}
	}
	return helmValue(values).(map[string]any)
}

func helmValue(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, item := range v {
			out[key] = helmValue(item)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = helmValue(item)
		}
		return out
	case json.Number:
		return helmNumber(v)
	}
	return v
}

func helmNumber(n json.Number) any {
	if i, err := n.Int64(); err == nil {
		if i >= wholeFrom || i <= -wholeFrom {
			return i
		}
		return float64(i)
	}
	f, err := n.Float64()
	if err != nil {
		return n.String() // beyond float64: as text nothing is lost
	}
	if f == math.Trunc(f) && math.Abs(f) >= wholeFrom && math.Abs(f) <= exactFloat {
		return int64(f)
	}
	return f
}

// keepIntegers reads the default values of a chart and its subcharts again,
// with every digit.
func keepIntegers(c *chart.Chart) error {
	for _, f := range c.Raw {
		if f.Name != "values.yaml" {
			continue
		}
		values, err := parseValues(f.Data)
		if err != nil {
			return fmt.Errorf("values.yaml of chart %s: %w", c.Name(), err)
		}
		c.Values = helmValues(values)
	}
	for _, d := range c.Dependencies() {
		if err := keepIntegers(d); err != nil {
			return err
		}
	}
	return nil
}

// parseValues reads YAML as Helm does (YAML 1.1, later keys win), but keeps
// numbers as text.
func parseValues(data []byte) (map[string]any, error) {
	data = bytes.TrimPrefix(data, utf8BOM)
	values := map[string]any{}
	err := yaml.Unmarshal(data, &values, func(d *json.Decoder) *json.Decoder {
		d.UseNumber()
		return d
	})
	if err != nil {
		return nil, err
	}
	if values == nil {
		values = map[string]any{}
	}
	return values, nil
}
