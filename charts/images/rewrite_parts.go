package images

import (
	"encoding/base64"
	"strings"

	"go.yaml.in/yaml/v3"

	"waybill/internal/ref"
)

// A piece is a field in which a part of a reference stands; without a node it is
// not there.
type piece struct {
	node *yaml.Node
	path string
}

func (p piece) text() string {
	if p.node == nil || p.node.Tag == "!!null" {
		return ""
	}
	return strings.TrimSpace(scalar(p.node))
}

// pieces are the fields of one reference in parts, by their roles.
type pieces [roles]piece

// A scribe writes what becomes of a field.
type scribe interface {
	// holds is whether the text of a field can be put in the place it stands.
	holds(*yaml.Node) bool
	write(p piece, to string)
}

func (r *Rewriter) holds(*yaml.Node) bool { return true }

func (r *Rewriter) write(p piece, to string) { r.change(p.node, to, p.path) }

// parts rewrites the references in parts of a map and returns the keys that
// belong to them.
func (r *Rewriter) parts(node *yaml.Node, key, path string) map[string]bool {
	if r.place.kind == inObject && !namesImage(key) || r.place.kind == inSchema {
		return nil
	}
	return r.partsAmong(r, nodeFields(node), key, func(key string) piece { return piece{child(node, key), join(path, key)} })
}

// nodeFields is [fieldsOf] of a node.
func nodeFields(node *yaml.Node) []field {
	var fields []field
	for i := 0; i+1 < len(node.Content); i += 2 {
		if value := node.Content[i+1]; value.Kind == yaml.ScalarNode && value.Tag != "!!bool" {
			fields = append(fields, field{node.Content[i].Value, piece{node: value}.text()})
		}
	}
	return fields
}

// partsAmong rewrites the references in parts among fields and returns the keys
// of those it knows. One registry for several images is changed when all of
// them are known.
func (r *Rewriter) partsAmong(s scribe, fields []field, parent string, at func(key string) piece) map[string]bool {
	found, _ := partsReader{parent: parent}.read(fields)
	foreign := map[string]bool{}
	for _, p := range found {
		if _, ok := r.target(p); !ok {
			foreign[p.fields[registryRole].key] = true
		}
	}
	done := map[string]bool{}
	for _, p := range found {
		target, ok := r.target(p)
		if registry := p.fields[registryRole]; !ok || registry.value != "" && foreign[registry.key] {
			continue
		}
		var own pieces
		for n, part := range p.fields {
			if part.key != "" {
				own[n] = at(part.key)
				done[part.key] = true
			}
		}
		assemble(s, own, target)
	}
	return done
}

// target is where a reference in parts leads, when that is known.
func (r *Rewriter) target(p parts) (ref.Reference, bool) {
	normalized, err := ref.Normalize(p.reference)
	if err != nil {
		return ref.Reference{}, false
	}
	to, ok := r.Locate(normalized)
	if !ok {
		return ref.Reference{}, false
	}
	target, err := ref.Parse(to)
	return target, err == nil
}

// assemble puts the new reference into the fields of the old one. Where they
// have no place for a digest and it has no tag, they stay: see [Rewriter.leftIn].
func assemble(s scribe, p pieces, target ref.Reference) {
	tag, sum := p[tagRole], p[digestRole]
	if tag.text() == "" && p[versionRole].text() != "" {
		tag = p[versionRole]
	}
	registry, name, ok := nameParts(p, target)
	if form := readForm(p[imageRole].text()); form > bareName && form != pathOnly && p[repositoryRole].text() == "" && tag.text() == "" && p[registryRole].node != nil {
		writeWhole(s, p, target)
		return
	}
	before, _, both := strings.Cut(tag.text(), "@") // tag and digest in one field, or a digest where a tag stands
	alone := !both && strings.HasPrefix(tag.text(), "sha256:")
	hasSum := (both || alone || sum.node != nil) && target.Digest != ""
	if !ok || target.Tag == "" && !hasSum || target.Tag != "" && tag.node == nil && !hasSum {
		return
	}
	for _, one := range p {
		if one.node != nil && !s.holds(one.node) {
			return
		}
	}
	if p[registryRole].text() != "" {
		s.write(p[registryRole], registry)
	}
	for n, text := range name {
		if text != "" {
			s.write(p[n], text)
		}
	}
	switch {
	case both:
		s.write(tag, before+"@"+target.Digest.String())
	case alone:
		s.write(tag, target.Digest.String())
	case target.Tag != "" && tag.node != nil:
		s.write(tag, target.Tag)
	}
	if sum.node == nil {
		return
	}
	to := target.Digest.String()
	if old := sum.text(); old != "" && !strings.Contains(old, ":") || old == "" && strings.HasSuffix(sum.path, "sha") {
		to = target.Digest.Encoded() // as it is written there
	}
	s.write(sum, to)
}

