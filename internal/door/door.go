// Package door is how both programs open a bundle: a location, the settings of
// the registries and a policy become a bundle whose bytes and signatures have
// been checked, in one order for every command.
//
// It joins the rooms bundle, registry and signing and knows nothing of
// clusters or charts. Try [Open] first.
package door

import (
	"context"
	"errors"
	"fmt"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"

	"waybill/bundle"
	"waybill/registry"
	"waybill/signing"
)

// Options says how far [Open] goes.
type Options struct {
	// Policy says who may have signed. Nil is no policy.
	Policy *signing.Policy
	// NeedPolicy refuses to open without a policy: for commands that trust
	// what they open. Otherwise content is checked by digest only and the
	// result says that nothing was verified.
	NeedPolicy bool
	// ReadData reads and hashes every blob of a registry too; archives and
	// layouts are always read whole.
	ReadData bool
	// ReadUpTo reads and hashes the blobs of a registry up to that many bytes;
	// of larger ones it is asked whether they are there.
	ReadUpTo int64
	// AnyArtifact lets in what is no bundle too: a plain image, index or chart.
	AnyArtifact bool
	// SkipContent stops after root and signatures: for commands that look at
	// the list of contents and not at the content.
	SkipContent bool
	// AllowDelta lets in a delta for what is in it, although its content is looked
	// at; otherwise one without its base is a [*registry.DeltaError] then.
	AllowDelta bool

	// OnCheck, OnRead and OnChecked follow the check of the content, as the hooks
	// of [bundle.CheckOptions]; nil for none.
	OnCheck   func(ocispec.Descriptor)
	OnRead    func(n int64)
	OnChecked func(ocispec.Descriptor)
}

// Opened is a bundle that was let in. Close it.
type Opened struct {
	Bundle       *bundle.Bundle // nil for what is no bundle, see AnyArtifact
	Source       *registry.Source
	Client       *registry.Client // what it was opened with
	Root         ocispec.Descriptor
	Location     registry.Location // with the root's digest
	Verification Verification
	Content      bundle.CheckResult // the zero value when SkipContent
	ReadData     bool               // every blob was read and hashed
}

// Close closes the source.
func (o *Opened) Close() error { return o.Source.Close() }

// Open opens the bundle at loc. The first failure in this order decides: the
// place cannot be opened (errors of the room registry), root or signature
// bytes are not what their digests say ([*bundle.ContentError],
// [*signing.ContentError]), the policy does not accept the signatures
// ([*signing.RefusedError], [*NoPolicyError]), the rest is absent or not true
// ([*bundle.ContentError], [*bundle.NewerError]).
func Open(ctx context.Context, client *registry.Client, loc registry.Location, opts Options) (*Opened, error) {
	src, err := client.Open(ctx, loc)
	if err != nil {
		return nil, err
	}
	return OpenSource(ctx, client, src, opts)
}

// OpenSource is [Open] for a source that is open already, which is closed when it
// is not let in.
func OpenSource(ctx context.Context, client *registry.Client, src *registry.Source, opts Options) (*Opened, error) {
	o := &Opened{Source: src, Client: client, Root: src.Root, Location: src.Location}
	if err := o.open(ctx, opts); err != nil {
		src.Close()
		return nil, err
	}
	return o, nil
}

func (o *Opened) open(ctx context.Context, opts Options) (err error) {
	if _, err := content.FetchAll(ctx, o.Source, o.Root); err != nil {
		return fmt.Errorf("reading the root of %s: %w", o.Location, err)
	}
	o.Verification, err = verify(ctx, o.Source, o.Location.String(), o.Root, opts)
	if damaged := (*signing.ContentError)(nil); errors.As(err, &damaged) {
		return fmt.Errorf("verifying %s: %w", o.Location, err)
	}
	if err != nil {
		return err
	}
	o.Bundle, err = bundle.Open(ctx, o.Source, o.Root)
	if opts.AnyArtifact && errors.Is(err, bundle.ErrNotBundle) {
		o.Bundle, err = nil, nil
	}
	if err != nil {
		return fmt.Errorf("opening %s: %w", o.Location, err)
	}
	if opts.SkipContent {
		return nil
	}
	return o.check(ctx, opts)
}

// check looks at the content. Volumes are read one by one, so that the one that is
// damaged is known.
func (o *Opened) check(ctx context.Context, opts Options) (err error) {
	delta := o.Source.Delta()
	if delta != nil && !opts.AllowDelta {
		return &registry.DeltaError{Ref: o.Location.String(), Needs: delta.Needs()}
	}
	o.ReadData = opts.ReadData || o.Source.Local()
	check := bundle.CheckOptions{ReadData: o.ReadData, ReadUpTo: opts.ReadUpTo, Exists: o.Source.Has, Elsewhere: delta.Leaves, OnCheck: opts.OnCheck, OnRead: opts.OnRead, OnChecked: opts.OnChecked}
	if o.Source.Volumes() != nil {
		check.ReadData = false
		onBytes := func(n int) {
			if opts.OnRead != nil {
				opts.OnRead(int64(n))
			}
		}
		if err := o.Source.CheckVolumes(ctx, onBytes); err != nil {
			return err
		}
	}
	if o.Bundle == nil {
		o.Content, err = bundle.CheckArtifact(ctx, o.Source, o.Root, check)
	} else {
		o.Content, err = o.Bundle.Check(ctx, check)
	}
	if err != nil {
		return fmt.Errorf("checking %s: %w", o.Location, err)
	}
	return nil
}

// An Examined is what [Examine] found.
type Examined struct {
	Bundle       *bundle.Bundle // nil for what is no bundle, see AnyArtifact
	Verification Verification
}

// Examine holds what was written to a place against the same rules as [Open],
// in the same order, before a tag leads there: root, signatures, and the
// documents of a bundle. The content below is not looked at: who wrote it has
// read it back. at is the place, for messages. The errors are those of [Open].
func Examine(ctx context.Context, place signing.Source, root ocispec.Descriptor, at string, opts Options) (Examined, error) {
	var e Examined
	_, err := content.FetchAll(ctx, place, root)
	if err != nil {
		return e, fmt.Errorf("reading the root: %w", err)
	}
	if e.Verification, err = verify(ctx, place, at, root, opts); err != nil {
		return e, err
	}
	e.Bundle, err = bundle.Open(ctx, place, root)
	if opts.AnyArtifact && errors.Is(err, bundle.ErrNotBundle) {
		return Examined{Verification: e.Verification}, nil
	}
	return e, err
}
