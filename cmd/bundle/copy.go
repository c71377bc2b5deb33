package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"waybill/internal/door"
	"waybill/internal/flags"
	"waybill/internal/ui"
	"waybill/registry"
	"waybill/signing"
)

func copyCommand() *cli.Command {
	return &cli.Command{
		Name: "copy", Usage: "carry a bundle, image or chart to other places, with its signatures",
		ArgsUsage: "SOURCE DESTINATION…",
		Description: `From any kind of place to any: a registry, an archive (FILE.tar), a folder.
Content is copied byte for byte, with the signatures, attestations and SBOMs of
all that is copied. A destination without a tag gets the source's, else the
version. What is there already is not sent again; the tag is set last.

  bundle copy oci://vendor.example/shop:1.0.0 oci://harbor.site/mirror/shop
  bundle copy oci://vendor.example/shop:1.0.0 shop-1.0.0.tar --key vendor.pub
  bundle copy shop-1.0.0.tar oci://a.site/shop oci://b.site/shop
  bundle copy shop-1.0.0.tar oci://a.site/mirror/shop --expand a.site/mirror

--expand PREFIX gives every image and chart a repository of its own beside the
copy: PREFIX/docker.io/library/nginx:1.27. All names are found, and looked at,
before the first upload; blobs are taken over from the copy, not sent again.
"bundle export" writes what makes nodes pull from there.

With a policy the source must satisfy it before anything is written, and each
target before its tag is set. Where a registry denies the look-up of signatures,
it cannot be known whether there are some: without a policy that is said and the
copy goes on, with one it fails unless --allow-missing is given. That a bundle
is not signed itself has to be known, for --allow-unsigned too.

Exit codes: 0 done, 1 failed (a version's tag names other content, …), 2 usage,
3 refused by the policy, 4 a registry says not found or denied, 6 content
corrupt or incomplete, 9 some of several destinations failed, 10 not reachable.`,
		Flags: flags.Join([]cli.Flag{
			dryRunFlag(), overwriteFlag(), allowMissingFlag(), anchorFlag(), assumeFlag(), foreignFlag(), expandFlag(),
		}, flags.Policy(), flags.Registry(), flags.Common()),
		Action: func(c *cli.Context) error {
			opts, err := copyOptionsFrom(c)
			if err != nil {
				return err
			}
			return runCopy(c.Context, opts, c.App.Writer, flags.Talk(c))
		},
	}
}

func dryRunFlag() cli.Flag {
	return &cli.BoolFlag{Name: "dry-run", Usage: "say what would be copied and write nothing"}
}

func overwriteFlag() cli.Flag {
	return &cli.BoolFlag{Name: "overwrite", Usage: "move a version's tag that names other content"}
}

func allowMissingFlag() cli.Flag {
	return &cli.BoolFlag{Name: "allow-missing", Usage: "with a policy too, go on where it cannot be known whether something is signed"}
}

func anchorFlag() cli.Flag {
	return &cli.BoolFlag{Name: "anchor-tags", Usage: "tag everything below the root too, for registries whose garbage collection does not follow an index"}
}

type copyOptions struct {
	from         registry.Location
	to           []registry.Location
	settings     registry.Settings
	policy       *signing.Policy
	dryRun       bool
	overwrite    bool
	allowMissing bool
	anchorTags   bool
	assume       bool   // take indexes that are there for complete
	foreign      string // what becomes of layers that may not be given on; empty: nobody said
	expand       string // prefix of a mirror; empty: none
	form         flags.Form
	words        copyWords
	// create opens what is written; nil adds to what is there.
	create func(ctx context.Context, c copier, d destination) (*registry.Destination, error)
	// wrote is called once what was opened is there; nil for nothing.
	wrote func(ctx context.Context, c copier, d destination, dst *registry.Destination, at *copiedTo) error

	files   []registry.Location // of load: from, and the other volumes of it
	partial bool                // some of the volumes are enough
	bases   []base              // of a delta
	split   int64               // of save: the size of volumes; 0: none
	volume  int                 // the number of the only one that is written; 0: all
}

// door is how the source and what was written are let in.
func (o copyOptions) door() door.Options {
	return door.Options{Policy: o.policy, AnyArtifact: true, SkipContent: true}
}

// copyWords are what a verb says of what it does: each of them copies.
type copyWords struct{ do, doing, did string }

var wordsOfCopy = copyWords{"copy", "copying", "copied"}