// writeWhole puts the new reference, but for its registry, where the old one
// stands with its tag.
func writeWhole(s scribe, p pieces, target ref.Reference) {
	if !s.holds(p[registryRole].node) || !s.holds(p[imageRole].node) {
		return
	}
	s.write(p[registryRole], target.Host)
	s.write(p[imageRole], strings.TrimPrefix(target.String(), target.Host+"/"))
}

// nameParts is what the fields of registry, repository and image are to say.
func nameParts(p pieces, target ref.Reference) (registry string, name [roles]string, ok bool) {
	repository, image := p[repositoryRole].text(), p[imageRole].text()
	rest := target.Name()
	if own := p[registryRole].text(); own != "" && !strings.HasPrefix(repository+image, own+"/") {
		rest = target.Repository
	}
	switch {
	case repository == "":
		name[imageRole] = rest
	case image == "":
		name[repositoryRole] = rest
	default:
		at := strings.LastIndex(rest, "/")
		if at < 0 {
			return "", name, false
		}
		name[repositoryRole], name[imageRole] = rest[:at], rest[at+1:]
	}
	return target.Host, name, true
}

// tabled rewrites the references in parts that the table of kinds knows.
func (r *Rewriter) tabled(node *yaml.Node, apiVersion, kind string) {
	group, _, _ := strings.Cut(apiVersion, "/")
	at := func(path string) piece {
		found := node
		for key := range strings.SplitSeq(path, ".") {
			found = child(found, key)
		}
		if path == "" || found == nil || found.Kind != yaml.ScalarNode {
			return piece{}
		}
		return piece{found, path}
	}
	for _, row := range kinds() {
		if row.Group != group || row.Kind != kind || row.Image != row.Tag && at(row.Image).text() != "" {
			continue
		}
		var p pieces
		p[registryRole], p[repositoryRole], p[tagRole], p[digestRole] = at(row.Registry), at(row.Repository), at(row.Tag), at(row.Digest)
		known := parts{reference: joined(p[registryRole].text(), p[repositoryRole].text(), p[tagRole].text(), p[digestRole].text())}
		if target, ok := r.target(known); ok && p[repositoryRole].text() != "" {
			assemble(r, p, target)
		}
	}
}

// environmentParts rewrites references in parts among variables and returns the
// names of those that belong to them. Programs join them, and few would take a
// digest.
func (r *Rewriter) environmentParts(node *yaml.Node, path string) map[string]bool {
	var fields []field
	for _, item := range node.Content {
		if name := scalar(child(item, "name")); name != "" {
			fields = append(fields, field{name, variable(node, path, name).text()})
		}
	}
	return r.partsAmong(r, fields, "", func(name string) piece { return variable(node, path, name) })
}

// variable is the value of one of a container's variables.
func variable(env *yaml.Node, path, name string) piece {
	for _, item := range env.Content {
		if value := child(item, "value"); value != nil && scalar(child(item, "name")) == name {
			return piece{value, path + "[" + name + "].value"}
		}
	}
	return piece{}
}

// leftIn finds what is still known in an object that is rewritten: references in
// parts without a place for a digest, and those inside of longer texts.
func (r *Rewriter) leftIn(node *yaml.Node, o Object) {
	if err := node.Decode(&o.Content); err != nil {
		return
	}
	var f Finder
	f.Object(o)
	for _, found := range f.Uses {
		to, ok := r.Locate(found.Normalized)
		if !ok || sameImage(to, found.Normalized) {
			continue
		}
		use := r.use(found.Reference, found.Normalized, found.Confidence, found.Path)
		use.InParts = found.InParts
		if found.InParts && (r.place.kind == inResource || r.place.kind == inObject) {
			r.Stuck = append(r.Stuck, use)
		} else {
			r.Left = append(r.Left, use)
		}
	}
}

// sameImage is whether two references lead to one repository and digest, or
// where one has none, to one tag.
func sameImage(a, b string) bool {
	one, oneErr := ref.Parse(a)
	two, twoErr := ref.Parse(b)
	if oneErr != nil || twoErr != nil || one.Name() != two.Name() {
		return false
	}
	if one.Digest == "" || two.Digest == "" {
		return one.Tag == two.Tag
	}
	return one.Digest == two.Digest
}

// encoded rewrites the texts of a Secret that are encoded.
func (r *Rewriter) encoded(data *yaml.Node) {
	if data == nil || data.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i+1 < len(data.Content); i += 2 {
		key, value := data.Content[i].Value, data.Content[i+1]
		plain, err := base64.StdEncoding.DecodeString(value.Value)
		if err != nil {
			continue
		}
		inner := yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: string(plain)}
		if r.text(&inner, key, "data."+key); inner.Value != string(plain) {
			value.Value = base64.StdEncoding.EncodeToString([]byte(inner.Value))
		}
	}
}
