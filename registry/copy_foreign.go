package registry

import (
	"cmp"
	"context"
	"io"
	"net/url"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// A ForeignChoice says what becomes of a layer that may not be given on (image
// specification, "Non-Distributable Layers"), or that its manifest gives other
// addresses for.
type ForeignChoice int

// The choices. Without one a layer goes along where the source has it.
const (
	ForeignAsIs    ForeignChoice = iota // carried, left out when the source hasn't got it
	ForeignNeeded                       // carried; the source must have it
	ForeignInclude                      // carried; fetched from its addresses when the source hasn't got it
	ForeignOmit                         // left out
)

// A ForeignLayer is a layer about which somebody must decide.
type ForeignLayer struct {
	Layer ocispec.Descriptor // with its addresses
	Of    string             // what it is part of, for people; may be empty
	Roots []digest.Digest    // the roots that lead to it, sorted
	Here  bool               // the source has it
}

// isForeign says whether a layer is of a type that may not be given on, or has
// other addresses than its place.
func isForeign(desc ocispec.Descriptor) bool {
	return !isManifest(desc.MediaType) && (len(desc.URLs) > 0 || isRestricted(desc.MediaType))
}

// isRestricted knows the types of OCI and of Docker, however they are compressed.
func isRestricted(mediaType string) bool {
	return strings.HasPrefix(mediaType, "application/vnd.oci.image.layer.nondistributable.") ||
		strings.HasPrefix(mediaType, "application/vnd.docker.image.rootfs.foreign.")
}

// alsoNamed takes in what another manifest says of the same content: a layer
// that one of them has as an ordinary one is ordinary.
func (n *copyNode) alsoNamed(foreign bool, urls []string) {
	n.foreign = n.foreign && foreign
	for _, u := range urls {
		if !slices.Contains(n.urls, u) {
			n.urls = append(n.urls[:len(n.urls):len(n.urls)], u)
		}
	}
}

func (n *copyNode) mayLack() bool { return n.foreign && n.choice == ForeignAsIs }

// fetch opens content where it is, and a layer that is to be included at its
// other addresses when it is not there.
func (n *copyNode) fetch(ctx context.Context) (io.ReadCloser, error) {
	rc, err := n.src.Fetch(ctx, n.desc)
	if err == nil || n.choice != ForeignInclude || !isContentProblem(err) {
		return rc, err
	}
	gone := &ContentError{Ref: n.src.place.name(), Digest: n.desc.Digest, Reason: "incomplete: it is missing"}
	for _, address := range n.urls {
		rc, err := n.src.client.Get(ctx, address, address)
		if err == nil {
			return checked(rc, n.desc, printedAddress(address))
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		gone.Reason += "; its address: " + err.Error()
		if as[*UnreachableError](err) || as[*DeniedError](err) {
			gone.Err = err // another time, or for somebody else, it may be there
		}
	}
	return nil, gone
}

// Foreign lists the layers about which somebody must decide, by digest: those
// that may not be given on, and those with other addresses that the source
// hasn't got. It asks the source for each.
func (p *CopyPlan) Foreign(ctx context.Context) ([]ForeignLayer, error) {
	var foreign []*copyNode
	for _, n := range p.blobs {
		if n.foreign {
			foreign = append(foreign, n)
		}
	}
	if len(foreign) == 0 {
		return nil, nil
	}
	here := make([]bool, len(foreign))
	err := each(ctx, 0, len(foreign), func(ctx context.Context, i int) (err error) {
		n := foreign[i]
		if here[i], err = n.src.Has(ctx, n.desc); err != nil && !isContentProblem(err) {
			return &CopyError{Side: "source", Ref: n.src.place.name(), Digest: n.desc.Digest, Of: n.of(), Step: "looking for", Err: err}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	roots := p.rootsOf()
	var all []ForeignLayer
	for i, n := range foreign {
		if here[i] && !isRestricted(n.desc.MediaType) {
			continue
		}
		layer := n.desc
		layer.URLs = slices.Clone(n.urls)
		all = append(all, ForeignLayer{Layer: layer, Of: n.of(), Roots: roots[n], Here: here[i]})
	}
	slices.SortFunc(all, func(a, b ForeignLayer) int { return cmp.Compare(a.Layer.Digest, b.Layer.Digest) })
	return all, nil
}

// rootsOf are the roots that lead to each foreign layer.
func (p *CopyPlan) rootsOf() map[*copyNode][]digest.Digest {
	roots := map[*copyNode][]digest.Digest{}
	for _, root := range p.roots {
		seen := map[*copyNode]bool{}
		var walk func(n *copyNode)
		walk = func(n *copyNode) {
			if seen[n] {
				return
			}
			seen[n] = true
			if n.foreign {
				roots[n] = append(roots[n], root.desc.Digest)
			}
			for _, part := range n.parts {
				walk(part)
			}
		}
		walk(root)
	}
	for n, all := range roots {
		slices.Sort(all)
		roots[n] = slices.Compact(all)
	}
	return roots
}

// ChooseForeign decides about layers that [CopyPlan.Foreign] lists, before the
// plan is carried out.
func (p *CopyPlan) ChooseForeign(layers []ForeignLayer, choose func(ForeignLayer) ForeignChoice) {
	for _, layer := range layers {
		if n := p.nodes[keyOf(layer.Layer)]; n != nil {
			n.choice = choose(layer)
		}
	}
}

// Addresses are those of the layer, fit to print: what may be secret in one is
// masked.
func (f ForeignLayer) Addresses() []string {
	var all []string
	for _, address := range f.Layer.URLs {
		all = append(all, printedAddress(address))
	}
	return all
}

func printedAddress(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "…"
	}
	return printable(printAddress(u))
}
