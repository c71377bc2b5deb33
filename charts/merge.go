package charts

import (
	"encoding/json"
	"fmt"
	"strings"

	"helm.sh/helm/v3/pkg/strvals"
)

// A Layer is one set of values. Of its four forms one is used; when several
// are set they are applied in the order of the fields.
type Layer struct {
	// Name says where the values are from, for messages and for [Effective]:
	// "site values", "values/dns.yaml", "--set dns.policy".
	Name string
	// Values as YAML gives them, numbers best as [json.Number].
	Values map[string]any
	// YAML is the text of a values file.
	YAML []byte
	// Set is what follows helm's --set: one or more path=value, with commas.
	Set string
	// TargetPath takes TargetValue as helm's --set does; a value in single or
	// double quotes stays text. This is what Flux does with a valuesFrom that
	// has a targetPath. The value never appears in an error.
	TargetPath  string
	TargetValue string
}

// A LayerError reports values that cannot be read or cannot be set.
type LayerError struct {
	Layer string
	Err   error
}

func (e *LayerError) Error() string { return fmt.Sprintf("values of %s: %v", e.Layer, e.Err) }

func (e *LayerError) Unwrap() error { return e.Err }

// Merge lays values over each other, the last wins, exactly as Helm merges its
// -f files and then its --set: maps are merged, lists and all else replaced, a
// null stays in the result and later deletes the chart's default. A --set may
// address the items of a list that an earlier layer gave.
//
// The layers are not changed and share nothing with the result. Numbers stay
// [json.Number]; those of --set are int64, as Helm has them. The error is a
// [*LayerError].
func Merge(layers ...Layer) (map[string]any, error) {
	merged := map[string]any{}
	for _, layer := range layers {
		var err error
		if merged, err = layer.apply(merged); err != nil {
			return nil, &LayerError{Layer: layer.Name, Err: err}
		}
	}
	return merged, nil
}

// apply lays the layer over base, which it may change.
func (l Layer) apply(base map[string]any) (map[string]any, error) {
	if l.Values != nil {
		base = mergeMaps(base, copyValue(l.Values).(map[string]any))
	}
	if l.YAML != nil {
		values, err := parseValues(l.YAML)
		if err != nil {
			return nil, err
		}
		base = mergeMaps(base, values)
	}
	if l.Set != "" {
		if err := strvals.ParseInto(l.Set, base); err != nil {
			return nil, err
		}
	}
	if l.TargetPath != "" {
		if err := l.setTarget(base); err != nil {
			return nil, err
		}
	}
	return base, nil
}

// setTarget is ReplacePathValue of Flux's helm-controller.
func (l Layer) setTarget(base map[string]any) error {
	const single, double = `'`, `"`
	parse, value := strvals.ParseInto, l.TargetValue
	quoted := func(q string) bool { return strings.HasPrefix(value, q) && strings.HasSuffix(value, q) }
	if quoted(single) || quoted(double) {
		parse, value = strvals.ParseIntoString, strings.Trim(value, single+double)
	}
	if err := parse(l.TargetPath+"="+value, base); err != nil {
		// The parser quotes what it chokes on, and that may be a secret.
		return fmt.Errorf("the value for %q cannot be set: it is read as helm's --set reads it, where a comma begins the next key; write \\, for a comma", l.TargetPath)
	}
	return nil
}

// mergeMaps is the merge of helm.sh/helm/v3/pkg/cli/values, which does not
// export it.
func mergeMaps(under, over map[string]any) map[string]any {
	for key, value := range over {
		if above, ok := value.(map[string]any); ok {
			if below, ok := under[key].(map[string]any); ok {
				under[key] = mergeMaps(below, above)
				continue
			}
		}
		under[key] = value
	}
	return under
}

func copyValue(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, item := range v {
			out[key] = copyValue(item)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = copyValue(item)
		}
		return out
	case json.Number, string, bool, nil:
		return v
	}
	return v
}
