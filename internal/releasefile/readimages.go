package releasefile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"

	"waybill/registry"
)

// What becomes of layers that may not be given on.
const (
	ForeignInclude = "include" // carried, fetched from the registry, else from the addresses in the manifest
	ForeignOmit    = "omit"    // left out
)

// Cargo is what the images of a release consist of, read at their registries
// and ready to be copied to any number of places. Close it when all of them have
// it: until then blobs are read from where they are.
type Cargo struct {
	// Plan is one plan of all images: what several of them have moves once.
	Plan *registry.CopyPlan
	// LeftOut are the layers that are not carried, by the lock's entry.
	LeftOut map[digest.Digest][]digest.Digest

	behind  []string
	origins []ImageOrigin
	sources []*registry.Source
}

// CargoOptions are the options of [ReadCargo].
type CargoOptions struct {
	Concurrency        int
	WithoutAttachments bool
	Foreign            string             // ForeignInclude or ForeignOmit; empty: an error where it matters
	OnRead             func(image string) // after each; may be called at the same time
}

// repositoriesAtOnce is how many repositories are read at the same time.
const repositoriesAtOnce = 4

// ReadCargo reads every manifest of the images at their registries, each
// repository once, and what hangs on them. No blob moves.
//
// Errors: *ForeignError, and those of [registry.PlanCopy], joined, each with the
// image. Of origins without any, the cargo is nothing.
func ReadCargo(ctx context.Context, client *registry.Client, origins []ImageOrigin, opts CargoOptions) (cargo *Cargo, err error) {
	cargo = &Cargo{origins: origins, LeftOut: map[digest.Digest][]digest.Digest{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, cargo.Close())
		}
	}()
	groups := byRepository(origins)
	readings, failed := make([]*cargoReading, len(groups)), make([]error, len(groups))
	var group errgroup.Group
	group.SetLimit(repositoriesAtOnce)
	for i, images := range groups {
		group.Go(func() error {
			readings[i], failed[i] = readRepository(ctx, client, images, opts)
			return nil
		})
	}
	_ = group.Wait() // the errors are in failed
	var plans []*registry.CopyPlan
	for _, r := range readings {
		if r == nil {
			continue
		}
		cargo.sources = append(cargo.sources, r.source)
		cargo.behind = append(cargo.behind, r.staysBehind...)
		plans = append(plans, r.plan)
	}
	if err := ctx.Err(); err != nil {
		return cargo, err
	}
	if err := errors.Join(failed...); err != nil {
		return cargo, err
	}
	cargo.Plan = registry.JoinPlans(plans...)
	return cargo, cargo.chooseForeign(ctx, opts.Foreign)
}

// Empty says that there are no images, as of no cargo at all.
func (c *Cargo) Empty() bool { return c == nil || len(c.origins) == 0 }

// Behind says, a line each, what hangs on images of which only some platforms are
// carried: it is about the whole image, which is not.
func (c *Cargo) Behind() []string {
	if c == nil {
		return nil
	}
	return c.behind
}

// Images is how many references are carried.
func (c *Cargo) Images() int { return len(c.origins) }

// Close closes what the images are read from.
func (c *Cargo) Close() error {
	var errs []error
	for _, source := range c.sources {
		errs = append(errs, source.Close())
	}
	return errors.Join(errs...)
}

// byRepository are the origins of each repository, in the order of its name.
func byRepository(origins []ImageOrigin) [][]ImageOrigin {
	by := map[string][]ImageOrigin{}
	for _, origin := range origins {
		by[origin.Repository] = append(by[origin.Repository], origin)
	}
	var groups [][]ImageOrigin
	for _, name := range slices.Sorted(maps.Keys(by)) {
		groups = append(groups, by[name])
	}
	return groups
}

// A cargoReading is what one repository holds of the images.
type cargoReading struct {
	source      *registry.Source
	plan        *registry.CopyPlan
	staysBehind []string
}

