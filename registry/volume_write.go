package registry

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"

	"waybill/internal/disk"
	"waybill/internal/files"
)

// ArchiveOptions say how [Client.CreateArchive] writes an archive. The zero value
// is a whole one in one file.
type ArchiveOptions struct {
	// Split is how large a volume may be; 0 writes no volumes.
	Split int64
	// Volume is the number of the only one that is written; 0 writes all.
	Volume int
	// DryRun writes no volume. Those that would be written are in the result of
	// [Destination.Volumes], without their checksums.
	DryRun bool
	// OnReplace is told of each volume of the same root that was replaced or removed,
	// and what it was; nil for nobody.
	OnReplace func(path, what string, removed bool)
	// Delta leaves out what its bases hold; nil for nothing.
	Delta *Delta
	// OnCut is told of each blob that goes into volumes in pieces, before it is read once
	// to know what each of them has to be; nil for nobody. [CopyOptions.OnBytes] is not
	// told of that.
	OnCut func(desc ocispec.Descriptor)
	// OnVolume is told of each volume once it is there; kept says that it was there
	// before. Nil for nobody.
	OnVolume func(f VolumeFile, of int, kept bool)
}

// CreateArchive opens an archive for writing, as [Client.Create] does, in volumes
// and without what a base holds when it is asked to. Volumes are written one after
// the other and each has its name once it is whole; those of the same set that are
// there already are checked and stay, and those of another set of the same root are
// replaced. Nothing else that has the name of a volume is touched.
//
// Errors: those of Create; on Commit also *SplitError, and *LocationError for a number
// that the set has not got or a file that is in the way.
func (c *Client) CreateArchive(_ context.Context, l Location, opts ArchiveOptions) (*Destination, error) {
	if l.Kind != Archive {
		return nil, &LocationError{Input: l.String(), Reason: "is no archive", Meant: l.Path + ".tar"}
	}
	if err := notVolume(l); err != nil {
		return nil, err
	}
	if opts.Split == 0 {
		d := &Destination{Location: l}
		t, err := createArchive(l, false, &d.Resume)
		if err != nil {
			return nil, err
		}
		t.delta = opts.Delta
		d.target = t
		return d, nil
	}
	d, cargo := &Destination{Location: l}, newCargo()
	t := &volumeTarget{archiveTarget: &archiveTarget{path: l.Path, cargo: cargo, staged: staged{place: placeName(l), into: cargo}, delta: opts.Delta, hooks: &d.Resume}, opts: opts, counted: map[digest.Digest]bool{}}
	if err := CheckFile(l); err != nil {
		return nil, err
	}
	if err := t.look(); err != nil {
		return nil, err
	}
	d.target = t
	return d, nil
}

// Volumes are the volumes that were written or found whole, once the destination
// is committed; nil for a destination without.
func (d *Destination) Volumes() *Volumes {
	t, ok := d.target.(*volumeTarget)
	if !ok {
		return nil
	}
	return t.result
}

// Delta is what is left out; nil for nothing.
func (d *Destination) Delta() *Delta {
	switch t := d.target.(type) {
	case *volumeTarget:
		return t.delta
	case *archiveTarget:
		return t.delta
	}
	return nil
}

// volumeTarget is an archive that is written in volumes.
type volumeTarget struct {
	*archiveTarget
	opts   ArchiveOptions
	there  []string      // paths of volumes that lie there
	held   ocispec.Index // what they hold
	result *Volumes

	counted map[digest.Digest]bool // blobs that the result counts
}

// look finds out what is there.
func (t *volumeTarget) look() error {
	paths, err := volumesAt(t.path)
	if err != nil {
		return fmt.Errorf("writing %s: %w", t.place, files.PlainError(err))
	}
	t.there = paths
	g := gatherVolumes(t.path, paths)
	defer g.close() // they were only read from
	if of := g.reference(); of != nil {
		t.held, err = readIndex(of.index, t.place)
	}
	return err
}

// Resolve finds what was tagged, and the roots that the volumes there have, so
// that nobody replaces them without knowing. What hangs on them goes with them.
func (t *volumeTarget) Resolve(ctx context.Context, reference string) (ocispec.Descriptor, error) {
	desc, err := t.archiveTarget.Resolve(ctx, reference)
	if errors.Is(err, errdef.ErrNotFound) && !isAttachment(reference) {
		if held, ok := findNamed(t.held, reference); ok {
			return held, nil
		}
	}
	return desc, err
}

func (t *volumeTarget) abort() error { return t.close() }

func (t *volumeTarget) commit(ctx context.Context) error {
	err := t.writeAll(ctx)
	if closeErr := t.close(); err == nil {
		err = closeErr
	}
	if err != nil && !isOurs(err) && ctx.Err() == nil {
		err = fmt.Errorf("writing %s: %w", t.place, files.PlainError(err))
	}
	return err
}

