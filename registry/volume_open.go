package registry

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// OpenVolumes opens the volumes of one archive, wherever each of them lies and
// in whatever order they are named. Those that are named have to be there. With
// partial, others may be missing: [Source.Volumes] says which.
//
// Errors: *VolumesError, *LocationError, and those of [Client.Open].
func (c *Client) OpenVolumes(ctx context.Context, files []Location, partial bool) (*Source, error) {
	if len(files) == 0 {
		return nil, &LocationError{Reason: "is empty"}
	}
	first := files[0]
	var paths []string
	for _, l := range files {
		if l.Kind != Archive || l.Name != "" && l.Name != first.Name || l.Digest != "" && l.Digest != first.Digest {
			return nil, &LocationError{Input: l.String(), Reason: "is no volume of the archive that " + first.String() + " is of"}
		}
		if !exists(l.Path) {
			return nil, &LocationError{Input: l.String(), Reason: "does not exist"}
		}
		paths = append(paths, l.Path)
	}
	archive, _, _ := archiveOf(first.Path)
	p, err := gatherVolumes(archive, paths).open(first, partial)
	if err != nil {
		return nil, err
	}
	return sourceOver(ctx, p, first, partial)
}

// sourceOver chooses what of an opened place is meant. Of some volumes of many the
// manifest may be in one of the others.
func sourceOver(ctx context.Context, p *localPlace, l Location, partial bool) (*Source, error) {
	if set, ok := p.blobs.(*volumeSet); ok && partial && len(set.missing()) > 0 {
		for _, desc := range p.index.Manifests {
			if desc.Digest == set.table.Root {
				root := entry(desc, "")
				return &Source{Location: l.WithDigest(root.Digest), Root: root, place: p}, nil
			}
		}
	}
	root, err := chooseRoot(ctx, p, l)
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return &Source{Location: l.WithDigest(root.Digest), Root: root, place: p}, nil
}

// volumesAt finds the volumes of an archive that lie in its folder.
func volumesAt(archive string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Dir(archive))
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, e := range entries {
		path := filepath.Join(filepath.Dir(archive), e.Name())
		if of, _, ok := archiveOf(path); ok && of == filepath.Clean(archive) {
			paths = append(paths, path)
		}
	}
	slices.SortFunc(paths, func(a, b string) int {
		_, x, _ := archiveOf(a)
		_, y, _ := archiveOf(b)
		return x - y
	})
	return paths, nil
}

// openArchiveOrVolumes opens a path that is an archive, or one volume of it, or
// the path that volumes have without their numbers.
func openArchiveOrVolumes(l Location) (*localPlace, error) {
	archive, number, numbered := archiveOf(l.Path)
	paths := []string{l.Path}
	if numbered || !exists(l.Path) {
		found, err := volumesAt(archive)
		if err != nil || len(found) == 0 {
			return openArchive(l) // which says what is wrong
		}
		paths = found
	} else if p, err := openArchive(l); err != nil || !p.isVolume() {
		return p, err
	} else if err := p.Close(); err != nil {
		return nil, err
	}
	g := gatherVolumes(archive, paths)
	if len(g.volumes) == 0 {
		return openArchive(l)
	}
	if total := g.reference().table.Total; number > total && !exists(l.Path) {
		reason := fmt.Sprintf("does not exist: %s is in %d volumes", archive, total)
		return nil, errors.Join(&LocationError{Input: l.String(), Reason: reason}, g.close())
	}
	return g.open(l, false)
}

func (p *localPlace) isVolume() bool {
	blobs, ok := p.blobs.(*archiveBlobs)
	if !ok {
		return false
	}
	_, err := blobs.entry(volumeFile)
	return err == nil
}

// open makes a place of what was gathered. All that is wrong with it is in the
// error.
func (g *volumeGathering) open(l Location, partial bool) (*localPlace, error) {
	set, err := g.join(partial)
	if err != nil {
		return nil, errors.Join(err, g.close())
	}
	place := placeName(l)
	index, err := readIndex(g.reference().index, place)
	if err == nil && !lists(index, set.table.Root) {
		err = &ContentError{Ref: place, Reason: indexFile + " does not list the root " + set.table.Root.String()}
	}
	if err != nil {
		return nil, errors.Join(err, g.close())
	}
	p := &localPlace{place: place, index: index, blobs: set}
	if err := p.readDelta(); err != nil {
		return nil, errors.Join(err, g.close())
	}
	return p, nil
}

func lists(index ocispec.Index, root digest.Digest) bool {
	return slices.ContainsFunc(index.Manifests, func(desc ocispec.Descriptor) bool { return desc.Digest == root })
}

// volumeGathering is the finding of a set among files.
type volumeGathering struct {
	archive  string
	volumes  []*volume
	problems []VolumeProblem
	whose    *volume // of the set that most are of
}

func gatherVolumes(archive string, paths []string) *volumeGathering {
	g := &volumeGathering{archive: archive}
	known := map[string]bool{}
	for _, path := range paths {
		g.read(path, known)
	}
	return g
}

