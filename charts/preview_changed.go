package charts

import (
	"context"
	"reflect"
	"strconv"

	"helm.sh/helm/v3/pkg/release"
)

// changed reports whether a deployed revision would be rendered otherwise
// today. The chart is rendered twice the way that revision was; where the two
// differ (a generated password, a certificate, the time of day) nothing is
// compared.
func (c *Cluster) changed(ctx context.Context, comp Component, deployed *release.Release) (bool, error) {
	as := renderedAs(deployed)
	one, err := c.render(ctx, comp, as)
	if err != nil {
		return true, err
	}
	two, err := c.render(ctx, comp, as)
	if err != nil {
		return true, err
	}
	return differs(deployed, one.record, two.record)
}

// renderedAs tells how a revision was rendered: an install renders as revision
// 1 and is deployed for the first time then, whatever its number.
func renderedAs(rel *release.Release) rendering {
	if rel.Version == 1 || rel.Info.FirstDeployed.Equal(rel.Info.LastDeployed) {
		return rendering{revision: 1}
	}
	return rendering{revision: rel.Version, upgrade: true}
}

// differs compares a record with two renderings of one and the same input.
func differs(old, one, two *release.Release) (bool, error) {
	before, err := documents(old)
	if err != nil {
		return true, err
	}
	first, err := documents(one)
	if err != nil {
		return true, err
	}
	second, err := documents(two)
	if err != nil {
		return true, err
	}
	// Objects whose very name is different each time are counted by kind.
	randomBefore, randomNow := map[string]int{}, map[string]int{}
	for key, doc := range first {
		other, steady := second[key]
		if !steady {
			randomNow[doc.kind]++
			continue
		}
		was, there := before[key]
		if !there || !sameWhereSteady(was.content, doc.content, other.content) {
			return true, nil
		}
	}
	for key, doc := range before {
		if _, there := first[key]; !there {
			randomBefore[doc.kind]++
		}
	}
	return !reflect.DeepEqual(randomBefore, randomNow), nil
}

type document struct {
	kind    string
	content map[string]any
}

// documents are the objects of a record and its hooks by name. Two of one name
// are told apart by their number.
func documents(rel *release.Release) (map[string]document, error) {
	all := map[string]document{}
	add := func(role, manifest string) error {
		objects, err := parseObjects(manifest)
		for _, object := range objects {
			kind := role + object.GetAPIVersion() + "/" + object.GetKind() + "/" + object.GetNamespace()
			key := kind + "/" + object.GetName()
			for n := 2; ; n++ {
				if _, taken := all[key]; !taken {
					break
				}
				key = kind + "/" + object.GetName() + "/" + strconv.Itoa(n)
			}
			all[key] = document{kind: kind, content: object.Object}
		}
		return err
	}
	if err := add("", rel.Manifest); err != nil {
		return nil, err
	}
	for _, hook := range rel.Hooks {
		if err := add("hook ", hook.Manifest); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// sameWhereSteady compares old with one wherever one and two agree.
func sameWhereSteady(old, one, two any) bool {
	if reflect.DeepEqual(one, two) {
		return reflect.DeepEqual(old, one)
	}
	switch one := one.(type) {
	case map[string]any:
		two, bothMaps := two.(map[string]any)
		if !bothMaps {
			return true
		}
		was, isMap := old.(map[string]any)
		return isMap && sameMaps(was, one, two)
	case []any:
		two, bothLists := two.([]any)
		if !bothLists || len(one) != len(two) {
			return true
		}
		was, isList := old.([]any)
		if !isList || len(was) != len(one) {
			return false
		}
		for i := range one {
			if !sameWhereSteady(was[i], one[i], two[i]) {
				return false
			}
		}
	}
	return true
}

func sameMaps(old, one, two map[string]any) bool {
	for key, value := range one {
		other, steady := two[key]
		if !steady {
			continue
		}
		was, there := old[key]
		if !there || !sameWhereSteady(was, value, other) {
			return false
		}
	}
	for key := range old {
		_, inOne := one[key]
		_, inTwo := two[key]
		if !inOne && !inTwo && len(one) == len(two) {
			return false
		}
	}
	return true
}
