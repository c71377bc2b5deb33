package charts

import (
	"context"
	"errors"
	"slices"
)

// A Coming is kinds that somebody brings to the cluster before a component is
// applied.
type Coming struct {
	From  string // whoever brings them
	Kinds []Kind
}

// versions is a kind as templates find it in .Capabilities.APIVersions.
func (k Kind) versions() []string { return []string{k.APIVersion, k.APIVersion + "/" + k.Kind} }

// coming are the API versions that templates see once all of it is there.
func (c Component) coming() []string {
	var versions []string
	for _, one := range c.Coming {
		for _, kind := range one.Kinds {
			versions = append(versions, kind.versions()...)
		}
	}
	return versions
}

// unserved are those of the kinds that the cluster does not serve.
func (c *Cluster) unserved(ctx context.Context, kinds []Kind) ([]Kind, error) {
	caps, err := c.capabilities(ctx)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(kinds), func(k Kind) bool { return slices.Contains(caps.APIVersions, k.APIVersion+"/"+k.Kind) }), nil
}

// follows finds out whose kinds change the rendering: without them it is another
// one, or none.
func (c *Cluster) follows(ctx context.Context, comp Component, found *inspection) ([]string, error) {
	var names []string
	for i, one := range comp.Coming {
		without := comp
		without.Coming = slices.Delete(slices.Clone(comp.Coming), i, i+1)
		other, err := c.rendersOtherwise(ctx, without, found)
		if err != nil {
			return nil, err
		}
		if other {
			names = append(names, one.From)
		}
	}
	return names, nil
}

// rendersOtherwise is whether a component renders otherwise than it was found,
// leaving out what is another at each time.
func (c *Cluster) rendersOtherwise(ctx context.Context, comp Component, found *inspection) (bool, error) {
	one, err := c.render(ctx, comp, found.as)
	if errors.As(err, new(*RenderError)) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	two, err := c.render(ctx, comp, found.as)
	if err != nil {
		return false, err
	}
	return differs(found.rendered.record, one.record, two.record)
}
