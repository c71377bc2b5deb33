package main

import (
	"context"

	"github.com/urfave/cli/v2"

	"waybill/internal/flags"
	"waybill/registry"
)

func assumeFlag() cli.Flag {
	return &cli.BoolFlag{Name: "assume-complete", Usage: "take an index that the registry has for all that is below it, and don't look: what went missing there stays missing"}
}

// checkAssume refuses --assume-complete where there is nothing to assume.
func (o copyOptions) checkAssume() error {
	switch {
	case !o.assume:
		return nil
	case len(o.to) > 1:
		return flags.Usagef("--assume-complete is about one destination; copy to the others with commands of their own")
	case o.expand != "":
		return flags.Usagef("--assume-complete and --expand don't go together: names are made for all that is below the index")
	case o.to[0].Kind != registry.Registry:
		return flags.Usagef("--assume-complete is about registries, and %s is none: it is looked at without asking anybody", o.to[0])
	}
	return nil
}

// ahead is the first registry among the destinations that take something: manifests are read there
// rather than at the source where it has them.
func (c copier) ahead(ctx context.Context, destinations []destination) (*registry.Destination, error) {
	for _, d := range destinations {
		if d.refused == nil && d.loc.Kind == registry.Registry && !samePlace(c.source.Location, d.loc) {
			return c.client.Create(ctx, d.loc)
		}
	}
	return nil, nil
}
