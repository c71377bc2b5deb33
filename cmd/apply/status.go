package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"waybill/internal/flags"
	"waybill/internal/ui"
)

func statusCommand() *cli.Command {
	return &cli.Command{
		Name: "status", Aliases: []string{"ls"},
		Usage:     "show what is installed, from which bundle, by which signer, how far",
		ArgsUsage: "[NAME]",
		Description: `Without a name, every instance in the cluster.

Exit codes: 0 done, 2 usage, 4 no such instance, 10 cluster not reachable.`,
		Flags: flags.Join(flags.Cluster(), flags.Common()),
		Action: func(c *cli.Context) error {
			form, err := flags.Output(c)
			if err != nil {
				return err
			}
			runner, _, err := connect(c, flags.Talk(c))
			if err != nil {
				return err
			}
			if !c.Args().Present() {
				return listInstances(c, runner, form)
			}
			name, err := flags.OneArg(c, "instance")
			if err != nil {
				return err
			}
			return showStatus(c, runner, name, form)
		},
	}
}

func historyCommand() *cli.Command {
	return &cli.Command{
		Name: "history", Usage: "show the attempts on an instance, oldest first",
		ArgsUsage:   "NAME",
		Description: `Exit codes: 0 done, 2 usage, 4 no such instance, 10 cluster not reachable.`,
		Flags:       flags.Join(flags.Cluster(), flags.Common()),
		Action: func(c *cli.Context) error {
			form, err := flags.Output(c)
			if err != nil {
				return err
			}
			name, err := flags.OneArg(c, "instance")
			if err != nil {
				return err
			}
			runner, _, err := connect(c, flags.Talk(c))
			if err != nil {
				return err
			}
			attempts, err := runner.History(c.Context, name)
			if err != nil {
				return err
			}
			if form == flags.JSON {
				return ui.JSON(c.App.Writer, map[string]any{"instance": name, "attempts": attempts})
			}
			table := ui.NewTable(c.App.Writer)
			for _, a := range attempts {
				table.Row(fmt.Sprint(a.Revision), a.Status, a.Version, a.Began.UTC().Format("2006-01-02T15:04:05Z"), a.Signer, a.Bundle.String())
			}
			return table.Flush()
		},
	}
}

func siteCommand() *cli.Command {
	return &cli.Command{
		Name: "site", Usage: "print the site file last used for an instance",
		ArgsUsage:   "NAME",
		Description: `Exit codes: 0 done, 2 usage, 4 no such instance, or none was used, 10 cluster not reachable.`,
		Flags:       flags.Join(flags.Cluster(), flags.Common()),
		Action: func(c *cli.Context) error {
			form, err := flags.Output(c)
			if err != nil {
				return err
			}
			name, err := flags.OneArg(c, "instance")
			if err != nil {
				return err
			}
			runner, _, err := connect(c, flags.Talk(c))
			if err != nil {
				return err
			}
			text, err := runner.Site(c.Context, name)
			if err != nil {
				return err
			}
			if form == flags.JSON {
				return ui.JSON(c.App.Writer, map[string]string{"instance": name, "site": string(text)})
			}
			_, err = c.App.Writer.Write([]byte(text))
			return err
		},
	}
}
