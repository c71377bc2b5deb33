package images

import (
	_ "embed"
	"strings"
	"sync"

	"sigs.k8s.io/yaml"
)

// parts finds a reference that is written in parts (registry, repository,
// tag, digest) in one map and returns the keys that belong to it.
func (f *Finder) parts(m map[string]any, key, path string) map[string]bool {
	if f.place.kind == inObject && !namesImage(key) {
		return nil // Kubernetes' own kinds have no such fields
	}
	repository := text(m, "repository")
	if repository == "" && namesImage(key) {
		repository = text(m, "name")
	}
	if repository == "" || readForm(repository) == noReference || strings.Contains(repository, "@") {
		return nil
	}
	tag, digest := text(m, "tag"), firstText(m, "digest", "sha")
	if tag == "" && digest == "" && f.place.kind != inValues {
		return nil
	}
	sure := Recognised
	if f.place.kind == inValues || f.place.kind == inSchema {
		sure = Candidate
	}
	f.addParts(joined(firstText(m, "registry", "hub"), repository, tag, digest), sure, path, f.where())
	return map[string]bool{"registry": true, "repository": true, "tag": true, "digest": true}
}

// joined makes one reference of parts.
func joined(registry, repository, tag, digest string) string {
	reference := repository
	if registry != "" && !strings.HasPrefix(repository, registry+"/") {
		reference = strings.TrimSuffix(registry, "/") + "/" + repository
	}
	if tag != "" {
		reference += ":" + tag
	}
	if digest != "" {
		if !strings.Contains(digest, ":") {
			digest = "sha256:" + digest
		}
		reference += "@" + digest
	}
	return reference
}

func text(m map[string]any, key string) string {
	s, _ := m[key].(string)
	return strings.TrimSpace(s)
}

func firstText(m map[string]any, keys ...string) string {
	for _, key := range keys {
		if s := text(m, key); s != "" {
			return s
		}
	}
	return ""
}

// environmentParts joins WORKER_IMAGE_REPOSITORY and WORKER_IMAGE_TAG, which
// programs put together themselves.
func (f *Finder) environmentParts(env []any, path string) {
	values := map[string]string{}
	for _, item := range env {
		variable, _ := item.(map[string]any)
		values[text(variable, "name")] = text(variable, "value")
	}
	for _, name := range sortedKeys(values) {
		repository := values[name]
		base, ok := trimAny(name, "_REPOSITORY", "_REPO", "_NAME", "")
		if !ok || readForm(repository) < bareName || readForm(repository) > pathOnly || !namesImage(base) {
			continue
		}
		tag := values[base+"_TAG"]
		if tag == "" {
			tag = values[base+"_VERSION"]
		}
		if tag != "" {
			f.addParts(joined(values[base+"_REGISTRY"], repository, tag, ""), Recognised, path+"["+name+"].value", f.where())
		}
	}
}

func trimAny(s string, suffixes ...string) (string, bool) {
	for _, suffix := range suffixes {
		if base, ok := strings.CutSuffix(s, suffix); ok && base != "" {
			return base, true
		}
	}
	return "", false
}

// kindsTable says where well-known custom resources name images. It is data:
// a row more is a kind more.
//
//go:embed kinds.yaml
var kindsTable []byte

// A kindRow is one image of one kind.
type kindRow struct {
	Group string `json:"group"` // API group, any version
	Kind  string `json:"kind"`
	// Paths of the parts, dots between keys, [] for every item of a list.
	Image      string `json:"image,omitempty"`      // a whole reference, or what a repository and tag are added to
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
			return field(o.Content, strings.Split(path, "."))
		}
		repository, where := at(row.Repository), row.Repository
		if repository == "" {
			repository, where = row.Default, row.Tag
		}
		tag, digest := at(row.Tag), at(row.Digest)
		switch image := at(row.Image); {
		case image != "":
			f.add(image, Recognised, row.Image, "the image of a "+o.Kind)
		case repository != "" && tag+digest != "":
			f.addParts(joined(at(row.Registry), repository, tag, digest), Recognised, where, "the image of a "+o.Kind)
		}
	}
}

func field(v any, path []string) string {
	for _, key := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return ""
		}
		v = m[key]
	}
	s, _ := v.(string)
	return s
}

// kinds reads the table, once.
var kinds = sync.OnceValue(func() []kindRow {
	var rows []kindRow
	if err := yaml.UnmarshalStrict(kindsTable, &rows); err != nil {
		panic("kinds.yaml: " + err.Error()) // part of the program, tested
	}
	return rows
})
