package main

import (
	"context"
	"io"

	"github.com/opencontainers/go-digest"
	"github.com/urfave/cli/v2"

	"waybill/internal/door"
	"waybill/internal/flags"
	"waybill/internal/ui"
	"waybill/registry"
	"waybill/signing"
)

func inventoryCommand() *cli.Command {
	return &cli.Command{
		Name: "inventory", Usage: "list the blobs that a place holds, for \"save --base\"",
		ArgsUsage: "LOCATION",
		Description: `Of a repository, everything that its tags lead to, with signatures and all else
that hangs on it; of an archive or a folder, everything that is in it. With a
tag, name or digest, only what that leads to. Each line of text is a digest and a
size; the JSON is what "bundle save --base FILE" takes, so that a release can be
saved for a place that can't be reached from where it is saved.

  bundle inventory oci://harbor.site/mirror/shop -o json > harbor.json
  bundle save oci://vendor.example/shop:1.1.0 shop-1.1.0.tar --base harbor.json

With a policy it must accept all that is listed there as a version or a name.

Exit codes: 0 done, 2 usage, 3 refused by the policy, 4 a registry says not found or denied, 6 content
corrupt, 10 not reachable.`,
		Flags: flags.Join(flags.Policy(), flags.Registry(), flags.Common()),
		Action: func(c *cli.Context) error {
			asked, err := askedPlaceFrom(c)
			if err != nil {
				return err
			}
			held, err := takeInventory(c.Context, asked.client, asked.loc, flags.Talk(c))
			if err != nil {
				return err
			}
			if err := examineHeld(c.Context, asked.client, asked.loc, held, asked.policy, flags.Talk(c)); err != nil {
				return err
			}
			return printInventory(c.App.Writer, held, asked.form)
		},
	}
}

// takeInventory lists what is at a place, with its progress shown.
func takeInventory(ctx context.Context, client *registry.Client, loc registry.Location, talk *ui.Talk) (*registry.Holdings, error) {
	progress := talk.Progress(ui.Step{Doing: "listing what " + loc.String() + " holds", Did: "listed what " + loc.String() + " holds", Unit: "manifest"})
	defer progress.Close()
	held, err := client.Inventory(ctx, loc, func() { progress.Finish("") })
	if err != nil {
		return nil, err
	}
	size := held.Size()
	progress.Notef("%s, %s", ui.Count(size.Objects, "object"), ui.Size(size.Bytes))
	progress.End()
	if delta := held.Delta; delta != nil {
		talk.Sayf("%s: %s", held.Reference, delta)
	}
	warnNotHeld(held, talk)
	return held, nil
}

// warnNotHeld says what a place should hold and does not, as far as it can be
// known.
func warnNotHeld(held *registry.Holdings, talk *ui.Talk) {
	for _, err := range held.Unreadable {
		talk.Warnf("%s; it counts as not held", err)
	}
	for _, line := range undeterminedLines(held.Undetermined) {
		talk.Warnf("%s; what may hang there counts as not held", line)
	}
}

// examineHeld holds every root against the policy. Without one, of a single root
// it is said who signed it.
func examineHeld(ctx context.Context, client *registry.Client, loc registry.Location, held *registry.Holdings, policy *signing.Policy, talk *ui.Talk) error {
	roots, distinct := []digest.Digest{}, map[digest.Digest]bool{}
	for _, root := range held.Roots {
		roots = append(roots, root.Digest)
		distinct[root.Digest] = true
	}
	if policy == nil && len(distinct) > 1 {
		talk.Sayf("%s: %s; not verified: no policy", held.Reference, ui.Count(len(distinct), "root"))
		return nil
	}
	return examineRoots(ctx, client, loc, roots, policy, talk)
}

// examineRoots holds roots at one place against the policy, each of them once, and
// says who signed it.
func examineRoots(ctx context.Context, client *registry.Client, at registry.Location, roots []digest.Digest, policy *signing.Policy, talk *ui.Talk) error {
	seen := map[digest.Digest]bool{}
	for _, root := range roots {
		if seen[root] {
			continue
		}
		seen[root] = true
		opened, err := door.Open(ctx, client, at.WithDigest(root), door.Options{Policy: policy, AnyArtifact: true, SkipContent: true})
		if err != nil {
			return err
		}
		talk.Sayf("%s: %s", opened.Location, opened.Verification)
		if err := opened.Close(); err != nil {
			return err
		}
	}
	return nil
}

func printInventory(out io.Writer, held *registry.Holdings, form flags.Form) error {
	if form == flags.JSON {
		return held.WriteJSON(out)
	}
	if _, err := ui.Printf(out, "%-71s %s\n", "DIGEST", "SIZE"); err != nil {
		return err
	}
	return held.Each(func(d digest.Digest, size int64) error {
		_, err := ui.Printf(out, "%s %d\n", d, size)
		return err
	})
}
