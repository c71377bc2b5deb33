package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"waybill/internal/flags"
	"waybill/internal/ui"
	"waybill/rollout"
)

func imagesCommand() *cli.Command {
	return &cli.Command{
		Name: "images", Usage: "show which images really run, and which of them are not of the bundle",
		ArgsUsage: "NAME",
		Description: `Every container of the instance's pods, with the image by the digest that its
node names: bundle (of the bundle), replacement (the site file's images.replace),
allowed (images.allow) or foreign. Pods that have ended are left out. Pods that
no Helm release owns, such as those that operators start, are marked.

Exit codes: 0 done, 2 usage, 4 no such instance, 5 something runs that is not of
the bundle, 10 cluster not reachable.`,
		Flags:  flags.Join(flags.Cluster(), flags.Common()),
		Action: onInstance(showImages),
	}
}

// A foreignError is the answer that something runs which is not of the bundle.
type foreignError struct {
	instance string
	count    int
}

func (e *foreignError) Error() string {
	return fmt.Sprintf("containers of instance %s that run images neither of the bundle nor known to the site file: %d", e.instance, e.count)
}

func (e *foreignError) ExitCode() int { return ui.ExitDiffers }

func showImages(c *cli.Context, runner *rollout.Runner, name string, form flags.Form) error {
	found, err := runner.Images(c.Context, name)
	if err != nil {
		return err
	}
	for _, warning := range found.Warnings {
		flags.Talk(c).Warnf("%s", warning)
	}
	if err := printImages(c, found, form); err != nil {
		return err
	}
	if found.Foreign > 0 {
		return &foreignError{found.Instance, found.Foreign}
	}
	return nil
}

func printImages(c *cli.Context, found *rollout.RunningImages, form flags.Form) error {
	out := c.App.Writer
	if form == flags.JSON {
		return ui.JSON(out, found)
	}
	for _, one := range found.Replaced {
		ui.Println(out, one)
	}
	table := ui.NewTable(out, "POD", "CONTAINER", "COMPONENT", "STATE", "REFERENCE", "RUNS")
	for _, r := range found.Containers {
		runs := r.ImageID
		if runs == "" {
			runs = "nothing yet, wants " + r.Image
		}
		state := r.State
		if r.Ending {
			state += " (ending)"
		}
		table.Row(r.Namespace+"/"+r.Pod, r.Container, podOrigin(r), state, orNone(r.Reference, r.Image), runs)
	}
	return table.Flush()
}

// podOrigin is the component that a pod is of, and how.
func podOrigin(r rollout.RunningContainer) string {
	switch {
	case r.Origin == rollout.PodUnowned:
		return "(no Helm release)"
	case r.Component == "":
		return "(hook)"
	case r.Origin == rollout.PodOfOperator:
		return r.Component + " (operator)"
	}
	return r.Component
}
