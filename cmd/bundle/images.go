package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	"github.com/urfave/cli/v2"

	"waybill/bundle"
	"waybill/charts"
	"waybill/internal/door"
	"waybill/internal/flags"
	"waybill/internal/releasefile"
	"waybill/internal/ui"
)

func imagesCommand() *cli.Command {
	return &cli.Command{
		Name: "images", Usage: "list every container image of a release file or of a bundle, with the reasons",
		ArgsUsage: "[LOCATION]",
		Description: `Every chart is rendered for each profile and Kubernetes version of the release.
An image is certain (a container, a list in the chart or the release file),
recognised (named by convention in arguments, environment or fields) or a
candidate (any other text that reads as a reference). Candidates are not carried
until the release file lists them.

  bundle images
  bundle images --no-resolve --strict
  bundle images oci://registry.example/shop:1.0.0 -o json

Exit codes: 0 done, 1 (--strict) there are candidates, or a chart does not
render, 2 usage, 3 refused by the policy, 4 a registry or repository says not
found or denied, 6 content corrupt, 10 not reachable.`,
		Flags: flags.Join([]cli.Flag{
			fileFlag(),
			&cli.BoolFlag{Name: "no-resolve", Usage: "ask no registry for images; digests, sizes and platforms are left out"},
			&cli.BoolFlag{Name: "probe", Usage: "ask the registries which candidates they have"},
			strictFlag(),
		}, flags.Policy(), flags.Registry(), flags.Common()),
		Action: runImages,
	}
}

// An imageLine is one image in JSON.
type imageLine struct {
	Reference  string            `json:"reference"` // as written
	Normalized string            `json:"normalized"`
	Digest     digest.Digest     `json:"digest,omitempty"`
	Size       int64             `json:"size,omitempty"` // of its manifest or index, in bytes
	Platforms  []string          `json:"platforms,omitempty"`
	Location   string            `json:"location,omitempty"` // repository@digest, when read from a bundle
	Components []string          `json:"components"`
	Confidence string            `json:"confidence"`
	Probed     string            `json:"probed,omitempty"` // "found" or "absent", with --probe
	Found      []bundle.ImageUse `json:"found"`
}

func runImages(c *cli.Context) error {
	form, err := flags.Output(c)
	if err != nil {
		return err
	}
	lines, failed := collectImages(c)
	if lines == nil {
		return failed
	}
	if err := errors.Join(failed, printImages(c, lines, form)); err != nil {
		return err
	}
	var unsaid []string
	for _, line := range lines {
		if line.Confidence == bundle.ImageCandidate {
			unsaid = append(unsaid, line.Normalized)
		}
	}
	if c.Bool("strict") && len(unsaid) > 0 {
		return &candidatesError{unsaid}
	}
	return nil
}

// collectImages returns lines beside an error too, without digests for what no
// registry told: what was found is of use by itself.
func collectImages(c *cli.Context) ([]imageLine, error) {
	if c.Args().Len() > 1 {
		return nil, flags.Usagef("`bundle images` takes one location, got %q too", c.Args().Get(1))
	}
	if c.Args().Present() {
		if c.IsSet("file") {
			return nil, flags.Usagef("`bundle images` lists a release file (-f) or the bundle at a location, not both")
		}
		return bundleImages(c)
	}
	return fileImages(c)
}

// fileImages lists the images of a release file, its lock used where there is
// one.
func fileImages(c *cli.Context) ([]imageLine, error) {
	ctx, talk := c.Context, flags.Talk(c)
	file, err := readSound(c.String("file"))
	if err != nil {
		return nil, err
	}
	values, err := file.ValuesFiles()
	if err != nil {
		return nil, err
	}
	lock, _, err := file.ReadLock()
	if err != nil {
		return nil, err
	}
	client, err := sourceClient(c, file)
	if err != nil {
		return nil, err
	}
	r := startResolving(file, releasefile.ResolveOptions{Values: values, Network: releasefile.Network(client)}, talk, "fetching", "fetched")
	defer r.Close()
	version := "0.0.0" // of no matter to images
	_, packed, err := bundle.MakeLock(ctx, file.Release, r, bundle.LockOptions{Previous: lock, Version: version})
	if err != nil {
		return nil, err
	}
	r.end()
	search := imageSearch{file: file, values: values, client: client, talk: talk}
	found, err := search.find(packed)
	if err != nil {
		return nil, err
	}
	lines := linesOf(found.Images)
	if c.Bool("probe") {
		probe(ctx, search, found.Images, lines)
	}
	if c.Bool("no-resolve") {
		return lines, nil
	}
	resolved, err := search.resolve(ctx, found.Images, releasefile.ImageOptions{Previous: lock})
	if resolved == nil {
		return lines, err
	}
	return fillLocked(lines, resolved.Locked, ""), err
}