func (t *volumeTarget) writeAll(ctx context.Context) error {
	s, err := t.planSet(ctx)
	if err != nil {
		return err
	}
	total := len(s.plan.parts)
	if t.opts.Volume > total {
		return &LocationError{
			Input: volumePath(t.path, t.opts.Volume), Err: os.ErrNotExist,
			Reason: fmt.Sprintf("is none of the set: at %s, %d make it, numbered from 1", FormatSplit(t.opts.Split), total),
		}
	}
	if err := t.guard(s, total); err != nil {
		return err
	}
	t.result = &Volumes{Archive: t.path, Total: total, Split: t.opts.Split, Root: s.plan.base.Root, Name: s.plan.base.Name, set: s.set}
	if err := t.findRoom(s); err != nil {
		return err
	}
	if err := t.sumCut(ctx, s); err != nil {
		return err
	}
	for n := 1; n <= total; n++ {
		if t.opts.Volume != 0 && n != t.opts.Volume {
			plan, err := s.tarPlan(n)
			if err != nil {
				return err
			}
			t.result.Missing = append(t.result.Missing, n)
			t.result.Others = append(t.result.Others, VolumeFile{Number: n, Path: volumePath(t.path, n), Size: plan.tar.Size()})
			continue
		}
		if err := t.one(ctx, s, n); err != nil {
			return err
		}
	}
	if t.opts.DryRun {
		return nil
	}
	return t.removeStrays(s, total)
}

// findRoom wants room for all volumes that are to be written before the first one
// is. What is there of them already counts.
func (t *volumeTarget) findRoom(s *plannedSet) error {
	folder := filepath.Dir(t.path)
	free, known := disk.Free(folder)
	var size, need int64
	for n := range s.plan.parts {
		number := n + 1
		if t.opts.Volume != 0 && number != t.opts.Volume {
			continue
		}
		plan, err := s.tarPlan(number)
		if err != nil {
			return err
		}
		want := plan.tar.Size()
		if limit := disk.LimitAt(folder); limit.Bytes > 0 && want > limit.Bytes {
			return &FileSizeError{Place: volumePath(t.path, number), Size: want, Most: limit.Bytes, System: limit.System}
		}
		size += want
		for _, path := range []string{volumePath(t.path, number), volumePath(t.path, number) + partialSuffix} {
			if info, err := os.Stat(path); err == nil {
				want -= min(want, disk.Taken(info))
			}
		}
		need += want
	}
	if known && need > free {
		return &SpaceError{Place: t.place, Size: size, Need: need, Free: free}
	}
	t.result.Need = need
	return nil
}

// would notes a volume that one would write, or keep.
func (t *volumeTarget) would(ctx context.Context, s *plannedSet, number int) error {
	plan, err := s.tarPlan(number)
	if err != nil {
		return err
	}
	f := VolumeFile{Number: number, Path: volumePath(t.path, number), Size: plan.tar.Size()}
	kept := s.isWhole(ctx, f.Path, number)
	t.result.Files = append(t.result.Files, f)
	t.count(s.plan.parts[number-1], kept)
	if t.opts.OnVolume != nil {
		t.opts.OnVolume(f, len(s.plan.parts), kept)
	}
	return nil
}

// one sees to it that a volume is there.
func (t *volumeTarget) one(ctx context.Context, s *plannedSet, number int) error {
	if t.opts.DryRun {
		return t.would(ctx, s, number)
	}
	path := volumePath(t.path, number)
	kept := s.isWhole(ctx, path, number)
	before, wasThere := lookAt(path), exists(path)
	var sum tarSum
	if kept {
		s.skip(number)
	} else if err := t.writeVolume(ctx, s, number, path, &sum); err != nil {
		return err
	}
	f := VolumeFile{Number: number, Path: path}
	var err error
	if f.Size, f.SHA256, err = sum.wait(ctx, path); err != nil {
		return err
	}
	t.result.Files = append(t.result.Files, f)
	t.count(s.plan.parts[number-1], kept)
	if wasThere && !kept {
		t.replaced(before, s, false)
	}
	if t.opts.OnVolume != nil {
		t.opts.OnVolume(f, len(s.plan.parts), kept)
	}
	return nil
}

// count adds what is in a volume; a blob in pieces counts with its first one.
func (t *volumeTarget) count(parts []volumePart, kept bool) {
	amount := &t.result.Written
	if kept {
		amount = &t.result.Kept
	}
	for _, p := range parts {
		amount.Bytes += p.bytes()
		if !t.counted[p.Digest] {
			amount.Objects++
		}
		t.counted[p.Digest] = true
	}
}

func (t *volumeTarget) writeVolume(ctx context.Context, s *plannedSet, number int, path string, sum *tarSum) error {
	plan, err := s.tarPlan(number)
	if err != nil {
		return err
	}
	partial, err := openPartial(path, path)
	if err != nil {
		return err
	}
	return writeTar(ctx, partial, plan, tarWriting{place: path, concurrency: t.concurrency, hooks: t.hooks, sum: sum})
}
