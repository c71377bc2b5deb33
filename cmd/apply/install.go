package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"waybill/internal/flags"
	"waybill/internal/ui"
	"waybill/rollout"
)

func installCommand() *cli.Command {
	return &cli.Command{
		Name: "install", Aliases: []string{"upgrade", "deploy"},
		Usage:     "verify a bundle, plan it, and install or upgrade it",
		ArgsUsage: "SRC [COMPONENT…]",
		Description: `Signatures and content are checked before anything is read from the cluster, and
every refusal that can be found is found before the first change. What is
unchanged is not touched. A run that was killed heals by running again.

  apply install oci://registry.example/shop:1.0.0 --key cosign.pub
  apply install shop-1.0.0.tar --key cosign.pub -f site.yaml
  apply install oci://registry.example/shop:1.0.0 web --key cosign.pub
  apply install release.yaml -f site.yaml

A local release file stands for the charts that the lock beside it says, which
nobody signs, or for the bundle it names with artifact:.

Exit codes: 0 done or nothing to do, 2 usage, 3 verification refused or a
downgrade, 4 registry says not found or denied, 5 a release file without a lock
that agrees, or of another bundle than it names, 6 content corrupt, 7 refused
before the first change, 8 someone else holds the lease, 9 something was changed
and something failed, 10 registry or cluster not reachable, 130 interrupted.`,
		Flags: flags.Join(sourceFlags(), planFlags(), []cli.Flag{
			&cli.BoolFlag{Name: "dry-run", Usage: "plan only, write nothing"},
			&cli.StringFlag{Name: "on-failure", Value: rollout.OnFailureStop, Usage: "what happens when a component fails: stop, rollback, continue or leave"},
		}, flags.ClusterOfSite(), flags.Common()),
		Action: runInstall,
	}
}

// planFlags are those that decide what is planned, of `plan` and `install`.
func planFlags() []cli.Flag {
	return flags.Join([]cli.Flag{
		&cli.StringFlag{Name: "instance", Usage: "`NAME` of the installation (default: the site file's, else the release's)"},
		&cli.BoolFlag{Name: "no-site", Usage: "install without a site file although the last install had one"},
		&cli.BoolFlag{Name: "allow-downgrade", Usage: "install an older version than the installed one"},
	}, imageFlags())
}

// readPlanned reads what the command line of `plan` and `install` says.
func readPlanned(c *cli.Context) (*source, error) {
	if err := checkImageFlags(c); err != nil {
		return nil, err
	}
	src, err := readSource(c)
	if err != nil {
		return nil, err
	}
	src.request.Instance = c.String("instance")
	src.request.NoSite = c.Bool("no-site")
	src.request.AllowDowngrade = c.Bool("allow-downgrade")
	return src, nil
}

func runInstall(c *cli.Context) error {
	form, err := flags.Output(c)
	if err != nil {
		return err
	}
	src, err := readPlanned(c)
	if err != nil {
		return err
	}
	defer src.Close()
	if err := checkOnFailure(c.String("on-failure")); err != nil {
		return err
	}
	talk := flags.Talk(c)
	said := &narrator{talk: talk}
	runner, cluster, err := connect(c, said)
	if err != nil {
		return err
	}
	if err := src.open(c, true); err != nil {
		return err
	}
	if err := src.chooseImages(c); err != nil {
		return err
	}
	src.request.OnFailure = c.String("on-failure")
	if c.Bool("dry-run") {
		return showPlan(c, runner, cluster, src, form)
	}
	step := said.show("installing " + src.request.Source.Release.Name)
	outcome, err := runner.Install(c.Context, src.request)
	step.Close()
	if outcome != nil {
		if perr := printOutcome(c.App.Writer, talk, outcome, err, form); perr != nil && err == nil {
			err = perr
		}
	}
	return err
}

// onFailure are the choices of --on-failure.
func onFailure() []string {
	return []string{rollout.OnFailureStop, rollout.OnFailureRollback, rollout.OnFailureContinue, rollout.OnFailureLeave}
}

func checkOnFailure(choice string) error {
	known := onFailure()
	if slices.Contains(known, choice) {
		return nil
	}
	return &flags.UsageError{Message: fmt.Sprintf("--on-failure %q is unknown", choice), Hint: "it is " + joinWords(known)}
}

// printOutcome prints what became of the components. Causes that err, which is
// printed after it, tells are not told twice.
func printOutcome(out io.Writer, talk *ui.Talk, o *rollout.Outcome, err error, form flags.Form) error {
	for _, warning := range o.Warnings {
		talk.Warnf("%s", warning)
	}
	if form == flags.JSON {
		return ui.JSON(out, o)
	}
	var partial *rollout.PartialError
	told := errors.As(err, &partial)
	table := ui.NewTable(out, "COMPONENT", "ACTION", "OUTCOME", "HELM REVISION", "DETAIL")
	for _, component := range o.Components {
		if told && component.Outcome == rollout.OutcomeFailed {
			component.Reason = ""
		}
		table.Row(component.Name, component.Action, component.Outcome, helmStep(component), outcomeDetail(component))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, werr := ui.Printf(out, "%s %s: %s\n", o.Instance, o.Version, outcomeText(o))
	return werr
}

func outcomeText(o *rollout.Outcome) string {
	if o.Status == rollout.StatusUnchanged {
		return "nothing to do, nothing was written"
	}
	return fmt.Sprintf("%s (attempt %d)", o.Status, o.Revision)
}

// helmStep says which Helm revision a component went from and to.
func helmStep(c rollout.ComponentOutcome) string {
	switch {
	case c.HelmAfter == 0 && c.HelmBefore == 0:
		return ""
	case c.HelmAfter == c.HelmBefore || c.HelmAfter == 0:
		return fmt.Sprint(c.HelmBefore)
	default:
		return fmt.Sprintf("%d -> %d", c.HelmBefore, c.HelmAfter)
	}
}

func outcomeDetail(c rollout.ComponentOutcome) string {
	text := c.Reason
	if c.Seconds > 0 {
		text = joinText(text, (time.Duration(c.Seconds * float64(time.Second))).Round(100*time.Millisecond).String())
	}
	if len(c.WaitedOn) > 0 && c.Reason == "" {
		text = joinText(text, "waited on "+joinWords(c.WaitedOn))
	}
	return text
}
