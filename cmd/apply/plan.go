package main

import (
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"waybill/charts"
	"waybill/internal/flags"
	"waybill/internal/ui"
	"waybill/rollout"
)

func planCommand() *cli.Command {
	return &cli.Command{
		Name: "plan", Usage: "show what an install would change; takes no lease and writes nothing",
		ArgsUsage: "SRC [COMPONENT…]",
		Description: `  apply plan oci://registry.example/shop:1.0.0 --key cosign.pub -f site.yaml
  apply plan release.yaml -f site.yaml

A local release file stands for the charts that the lock beside it says, or for
the bundle it names with artifact:.

Exit codes: 0 done, 2 usage, 3 verification refused or a downgrade, 4 registry
says not found or denied, 5 (--detailed-exitcode) something would change, or a
release file without a lock that agrees, 6 content corrupt, 7 an install would be refused, 10 registry or cluster not
reachable.`,
		Flags: flags.Join(sourceFlags(), planFlags(), []cli.Flag{
			&cli.BoolFlag{Name: "diff", Usage: "show what would change in the objects; values in Secrets are masked"},
			&cli.BoolFlag{Name: "detailed-exitcode", Usage: "exit 5 when something would change"},
		}, flags.ClusterOfSite(), flags.Common()),
		Action: runPlan,
	}
}

func runPlan(c *cli.Context) error {
	form, err := flags.Output(c)
	if err != nil {
		return err
	}
	src, err := readPlanned(c)
	if err != nil {
		return err
	}
	defer src.Close()
	runner, cluster, err := connect(c, &narrator{talk: flags.Talk(c)})
	if err != nil {
		return err
	}
	if err := src.open(c, true); err != nil {
		return err
	}
	if err := src.chooseImages(c); err != nil {
		return err
	}
	return showPlan(c, runner, cluster, src, form)
}

// A changesError is the answer of --detailed-exitcode: something would change.
type changesError struct{ instance string }

func (e *changesError) Error() string {
	return "an install of " + e.instance + " would change something"
}

func (e *changesError) ExitCode() int { return ui.ExitDiffers }

// Silent says that the plan has told it.
func (e *changesError) Silent() {}

// A planResult is what `plan` says in JSON.
type planResult struct {
	*rollout.Plan
	Diffs map[string]string `json:"diffs,omitempty"` // by component, with --diff
}

// showPlan prints the plan, also when an install would be refused.
func showPlan(c *cli.Context, runner *rollout.Runner, cluster *charts.Cluster, src *source, form flags.Form) error {
	plan, err := runner.Plan(c.Context, src.request)
	var refused *rollout.RefusedError
	if err != nil && (plan == nil || !errors.As(err, &refused)) {
		return err
	}
	result := planResult{Plan: plan}
	if c.Bool("diff") && err == nil {
		if result.Diffs, err = diffs(c.Context, runner, cluster, src, plan); err != nil {
			return err
		}
	}
	if perr := printPlan(c.App.Writer, flags.Talk(c), result, form); perr != nil {
		return perr
	}
	if err != nil {
		return err
	}
	if plan.Change && c.Bool("detailed-exitcode") {
		return &changesError{plan.Instance}
	}
	return nil
}

func printPlan(out io.Writer, talk *ui.Talk, p planResult, form flags.Form) error {
	for _, warning := range p.Warnings {
		talk.Warnf("%s", warning)
	}
	if form == flags.JSON {
		return ui.JSON(out, p)
	}
	installed := "not installed yet"
	if p.Installed != "" {
		installed = "installed: " + p.Installed
	}
	ui.Printf(out, "%s %s as instance %s on Kubernetes %s (%s)\n", p.Release, p.Version, p.Instance, p.Cluster, installed)
	for _, ns := range p.Namespaces {
		if ns.Create {
			ui.Printf(out, "  namespace %s is created\n", ns.Name)
		}
	}
	for _, heal := range p.Heals {
		ui.Printf(out, "  %s: Helm revision %d was left %s by an attempt that died; it is marked failed first\n", heal.Component, heal.HelmRevision, heal.Status)
	}
	table := ui.NewTable(out, "  COMPONENT", "ACTION", "CHART", "NAMESPACE", "REASON")
	for _, component := range p.Components {
		reasons := component.Reasons
		if len(component.After) > 0 {
			reasons = append(slices.Clone(reasons), "after "+joinWords(component.After)+", for their kinds")
		}
		table.Row("  "+component.Name, component.Action, chartText(component), component.Namespace, strings.Join(reasons, "; "))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, component := range p.Components {
		for _, image := range component.Images {
			ui.Printf(out, "  %s: %s, %s: %s -> %s\n", component.Name, image.Object, image.Path, orNone(image.From, "nothing"), image.To)
		}
	}
	for _, one := range p.Replaced {
		ui.Printf(out, "  %s\n", one)
	}
	for _, reason := range p.Reasons {
		ui.Printf(out, "  %s\n", reason)
	}
	for _, component := range p.Components {
		_, _ = io.WriteString(out, ui.Text(p.Diffs[component.Name]))
	}
	if !p.Change {
		ui.Println(out, "nothing to do")
	}
	return nil
}

func chartText(c rollout.PlannedComponent) string {
	return strings.TrimSpace(c.Chart + " " + c.ChartVersion)
}

func joinText(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + ", " + b
}

func joinWords(words []string) string { return strings.Join(words, ", ") }
