package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"waybill/internal/files"
	"waybill/internal/flags"
	"waybill/internal/ui"
	"waybill/registry"
)

func baseFlag(usage string) cli.Flag {
	return &cli.StringSliceFlag{Name: "base", Usage: usage}
}

// A deltaResult is what a delta leaves out, in JSON.
type deltaResult struct {
	Needs   []registry.Base `json:"needs"`
	LeftOut registry.Amount `json:"leftOut"`
}

func deltaResultOf(d *registry.Delta) *deltaResult {
	if d == nil {
		return nil
	}
	return &deltaResult{Needs: d.Bases, LeftOut: d.Size()}
}

func (d *deltaResult) needs() string { return (&registry.Delta{Bases: d.Needs}).Needs() }

// A base of a delta, as a person named it: a file with an inventory, or a place.
type base struct {
	file string
	loc  registry.Location
}

func (b base) String() string {
	if b.file != "" {
		return b.file
	}
	return b.loc.String()
}

// basesFrom reads --base. Places are returned too, for the settings of registries.
func basesFrom(c *cli.Context) ([]base, []registry.Location, error) {
	var all []base
	var places []registry.Location
	for _, word := range c.StringSlice("base") {
		if isInventory(word) {
			all = append(all, base{file: word})
			continue
		}
		loc, err := registry.ParseLocation(word)
		if err != nil {
			return nil, nil, err
		}
		all, places = append(all, base{loc: loc}), append(places, loc)
	}
	return all, places, nil
}

// isInventory says whether a word names a file that is no archive.
func isInventory(word string) bool {
	if strings.HasSuffix(word, ".json") {
		return true
	}
	info, err := os.Stat(word)
	return err == nil && info.Mode().IsRegular() && !strings.Contains(filepath.Base(word), ".tar")
}

// holdings is what a base holds.
func (c copier) holdings(ctx context.Context, b base) (*registry.Holdings, error) {
	if b.file == "" {
		progress := c.talk.Progress(ui.Step{Doing: "listing what " + b.loc.String() + " holds", Did: "listed what " + b.loc.String() + " holds", Unit: "manifest"})
		defer progress.Close()
		held, err := c.client.BaseAt(ctx, b.loc, func() { progress.Finish("") })
		if err != nil {
			return nil, err
		}
		progress.End()
		warnNotHeld(held, c.talk)
		return held, nil
	}
	f, err := os.Open(b.file)
	if err != nil {
		return nil, &files.Error{Path: b.file, Err: err}
	}
	defer f.Close() // it was only read from
	held, err := registry.ReadHoldings(f, b.file)
	if content := (*registry.ContentError)(nil); errors.As(err, &content) {
		return nil, &flags.UsageError{
			Message: fmt.Sprintf("--base %s: %s", b.file, content.Reason),
			Hint:    "`bundle inventory LOCATION -o json` writes one",
		}
	}
	return held, err
}

// leaveOut finds what the receiver has, and says what that saves.
func (c copier) leaveOut(ctx context.Context) (*registry.Delta, error) {
	if len(c.bases) == 0 {
		return nil, nil
	}
	var all []*registry.Holdings
	for _, b := range c.bases {
		held, err := c.holdings(ctx, b)
		if err != nil {
			return nil, err
		}
		all = append(all, held)
	}
	delta, err := c.plan.Delta(ctx, all...)
	if err != nil {
		return nil, err
	}
	whole := c.plan.Size()
	if delta == nil {
		c.talk.Sayf("nothing of %s is at the base: all of it, %s, is saved, and it is no delta", c.what(), ui.Size(whole.Bytes))
		return nil, nil
	}
	left := delta.Size()
	percent := 100 * float64(left.Bytes) / float64(max(whole.Bytes, 1))
	c.talk.Sayf("%s of %s (%.0f %%) are at the base and left out: %s to carry", ui.Size(left.Bytes), ui.Size(whole.Bytes), percent, ui.Size(whole.Bytes-left.Bytes))
	c.talk.Sayf("%s: %s", c.to[0], delta)
	return delta, nil
}

// addBases lets a source that is a delta read what it leaves out at other places.
func (c copier) addBases(ctx context.Context) error {
	if len(c.bases) == 0 {
		return nil
	}
	if c.source.Source.Delta() == nil {
		return flags.Usagef("%s is no delta, so it needs no --base", c.from)
	}
	for _, b := range c.bases {
		if b.file != "" || b.loc.Kind == registry.Registry {
			return flags.Usagef("--base %s: a delta is completed from an archive or a folder; what is in the destination's repository already needs no --base", b)
		}
		src, err := c.client.Open(ctx, b.loc)
		if err != nil {
			return err
		}
		if err := c.source.Source.AddBase(src); err != nil {
			return err
		}
	}
	return nil
}

// prepareSource gets volumes and deltas ready before a destination is touched:
// volumes are checked, a delta is completed from the bases that were named, and
// what it leaves out then is looked for.
func (c copier) prepareSource(ctx context.Context, destinations []destination) error {
	if !c.partial {
		if err := c.checkVolumes(ctx); err != nil {
			return err
		}
	}
	delta := c.source.Source.Delta()
	if delta != nil {
		c.talk.Sayf("%s: %s", c.source.Location, delta)
	}
	if c.create == nil {
		if err := c.addBases(ctx); err != nil {
			return err
		}
	}
	if delta == nil || len(destinations) != 1 || destinations[0].loc.Kind != registry.Registry {
		return nil // of several places each is looked at when its turn comes
	}
	dst, err := c.client.Create(ctx, destinations[0].loc)
	if err != nil {
		return err
	}
	return c.source.Source.CheckBase(ctx, dst, c.settings.Concurrency)
}