// bundleImages lists the images of a bundle.
func bundleImages(c *cli.Context) ([]imageLine, error) {
	opened, err := flags.Open(c, c.Args().First(), door.Options{SkipContent: true})
	if err != nil {
		return nil, err
	}
	defer opened.Close() // only read from
	b := opened.Bundle
	packed := map[string]bundle.Chart{}
	for _, name := range b.Release.ComponentNames() {
		archive, err := b.Chart(c.Context, name)
		if err != nil {
			return nil, err
		}
		chart, err := charts.Open(archive)
		if err != nil {
			return nil, fmt.Errorf("component %s: %w", name, err)
		}
		packed[name] = chart
	}
	file := &releasefile.File{Path: opened.Location.String(), Data: b.ReleaseFile, Release: b.Release}
	search := imageSearch{file: file, values: b.ValuesFiles, talk: flags.Talk(c)}
	found, err := search.find(packed)
	if err != nil {
		return nil, err
	}
	lines := linesOf(found.Images)
	return fillLocked(lines, b.Lock.Images, repositoryOf(opened.Location)), nil
}

func linesOf(images []bundle.ListedImage) []imageLine {
	lines := []imageLine{}
	for _, image := range images {
		line := imageLine{
			Reference: image.Spellings[0], Normalized: image.Reference, Components: image.Components,
			Confidence: image.Confidence, Found: image.Uses,
		}
		if line.Components == nil {
			line.Components = []string{}
		}
		lines = append(lines, line)
	}
	return lines
}

// fillLocked adds what a lock knows. Of a flat bundle a lock has a manifest for
// each platform of an image, and each of them is a line.
func fillLocked(lines []imageLine, locked []bundle.LockedImage, repository string) []imageLine {
	filled := []imageLine{}
	for _, line := range lines {
		before := len(filled)
		for _, image := range locked {
			if !slices.Contains(image.References, line.Normalized) {
				continue
			}
			line.Digest, line.Size, line.Platforms = image.Digest, image.Size, image.Platforms
			if repository != "" {
				line.Location = repository + "@" + image.Digest.String()
			}
			filled = append(filled, line)
		}
		if len(filled) == before {
			filled = append(filled, line)
		}
	}
	return filled
}

func probe(ctx context.Context, search imageSearch, images []bundle.ListedImage, lines []imageLine) {
	step := search.talk.Progress(ui.Step{Doing: "asking for candidates", Did: "asked for candidates", Brief: true})
	defer step.Close()
	there := releasefile.Probe(ctx, search.client, images)
	for i := range lines {
		switch found, asked := there[lines[i].Normalized]; {
		case asked && found:
			lines[i].Probed = "found"
		case asked:
			lines[i].Probed = "absent"
		}
	}
	step.End()
}

func printImages(c *cli.Context, lines []imageLine, form flags.Form) error {
	if form == flags.JSON {
		return ui.JSON(c.App.Writer, map[string]any{"images": lines})
	}
	table := ui.NewTable(c.App.Writer, "IMAGE", "CONFIDENCE", "COMPONENTS", "DIGEST", "FOUND AT")
	for _, line := range lines {
		confidence := line.Confidence
		if line.Probed != "" {
			confidence += " (" + line.Probed + ")"
		}
		use := line.Found[0]
		where := strings.TrimSpace(use.Object + " " + use.Path)
		if n := len(line.Found) - 1; n > 0 {
			where += fmt.Sprintf(" and %d more", n)
		}
		table.Row(line.Normalized, confidence, strings.Join(line.Components, ","), line.Digest.String(), where)
	}
	return table.Flush()
}
