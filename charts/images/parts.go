package images

import (
	"regexp"
	"slices"
	"strings"

	"waybill/internal/ref"
)

// A field is a text and its key, among others of one map, of one container's
// environment or of one command line.
type field struct{ key, value string }

// A role is what a field is to a reference in parts.
type role int

const (
	noRole role = iota
	registryRole
	repositoryRole
	imageRole
	tagRole
	versionRole
	digestRole
	roles // how many
)

// A group is the fields of one reference in parts: by role the key and what it
// says.
type group struct {
	fields [roles]field
	stem   string // what their keys have before the role
	says   bool   // that it is an image: in a key
	shared bool   // the registry is one for several images
}

// A parts is one reference put together of its parts.
type parts struct {
	group
	reference string
	inherited bool // registry or tag stand in a map around
	doubtful  bool // nothing says image, or something else
}

// main is the key of the part that says most.
func (p parts) main() string {
	for _, r := range []role{repositoryRole, imageRole} {
		if p.fields[r].value != "" {
			return p.fields[r].key
		}
	}
	return ""
}

// A surround is what maps around a map say for all below them: where images are
// and how they are tagged.
type surround struct{ registry, tag string }

// roleOf reads a key. A name is a repository below a key that says image.
func roleOf(key string, named bool) (r role, stem string, says bool) {
	words := keyWords(key)
	if len(words) == 0 {
		return noRole, "", false
	}
	last, rest := words[len(words)-1], words[:len(words)-1]
	afterImageWord := len(rest) > 0 && isImageWord(rest[len(rest)-1])
	switch last {
	case "registry", "hub":
		r = registryRole
	case "repository", "repo":
		r = repositoryRole
	case "image", "img":
		r, says = imageRole, true
	case "tag":
		r = tagRole
	case "version":
		r = versionRole
	case "digest", "sha", "sha256":
		r = digestRole
	case "name":
		if afterImageWord || named && (len(rest) == 0 || len(rest) == 1 && rest[0] == "new") {
			r = repositoryRole
		}
	case "url", "uri":
		if afterImageWord {
			r = repositoryRole
		} else if n := len(rest); n > 0 && (rest[n-1] == "repo" || rest[n-1] == "repository") {
			r, rest = repositoryRole, rest[:n-1]
		}
	}
	if r == noRole {
		return noRole, "", false
	}
	rest = slices.DeleteFunc(slices.Clone(rest), func(word string) bool {
		says = says || isImageWord(word)
		return isImageWord(word) || word == "docker" || word == "default"
	})
	return r, strings.Join(rest, " "), says
}

// groups sorts fields by what their keys begin with.
func groups(fields []field, named bool) []group {
	all := map[string]*group{}
	for _, f := range fields {
		r, stem, says := roleOf(f.key, named)
		if r == noRole {
			continue
		}
		g := all[stem]
		if g == nil {
			g = &group{stem: stem}
			all[stem] = g
		}
		if g.fields[r].key == "" || g.fields[r].value == "" {
			g.fields[r] = field{f.key, strings.TrimSpace(f.value)}
		}
		g.says = g.says || says
	}
	var sorted []group
	for _, stem := range sortedKeys(all) {
		g := all[stem]
		if all := all[""]; all != nil && stem != "" && g.fields[registryRole].value == "" {
			g.fields[registryRole], g.shared = all.fields[registryRole], true
		}
		sorted = append(sorted, *g)
	}
	return sorted
}

// A partsReader puts references in parts together.
type partsReader struct {
	parent   string // the key of the map
	around   surround
	untagged bool // a repository alone will do
}

// read finds the references in parts among fields, and keys whose texts are
// part of one that is not whole, and thus no references themselves.
func (p partsReader) read(fields []field) (found []parts, idle []string) {
	for _, g := range groups(fields, namesImage(p.parent)) {
		one, ok := p.assemble(g)
		switch {
		case ok:
			found = append(found, one)
		case g.fields[repositoryRole].key != "" && readForm(g.fields[imageRole].value) == bareName:
			idle = append(idle, g.fields[imageRole].key)
		}
	}
	return found, idle
}

var (
	tagText    = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)
	digestText = regexp.MustCompile(`^(sha256:)?[0-9a-f]{64}$`)
)

func (p partsReader) assemble(g group) (parts, bool) {
	g.says = g.says || namesImage(p.parent)
	name, whole := nameOf(g)
	tag, digest, ok := g.version()
	ownRegistry := g.fields[registryRole].value != "" && !g.shared && !hasHost(name)
	if name == "" || !ok || whole && digest == "" && !ownRegistry {
		return parts{}, false
	}
	if whole {
		tag = ""
	}
	one := parts{group: g}.with(p.around, name, &tag)
	registry := g.fields[registryRole].value
	if one.inherited && registry == "" {
		registry = p.around.registry
	}
	untagged := tag == "" && digest == "" && !whole
	joint := g.fields[repositoryRole].value != "" && g.fields[imageRole].value != "" && hasHost(name) // what is added to it stands elsewhere
	if untagged && !joint && !(p.untagged && (one.says || strings.Contains(name, "/"))) {
		return parts{}, false
	}
	one.reference = joined(registry, name, tag, digest)
	form := readForm(one.reference)
	if form == noReference {
		return parts{}, false
	}
	about := g.stem + " " + p.parent
	one.doubtful = untagged || one.inherited && g.fields[tagRole].value == "" || !one.says && g.fields[tagRole].value == "" && digest == "" || namesSource(about) || namesArtifact(about) && !one.says || !one.says && form != hosted && !strings.Contains(name, "/")
	if one.doubtful && !one.says && form < versioned {
		return parts{}, false
	}
	_, err := ref.Normalize(one.reference)
	return one, err == nil
}

