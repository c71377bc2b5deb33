package main

import (
	"encoding/json"
	"fmt"

	"github.com/urfave/cli/v2"

	"waybill/charts"
	"waybill/internal/flags"
	"waybill/internal/ui"
	"waybill/rollout"
)

func valuesCommand() *cli.Command {
	return &cli.Command{
		Name: "values", Usage: "show a component's effective values and which layer set each",
		ArgsUsage: "SRC COMPONENT",
		Description: `The last layer wins: chart defaults, the release's valuesFiles and values, the
profile, the site's valuesFiles, valuesFrom and values, valuesFrom with a
targetPath, --values, --set.

Exit codes: 0 done, 1 failed, 2 usage, 3 refused by the policy, 4 registry says
not found or denied, 5 a release file without a lock that agrees or of another
bundle than it names, 6 content corrupt, 7 (--cluster) what valuesFrom names is
absent, 10 not reachable.`,
		Flags: flags.Join(sourceFlags(), []cli.Flag{
			&cli.BoolFlag{Name: "cluster", Usage: "read valuesFrom from the cluster"},
		}, flags.ClusterOfSite(), flags.Common()),
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
	src, err := readSource(c)
	if err != nil {
		return err
	}
	defer src.Close()
	if err := src.open(c, false); err != nil {
		return err
	}
	talk := flags.Talk(c)
	runner, _, err := connectIf(c, talk)
	if err != nil {
		return err
	}
	composed, err := compose(c, runner, src.request, talk)
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

// A leaf is one value and the layer that set it, in JSON.
type leaf struct {
	Path  string `json:"path"`
	Value any    `json:"value"`
	Layer string `json:"layer"`
}

func printValues(c *cli.Context, name string, effective *charts.Effective, form flags.Form) error {
	leaves := make([]leaf, len(effective.Leaves))
	for i, l := range effective.Leaves {
		leaves[i] = leaf{Path: l.Path, Value: l.Value, Layer: l.Layer}
		if rollout.IsSecret(l.Layer) {
			leaves[i].Value = masked
		}
	}
	if form == flags.JSON {
		return ui.JSON(c.App.Writer, map[string]any{"component": name, "values": leaves})
	}
	table := ui.NewTable(c.App.Writer, "KEY", "VALUE", "SET BY")
	for _, l := range leaves {
		text, err := json.Marshal(l.Value)
		if err != nil {
			return err
		}
		table.Row(l.Path, string(text), l.Layer)
	}
	return table.Flush()
}

// masked stands in place of a value from a Secret.
const masked = "(masked)"
