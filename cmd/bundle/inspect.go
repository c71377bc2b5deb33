package main

import (
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"waybill/bundle"
	"waybill/internal/door"
	"waybill/internal/flags"
	"waybill/internal/ui"
)

func inspectCommand() *cli.Command {
	return &cli.Command{
		Name: "inspect", Usage: "show what a bundle, an image or a chart holds and who signed its root",
		ArgsUsage: "LOCATION",
		Description: `Without a policy the content is checked by digest as far as it is read, and the
output says that nothing was verified. Signatures of charts are not looked at.
Of a bundle's charts and images the sizes are those of their manifests: the root
says no more, and no more is read. How much all of it is, "verify" says, and of a
single image "inspect" with that image's digest.

Exit codes: 0 done, 2 usage, 3 refused by the policy, 4 registry says not found
or denied, 6 content corrupt, 10 registry not reachable.`,
		Flags: flags.Join(flags.Policy(), flags.Registry(), flags.Common()),
		Action: func(c *cli.Context) error {
			form, err := flags.Output(c)
			if err != nil {
				return err
			}
			opened, err := openArg(c, door.Options{AnyArtifact: true, SkipContent: true})
			if err != nil {
				return err
			}
			defer opened.Close()
			if opened.Bundle == nil {
				return printArtifact(c.Context, c.App.Writer, opened, form)
			}
			return printInspect(c.App.Writer, opened, form)
		},
	}
}

// An inspectResult is what `inspect` says in JSON.
type inspectResult struct {
	Reference string `json:"reference"`
	Digest    string `json:"digest"`
	Size      int64  `json:"size"`
	Name      string `json:"name"`
	Version   string `json:"version"`
	Packed    string `json:"packed"`
	door.Verification
	Annotations map[string]string    `json:"annotations,omitempty"`
	Components  []inspectComponent   `json:"components"`
	Images      []bundle.LockedImage `json:"images,omitempty"` // as the lock has them

	Delta   *deltaResult          `json:"delta,omitempty"`
	LeftOut []bundle.LeftOutImage `json:"leftOut,omitempty"` // images that are held without some of their layers
}

type inspectComponent struct {
	Name      string   `json:"name"`
	Stage     string   `json:"stage,omitempty"`
	Namespace string   `json:"namespace"`
	Needs     []string `json:"needs,omitempty"`
	Chart     string   `json:"chart"`
	Version   string   `json:"version"`
	Manifest  string   `json:"manifest"`
	Size      int64    `json:"size"` // of the manifest, in bytes, as the root says it
	Content   string   `json:"content"`
	Source    string   `json:"source"`
}

func printInspect(out io.Writer, o *door.Opened, form flags.Form) error {
	result := inspect(o)
	if form == flags.JSON {
		return ui.JSON(out, result)
	}
	ui.Printf(out, "%s\n%s %s, packed: %s\n", result.Reference, result.Name, result.Version, result.Packed)
	ui.Printf(out, "root: %s\n", o.Verification)
	table := ui.NewTable(out, "  COMPONENT", "CHART", "NAMESPACE", "NEEDS", "MANIFEST", "SIZE OF MANIFEST")
	for _, c := range result.Components {
		table.Row("  "+c.Name, c.Chart+" "+c.Version, c.Namespace, strings.Join(c.Needs, ", "), c.Manifest, ui.Size(c.Size))
	}
	if err := table.Flush(); err != nil || len(result.Images) == 0 {
		return err
	}
	table = ui.NewTable(out, "  IMAGE", "PLATFORMS", "COMPONENTS", "DIGEST", "SIZE OF MANIFEST")
	for _, i := range result.Images {
		table.Row("  "+i.References[0], strings.Join(i.Platforms, ","), strings.Join(i.Components, ","), i.Digest.String(), ui.Size(i.Size))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, image := range result.LeftOut {
		ui.Printf(out, "left out: %s\n", image)
	}
	return nil
}

func inspect(o *door.Opened) inspectResult {
	b := o.Bundle
	result := inspectResult{
		Reference: o.Location.String(), Digest: o.Root.Digest.String(), Size: o.Root.Size,
		Name: b.Release.Name, Version: b.Lock.Release.Version, Packed: b.Lock.Packed,
		Verification: o.Verification, Annotations: b.Index.Annotations, Components: []inspectComponent{}, Images: b.Lock.Images, LeftOut: b.LeftOut(),
		Delta: deltaResultOf(o.Source.Delta()),
	}
	for _, c := range b.Release.Components {
		locked, _ := b.Lock.Chart(c.Name)
		entry, _ := b.ChartDescriptor(c.Name) // what was opened has one for each
		result.Components = append(result.Components, inspectComponent{
			Name: c.Name, Stage: c.Stage, Namespace: c.Namespace, Needs: c.Needs,
			Chart: locked.Name, Version: locked.Version, Manifest: locked.Manifest.String(), Size: entry.Size,
			Content: locked.Content.String(), Source: locked.Source,
		})
	}
	return result
}