// with takes what the maps around say where the group says nothing.
func (p parts) with(around surround, name string, tag *string) parts {
	if around.registry == "" || !p.says || p.fields[registryRole].value != "" || hasHost(name) {
		return p
	}
	p.inherited = true
	if *tag == "" && p.fields[digestRole].value == "" {
		*tag = around.tag
	}
	return p
}

func hasHost(name string) bool {
	host, _, slash := strings.Cut(name, "/")
	return slash && (hostLike.MatchString(host) || strings.Contains(host, ":") || strings.HasPrefix(host, "localhost"))
}

// nameOf is the name of a group's repository, and whether it has a tag or
// digest of its own.
func nameOf(g group) (name string, whole bool) {
	repository, image := g.fields[repositoryRole].value, g.fields[imageRole].value
	switch form := readForm(image); {
	case repository != "" && (form == bareName || form == pathOnly):
		if image != repository && !strings.HasPrefix(image, repository+"/") && !strings.HasSuffix(repository, "/"+image) && !hasHost(image) {
			image = strings.TrimSuffix(repository, "/") + "/" + image
		}
		return image, false
	case repository != "" && image == "":
	default:
		repository = image
	}
	form := readForm(repository)
	if form == noReference || form == bareName && isChoice(repository) {
		return "", false
	}
	return repository, form != bareName && form != pathOnly
}

// version is a group's tag and digest; false when what stands there is none.
func (g group) version() (tag, digest string, ok bool) {
	tag, digest = g.fields[tagRole].value, g.fields[digestRole].value
	if version := g.fields[versionRole].value; tag == "" && (g.says || strings.Contains(g.fields[repositoryRole].value, "/") && versionTag.MatchString(version)) {
		tag = version
	}
	if before, after, cut := strings.Cut(tag, "@"); cut && digest == "" {
		tag, digest = before, after
	}
	if digestText.MatchString(tag) && strings.Contains(tag, ":") {
		tag, digest = "", tag
	}
	if digest != "" && !digestText.MatchString(digest) {
		return "", "", false
	}
	return tag, digest, tag == "" || tagText.MatchString(tag)
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

// parts finds references that are written in parts in one map and returns the
// keys that belong to them.
func (f *Finder) parts(m map[string]any, key, path string) map[string]bool {
	if f.place.kind == inObject && !namesImage(key) {
		return nil // Kubernetes' own kinds have no such fields
	}
	return f.partsOf(fieldsOf(m), key, func(main string) string {
		if roled, _, _ := roleOf(main, false); strings.EqualFold(main, "repository") || main == "name" || roled == imageRole && len(keyWords(main)) == 1 {
			return path // the map is the image
		}
		return join(path, main)
	})
}

// fieldsOf are the texts of a map; numbers are texts that nobody quoted.
func fieldsOf(m map[string]any) []field {
	var fields []field
	for _, key := range sortedKeys(m) {
		if value, ok := textOf(m[key]); ok {
			fields = append(fields, field{key, value})
		}
	}
	return fields
}

// partsOf adds the references in parts among fields.
func (f *Finder) partsOf(fields []field, key string, at func(main string) string) map[string]bool {
	found, idle := partsReader{parent: key, around: f.around, untagged: f.place.kind == inValues}.read(fields)
	taken := map[string]bool{}
	for _, key := range idle {
		taken[key] = true
	}
	for _, p := range found {
		sure := Recognised
		unsaid := !p.says && readForm(p.reference) != hosted && f.place.kind != inResource
		if p.doubtful || unsaid || f.loose || f.place.kind == inValues || f.place.kind == inSchema {
			sure = Candidate
		}
		f.addParts(p.reference, sure, at(p.main()), f.where())
		for r, part := range p.fields {
			if part.key != "" && role(r) != registryRole {
				taken[part.key] = true
			}
		}
	}
	return taken
}

// environmentParts joins WORKER_IMAGE_REPOSITORY and WORKER_IMAGE_TAG, which
// programs put together themselves, and returns the names that belong to them.
func (f *Finder) environmentParts(env []any, path string) map[string]bool {
	var fields []field
	for _, item := range env {
		variable, _ := item.(map[string]any)
		fields = append(fields, field{text(variable, "name"), text(variable, "value")})
	}
	return f.partsOf(fields, "", func(main string) string { return path + "[" + main + "].value" })
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
