package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"waybill/internal/beside"
	"waybill/internal/disk"
)

// The names of what is not finished, behind the file's own.
const (
	partialSuffix = ".partial"
	journalSuffix = ".journal"
)

// unfinishedMark stands in the place of the mark at a tar's end until all of it
// is written: whoever renames the file by hand has no archive with holes in it.
const unfinishedMark = "waybill: this archive is not finished\n"

// A partialFile is a planned tar on its way: FILE.partial, with
// FILE.partial.journal beside it. It is locked while it is open, so that two
// writers of one file don't meet in it.
type partialFile struct {
	path    string // of the file it will be
	file    *os.File
	before  int64 // how long it was when it was opened: an interrupted write left it
	journal *journal
}

// openPartial takes the partial file of path, and makes it when there is none. A
// *BusyError when another writer has it.
func openPartial(path, place string) (*partialFile, error) {
	file, err := openLocked(path + partialSuffix)
	if errors.Is(err, beside.ErrLocked) {
		return nil, &BusyError{Path: place}
	}
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &partialFile{path: path, file: file, before: info.Size()}, nil
}

func (p *partialFile) name() string        { return p.path + partialSuffix }
func (p *partialFile) journalName() string { return p.name() + journalSuffix }

// begin gets ready to write a plan: what an interrupted write of the same plan
// has done is in claims, and why says what stands in the way of going on with
// what is there. There is room for all of it then, or an error.
func (p *partialFile) begin(ctx context.Context, plan *tarPlan, place string) (claims map[string]claim, why string, err error) {
	if p.before == 0 { // then a journal is of a file that has its name by now
		if err := removeFile(p.journalName()); err != nil {
			return nil, "", err
		}
	}
	info, err := p.file.Stat()
	if err != nil {
		return nil, "", err
	}
	p.journal, claims, why, err = openJournal(p.journalName(), plan.digest(), disk.StateOf(info))
	if err == nil && why != "" {
		err = p.file.Truncate(0)
	}
	if err == nil {
		err = p.makeRoom(ctx, plan.tar.Size(), place)
	}
	if err == nil {
		err = p.mark(plan)
	}
	return claims, why, err
}

// mark keeps the file from being taken for a whole one. Where it has not got its
// size yet, its end is missing as long as it is not whole.
func (p *partialFile) mark(plan *tarPlan) error {
	info, err := p.file.Stat()
	if err != nil || info.Size() < plan.tar.Size() {
		return err
	}
	_, err = p.file.WriteAt([]byte(unfinishedMark), plan.tar.Trailer())
	return err
}

// makeRoom finds out whether the file can become that large before the first
// byte of it is written.
func (p *partialFile) makeRoom(ctx context.Context, size int64, place string) error {
	folder := filepath.Dir(p.path)
	if limit := disk.LimitAt(folder); limit.Bytes > 0 && size > limit.Bytes {
		return &FileSizeError{Place: place, Size: size, Most: limit.Bytes, System: limit.System}
	}
	info, err := p.file.Stat()
	if err != nil {
		return err
	}
	need := size - min(size, disk.Taken(info))
	if err := haveRoom(place, folder, size, need); err != nil {
		return err
	}
	err = disk.Reserve(ctx, p.file, size)
	switch {
	case errors.Is(err, disk.ErrFull):
		free, _ := disk.Free(folder)
		return &SpaceError{Place: place, Size: size, Need: need, Free: free}
	case errors.Is(err, disk.ErrTooLarge):
		most, err := disk.Largest(p.file, size)
		return errors.Join(&FileSizeError{Place: place, Size: size, Most: most, System: "its file system"}, err)
	}
	return err
}

// haveRoom says, as a *SpaceError, when there is less than need left of a size.
func haveRoom(place, folder string, size, need int64) error {
	free, known := disk.Free(folder)
	if known && need > free {
		return &SpaceError{Place: place, Size: size, Need: need, Free: free}
	}
	return nil
}

// finish makes the file whole and gives it its name.
func (p *partialFile) finish(plan *tarPlan) error {
	if _, err := p.file.WriteAt(make([]byte, plan.tar.Size()-plan.tar.Trailer()), plan.tar.Trailer()); err != nil {
		return err
	}
	if err := p.file.Truncate(plan.tar.Size()); err != nil {
		return err
	}
	if err := p.file.Sync(); err != nil {
		return err
	}
	if err := errors.Join(p.journal.close(), p.rename()); err != nil {
		return err
	}
	syncFolder(filepath.Dir(p.path))
	return removeFile(p.journalName())
}

// rename keeps the lock until the file has its name. Windows doesn't rename
// what is open.
func (p *partialFile) rename() error {
	if runtime.GOOS == "windows" {
		if err := p.file.Close(); err != nil {
			return err
		}
		return os.Rename(p.name(), p.path)
	}
	if err := os.Rename(p.name(), p.path); err != nil {
		return err
	}
	return p.file.Close()
}

// syncFolder makes the new name last. Not every system can, and none says that
// the file is not there.
func syncFolder(folder string) {
	if f, err := os.Open(folder); err == nil {
		_ = f.Sync()
		_ = f.Close()
	}
}

