package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/opencontainers/go-digest"

	"waybill/internal/flags"
	"waybill/internal/releasefile"
	"waybill/registry"
)

// chooseForeign decides about layers that may not be given on, before anything
// moves. Of a bundle its builder decided, and of an archive or a folder whoever
// filled it; of anything else the command must say.
func (c *copier) chooseForeign(ctx context.Context) error {
	layers, err := c.plan.Foreign(ctx)
	if err != nil || len(layers) == 0 {
		return err
	}
	switch bundled := c.source.Bundle != nil; {
	case c.foreign == releasefile.ForeignInclude:
		c.plan.ChooseForeign(layers, func(registry.ForeignLayer) registry.ForeignChoice { return registry.ForeignInclude })
	case c.foreign == releasefile.ForeignOmit && bundled:
		return &flags.UsageError{
			Message: fmt.Sprintf("%s is a bundle, and a copy leaves nothing out of it that it holds", c.source.Location),
			Hint:    "`bundle build --foreign-layers omit` makes one without such layers",
		}
	case c.foreign == releasefile.ForeignOmit:
		c.plan.ChooseForeign(layers, func(registry.ForeignLayer) registry.ForeignChoice { return registry.ForeignOmit })
	case bundled:
		c.plan.ChooseForeign(layers, asBuilt(c.leftOut()))
	case c.source.Source.Local():
		c.plan.ChooseForeign(layers, asHere)
	default:
		return &releasefile.ForeignError{Layers: layers, Images: slices.Repeat([][]string{{c.source.Location.String()}}, len(layers))}
	}
	return nil
}

// asHere carries what the source has.
func asHere(layer registry.ForeignLayer) registry.ForeignChoice {
	if layer.Here {
		return registry.ForeignNeeded
	}
	return registry.ForeignOmit
}

// asBuilt carries what a bundle was built with: a layer that was not left out
// then must be there.
func asBuilt(leftOut map[digest.Digest]bool) func(registry.ForeignLayer) registry.ForeignChoice {
	return func(layer registry.ForeignLayer) registry.ForeignChoice {
		if leftOut[layer.Layer.Digest] {
			return asHere(layer)
		}
		return registry.ForeignNeeded
	}
}

// leftOut are the layers that the bundle was built without.
func (c *copier) leftOut() map[digest.Digest]bool {
	all := map[digest.Digest]bool{}
	for _, image := range c.source.Bundle.LeftOut() {
		for _, layer := range image.Layers {
			all[layer] = true
		}
	}
	return all
}
