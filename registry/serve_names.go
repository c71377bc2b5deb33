package registry

import (
	"path/filepath"
	"regexp"
	"strings"

	"waybill/internal/ref"
)

// A servedName is what an entry of index.json is called in a registry. Without
// a tag it is reached by digest alone.
type servedName struct{ repository, tag string }

// layoutName is the name in index.json that says repository and tag, and that
// [nameEntry] reads back as the same.
func (n servedName) layoutName() string { return n.repository + ":" + n.tag }

// nameEntry finds repository and tag for an entry of index.json, from its name
// and what its root says of itself:
//
//	team/shop:1.0.0                   as it says; a port's colon becomes _
//	shop-1.0.0, title shop,           shop:1.0.0, the version's + as _
//	  version 1.0.0
//	stable, title shop                shop:stable
//	1.0.0 or stable, without title    PLACE:1.0.0, PLACE the name of the folder or file
//	no name, title and version        shop:1.0.0
//
// The title and version are the annotations that OCI defines, which bundles and
// charts have.
func nameEntry(name string, about artifact, place string) servedName {
	if strings.ContainsAny(name, "/:") {
		return nameAsReference(name)
	}
	version, _ := ref.Tag(about.version)
	repository := about.title
	if ref.CheckRepository(repository) != nil {
		repository, version = place, ""
	}
	switch {
	case name == "" || about.title != "" && name == about.title+"-"+about.version:
		return servedName{repository, version}
	case ref.CheckTag(name) != nil:
		return servedName{repository: repository}
	}
	return servedName{repository, name}
}

// nameAsReference reads [HOST/]REPOSITORY[:TAG]; the host stays, as the first
// part of the repository.
func nameAsReference(name string) servedName {
	n := servedName{repository: name}
	if at := strings.LastIndexByte(name, ':'); at > strings.LastIndexByte(name, '/') {
		n = servedName{name[:at], name[at+1:]}
	}
	n.repository = strings.ReplaceAll(n.repository, ":", "_")
	if ref.CheckRepository(n.repository) != nil {
		return servedName{}
	}
	if ref.CheckTag(n.tag) != nil {
		n.tag = ""
	}
	return n
}

var noRepositoryCharacters = regexp.MustCompile(`[^a-z0-9]+`)

// placeRepository is the repository for what says of itself nothing else: the
// name of the folder or file, made fit.
func placeRepository(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	base := strings.ToLower(strings.TrimSuffix(filepath.Base(path), ".tar"))
	name := strings.Trim(noRepositoryCharacters.ReplaceAllString(base, "-"), "-")
	if name == "" {
		return "layout"
	}
	return name
}