// keep leaves what is written, for another time.
func (p *partialFile) keep() error {
	if info, err := p.file.Stat(); err == nil && p.journal != nil {
		p.journal.kept(disk.StateOf(info).Changed)
	}
	err := p.file.Close()
	if p.journal != nil {
		err = errors.Join(p.journal.close(), err)
	}
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

// drop removes what is written, the journal first: without the file it is of no
// use. The file is removed while its lock is held, and once more after it where a
// file that is open can't be removed.
func (p *partialFile) drop() error {
	var err error
	if p.journal != nil {
		err = ignoreClosed(p.journal.close())
	}
	err = errors.Join(err, removeFile(p.journalName())) // one that a killed writer left beside a finished file, too
	first := removeFile(p.name())
	closed := ignoreClosed(p.file.Close())
	if first != nil && exists(p.name()) {
		first = removeFile(p.name())
	}
	return errors.Join(err, first, closed)
}

func ignoreClosed(err error) error {
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

// leave ends before anything was written: what was there stays.
func (p *partialFile) leave() error {
	if p.before > 0 {
		return p.keep()
	}
	return p.drop()
}

// ErrUnfinished is the cause of a [ContentError] about an archive that has not
// been written to its end yet: the FILE.partial of a save.
var ErrUnfinished = errors.New("not saved to its end")

// isUnfinished says whether a file of some size is a partial one under another
// name.
func isUnfinished(r io.ReaderAt, size int64) bool {
	mark := make([]byte, len(unfinishedMark))
	if size < 2*tarBlock {
		return false
	}
	_, err := r.ReadAt(mark, size-2*tarBlock)
	return err == nil && string(mark) == unfinishedMark
}

// A SpaceError reports that there is no room for an archive on the disk it is
// written to. Nothing was written.
type SpaceError struct {
	Place string
	Size  int64 // of the archive
	Need  int64 // what has to be free for it: less than Size when some is there already
	Free  int64
}

// Short is how much more has to be free.
func (e *SpaceError) Short() int64 { return max(e.Need-e.Free, 0) }

func (e *SpaceError) Error() string {
	s := fmt.Sprintf("%s: no room on its disk: it will have %d bytes, %d more than are there now, and %d are free", e.Place, e.Size, e.Need, e.Free)
	if short := e.Short(); short > 0 {
		s += fmt.Sprintf(": %d (%s) are missing", short, sizeText(short))
	}
	return s
}

// A FileSizeError reports an archive larger than files can be on the disk it is
// written to. Nothing was written.
type FileSizeError struct {
	Place  string
	Size   int64 // of the archive
	Most   int64 // of a file there
	System string
}

func (e *FileSizeError) Error() string {
	return fmt.Sprintf("%s: it will have %d bytes (%s), and a file on %s has %d (%s) at most", e.Place, e.Size, sizeText(e.Size), e.System, e.Most, sizeText(e.Most))
}

// Split is the size of volumes that fit, as --split takes it.
func (e *FileSizeError) Split() string { return fmt.Sprintf("%dM", e.Most>>20) }

// An UnfinishedError reports an archive that could not be written to its end.
// What is there is in Partial and Journal, and writing the same again goes on
// from it. The file that was to be written is as it was before.
type UnfinishedError struct {
	Place            string
	Partial, Journal string // files
	Done, Of         Amount // of blobs
	Err              error  // the first cause
}

func (e *UnfinishedError) Error() string { return e.Err.Error() + "; " + e.Kept() }

// Kept says what is there and where.
func (e *UnfinishedError) Kept() string {
	return fmt.Sprintf("%s of %s are kept in %s and %s", sizeText(e.Done.Bytes), sizeText(e.Of.Bytes), e.Partial, e.Journal)
}

func (e *UnfinishedError) Unwrap() error { return e.Err }

// A Resumption is what an interrupted write has left of an archive.
type Resumption struct {
	Partial string // the file
	Kept    Amount // blobs of which all or some is there, and how many bytes of them
	Safe    int64  // of these bytes: known to be on the disk, and not read again
	Why     string // why nothing of it is of use; empty when something is
}

// ResumeHooks follow the writing of an archive that was begun before. They may
// run at the same time; nil for none.
type ResumeHooks struct {
	OnResume  func(Resumption)         // once, before anything is written
	OnAltered func(ocispec.Descriptor) // a blob that was kept is not what was written, and is fetched again
	OnThere   func()                   // the file is what would be written already, to the byte, and stays
}

func (h *ResumeHooks) there() {
	if h != nil && h.OnThere != nil {
		h.OnThere()
	}
}

func (h *ResumeHooks) resumed(r Resumption) {
	if h != nil && h.OnResume != nil {
		h.OnResume(r)
	}
}

func (h *ResumeHooks) altered(desc ocispec.Descriptor) {
	if h != nil && h.OnAltered != nil {
		h.OnAltered(desc)
	}
}

// sizeText is a number of bytes for people.
func sizeText(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	value, exponent := float64(n)/unit, 0
	for value >= unit && exponent < 4 {
		value, exponent = value/unit, exponent+1
	}
	return fmt.Sprintf("%.1f %ciB", value, "KMGTP"[exponent])
}
