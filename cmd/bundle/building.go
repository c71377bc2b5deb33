package main

import (
	"context"

	"github.com/urfave/cli/v2"

	"waybill/bundle"
	"waybill/internal/releasefile"
	"waybill/internal/ui"
	"waybill/registry"
)

func strictFlag() cli.Flag {
	return &cli.BoolFlag{Name: "strict", Usage: "fail while texts that may be images are neither listed nor ignored by the release file"}
}

// A building collects what goes into a bundle.
type building struct {
	opts   buildOptions
	client *registry.Client
	talk   *ui.Talk

	file     *releasefile.File
	values   map[string][]byte
	locked   *bundle.Lock
	lockFile []byte // as it is on disk; nil: there was none
	charts   map[string]bundle.Chart
	images   releasefile.ResolvedImages
}

func (b *building) read() error {
	var err error
	if b.file, err = readSound(b.opts.file); err != nil {
		return err
	}
	b.values, err = b.file.ValuesFiles()
	return err
}

func (b *building) sources() releasefile.ResolveOptions {
	return releasefile.ResolveOptions{
		Values: b.values, Network: releasefile.Network(b.client), Outputs: localPaths(b.opts.to),
		Images: b.opts.packed == bundle.PackedImages,
	}
}

// wanted is what a lock must be of.
func (b *building) wanted() bundle.LockOptions {
	return bundle.LockOptions{Version: b.opts.version, Packed: b.opts.packed}
}

// lock finds charts and images by the lock. A lock that is there is used and
// never changed. Without one it makes one, unless --locked says that there must
// be one.
func (b *building) lock(ctx context.Context) error {
	var err error
	if b.locked, b.lockFile, err = b.file.ReadLock(); err != nil {
		return err
	}
	if b.locked == nil && !b.opts.locked {
		err = b.firstCharts(ctx)
	} else {
		err = b.lockedCharts(ctx)
	}
	if err != nil || b.opts.packed == bundle.PackedCharts {
		return err
	}
	return b.findImages(ctx)
}

func (b *building) lockedCharts(ctx context.Context) error {
	if err := b.file.RequireFresh(ctx, b.locked, b.sources(), b.wanted()); err != nil {
		return err
	}
	r := startResolving(b.file, b.sources(), b.talk, "fetching", "fetched")
	defer r.Close()
	var err error
	if b.charts, err = bundle.ResolveLocked(ctx, b.file.Release, b.locked, r, nil, r.shown(bundle.LockOptions{})); err != nil {
		return err
	}
	r.end()
	return nil
}

func (b *building) firstCharts(ctx context.Context) error {
	r := startResolving(b.file, b.sources(), b.talk, "resolving", "resolved")
	defer r.Close()
	var err error
	b.locked, b.charts, err = bundle.MakeLock(ctx, b.file.Release, r, r.shown(b.wanted()))
	if err == nil {
		r.end()
	}
	return err
}

// findImages looks for the images again and holds them against the lock, so
// that what is carried is what the charts use.
func (b *building) findImages(ctx context.Context) error {
	search := imageSearch{file: b.file, values: b.values, client: b.client, talk: b.talk}
	found, err := search.find(b.charts)
	if err != nil {
		return err
	}
	unsaid := candidates(found.Images)
	if b.opts.strict && len(unsaid) > 0 {
		return &candidatesError{unsaid}
	}
	sayCandidates(b.talk, unsaid)
	opts := releasefile.ImageOptions{}
	if b.lockFile != nil {
		if err := bundle.StaleLock(b.locked, bundle.CompareImages(found.Images, b.locked), b.wanted()); err != nil {
			return err
		}
		opts = releasefile.ImageOptions{Previous: b.locked, Locked: true}
	}
	resolved, err := search.resolve(ctx, found.Images, opts)
	if err != nil {
		return err
	}
	b.images = *resolved
	if b.lockFile == nil {
		b.locked.Images = resolved.Locked
		return nil
	}
	return bundle.StaleLock(b.locked, b.locked.CompareResolved(resolved.Locked), b.wanted())
}

// finishLock returns the lock's bytes and writes a lock that was made.
func (b *building) finishLock() ([]byte, error) {
	if b.lockFile != nil {
		return b.lockFile, nil
	}
	if _, err := b.file.WriteLock(b.locked); err != nil {
		return nil, err
	}
	b.talk.Sayf("there was no lock; wrote %s", b.file.LockPath())
	return b.locked.Encode()
}
