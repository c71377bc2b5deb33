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
