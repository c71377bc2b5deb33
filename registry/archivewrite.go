package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"waybill/internal/files"
)

// archiveTarget collects what an archive will hold and writes it on commit: to
// FILE.partial, which it holds locked from the beginning, so that two writers of
// one archive don't meet in it. What is pushed is kept in memory; what copies
// bring is promised, and goes from its source to its place in the file.
type archiveTarget struct {
	staged
	*cargo
	path    string
	partial *partialFile
	hooks   *ResumeHooks
	delta   *Delta // nil: nothing is left out
	sum     tarSum // of the file
	left    []string
}

// createArchive begins an archive. With keep, what is in the file now will be in
// the new one too.
func createArchive(l Location, keep bool, hooks *ResumeHooks) (*archiveTarget, error) {
	c := newCargo()
	t := &archiveTarget{path: l.Path, cargo: c, hooks: hooks, staged: staged{place: placeName(l), into: c}}
	if err := CheckFile(l); err != nil {
		return nil, err
	}
	if keep && exists(l.Path) {
		before, err := openArchive(l)
		if err != nil {
			return nil, notOurs(err, l)
		}
		t.before, t.delta = before, before.delta
	}
	partial, err := openPartial(t.path, t.place)
	if err != nil {
		return nil, errors.Join(explainWrite(err, t.place), t.close())
	}
	t.partial = partial
	return t, nil
}

// CheckFile refuses, as a *LocationError, an archive's place that no file can be
// written to: a folder, or one in a folder that isn't there.
func CheckFile(l Location) error {
	switch folder := filepath.Dir(l.Path); {
	case isDirectory(l.Path):
		return &LocationError{Input: l.String(), Reason: "is a folder, not an archive"}
	case !exists(folder):
		return &LocationError{Input: l.String(), Reason: fmt.Sprintf("is in a folder that does not exist, %q", folder), Err: fs.ErrNotExist}
	}
	return nil
}

// Fetch gives what was pushed or promised, or what is in the file now.
func (t *archiveTarget) Fetch(ctx context.Context, desc ocispec.Descriptor) (io.ReadCloser, error) {
	_, isHeld, p, isPromised := t.find(desc.Digest)
	if isPromised && !isHeld {
		return t.fetch(ctx, p)
	}
	return t.staged.Fetch(ctx, desc)
}

// commit writes the tar beside its place and renames it, so that the file is
// there whole or not at all.
func (t *archiveTarget) commit(ctx context.Context) error {
	var plan *tarPlan
	var err error
	if len(t.index().Manifests) == 0 {
		err = &ContentError{Ref: t.place, Reason: "nothing was tagged, so there is nothing to write"}
	} else {
		plan, err = t.plan(ctx)
	}
	if err != nil {
		return errors.Join(explainWrite(err, t.place), t.close(), t.partial.leave())
	}
	if t.before == nil {
		there, err := isWritten(ctx, t.path, plan, t.concurrency)
		if there {
			plan.skip()
			t.hooks.there()
			t.left = t.partial.left()
		}
		if err != nil || there {
			return errors.Join(explainWrite(err, t.place), t.close(), t.partial.leave())
		}
	}
	how := tarWriting{place: t.place, concurrency: t.concurrency, hooks: t.hooks, sum: &t.sum}
	return errors.Join(writeTar(ctx, t.partial, plan, how), t.close())
}

// left names the files that an interrupted write has left.
func (p *partialFile) left() []string {
	if p.before == 0 {
		return nil
	}
	names := []string{p.name()}
	if exists(p.journalName()) {
		names = append(names, p.journalName())
	}
	return names
}

// Left names files that an interrupted write has left beside an archive, which was
// there already and needed nothing of them: they are still there. It is known once
// the destination is committed.
func (d *Destination) Left() []string {
	if t, ok := d.target.(*archiveTarget); ok {
		return slices.Clone(t.left)
	}
	return nil
}

// abort gives up. What an interrupted write has left, and what is in the file
// now, stay.
func (t *archiveTarget) abort() error {
	return errors.Join(t.close(), t.partial.leave())
}

// close lets go of all that is read from.
func (t *archiveTarget) close() error {
	err := t.Close()
	if t.before != nil {
		err = errors.Join(err, t.before.Close())
	}
	return err
}

// explainWrite says of an error of the system what was being done.
func explainWrite(err error, place string) error {
	if err == nil || isOurs(err) || errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("writing %s: %w", place, files.PlainError(err))
}

// findSupply is where a blob comes from: what was pushed or promised, else what
// is in the file now.
func (t *archiveTarget) findSupply(desc ocispec.Descriptor) (supply, bool) {
	if o, ok := t.supply(desc); ok || t.before == nil {
		return o, ok
	}
	if there, err := t.before.has(context.Background(), desc); err != nil || !there {
		return supply{}, false
	}
	return plainSupply(t.place, func(ctx context.Context, offset int64) (io.ReadCloser, error) {
		return t.before.openAt(ctx, desc, offset)
	}), true
}
