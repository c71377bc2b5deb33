package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"waybill/bundle"
	"waybill/internal/flags"
	"waybill/internal/ref"
	"waybill/internal/ui"
	"waybill/registry"
)

func expandFlag() cli.Flag {
	return &cli.StringFlag{Name: "expand", Usage: "beside the copy, give every image and chart a repository and tags of its own below `PREFIX`, HOST[/PATH]"}
}

// expandPrefix is what --expand says, "" for nothing.
func expandPrefix(c *cli.Context) (string, error) {
	if !c.IsSet("expand") {
		return "", nil
	}
	prefix, err := ref.ParsePrefix(c.String("expand"))
	if err != nil {
		return "", &flags.UsageError{Message: "--expand: " + err.Error(), Hint: "such as harbor.site/mirror; an image then is harbor.site/mirror/docker.io/library/nginx:1.27"}
	}
	return prefix, nil
}

// prefixLocation is a location on the host of a prefix, for the switches that
// count for the hosts of a command; none for no prefix.
func prefixLocation(prefix string) []registry.Location {
	r, err := ref.Parse(prefix + "/x")
	if err != nil {
		return nil
	}
	return []registry.Location{{Kind: registry.Registry, Ref: r}}
}

// An expander gives what is in a bundle names of its own.
type expander struct {
	prefix string
	named  []bundle.Expanded
	to     *registry.Expansion
}

// expandedTo is what became of --expand, in JSON.
type expandedTo struct {
	Prefix      string              `json:"prefix"`
	Copied      registry.Amount     `json:"copied"`
	Mounted     registry.Amount     `json:"mounted"`
	Skipped     registry.Amount     `json:"skipped"`
	Signatures  attachmentCount     `json:"signatures"`
	Attachments attachmentCount     `json:"attachments"`
	Anchors     int                 `json:"anchors,omitempty"`
	References  []expandedReference `json:"references"`
	Error       string              `json:"error,omitempty"`
}

// expandedReference is one name in the mirror.
type expandedReference struct {
	Reference  string   `json:"reference"`
	Digest     string   `json:"digest"`
	Role       string   `json:"role"` // image or chart
	Of         string   `json:"of"`   // the name it stands for
	Components []string `json:"components,omitempty"`
	Wanted     string   `json:"wantedTag,omitempty"` // which something else has
	State      string   `json:"state"`               // of the tag: new, there or moved
	Before     string   `json:"before,omitempty"`    // what a moved tag named
}

// expansion names everything, before anything is asked; nil without --expand.
func (c copier) expansion(destinations []destination) (*expander, error) {
	if c.expand == "" {
		return nil, nil
	}
	if c.source.Bundle == nil {
		return nil, &flags.UsageError{Message: fmt.Sprintf("--expand: %s is no bundle", c.source.Location), Hint: "what is in a bundle is expanded; copy anything else by its own name"}
	}
	x := &expander{prefix: c.expand}
	var err error
	if x.named, err = c.source.Bundle.Expand(c.expand); err != nil {
		return nil, err
	}
	for _, e := range x.named {
		for _, d := range destinations {
			if d.loc.Kind == registry.Registry && d.loc.Ref.Name() == e.Reference.Name() && d.tag == e.Reference.Tag {
				return nil, flags.Usagef("%s is the bundle's destination, and below --expand %s the name of %s", d.loc, c.expand, e.Of)
			}
		}
	}
	x.warn(c.talk)
	return x, nil
}

// place finds all that is named in what is copied.
func (x *expander) place(c copier) (err error) {
	if x == nil {
		return nil
	}
	var placements []registry.Placement
	for _, e := range x.named {
		placements = append(placements, registry.Placement{Ref: e.Reference, Root: e.Descriptor})
	}
	x.to, err = c.client.Expand(c.plan, placements)
	return err
}

// warn says which names are not what somebody may expect.
func (x *expander) warn(talk *ui.Talk) {
	for _, e := range x.named {
		if e.Wanted != "" {
			talk.Warnf("%s is found by its digest alone, %s: of the images that are %s, the tag %s names another one or none", e.Of, e.Descriptor.Digest, e.Of, e.Wanted)
		}
	}
}

// check looks at all tags and repositories, before the first upload.
func (x *expander) check(ctx context.Context, c copier) error {
	if x == nil || c.dryRun {
		return nil
	}
	step := c.talk.Progress(ui.Step{Doing: fmt.Sprintf("looking at %s below %s", ui.Count(len(x.named), "name"), x.prefix), Brief: true})
	defer step.Close()
	if err := x.to.Check(ctx, x.options(c, c.sayMove)); err != nil {
		return err
	}
	step.End()
	return nil
}

