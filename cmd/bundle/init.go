package main

import (
	"io"

	"github.com/urfave/cli/v2"

	"waybill/internal/draft"
	"waybill/internal/files"
	"waybill/internal/flags"
	"waybill/internal/ui"
)

func initCommand() *cli.Command {
	return &cli.Command{
		Name: "init", Usage: "print a commented release file to begin with",
		Description: `Every key of the format stands in it, those that are not used behind a #.
--from takes what is known from a chart with dependencies (its folder or
Chart.yaml; each dependency becomes a component, with the values that the chart
gives it) or from what Helm lists (- is standard input).

  bundle init > release.yaml
  bundle init --from charts/umbrella > release.yaml
  helm list -A -o json | bundle init --from - > release.yaml

Exit codes: 0 done, 2 usage, a file that nothing can be made from included.`,
		Flags: flags.Join([]cli.Flag{
			&cli.StringFlag{Name: "from", Usage: "chart folder, Chart.yaml or `FILE` with a list of Helm releases; - for standard input"},
		}, flags.Common()),
		Action: func(c *cli.Context) error {
			if err := flags.NoArgs(c); err != nil {
				return err
			}
			form, err := flags.Output(c)
			if err != nil {
				return err
			}
			d, err := draftFrom(c.String("from"), c.App.Reader)
			if err != nil {
				return err
			}
			return printDraft(c.App.Writer, flags.Talk(c), d, form)
		},
	}
}

func draftFrom(path string, in io.Reader) (*draft.Draft, error) {
	switch path {
	case "":
		return draft.Example(), nil
	case "-":
		data, err := files.ReadFrom("standard input", in)
		if err != nil {
			return nil, err
		}
		return draft.FromText("standard input", data)
	}
	return draft.From(path)
}

// An initResult is what `init` says in JSON.
type initResult struct {
	ReleaseFile string   `json:"releaseFile"`
	Notes       []string `json:"notes"`
}

func printDraft(out io.Writer, talk *ui.Talk, d *draft.Draft, form flags.Form) error {
	text, err := d.Text()
	if err != nil {
		return err
	}
	if form == flags.JSON {
		return ui.JSON(out, initResult{ReleaseFile: text, Notes: append([]string{}, d.Notes...)})
	}
	for _, note := range d.Notes {
		talk.Warnf("%s", note)
	}
	_, err = io.WriteString(out, text)
	return err
}
