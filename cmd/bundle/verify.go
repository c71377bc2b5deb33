package main

import (
	"io"
	"slices"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/urfave/cli/v2"

	"waybill/bundle"
	"waybill/internal/door"
	"waybill/internal/flags"
	"waybill/internal/ui"
)

func verifyCommand() *cli.Command {
	return &cli.Command{
		Name: "verify", Usage: "check signatures and content of a bundle, image or chart",
		ArgsUsage: "LOCATION",
		Description: `In a registry every manifest is read and hashed, and every blob must be there
with its size; --read-data reads and hashes the blobs too. Archives and layouts
are always read whole. A signature covers everything that is reached from what it
is on: of an image with several platforms, verify the index.

  bundle verify oci://registry.example/shop:1.0.0 --key cosign.pub
  bundle verify shop-1.0.0.tar --key cosign.pub

Exit codes: 0 accepted, 2 usage, 3 refused, no policy included, 4 registry says
not found or denied, 6 content corrupt or incomplete, 10 registry not reachable.`,
		Flags: flags.Join([]cli.Flag{
			&cli.BoolFlag{Name: "read-data", Usage: "read and hash every blob"},
		}, flags.Policy(), flags.Registry(), flags.Common()),
		Action: func(c *cli.Context) error {
			form, err := flags.Output(c)
			if err != nil {
				return err
			}
			opened, err := openArg(c, door.Options{NeedPolicy: true, AnyArtifact: true, ReadData: c.Bool("read-data"), AllowDelta: true})
			if err != nil {
				return err
			}
			defer opened.Close()
			return printVerified(c.App.Writer, opened, form)
		},
	}
}

// openArg opens the bundle at the only argument of a command, as the policy
// flags and files want it.
func openArg(c *cli.Context, opts door.Options) (*door.Opened, error) {
	arg, err := flags.OneArg(c, "location")
	if err != nil {
		return nil, err
	}
	return flags.Open(c, arg, opts)
}

// A verifyResult is what `verify` says in JSON.
type verifyResult struct {
	Reference string `json:"reference"`
	Digest    string `json:"digest"`
	door.Verification
	Manifests int   `json:"manifests"`
	Blobs     int   `json:"blobs"`
	Bytes     int64 `json:"bytes"`
	ReadData  bool  `json:"readData"`

	Delta   *deltaResult          `json:"delta,omitempty"`   // what the base has, and was not looked at
	LeftOut []bundle.LeftOutImage `json:"leftOut,omitempty"` // what is not there by the choice of who built it
}

// printVerdict says what was verified of the root, naming each signer once.
func printVerdict(out io.Writer, v door.Verification) {
	if v.State != "verified" || len(v.Checks) == 0 {
		ui.Printf(out, "root: %s\n", v)
		return
	}
	ui.Printf(out, "root: verified (policy: %s)\n", v.Policy)
	for _, check := range v.Checks {
		ui.Printf(out, "  %s\n", check)
	}
}

func printVerified(out io.Writer, o *door.Opened, form flags.Form) error {
	result := verifyResult{
		Reference: o.Location.String(), Digest: o.Root.Digest.String(), Verification: o.Verification,
		Manifests: o.Content.Manifests, Blobs: o.Content.Blobs, Bytes: o.Content.Bytes, ReadData: o.ReadData,
		LeftOut: absent(o), Delta: deltaResultOf(o.Source.Delta()),
	}
	if form == flags.JSON {
		return ui.JSON(out, result)
	}
	ui.Println(out, result.Reference)
	printVerdict(out, o.Verification)
	depth := "present with their sizes, not read"
	if result.ReadData {
		depth = "read and hashed"
	}
	ui.Printf(out, "content: %d manifests read and hashed, %d blobs (%d bytes) %s\n", result.Manifests, result.Blobs, result.Bytes, depth)
	for _, image := range result.LeftOut {
		ui.Printf(out, "left out: %s\n", image)
	}
	if d := o.Source.Delta(); d != nil {
		ui.Printf(out, "%s; %d blobs that the base has were not looked at\n", d, o.Content.Elsewhere)
	}
	_, err := ui.Println(out, "all of it is reachable by digest from the root; signatures below the root were not looked at")
	return err
}

// absent are the images that are held without some of their layers, as far as
// those are not there.
func absent(o *door.Opened) []bundle.LeftOutImage {
	if o.Bundle == nil {
		return absentOfImage(o)
	}
	there := func(layer digest.Digest) bool {
		return !slices.ContainsFunc(o.Content.LeftOut, func(desc ocispec.Descriptor) bool { return desc.Digest == layer })
	}
	var images []bundle.LeftOutImage
	for _, image := range o.Bundle.LeftOut() {
		if image.Layers = slices.DeleteFunc(image.Layers, there); len(image.Layers) > 0 {
			images = append(images, image)
		}
	}
	return images
}

// absentOfImage is absent for what is no bundle.
func absentOfImage(o *door.Opened) []bundle.LeftOutImage {
	if len(o.Content.LeftOut) == 0 {
		return nil
	}
	image := bundle.LeftOutImage{Digest: o.Root.Digest, Reference: o.Location.String()}
	for _, layer := range o.Content.LeftOut {
		image.Layers = append(image.Layers, layer.Digest)
	}
	return []bundle.LeftOutImage{image}
}