func copyOptionsFrom(c *cli.Context) (copyOptions, error) {
	if c.Args().Len() < 2 {
		return copyOptions{}, &flags.UsageError{
			Message: fmt.Sprintf("`bundle copy` takes a source and at least one destination, got %d arguments", c.Args().Len()),
			Hint:    "bundle copy oci://HOST/PATH:TAG FILE.tar",
		}
	}
	all, err := flags.Locations(c.Args().Slice())
	if err != nil {
		return copyOptions{}, err
	}
	return carryOptions(c, wordsOfCopy, all[0], all[1:])
}

// carryOptions reads the flags that every verb has which carries something. One
// that a verb has not got is not set.
func carryOptions(c *cli.Context, words copyWords, from registry.Location, to []registry.Location) (copyOptions, error) {
	opts := copyOptions{
		from: from, to: to, words: words,
		dryRun: c.Bool("dry-run"), overwrite: c.Bool("overwrite"),
		allowMissing: c.Bool("allow-missing"), anchorTags: c.Bool("anchor-tags"), assume: c.Bool("assume-complete"),
	}
	var err error
	if opts.form, err = flags.Output(c); err != nil {
		return opts, err
	}
	if opts.foreign, err = foreignChoice(c); err != nil {
		return opts, err
	}
	if opts.expand, err = expandPrefix(c); err != nil {
		return opts, err
	}
	bases, all, err := basesFrom(c)
	if err != nil {
		return opts, err
	}
	opts.bases, all = bases, append(append(all, from), to...)
	if err := opts.checkAssume(); err != nil {
		return opts, err
	}
	if opts.settings, err = flags.RegistrySettings(c, append(prefixLocation(opts.expand), all...)...); err != nil {
		return opts, err
	}
	opts.policy, err = flags.LoadPolicy(c, c.StringSlice("key"))
	return opts, err
}

// A copier carries one opened thing to its destinations.
type copier struct {
	copyOptions
	client *registry.Client
	source *door.Opened
	plan   *registry.CopyPlan
	talk   *ui.Talk
}

func runCopy(ctx context.Context, opts copyOptions, out io.Writer, talk *ui.Talk) (err error) {
	client, err := registry.NewClient(opts.settings)
	if err != nil {
		return err
	}
	if err := opts.checkLocal(ctx, client); err != nil {
		return err
	}
	src, err := opts.openLoaded(ctx, client)
	if err != nil {
		return err
	}
	source, err := door.OpenSource(ctx, client, src, opts.door())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	return carryOpened(ctx, opts, client, source, out, talk)
}

// carryOpened copies what was let in.
func carryOpened(ctx context.Context, opts copyOptions, client *registry.Client, source *door.Opened, out io.Writer, talk *ui.Talk) error {
	talk.Sayf("%s: %s", source.Location, source.Verification)
	c := copier{copyOptions: opts, client: client, source: source, talk: talk}
	destinations, err := c.destinations()
	if err != nil {
		return err
	}
	x, err := c.expansion(destinations)
	if err != nil {
		return err
	}
	if err := c.prepareSource(ctx, destinations); err != nil {
		return err
	}
	if err := c.probeAndRead(ctx, destinations); err != nil {
		return err
	}
	if noneTakes(destinations) {
		return c.toAll(ctx, destinations, nil, out)
	}
	if err := x.place(c); err != nil {
		return err
	}
	return c.toAll(ctx, destinations, x, out)
}

// destinations names what is copied at every place, before any of them is
// touched.
func (c copier) destinations() ([]destination, error) {
	var all []destination
	seen := map[string]bool{}
	for _, loc := range c.to {
		d, err := c.named(loc)
		if err != nil {
			return nil, err
		}
		if seen[d.loc.String()] {
			return nil, flags.Usagef("%s is given twice", d.loc)
		}
		seen[d.loc.String()] = true
		all = append(all, d)
	}
	return all, nil
}

// named fills in the tag or name where the person named none.
func (c copier) named(loc registry.Location) (destination, error) {
	root := c.source.Root.Digest
	if loc.Digest != "" && loc.Digest != root {
		return destination{}, flags.Usagef("%s names the digest of something else: what is copied is %s", loc, root)
	}
	loc.Digest = ""
	if c.source.Bundle == nil {
		return namePlain(loc, c.source.Source.Name())
	}
	if from := c.source.Location; loc.Kind == registry.Registry && loc.Ref.Tag == "" && from.Kind == registry.Registry {
		loc.Ref.Tag = from.Ref.Tag
	}
	loc, tag, err := nameDestination(loc, c.source.Bundle.Lock.Release)
	return destination{loc: loc, tag: tag}, err
}

