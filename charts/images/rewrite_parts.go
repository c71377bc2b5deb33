package images

import (
	"encoding/base64"
	"strings"

	"go.yaml.in/yaml/v3"

	"waybill/internal/ref"
)

// parts rewrites a reference in parts and returns the keys that belong to it.
// Without a field for the digest the target needs a tag.
func (r *Rewriter) parts(node *yaml.Node, key, path string) map[string]bool {
	if r.place.kind == inObject {
		return nil
	}
	repository := child(node, "repository")
	name := "repository"
	if repository == nil && namesImage(key) {
		repository, name = child(node, "name"), "name"
	}
	if scalar(repository) == "" || readForm(repository.Value) == noReference {
		return nil
	}
	registry, tag, sum := child(node, "registry"), child(node, "tag"), child(node, "digest")
	if scalar(tag) == "" && scalar(sum) == "" {
		return nil
	}
	written := joined(scalar(registry), repository.Value, scalar(tag), scalar(sum))
	normalized, err := ref.Normalize(written)
	if err != nil {
		return nil
	}
	to, ok := r.Locate(normalized)
	if !ok {
		return nil
	}
	target, err := ref.Parse(to)
	if err != nil {
		return nil
	}
	done := map[string]bool{"registry": true, name: true, "tag": true, "digest": true}
	if target.Tag == "" && sum == nil {
		r.Stuck = append(r.Stuck, r.use(written, normalized, Recognised, path))
		return done
	}
	host, rest := "", target.Name()
	if registry != nil {
		host, rest = target.Host, target.Repository
		r.change(registry, host, join(path, "registry"))
	}
	r.change(repository, rest, join(path, name))
	if target.Digest != "" && sum != nil {
		r.change(sum, target.Digest.String(), join(path, "digest"))
	}
	if target.Tag != "" && tag != nil {
		r.change(tag, target.Tag, join(path, "tag"))
	}
	return done
}

// tabled finds the references in parts that the table of kinds knows: there is
// no place for a digest in them.
func (r *Rewriter) tabled(node *yaml.Node, apiVersion, kind string) {
	var content map[string]any
	if err := node.Decode(&content); err != nil {
		return
	}
	f := Finder{place: r.place}
	f.known(Object{APIVersion: apiVersion, Kind: kind, Content: content})
	for _, use := range f.Uses {
		if _, ok := r.Locate(use.Normalized); ok && use.InParts {
			r.Stuck = append(r.Stuck, use)
		}
	}
}

// environmentParts finds references in parts among variables and returns the
// names of those variables: programs join them, and few would take a digest.
func (r *Rewriter) environmentParts(node *yaml.Node, path string) map[string]bool {
	var env []any
	if err := node.Decode(&env); err != nil {
		return nil
	}
	f := Finder{place: r.place}
	f.environmentParts(env, path)
	names := map[string]bool{}
	for _, use := range f.Uses {
		if _, ok := r.Locate(use.Normalized); ok {
			r.Stuck = append(r.Stuck, use)
			names[strings.TrimSuffix(strings.TrimPrefix(use.Path, path+"["), "].value")] = true
		}
	}
	return names
}

// secret rewrites the texts of a Secret that are encoded.
func (r *Rewriter) secret(data *yaml.Node) {
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
		before := len(r.Changes)
		r.text(&inner, key, "data."+key)
		if len(r.Changes) > before {
			value.Value = base64.StdEncoding.EncodeToString([]byte(inner.Value))
			for j := range r.Changes[before:] {
				r.Changes[before+j].From, r.Changes[before+j].To = "(secret)", "(secret)"
			}
		}
	}
}
