package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"waybill/internal/flags"
	"waybill/internal/ui"
	"waybill/rollout"
)

func historyCommand() *cli.Command {
	return &cli.Command{
		Name: "history", Usage: "show the attempts on an instance, oldest first",
		ArgsUsage:   "NAME",
		Description: `Exit codes: 0 done, 2 usage, 4 no such instance, 10 cluster not reachable.`,
		Flags:       flags.Join(flags.Cluster(), flags.Common()),
		Action:      onInstance(showHistory),
	}
}

func showHistory(c *cli.Context, runner *rollout.Runner, name string, form flags.Form) error {
	attempts, err := runner.History(c.Context, name)
	if err != nil {
		return err
	}
	if form == flags.JSON {
		return ui.JSON(c.App.Writer, map[string]any{"instance": name, "attempts": attempts})
	}
	table := ui.NewTable(c.App.Writer, "ATTEMPT", "STATUS", "VERSION", "STARTED", "SIGNER", "BUNDLE")
	for _, a := range attempts {
		table.Row(fmt.Sprint(a.Revision), a.Status, a.Version, stamp(a.Started), a.Signer, sourceDigest(a.Bundle, a.ReleaseFile))
	}
	return table.Flush()
}
