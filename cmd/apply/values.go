package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"waybill/charts"
	"waybill/internal/flags"
	"waybill/internal/ui"
)

func valuesCommand() *cli.Command {
	return &cli.Command{
		Name: "values", Usage: "show a component's effective values and which layer set each",
		ArgsUsage: "SRC COMPONENT",
		Description: `The last layer wins: chart defaults, the release's valuesFiles and values, the
profile, the site's valuesFiles, valuesFrom and values, valuesFrom with a
targetPath, --values, --set.

Exit codes: 0 done, 1 failed, 2 usage, 3 refused by the policy, 4 registry says
not found or denied, 6 content corrupt, 10 not reachable.`,
		Flags: flags.Join(sourceFlags(), []cli.Flag{
			&cli.BoolFlag{Name: "cluster", Usage: "read valuesFrom from the cluster"},
		}, flags.Cluster(), flags.Common()),
		Action: runValues,
	}
}

func runValues(c *cli.Context) error {
	form, err := flags.Output(c)
	if err != nil {
		return err
	}
	if c.Args().Len() != 2 {
		return &flags.UsageError{
			Message: fmt.Sprintf("`%s values` takes a source and one component, got %d arguments", c.App.Name, c.Args().Len()),
			Hint:    c.App.Name + " values SRC COMPONENT",
		}
	}
	src, err := openSource(c, false)
	if err != nil {
		return err
	}
	defer src.Close()
	composed, err := compose(c, src.request, flags.Talk(c))
	if err != nil {
		return err
	}
	component := composed[0]
	chart, _, err := openChart(c.Context, src, component)
	if err != nil {
		return err
	}
	effective, err := chart.Effective(chartLayers(component.Layers)...)
	if err != nil {
		return err
	}
	return printValues(c, component.Name, effective, form)
}

func printValues(c *cli.Context, name string, effective *charts.Effective, form flags.Form) error {
	if form == flags.JSON {
		return ui.JSON(c.App.Writer, map[string]any{"component": name, "values": effective.Values, "leaves": effective.Leaves})
	}
	table := ui.NewTable(c.App.Writer)
	for _, leaf := range effective.Leaves {
		table.Row(leaf.Path, leaf.Text(), leaf.Layer)
	}
	return table.Flush()
}