func (g *volumeGathering) close() error {
	var all []error
	for _, v := range g.volumes {
		all = append(all, v.blobs.Close())
	}
	return errors.Join(all...)
}

// read opens one file; what is wrong with it is noted. What all volumes of a set
// say alike is kept of the first.
func (g *volumeGathering) read(path string, known map[string]bool) {
	v, err := openVolume(path)
	if err == nil {
		if known[v.set] {
			v.table.Elsewhere, v.index = nil, nil
		}
		known[v.set] = true
		g.volumes = append(g.volumes, v)
		return
	}
	_, number, _ := archiveOf(path)
	reason := "damaged: " + err.Error()
	var content *ContentError
	switch {
	case errors.As(err, &content):
		reason = "damaged: " + content.Reason
	case !exists(path):
		reason = "is missing"
	}
	g.problems = append(g.problems, VolumeProblem{Number: number, Path: path, Reason: reason, Err: err, table: tableOf(path)})
}

// reference is the first volume of the set that most of the files are of.
func (g *volumeGathering) reference() *volume {
	if g.whose != nil {
		return g.whose
	}
	count := map[string]int{}
	for _, v := range g.volumes {
		count[v.set]++
	}
	for _, v := range g.volumes {
		if g.whose == nil || count[v.set] > count[g.whose.set] {
			g.whose = v
		}
	}
	return g.whose
}

// join makes a set of what was read, or says all that is in the way.
func (g *volumeGathering) join(partial bool) (*volumeSet, error) {
	of := g.reference()
	if of == nil {
		return nil, g.unread()
	}
	set := newVolumeSet(g.archive, of)
	of.table.Elsewhere = nil // the set has it
	for _, v := range g.volumes {
		switch before := set.volumes[min(v.table.Number, set.table.Total)-1]; {
		case v.set != of.set:
			g.problems = append(g.problems, VolumeProblem{Path: v.path, Reason: foreign(v, of), stray: true})
		case before != nil:
			g.problems = append(g.problems, VolumeProblem{Number: v.table.Number, Path: v.path, Reason: "is there twice, as " + before.path + " too", stray: true})
		default:
			set.volumes[v.table.Number-1] = v
		}
	}
	for i, p := range g.problems {
		if p.table != nil && p.table.set() == of.set {
			g.problems[i].Number = p.table.Number
		}
	}
	g.strange(set.table.Total)
	if !partial {
		g.lacking(set)
	}
	if len(g.problems) > 0 {
		slices.SortStableFunc(g.problems, func(a, b VolumeProblem) int { return a.Number - b.Number })
		return nil, set.problem(g.problems...)
	}
	return set, nil
}

// strange marks what has a number that the set has not got: making it again would
// be no help.
func (g *volumeGathering) strange(total int) {
	for i, p := range g.problems {
		if p.Number > total {
			p.stray, p.Number = true, 0
			if exists(p.Path) {
				p.Reason = "does not belong here, remove it (" + p.Reason + ")"
			}
			p.Reason += fmt.Sprintf("; there are %d volumes in the set", total)
			g.problems[i] = p
		}
	}
}

// lacking notes the volumes that none of the files is, unless one that could not
// be read has its name.
func (g *volumeGathering) lacking(set *volumeSet) {
	named := map[int]bool{}
	var unknown []int // of the problems, those of files that may be any volume
	for i, p := range g.problems {
		named[p.Number] = true
		if p.Number == 0 && !p.stray {
			unknown = append(unknown, i)
		}
	}
	missing := slices.DeleteFunc(set.missing(), func(n int) bool { return named[n] })
	if len(missing) == 1 && len(unknown) == 1 {
		g.problems[unknown[0]].Number = missing[0]
		return
	}
	reason := "is missing"
	if len(unknown) > 0 {
		reason = "is missing, unless it is a damaged one without a number"
	}
	for _, n := range missing {
		g.problems = append(g.problems, VolumeProblem{Number: n, Path: volumePath(g.archive, n), Reason: reason})
	}
}

// unread is the error when none of the files can be read: the first that says
// which set it is of speaks for it.
func (g *volumeGathering) unread() *VolumesError {
	e := &VolumesError{Archive: g.archive, Volumes: g.problems}
	set := ""
	for i, p := range g.problems {
		if p.table == nil {
			continue
		}
		if set == "" {
			set, e.Total, e.Split, e.Root = p.table.set(), p.table.Total, p.table.Split, p.table.Root
		}
		if p.table.set() == set {
			e.Volumes[i].Number = p.table.Number
		}
	}
	return e
}

