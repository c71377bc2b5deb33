package main

import (
	"fmt"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/urfave/cli/v2"

	"waybill/internal/flags"
	"waybill/internal/ui"
	"waybill/rollout"
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
			if !c.Args().Present() {
				return withRunner(listInstances)(c)
			}
			return onInstance(showStatus)(c)
		},
	}
}

// withRunner is the action of a verb that reads records.
func withRunner(act func(*cli.Context, *rollout.Runner, flags.Form) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		form, err := flags.Output(c)
		if err != nil {
			return err
		}
		runner, _, err := connect(c, &narrator{talk: flags.Talk(c)})
		if err != nil {
			return err
		}
		return act(c, runner, form)
	}
}

// onInstance is the action of a verb whose only argument is an instance.
func onInstance(act func(*cli.Context, *rollout.Runner, string, flags.Form) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		name, err := flags.OneArg(c, "instance")
		if err != nil {
			return err
		}
		return withRunner(func(c *cli.Context, runner *rollout.Runner, form flags.Form) error {
			return act(c, runner, name, form)
		})(c)
	}
}

func listInstances(c *cli.Context, runner *rollout.Runner, form flags.Form) error {
	all, err := runner.List(c.Context)
	if err != nil {
		return err
	}
	if form == flags.JSON {
		return ui.JSON(c.App.Writer, map[string]any{"instances": all})
	}
	if len(all) == 0 {
		flags.Talk(c).Sayf("nothing is installed")
	}
	table := ui.NewTable(c.App.Writer, "INSTANCE", "RELEASE", "VERSION", "STATUS", "SIGNER", "BUNDLE")
	for _, s := range all {
		table.Row(s.Instance, s.Release, s.Version, s.Status, s.Signer, sourceDigest(s.Bundle, s.ReleaseFile))
	}
	return table.Flush()
}

func showStatus(c *cli.Context, runner *rollout.Runner, name string, form flags.Form) error {
	s, err := runner.Status(c.Context, name)
	if err != nil {
		return err
	}
	for _, warning := range s.Warnings {
		flags.Talk(c).Warnf("%s", warning)
	}
	out := c.App.Writer
	if form == flags.JSON {
		return ui.JSON(out, s)
	}
	ui.Printf(out, "%s: release %s %s, %s of attempt %d %s\n", s.Instance, s.Release, s.Version, s.Action, s.Revision, s.Status)
	if s.Reason != "" {
		ui.Printf(out, "reason: %s\n", s.Reason)
	}
	ui.Println(out, sourceText(s))
	ui.Printf(out, "signer: %s (verification: %s)\n", orNone(s.Signer, "none"), s.Verification)
	for _, one := range s.Replaced {
		ui.Println(out, one)
	}
	if s.Holder != nil {
		ui.Printf(out, "held by %s since %s\n", s.Holder.Holder, stamp(s.Holder.Since))
	}
	table := ui.NewTable(out, "  COMPONENT", "OUTCOME", "VERSION", "CHART", "HELM RELEASE", "HELM REVISION", "REASON")
	for _, component := range s.Components {
		table.Row("  "+component.Name, component.Outcome, component.Version, component.Chart+" "+component.ChartVersion,
			component.Namespace+"/"+component.HelmRelease, helmText(component), component.Reason)
	}
	return table.Flush()
}

// sourceText says what the instance is installed from.
func sourceText(s *rollout.InstanceStatus) string {
	if s.Bundle != "" || s.ReleaseFile == "" {
		return "bundle: " + orNone(s.Location, s.Bundle.String())
	}
	return fmt.Sprintf("release file: %s %s, lock %s", s.Location, s.ReleaseFile, s.Lock)
}

// sourceDigest is the digest that names a source in a table.
func sourceDigest(bundle, releaseFile digest.Digest) string {
	if bundle != "" || releaseFile == "" {
		return bundle.String()
	}
	return "release file " + releaseFile.String()
}

// helmText says which Helm revision stands, and which was recorded when that
// is another.
func helmText(c rollout.ComponentStatus) string {
	if c.HelmNow == 0 {
		return "none"
	}
	text := fmt.Sprintf("%d %s", c.HelmNow, c.HelmStatus)
	if c.HelmRevision != 0 && c.HelmRevision != c.HelmNow {
		text += fmt.Sprintf(" (recorded: %d)", c.HelmRevision)
	}
	return text
}

func orNone(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
