package registry

// JoinPlans makes one plan of several, for content of many places that goes to
// one: what more than one of them holds moves once, from the first that has it.
// What hangs on a digest at several places comes from all of them. The plans
// are used up by it; their sources must stay open.
func JoinPlans(plans ...*CopyPlan) *CopyPlan {
	j := joining{all: &CopyPlan{nodes: map[copyKey]*copyNode{}}, same: map[*copyNode]*copyNode{}, hung: map[hanging]bool{}}
	for _, p := range plans {
		j.take(p)
	}
	held := 0
	for _, n := range j.all.nodes {
		if held += len(n.data); held > maxHeldManifests {
			n.data = nil
		}
		for i, part := range n.parts {
			n.parts[i] = j.now(part)
		}
		if n.parent != nil {
			n.parent = j.now(n.parent)
		}
	}
	j.all.order()
	return j.all
}

type joining struct {
	all  *CopyPlan
	same map[*copyNode]*copyNode // what stands for a node that another plan had already
	hung map[hanging]bool
}

// hanging is one attachment under one name.
type hanging struct {
	subject, manifest *copyNode
	tag               string
}

func (j *joining) now(n *copyNode) *copyNode {
	if other := j.same[n]; other != nil {
		return other
	}
	return n
}

func (j *joining) take(p *CopyPlan) {
	for key, n := range p.nodes {
		other := j.all.nodes[key]
		if other == nil {
			j.all.nodes[key] = n
			continue
		}
		other.alsoNamed(n.foreign, n.urls)
		other.depth = min(other.depth, n.depth)
		j.same[n] = other
	}
	for _, root := range p.roots {
		j.all.roots = append(j.all.roots, j.now(root))
	}
	for _, a := range p.attachments {
		a.subject, a.manifest = j.now(a.subject), j.now(a.manifest)
		h := hanging{a.subject, a.manifest, a.Tag}
		if j.hung[h] {
			continue
		}
		j.hung[h] = true
		j.all.attachments = append(j.all.attachments, a)
	}
	j.all.undetermined = append(j.all.undetermined, p.undetermined...)
	j.all.assumed += p.assumed
}
