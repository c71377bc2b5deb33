package main

import (
	"context"
	"encoding/json"
	"io"
	"strconv"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"

	"waybill/bundle"
	"waybill/internal/door"
	"waybill/internal/flags"
	"waybill/internal/ui"
	"waybill/registry"
)

// An inspectedArtifact is what `inspect` says in JSON of what is no bundle.
type inspectedArtifact struct {
	Reference string `json:"reference"`
	Digest    string `json:"digest"`
	Size      int64  `json:"size"`
	MediaType string `json:"mediaType"`
	door.Verification

	Delta        *deltaResult         `json:"delta,omitempty"`
	ArtifactType string               `json:"artifactType,omitempty"`
	Annotations  map[string]string    `json:"annotations,omitempty"`
	Manifests    []ocispec.Descriptor `json:"manifests,omitempty"` // of an index
	Config       *ocispec.Descriptor  `json:"config,omitempty"`
	Layers       []ocispec.Descriptor `json:"layers,omitempty"`

	// Content is the manifest with its config and layers, each once; of an index no
	// more is known than of a bundle's images.
	Content *registry.Amount `json:"content,omitempty"`
}

// printArtifact prints an image, an index, a chart or any other artifact: what
// its manifest says, and nothing that would have to be read besides.
func printArtifact(ctx context.Context, out io.Writer, o *door.Opened, form flags.Form) error {
	data, err := content.FetchAll(ctx, o.Source, o.Root)
	if err != nil {
		return err
	}
	result := inspectedArtifact{
		Reference: o.Location.String(), Digest: o.Root.Digest.String(), Size: o.Root.Size, MediaType: o.Root.MediaType, Verification: o.Verification,
		Delta: deltaResultOf(o.Source.Delta()),
	}
	var manifest struct {
		ArtifactType string
		Annotations  map[string]string
		Manifests    []ocispec.Descriptor
		Config       *ocispec.Descriptor
		Layers       []ocispec.Descriptor
	}
	if err := json.Unmarshal(data, &manifest); err != nil {
		return &bundle.ContentError{Digest: o.Root.Digest, Reason: "is no manifest: " + err.Error()}
	}
	result.ArtifactType, result.Annotations = manifest.ArtifactType, manifest.Annotations
	result.Manifests, result.Config, result.Layers = manifest.Manifests, manifest.Config, manifest.Layers
	if result.Config != nil {
		result.Content = amountOf(append([]ocispec.Descriptor{o.Root, *result.Config}, result.Layers...))
	}
	if form == flags.JSON {
		return ui.JSON(out, result)
	}
	return result.print(out)
}

// amountOf counts each digest once.
func amountOf(all []ocispec.Descriptor) *registry.Amount {
	var amount registry.Amount
	seen := map[digest.Digest]bool{}
	for _, desc := range all {
		if !seen[desc.Digest] {
			amount.Objects, amount.Bytes = amount.Objects+1, amount.Bytes+desc.Size
		}
		seen[desc.Digest] = true
	}
	return &amount
}

func (a inspectedArtifact) print(out io.Writer) error {
	ui.Printf(out, "%s\n%s, %s\n", a.Reference, printed(a.MediaType), ui.Size(a.Size))
	if a.Content != nil {
		ui.Printf(out, "with config and layers: %s, %s\n", ui.Count(a.Content.Objects, "object"), ui.Size(a.Content.Bytes))
	}
	if a.ArtifactType != "" {
		ui.Printf(out, "artifact type: %s\n", printed(a.ArtifactType))
	}
	ui.Printf(out, "root: %s\n", a.Verification)
	table := ui.NewTable(out, "  PART", "TYPE", "SIZE", "DIGEST")
	row := func(part string, desc ocispec.Descriptor) {
		table.Row("  "+part, printed(desc.MediaType), ui.Size(desc.Size), printed(desc.Digest.String()))
	}
	for _, desc := range a.Manifests {
		row(platformWords(desc), desc)
	}
	if a.Config != nil {
		row("config", *a.Config)
	}
	for _, desc := range a.Layers {
		row("layer", desc)
	}
	return table.Flush()
}

// platformWords is what an entry of an index is for.
func platformWords(desc ocispec.Descriptor) string {
	if desc.Platform == nil {
		return "manifest"
	}
	words := desc.Platform.OS + "/" + desc.Platform.Architecture
	if desc.Platform.Variant != "" {
		words += "/" + desc.Platform.Variant
	}
	return printed(words)
}

// printed is a stranger's text: quoted when a terminal could be misled by it.
func printed(text string) string {
	if quoted := strconv.Quote(text); quoted != `"`+text+`"` {
		return quoted
	}
	return text
}
