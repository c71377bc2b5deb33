package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"waybill/internal/flags"
	"waybill/internal/ui"
	"waybill/rollout"
)

func uninstallCommand() *cli.Command {
	return &cli.Command{
		Name: "uninstall", Aliases: []string{"remove"},
		Usage:     "remove an instance, or the named components of one, in reverse order",
		ArgsUsage: "NAME [COMPONENT…]",
		Description: `CRDs, claims and namespaces stay; the records of a whole instance go. On a
terminal it asks before it removes anything; --yes answers.

  apply uninstall shop --dry-run
  apply uninstall shop web

Exit codes: 0 done, 2 usage, 4 no such instance, 7 refused (a component that
stays needs one that is to go), 8 someone else holds the lease, 9 something was
removed and something failed, 10 cluster not reachable, 130 interrupted.`,
		Flags: flags.Join([]cli.Flag{
			&cli.BoolFlag{Name: "dry-run", Usage: "say what would be removed"},
			&cli.BoolFlag{Name: "yes", Usage: "do not ask"},
			&cli.DurationFlag{Name: "timeout", Usage: "how long one component may take; 0s is 10m"},
		}, flags.Cluster(), flags.Common()),
		Action: runUninstall,
	}
}

func runUninstall(c *cli.Context) error {
	form, err := flags.Output(c)
	if err != nil {
		return err
	}
	if !c.Args().Present() {
		return &flags.UsageError{
			Message: fmt.Sprintf("`%s uninstall` needs the name of an instance", c.App.Name),
			Hint:    fmt.Sprintf("`%s status` lists them", c.App.Name),
		}
	}
	talk := flags.Talk(c)
	said := &narrator{talk: talk}
	runner, _, err := connect(c, said)
	if err != nil {
		return err
	}
	request := rollout.UninstallRequest{
		Instance: c.Args().First(), Components: c.Args().Tail(), DryRun: c.Bool("dry-run"), Timeout: c.Duration("timeout"),
	}
	if err := confirm(c, runner, request); err != nil {
		return err
	}
	step := said.show("uninstalling " + request.Instance)
	outcome, err := runner.Uninstall(c.Context, request)
	step.Close()
	if outcome != nil {
		if perr := printOutcome(c.App.Writer, talk, outcome, err, form); perr != nil && err == nil {
			err = perr
		}
		if len(outcome.NamespacesLeft) > 0 {
			talk.Sayf("namespaces that stay: %s", joinWords(outcome.NamespacesLeft))
		}
	}
	return err
}

// confirm shows what would be removed and asks, on a terminal only.
func confirm(c *cli.Context, runner *rollout.Runner, request rollout.UninstallRequest) error {
	if request.DryRun || c.Bool("yes") || !ui.IsTerminal(c.App.Reader) {
		return nil
	}
	request.DryRun = true
	planned, err := runner.Uninstall(c.Context, request)
	if err != nil {
		return err
	}
	for _, component := range planned.Components {
		if component.Action == rollout.ActionUninstall {
			ui.Printf(c.App.ErrWriter, "  %s\n", component.Name)
		}
	}
	defer flags.Talk(c).Asking()()
	ui.Printf(c.App.ErrWriter, "Remove these from instance %s? [y/N] ", request.Instance)
	var answer string
	_, _ = fmt.Fscanln(c.App.Reader, &answer) // no answer is no
	if answer != "y" && answer != "yes" {
		return flags.Usagef("nothing was removed")
	}
	return nil
}
