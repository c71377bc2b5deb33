package images

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// pullSecrets is the field of a pod's spec, and of a ServiceAccount, that names
// the Secrets a node may pull with.
const pullSecrets = "imagePullSecrets"

// attachToPod adds the pull secret to a map that holds containers, when that is
// a pod's spec: always in Kubernetes' own kinds, and in custom resources where
// it says so itself, by having the field or by standing in a pod template. Other
// custom resources may have no such field, and the cluster would refuse it.
func (r *Rewriter) attachToPod(node *yaml.Node, path string) {
	if r.place.kind == inSchema {
		return
	}
	if !slices.Contains(r.Namespaces, r.namespace) {
		r.Namespaces = append(r.Namespaces, r.namespace)
	}
	if r.PullSecret == "" || r.place.kind == inResource && child(node, pullSecrets) == nil && !strings.HasSuffix(path, "emplate.spec") {
		return
	}
	r.attach(node, path)
}

// attach adds the pull secret to the field of node, unless it is there.
func (r *Rewriter) attach(node *yaml.Node, path string) {
	list := child(node, pullSecrets)
	switch {
	case list == nil:
		list = &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		node.Content = append(node.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: pullSecrets}, list)
	case list.Kind == yaml.AliasNode, list.Kind == yaml.MappingNode:
		return
	case list.Kind == yaml.ScalarNode: // null, or a text that the cluster will refuse
		if list.Tag != "!!null" {
			return
		}
		*list = yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	}
	for _, item := range list.Content {
		if scalar(child(item, "name")) == r.PullSecret {
			return
		}
	}
	list.Content = append(list.Content, &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Content: []*yaml.Node{
		{Kind: yaml.ScalarNode, Tag: "!!str", Value: "name"}, {Kind: yaml.ScalarNode, Tag: "!!str", Value: r.PullSecret},
	}})
	r.Changes = append(r.Changes, Change{Object: r.place.object, Template: r.place.template, Path: join(path, pullSecrets), To: r.PullSecret})
}