func readRepository(ctx context.Context, client *registry.Client, images []ImageOrigin, opts CargoOptions) (*cargoReading, error) {
	at, err := registry.ParseLocation("oci://" + images[0].Repository + "@" + images[0].Carry[0].Digest.String())
	if err != nil {
		return nil, err
	}
	r := &cargoReading{}
	if r.source, err = client.Open(ctx, at); err != nil {
		return nil, fmt.Errorf("image %s: %w", images[0].Reference, err)
	}
	var roots []ocispec.Descriptor
	for _, image := range images {
		for _, desc := range image.Carry {
			desc.Annotations = map[string]string{ocispec.AnnotationRefName: image.Reference} // what messages call it
			roots = append(roots, desc)
		}
	}
	r.plan, err = registry.PlanCopy(ctx, r.source, roots, registry.CopyOptions{Concurrency: opts.Concurrency, WithoutAttachments: opts.WithoutAttachments})
	if err != nil {
		return r, err
	}
	for _, image := range images {
		if err := r.lookBehind(ctx, image, opts); err != nil {
			return r, fmt.Errorf("image %s: %w", image.Reference, err)
		}
		if opts.OnRead != nil {
			opts.OnRead(image.Reference)
		}
	}
	return r, nil
}

// lookBehind finds what hangs on an image of which some platforms are carried.
func (r *cargoReading) lookBehind(ctx context.Context, image ImageOrigin, opts CargoOptions) error {
	if image.Narrowed == nil || opts.WithoutAttachments {
		return nil
	}
	found, _, err := r.source.Attached(ctx, *image.Narrowed)
	if err != nil || len(found) == 0 {
		return err
	}
	signatures := 0
	for _, a := range found {
		if a.IsSignature() {
			signatures++
		}
	}
	r.staysBehind = append(r.staysBehind, fmt.Sprintf(
		"image %s: %d attachments (%d of them signatures) of the whole image %s are not carried over: only some of its platforms are carried",
		image.Reference, len(found), signatures, image.Narrowed.Digest))
	return nil
}

// chooseForeign decides about layers that may not be given on.
func (c *Cargo) chooseForeign(ctx context.Context, choice string) error {
	layers, err := c.Plan.Foreign(ctx)
	if err != nil || len(layers) == 0 {
		return err
	}
	switch choice {
	case ForeignInclude:
		c.Plan.ChooseForeign(layers, func(registry.ForeignLayer) registry.ForeignChoice { return registry.ForeignInclude })
		return nil
	case ForeignOmit:
		c.Plan.ChooseForeign(layers, func(registry.ForeignLayer) registry.ForeignChoice { return registry.ForeignOmit })
		c.noteLeftOut(layers)
		return nil
	}
	return &ForeignError{Layers: layers, Images: c.imagesOf(layers)}
}

// noteLeftOut notes which entries of the bundle lack which layers.
func (c *Cargo) noteLeftOut(layers []registry.ForeignLayer) {
	for _, layer := range layers {
		for _, origin := range c.origins {
			for _, carried := range origin.Carry {
				if !slices.Contains(layer.Roots, carried.Digest) {
					continue
				}
				entry := carried.Digest
				if origin.Index != "" {
					entry = origin.Index
				}
				if !slices.Contains(c.LeftOut[entry], layer.Layer.Digest) {
					c.LeftOut[entry] = append(c.LeftOut[entry], layer.Layer.Digest)
				}
			}
		}
	}
}

// imagesOf are the references of the images that have a layer, for each layer.
func (c *Cargo) imagesOf(layers []registry.ForeignLayer) [][]string {
	var all [][]string
	for _, layer := range layers {
		var names []string
		for _, origin := range c.origins {
			if slices.ContainsFunc(origin.Carry, func(d ocispec.Descriptor) bool { return slices.Contains(layer.Roots, d.Digest) }) {
				names = append(names, origin.Reference)
			}
		}
		all = append(all, names)
	}
	return all
}

// A ForeignError reports layers that may not be given on, of which nobody said
// what becomes of them. Nothing was moved.
type ForeignError struct {
	Layers []registry.ForeignLayer
	Images [][]string // for each layer, the images that have it
}

func (e *ForeignError) Error() string {
	var lines []string
	for i, layer := range e.Layers {
		line := "image " + strings.Join(e.Images[i], ", ") + ": layer " + layer.Layer.Digest.String() + " may not be given on"
		if addresses := layer.Addresses(); len(addresses) > 0 {
			line += " (its own address: " + strings.Join(addresses, ", ") + ")"
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// UsageHint names both choices.
func (e *ForeignError) UsageHint() string {
	return "--foreign-layers include carries them, from the registry or their own addresses, where you may; --foreign-layers omit leaves them out, and nodes fetch them from those addresses"
}
