package images

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"sigs.k8s.io/yaml"
)

// kindsTable says where well-known custom resources name images. It is data:
// a row more is a kind more.
//
//go:embed kinds.yaml
var kindsTable []byte

// A kindRow is one image of one kind.
type kindRow struct {
	Group string `json:"group"` // API group, any version
	Kind  string `json:"kind"`
	// Paths of the parts, dots between keys.
	Image      string `json:"image,omitempty"`      // a whole reference; in its absence the parts count
	Registry   string `json:"registry,omitempty"`   // in front of the repository
	Repository string `json:"repository,omitempty"` //
	Tag        string `json:"tag,omitempty"`        //
	Digest     string `json:"digest,omitempty"`     //
	Default    string `json:"default,omitempty"`    // the repository when the field is empty
}

// known looks at a custom resource as the table says.
func (f *Finder) known(o Object) {
	group, _, _ := strings.Cut(o.APIVersion, "/")
	for _, row := range kinds() {
		if row.Group != group || row.Kind != o.Kind {
			continue
		}
		at := func(path string) string {
			if path == "" {
				return ""
			}
			return fieldAt(o.Content, strings.Split(path, "."))
		}
		repository, where := at(row.Repository), row.Repository
		if repository == "" {
			repository, where = row.Default, row.Tag
		}
		image, tag, digest := at(row.Image), at(row.Tag), at(row.Digest)
		switch form := readForm(image); {
		case form >= pathOnly, form == numbered, form == bareName && row.Image != row.Tag && !isChoice(image):
			f.add(image, Recognised, row.Image, "the image of a "+o.Kind)
		case repository != "" && tag+digest != "" && tagText.MatchString(tag+digest):
			f.addParts(joined(at(row.Registry), repository, tag, digest), Recognised, where, "the image of a "+o.Kind)
		}
	}
}

func fieldAt(v any, path []string) string {
	for _, key := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return ""
		}
		v = m[key]
	}
	s, _ := textOf(v)
	return s
}

// textOf is a text, or a number as it is written.
func textOf(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case number:
		return string(v), true
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), true
	case int, int64, uint64:
		return fmt.Sprint(v), true
	}
	return "", false
}

// kinds reads the table, once.
var kinds = sync.OnceValue(func() []kindRow {
	var rows []kindRow
	if err := yaml.UnmarshalStrict(kindsTable, &rows); err != nil {
		panic("kinds.yaml: " + err.Error()) // part of the program, tested
	}
	return rows
})