type mayMove = func(context.Context, *registry.Destination, string, ocispec.Descriptor) error

func (x *expander) options(c copier, may mayMove) registry.ExpandOptions {
	return registry.ExpandOptions{CopyOptions: c.copySettings(), MayMove: may}
}

// sayMove refuses to move the tag of a version, and says what else moves.
func (c copier) sayMove(ctx context.Context, dst *registry.Destination, tag string, root ocispec.Descriptor) error {
	old, err := c.guard(dst.Location).moves(ctx, dst, tag, root)
	if err == nil && old != "" {
		c.talk.Sayf("%s:%s moves from %s to %s", dst.Location, tag, old, root.Digest)
	}
	return err
}

// mayMove refuses the same without a word.
func (c copier) mayMove(ctx context.Context, dst *registry.Destination, tag string, root ocispec.Descriptor) error {
	_, err := c.guard(dst.Location).moves(ctx, dst, tag, root)
	return err
}

// spread brings everything to its own repository. holders are the places that
// have the bundle by now.
func (x *expander) spread(ctx context.Context, c copier, holders []destination) (*expandedTo, error) {
	at := &expandedTo{Prefix: x.prefix, References: []expandedReference{}}
	result, err := x.run(ctx, c, holders)
	at.take(x.named, result)
	if err != nil {
		at.Error = err.Error()
	}
	return at, err
}

func (x *expander) run(ctx context.Context, c copier, holders []destination) (registry.ExpandResult, error) {
	if c.dryRun {
		result, err := x.to.Compare(ctx, x.options(c, c.sayMove))
		if err == nil {
			c.talk.Sayf("would expand %s below %s: %s; %s there already", c.what(), x.prefix,
				ui.Count(len(x.named), "name"), ui.Count(result.Skipped.Objects, "object"))
		}
		return result, err
	}
	step := ui.Step{
		Doing: fmt.Sprintf("expanding %s below %s", c.what(), x.prefix), Did: fmt.Sprintf("expanded %s below %s", c.what(), x.prefix), Unit: "object",
	}
	progress := c.talk.Progress(step)
	defer progress.Close()
	opts := x.options(c, c.mayMove)
	opts.CopyOptions = showCopy(progress, opts.CopyOptions)
	opts.Mounts = &registry.Mounts{}
	for _, d := range holders {
		if d.loc.Kind == registry.Registry {
			opts.Mounts.Hold(d.loc, c.plan)
		}
	}
	result, err := x.to.Run(ctx, opts)
	if err != nil {
		return result, err
	}
	progress.Notef("%s", ui.Count(len(x.named), "name"))
	noteCopy(progress, result.CopyResult)
	progress.End()
	return result, nil
}

func (at *expandedTo) take(named []bundle.Expanded, r registry.ExpandResult) {
	at.Copied, at.Mounted, at.Skipped, at.Anchors = r.Copied, r.Mounted, r.Skipped, r.Anchors
	at.Signatures = countAttachments(r.Attachments, registry.Attachment.IsSignature)
	at.Attachments = countAttachments(r.Attachments, func(registry.Attachment) bool { return true })
	placed := map[ref.Reference]registry.Placed{}
	for _, p := range r.Placed {
		placed[p.Ref] = p
	}
	for _, e := range named {
		p := placed[e.Reference]
		at.References = append(at.References, expandedReference{
			Reference: registry.Location{Kind: registry.Registry, Ref: withoutDigest(e.Reference), Digest: e.Reference.Digest}.String(),
			Digest:    e.Descriptor.Digest.String(), Role: e.Role, Of: e.Of, Components: e.Components, Wanted: e.Wanted,
			State: p.State, Before: p.Before.String(),
		})
	}
}

func withoutDigest(r ref.Reference) ref.Reference {
	r.Digest = ""
	return r
}

// expandAll expands for a whole run, once something holds the bundle.
func (c copier) expandAll(ctx context.Context, x *expander, holders []destination, out io.Writer, result *copyResult) error {
	if x == nil || len(holders) == 0 {
		return nil
	}
	at, err := x.spread(ctx, c, holders)
	result.Expanded = at
	if err != nil || c.form != flags.Text || !c.dryRun {
		return err
	}
	var failed error
	for _, r := range at.References {
		_, err := ui.Println(out, r.Reference)
		failed = errors.Join(failed, err)
	}
	return failed
}
