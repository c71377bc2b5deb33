package charts

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// A LargeNumber is a number that may not come out of templates as it went in.
type LargeNumber struct {
	Path  string
	Value string
	// Lost is whether digits are lost in any case: it fits into no 64-bit
	// integer. Otherwise it is an integer above 2^53, which prints well, but
	// loses digits in template functions that calculate or pass through JSON.
	Lost bool
}

func (n LargeNumber) String() string {
	if n.Lost {
		return fmt.Sprintf("%s: %s has more digits than a 64-bit integer holds and is changed; put it in quotes", n.Path, n.Value)
	}
	return fmt.Sprintf("%s: %s is above 2^53; templates that calculate with it or make JSON of it change its last digits; put it in quotes where the chart takes text", n.Path, n.Value)
}

// LargeNumbers lists the numbers of values that may lose digits, sorted by
// path. Numbers are [json.Number] or int64, as [Merge] leaves them.
func LargeNumbers(values map[string]any) []LargeNumber {
	var found []LargeNumber
	var walk func(v any, path string)
	walk = func(v any, path string) {
		switch v := v.(type) {
		case map[string]any:
			for _, key := range sortedKeys(v) {
				below := strings.ReplaceAll(key, ".", `\.`)
				if path != "" {
					below = path + "." + below
				}
				walk(v[key], below)
			}
		case []any:
			for i, item := range v {
				walk(item, fmt.Sprintf("%s[%d]", path, i))
			}
		case json.Number:
			if large, lost := isLarge(v.String()); large {
				found = append(found, LargeNumber{Path: path, Value: v.String(), Lost: lost})
			}
		case int64:
			if large, lost := isLarge(strconv.FormatInt(v, 10)); large {
				found = append(found, LargeNumber{Path: path, Value: strconv.FormatInt(v, 10), Lost: lost})
			}
		}
	}
	walk(values, "")
	return found
}

// isLarge is whether the text is an integer above 2^53, and whether it is too
// large for int64 as well.
func isLarge(text string) (large, lost bool) {
	if len(text) > 400 || strings.Contains(text, ".") { // no exponent of float64 needs more
		return false, false
	}
	f, ok := new(big.Float).SetPrec(2000).SetString(text)
	if !ok || !f.IsInt() {
		return false, false
	}
	i, _ := f.Int(nil)
	if i.CmpAbs(big.NewInt(exactFloat)) <= 0 {
		return false, false
	}
	return true, !i.IsInt64()
}
