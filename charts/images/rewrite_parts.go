package images

import (
	"encoding/base64"
	"strings"

	"go.yaml.in/yaml/v3"

	"waybill/internal/ref"
)

// pieces are the fields in which a reference stands in parts. Only the
// repository is always there.
type pieces struct{ registry, repository, tag, digest piece }

// A piece is one of them; without a node it is not there.
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

// pieceOf is the first of these keys that a map has.
func pieceOf(node *yaml.Node, path string, keys ...string) piece {
	for _, key := range keys {
		if value := child(node, key); value != nil && value.Kind == yaml.ScalarNode {
			return piece{value, join(path, key)}
		}
	}
	return piece{}
}

// parts rewrites a reference in parts and returns the keys that belong to it.
func (r *Rewriter) parts(node *yaml.Node, key, path string) map[string]bool {
	if r.place.kind == inObject {
		return nil
	}
	p := pieces{
		registry: pieceOf(node, path, "registry", "hub"), repository: pieceOf(node, path, "repository"),
		tag: pieceOf(node, path, "tag"), digest: pieceOf(node, path, "digest", "sha"),
	}
	if p.repository.node == nil && namesImage(key) {
		p.repository = pieceOf(node, path, "name")
	}
	if readForm(p.repository.text()) == noReference || p.tag.text() == "" && p.digest.text() == "" || !r.knows(p) {
		return nil
	}
	r.assemble(p)
	done := map[string]bool{}
	for _, one := range []piece{p.registry, p.repository, p.tag, p.digest} {
		done[strings.TrimPrefix(strings.TrimPrefix(one.path, path), ".")] = true
	}
	return done
}

func (p pieces) written() string {
	return joined(p.registry.text(), p.repository.text(), p.tag.text(), p.digest.text())
}

func (r *Rewriter) knows(p pieces) bool {
	normalized, err := ref.Normalize(p.written())
	if err != nil {
		return false
	}
	_, ok := r.Locate(normalized)
	return ok
}

// assemble puts the new reference into the fields of the old one. Where they
// have no place for a digest and it has no tag, they stay: see [Rewriter.leftIn].
func (r *Rewriter) assemble(p pieces) {
	normalized, err := ref.Normalize(p.written())
	if err != nil {
		return
	}
	to, ok := r.Locate(normalized)
	target, err := ref.Parse(to)
	if !ok || err != nil || target.Tag == "" && p.digest.node == nil || target.Tag != "" && p.tag.node == nil && p.digest.node == nil {
		return
	}
	name := target.Name()
	if registry := p.registry.text(); registry != "" {
		r.change(p.registry.node, target.Host, p.registry.path)
		if !strings.HasPrefix(p.repository.text(), registry+"/") {
			name = target.Repository
		}
	}
	r.change(p.repository.node, name, p.repository.path)
	if target.Tag != "" && p.tag.node != nil {
		r.change(p.tag.node, target.Tag, p.tag.path)
	}
	if p.digest.node == nil {
		return
	}
	sum := target.Digest.String()
	if old := p.digest.text(); old != "" && !strings.Contains(old, ":") || old == "" && strings.HasSuffix(p.digest.path, "sha") {
		sum = target.Digest.Encoded() // as it is written there
	}
	r.change(p.digest.node, sum, p.digest.path)
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
		if row.Group != group || row.Kind != kind || at(row.Image).text() != "" {
			continue
		}
		p := pieces{registry: at(row.Registry), repository: at(row.Repository), tag: at(row.Tag), digest: at(row.Digest)}
		if p.repository.text() != "" && r.knows(p) {
			r.assemble(p)
		}
	}
}

// environmentParts rewrites references in parts among variables and returns the
// names of those that hold the repository. Programs join them, and few would take a
// digest.
func (r *Rewriter) environmentParts(node *yaml.Node, path string) map[string]bool {
	var env []any
	if err := node.Decode(&env); err != nil {
		return nil
	}
	f := Finder{place: r.place}
	f.environmentParts(env, path)
	names := map[string]bool{}
	for _, use := range f.Uses {
		if _, ok := r.Locate(use.Normalized); !ok {
			continue
		}
		name := strings.TrimSuffix(strings.TrimPrefix(use.Path, path+"["), "].value")
		names[name] = true
		base, _ := trimAny(name, "_REPOSITORY", "_REPO", "_NAME", "")
		p := pieces{registry: variable(node, path, base+"_REGISTRY"), repository: variable(node, path, name), tag: variable(node, path, base+"_TAG")}
		if p.tag.text() == "" {
			p.tag = variable(node, path, base+"_VERSION")
		}
		if p.repository.node != nil {
			r.assemble(p)
		}
	}
	return names
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
