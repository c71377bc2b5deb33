package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"waybill/internal/flags"
	"waybill/internal/ui"
	"waybill/registry"
)

func listCommand() *cli.Command {
	return &cli.Command{
		Name: "list", Usage: "list the versions at a place, newest first",
		ArgsUsage: "LOCATION",
		Description: `Exit codes: 0 done, 2 usage, 4 registry says not found or denied, 6 content
corrupt, 10 registry not reachable.`,
		Flags: flags.Join(flags.Registry(), flags.Common()),
		Action: func(c *cli.Context) error {
			arg, err := flags.OneArg(c, "location")
			if err != nil {
				return err
			}
			form, err := flags.Output(c)
			if err != nil {
				return err
			}
			loc, err := registry.ParseLocation(arg)
			if err != nil {
				return err
			}
			settings, err := flags.RegistrySettings(c, loc)
			if err != nil {
				return err
			}
			client, err := registry.NewClient(settings)
			if err != nil {
				return err
			}
			names, err := client.List(c.Context, loc)
			if err != nil {
				return err
			}
			delta, err := client.DeltaAt(loc)
			if err != nil {
				return err
			}
			if delta != nil {
				flags.Talk(c).Sayf("%s: %s", loc, delta)
			}
			if form == flags.JSON {
				return ui.JSON(c.App.Writer, map[string]any{"reference": loc.String(), "tags": names})
			}
			for _, name := range names {
				fmt.Fprintln(c.App.Writer, name)
			}
			return nil
		},
	}
}
