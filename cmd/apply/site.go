package main

import (
	"io"

	"github.com/urfave/cli/v2"

	"waybill/internal/flags"
	"waybill/internal/ui"
	"waybill/rollout"
)

func siteCommand() *cli.Command {
	return &cli.Command{
		Name: "site", Usage: "print the site file last used for an instance",
		ArgsUsage:   "NAME",
		Description: `Exit codes: 0 done, 2 usage, 4 no such instance, or none was used, 10 cluster not reachable.`,
		Flags:       flags.Join(flags.Cluster(), flags.Common()),
		Action:      onInstance(showSite),
	}
}

func showSite(c *cli.Context, runner *rollout.Runner, name string, form flags.Form) error {
	text, err := runner.Site(c.Context, name)
	if err != nil {
		return err
	}
	if form == flags.JSON {
		return ui.JSON(c.App.Writer, map[string]string{"instance": name, "site": text})
	}
	_, err = io.WriteString(c.App.Writer, text)
	return err
}
