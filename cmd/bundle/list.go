package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/opencontainers/go-digest"
	"github.com/urfave/cli/v2"

	"waybill/internal/door"
	"waybill/internal/flags"
	"waybill/internal/ui"
	"waybill/registry"
	"waybill/signing"
)

func listCommand() *cli.Command {
	return &cli.Command{
		Name: "list", Usage: "list the versions at a place, newest first",
		ArgsUsage: "LOCATION",
		Description: `With a tag or a name in the location that one alone is listed, if it is there.
With a policy those that it accepts are listed, and the others are named as
refused; without one nothing is opened. What has no name in an archive or a
folder is listed as @DIGEST, and held against no policy.

Exit codes: 0 done, 2 usage, 3 the policy refused some, 4 registry says not found
or denied, 6 content corrupt, 10 registry not reachable.`,
		Flags: flags.Join(flags.Policy(), flags.Registry(), flags.Common()),
		Action: func(c *cli.Context) error {
			asked, err := askedPlaceFrom(c)
			if err != nil {
				return err
			}
			return runList(c.Context, asked.client, asked.loc, asked.policy, asked.form, c.App.Writer, flags.Talk(c))
		},
	}
}

// A listResult is what `list` says in JSON.
type listResult struct {
	Reference string          `json:"reference"`
	Tags      []string        `json:"tags"`
	Digests   []digest.Digest `json:"digests,omitempty"` // of what has no name
	Refused   []refusedTag    `json:"refused,omitempty"` // by the policy
}

type refusedTag struct {
	Tag    string `json:"tag"`
	Reason string `json:"reason"`
}

func runList(ctx context.Context, client *registry.Client, loc registry.Location, policy *signing.Policy, form flags.Form, out io.Writer, talk *ui.Talk) error {
	names, err := listed(ctx, client, loc)
	if err != nil {
		return err
	}
	delta, err := client.DeltaAt(loc)
	if err != nil {
		return err
	}
	if delta != nil {
		talk.Sayf("%s: %s", loc, delta)
	}
	result := listResult{Reference: loc.String(), Tags: names}
	var refused error
	if policy != nil && !policy.Off {
		if result, refused, err = hold(ctx, client, loc, policy, names); err != nil {
			return err
		}
	}
	if loc.Name == "" {
		if result.Digests, err = client.Unnamed(ctx, loc); err != nil {
			return err
		}
	}
	return errors.Join(result.print(out, form), refused)
}

// listed are the names at a place, or the one that the location chooses.
func listed(ctx context.Context, client *registry.Client, loc registry.Location) ([]string, error) {
	names, err := client.List(ctx, loc)
	if err != nil {
		return nil, err
	}
	chosen := loc.Name
	if loc.Kind == registry.Registry {
		chosen = loc.Ref.Tag
	}
	if chosen == "" || slices.Contains(names, chosen) && len(names) == 1 {
		return names, nil
	}
	src, err := client.Open(ctx, loc) // says what is there when it is not
	if err != nil {
		return nil, err
	}
	return []string{chosen}, src.Close()
}

// hold tells the names that the policy accepts from those that it refuses; the
// first error is of the refused.
func hold(ctx context.Context, client *registry.Client, loc registry.Location, policy *signing.Policy, names []string) (result listResult, refused, err error) {
	result = listResult{Reference: loc.String(), Tags: []string{}}
	for _, name := range names {
		at := withTag(loc, name)
		opened, err := door.Open(ctx, client, at, door.Options{Policy: policy, AnyArtifact: true, SkipContent: true})
		if errors.As(err, new(*signing.RefusedError)) {
			result.Refused = append(result.Refused, refusedTag{Tag: name, Reason: err.Error()})
			refused = errors.Join(refused, fmt.Errorf("%s: %w", name, err))
			continue
		}
		if err != nil {
			return result, nil, err
		}
		if err := opened.Close(); err != nil {
			return result, nil, err
		}
		result.Tags = append(result.Tags, name)
	}
	return result, refused, nil
}

func (r listResult) print(out io.Writer, form flags.Form) error {
	if form == flags.JSON {
		return ui.JSON(out, r)
	}
	for _, name := range r.Tags {
		if _, err := ui.Println(out, name); err != nil {
			return err
		}
	}
	for _, d := range r.Digests {
		if _, err := ui.Println(out, "@"+d.String()); err != nil {
			return err
		}
	}
	return nil
}