// namePlain names what is no bundle by the name it was read by. What was read by
// its digest alone goes by its digest.
func namePlain(loc registry.Location, name string) (destination, error) {
	switch {
	case loc.Kind == registry.Registry && loc.Ref.Tag == "":
		loc.Ref.Tag = name[strings.LastIndexAny(name, ":/")+1:]
		if registry.CheckTag(loc.Kind, loc.Ref.Tag) != nil {
			loc.Ref.Tag = ""
		}
		return destination{loc: loc, tag: loc.Ref.Tag}, nil
	case loc.Kind == registry.Registry:
		return destination{loc: loc, tag: loc.Ref.Tag}, nil
	case loc.Name == "":
		loc.Name = name
	}
	if loc.Name == "" {
		return destination{loc: loc}, nil
	}
	return destination{loc: loc, tag: loc.Name}, registry.CheckTag(loc.Kind, loc.Name)
}

// probeAndRead asks the target and the source at the same time. The first that
// says no ends it. Of several targets those that say no are known before the
// source is read, and nothing is read when all do.
func (c *copier) probeAndRead(ctx context.Context, destinations []destination) error {
	if len(destinations) > 1 {
		if err := c.probe(ctx, destinations); err != nil || noneTakes(destinations) {
			return err
		}
		return c.read(ctx, destinations)
	}
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error { return c.probe(ctx, destinations) })
	both.Go(func() error { return c.read(ctx, destinations) })
	return both.Wait()
}

// read finds out all that is to be copied, and refuses to go on when a policy
// wants more to be known of it than the source tells.
func (c *copier) read(ctx context.Context, destinations []destination) error {
	ahead, err := c.ahead(ctx, destinations)
	if err != nil {
		return err
	}
	progress := c.talk.Progress(ui.Step{Doing: "reading what " + c.source.Location.String() + " holds", Did: "read what " + c.source.Location.String() + " holds"})
	defer progress.Close()
	plan, err := registry.PlanCopy(ctx, c.source.Source, []ocispec.Descriptor{c.source.Root}, registry.CopyOptions{Concurrency: c.settings.Concurrency, Ahead: ahead, AssumeComplete: c.assume})
	if err != nil {
		return err
	}
	c.plan = plan
	if err := c.chooseForeign(ctx); err != nil {
		return err
	}
	size := plan.Size()
	progress.Notef("%s, %s", ui.Count(size.Objects, "object"), ui.Size(size.Bytes))
	progress.End()
	undetermined := undeterminedLines(plan.Undetermined())
	for _, line := range undetermined {
		c.talk.Warnf("%s", line)
	}
	if len(undetermined) > 0 && c.policy != nil && !c.policy.Off && !c.allowMissing {
		return &undeterminedError{count: len(undetermined), location: c.source.Location.String()}
	}
	return nil
}

// undeterminedLines says, a line for each thing, what could not be found out.
func undeterminedLines(all []registry.Undetermined) []string {
	var lines []string
	for i, u := range all {
		why := u.Reason
		if u.Status != 0 {
			why += fmt.Sprintf(" (%d)", u.Status)
		}
		what := shortLookup(u) + ": " + why
		switch {
		case i > 0 && all[i-1].Subject == u.Subject && all[i-1].Reason == u.Reason:
			lines[len(lines)-1] = strings.TrimSuffix(lines[len(lines)-1], ": "+why) + ", " + what
			continue
		case i > 0 && all[i-1].Subject == u.Subject:
			lines[len(lines)-1] += "; " + what
			continue
		}
		subject := u.Subject.String()
		if u.Of != "" {
			subject += " (" + u.Of + ")"
		}
		lines = append(lines, "could not be determined whether something hangs on "+subject+": "+what)
	}
	return lines
}

// shortLookup is a look-up without the digest that the line begins with.
func shortLookup(u registry.Undetermined) string {
	tag := strings.Replace(u.Subject.String(), ":", "-", 1)
	switch suffix, ok := strings.CutPrefix(u.Lookup, "tag "+tag); {
	case ok && suffix == "":
		return "list of referrers"
	case ok:
		return suffix
	}
	return u.Lookup
}

// An undeterminedError reports that a policy is given and it cannot be known
// whether all signatures were found.
type undeterminedError struct {
	count    int
	location string
}

func (e *undeterminedError) Error() string {
	return fmt.Sprintf("%s: it could not be determined whether something hangs on %s, so that signatures may be left behind", e.location, ui.Count(e.count, "manifest"))
}

// ExitCode is that of a registry which denies an answer.
func (e *undeterminedError) ExitCode() int { return ui.ExitNotFound }

// Hint says what to type next.
func (e *undeterminedError) Hint() string {
	return "ask for the right to look, or go on without them with --allow-missing"
}
