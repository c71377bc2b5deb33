package main

import (
	"io"

	"github.com/opencontainers/go-digest"
	"github.com/urfave/cli/v2"

	"waybill/internal/flags"
	"waybill/internal/ui"
	"waybill/registry"
)

// listed is what `list` says.
type listed struct {
	Reference string          `json:"reference"`
	Tags      []string        `json:"tags"`
	Digests   []digest.Digest `json:"digests,omitempty"` // of what has no name
}

func printList(out io.Writer, l listed, form flags.Form) error {
	if form == flags.JSON {
		return ui.JSON(out, l)
	}
	for _, name := range l.Tags {
		if _, err := ui.Println(out, name); err != nil {
			return err
		}
	}
	for _, d := range l.Digests {
		if _, err := ui.Println(out, "@"+d.String()); err != nil {
			return err
		}
	}
	return nil
}

func listCommand() *cli.Command {
	return &cli.Command{
		Name: "list", Usage: "list the versions at a place, newest first",
		ArgsUsage: "LOCATION",
		Description: `What has no name in an archive or a folder is listed as @DIGEST.

Exit codes: 0 done, 2 usage, 4 registry says not found or denied, 6 content
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
			unnamed, err := client.Unnamed(c.Context, loc)
			if err != nil {
				return err
			}
			return printList(c.App.Writer, listed{Reference: loc.String(), Tags: names, Digests: unnamed}, form)
		},
	}
}