// tableOf reads the table of a volume that is damaged or cut short behind it; nil
// when there is none. Nothing but messages may come of it.
func tableOf(path string) *volumeTable {
	f, _, err := openRegular(path)
	if err != nil {
		return nil
	}
	defer f.Close() // it was only read from
	r := tar.NewReader(f)
	for range volumeHead {
		header, err := r.Next()
		if err != nil || header.Size > maxVolumeFile {
			return nil
		}
		if header.Name != volumeFile {
			continue
		}
		data, err := io.ReadAll(io.LimitReader(r, maxVolumeFile))
		if err != nil {
			return nil
		}
		if t, err := readVolume(data); err == nil {
			return &t
		}
		return nil
	}
	return nil
}

// volumeHead is how many files a volume begins with that are small: its table is
// the last of them.
const volumeHead = 3

// foreign says whose a volume is.
func foreign(v, of *volume) string {
	switch {
	case v.table.Root != of.table.Root:
		return fmt.Sprintf("is a volume of something else: its root is %s, that of %s is %s", v.table.Root, of.path, of.table.Root)
	case v.table.Split != of.table.Split:
		return fmt.Sprintf("is a volume of another split: of %s, and %s of %s", FormatSplit(v.table.Split), of.path, FormatSplit(of.table.Split))
	}
	return fmt.Sprintf("is a volume of another set than %s: of the same root, with other content beside it", of.path)
}

// openVolume opens one volume and holds it against its own table.
func openVolume(path string) (_ *volume, err error) {
	l := Location{Kind: Archive, Path: path}
	p, err := openArchive(l)
	if err != nil {
		return nil, err
	}
	v := &volume{path: path, blobs: p.blobs.(*archiveBlobs)}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	bad := func(err error) error { return &ContentError{Ref: path, Reason: err.Error(), Err: err} }
	if !p.isVolume() {
		return nil, bad(errors.New("is no volume of an archive: it has no " + volumeFile))
	}
	data, err := v.blobs.small(volumeFile, maxVolumeFile, path)
	if err != nil {
		return nil, err
	}
	if v.table, err = readVolume(data); err != nil {
		return nil, bad(err)
	}
	if err := v.checkContents(); err != nil {
		return nil, bad(err)
	}
	if v.index, err = v.blobs.small(indexFile, maxIndexFile, path); err != nil {
		return nil, err
	}
	if got := v.table.Index.Algorithm().FromBytes(v.index); got != v.table.Index {
		return nil, bad(fmt.Errorf("%s is not what its digest says", indexFile))
	}
	v.set = v.table.set()
	return v, nil
}

// Volumes says which volumes a source was opened from; nil when it was none.
func (s *Source) Volumes() *Volumes {
	set, err := s.volumeSet()
	if err != nil {
		return nil
	}
	return set.describe()
}

// IsVolume says whether a path is that of a volume by its name, or a file that is
// one under another, or was before it was damaged.
func IsVolume(path string) bool {
	if _, _, ok := archiveOf(path); ok {
		return true
	}
	p, err := openArchive(Location{Kind: Archive, Path: path})
	if err != nil {
		return tableOf(path) != nil
	}
	defer p.Close() // it was only read from
	return p.isVolume()
}

// IsWhole says whether a file is an archive, and neither a volume of one nor cut
// off.
func IsWhole(path string) bool {
	p, err := openArchive(Location{Kind: Archive, Path: path})
	if err != nil {
		return false
	}
	defer p.Close() // it was only read from
	return !p.isVolume()
}

// VolumesOf are the paths of the volumes of an archive that lie in its folder,
// when the path is the one they have without numbers; else the path alone.
func VolumesOf(path string) []string {
	if archive, _, numbered := archiveOf(path); !numbered && !exists(path) {
		if found, err := volumesAt(archive); err == nil && len(found) > 0 {
			return found
		}
	}
	return []string{path}
}

// Volumes describes a set of volumes.
type Volumes struct {
	Archive string // the path without number
	Total   int
	Split   int64
	Root    digest.Digest
	Name    string // that the root has in it; may be empty
	Files   []VolumeFile
	Missing []int        // numbers of those that are not at hand
	Others  []VolumeFile // those, with the sizes they have when they are written; of a set that was written only

	// Of a set that was written only: what went into volumes, and what is in those that
	// were there before. A blob in pieces is one object, and each of its pieces bytes.
	Written, Kept Amount
	Need          int64 // bytes that the disk needed room for, before it was written

	set string // as volumeTable.set; may be empty
}

// A VolumeFile is a volume that is at hand.
type VolumeFile struct {
	Number int
	Path   string
	Size   int64
	SHA256 string // of the file, 64 digits; empty for one that was only opened
}

func (s *volumeSet) describe() *Volumes {
	d := &Volumes{Archive: s.archive, Total: s.table.Total, Split: s.table.Split, Root: s.table.Root, Name: s.table.Name, Missing: s.missing()}
	for i, v := range s.volumes {
		if v == nil {
			continue
		}
		f := VolumeFile{Number: i + 1, Path: v.path}
		if info, err := v.blobs.file.Stat(); err == nil {
			f.Size = info.Size()
		}
		d.Files = append(d.Files, f)
	}
	return d
}
