package main

import (
	"github.com/urfave/cli/v2"

	"waybill/internal/flags"
	"waybill/registry"
	"waybill/signing"
)

// An askedPlace is what a command needs that looks at a whole place.
type askedPlace struct {
	form   flags.Form
	loc    registry.Location
	policy *signing.Policy
	client *registry.Client
}

func askedPlaceFrom(c *cli.Context) (a askedPlace, err error) {
	if a.form, err = flags.Output(c); err != nil {
		return a, err
	}
	arg, err := flags.OneArg(c, "location")
	if err != nil {
		return a, err
	}
	if a.loc, err = registry.ParseLocation(arg); err != nil {
		return a, err
	}
	if a.policy, err = flags.LoadPolicy(c, c.StringSlice("key")); err != nil {
		return a, err
	}
	a.client, err = flags.Client(c, []registry.Location{a.loc})
	return a, err
}
