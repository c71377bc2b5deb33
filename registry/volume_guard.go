package registry

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// A lyingFile is a file that has the name of a volume, as far as its beginning
// tells what it is.
type lyingFile struct {
	path   string
	number int
	table  *volumeTable // nil when it cannot be read
	torn   bool         // it begins as a volume does, and its table cannot be read
}

// lookAt reads the beginning of a file: a volume has its table there, also one that
// was cut or damaged further on.
func lookAt(path string) lyingFile {
	_, number, _ := archiveOf(path)
	l := lyingFile{path: path, number: number}
	f, size, err := openRegular(path)
	if err != nil {
		return l
	}
	defer f.Close() // it was only read from
	head := make([]byte, len(layoutFile)+1)
	if n, _ := f.ReadAt(head, 0); size > 0 && !bytes.Equal(head[:n], []byte(layoutFile + "\x00")[:n]) {
		return l
	}
	var t volumeTable
	t, l.torn = readHead(f)
	if t.Format != "" {
		l.table = &t
	}
	return l
}

// readHead reads the table in the first entries of a tar, and says whether it
// could be one that lost it.
func readHead(f io.Reader) (_ volumeTable, torn bool) {
	r := tar.NewReader(f)
	for _, want := range []string{layoutFile, indexFile, volumeFile} {
		header, err := r.Next()
		switch {
		case errors.Is(err, io.EOF) && want != layoutFile:
			return volumeTable{}, false // a whole tar, without a table
		case err != nil:
			return volumeTable{}, true
		case header.Name != want:
			return volumeTable{}, false
		}
	}
	data, err := io.ReadAll(io.LimitReader(r, maxVolumeFile))
	if err != nil {
		return volumeTable{}, true
	}
	t, err := readVolume(data)
	if err != nil {
		// What a newer waybill has made is not damaged.
		return volumeTable{}, !strings.HasPrefix(t.Format, volumeFamily) || t.Format == volumeFormat
	}
	return t, false
}

// guard refuses before anything is written what would be lost or end up in a set
// that is of two: only volumes of the same root are replaced or removed, and only
// when all are written.
func (t *volumeTarget) guard(s *plannedSet, total int) error {
	var err error
	if t.there, err = volumesAt(t.path); err != nil {
		return err
	}
	for _, path := range t.there {
		if reason := t.inTheWay(lookAt(path), s, total); reason != "" {
			return &LocationError{Input: path, Reason: reason + ", and is left alone: remove it, or name another file", Err: os.ErrExist}
		}
	}
	return nil
}

// inTheWay says why a file that lies there stops the writing; empty when it does
// not.
func (t *volumeTarget) inTheWay(l lyingFile, s *plannedSet, total int) string {
	written := t.opts.Volume == 0 || l.number == t.opts.Volume
	switch {
	case l.table == nil && !written, l.torn && l.number <= total:
		return ""
	case l.torn:
		return fmt.Sprintf("is a damaged volume that %d volumes have no use for", total)
	case l.table == nil:
		return "is no volume of an archive"
	case l.table.Root != s.plan.base.Root:
		return fmt.Sprintf("is a volume of %s, not of %s", l.table.Root, s.plan.base.Root)
	case t.opts.Volume != 0 && l.table.set() != s.set:
		return fmt.Sprintf("is %s, beside which volume %d at %s would be of no use", otherSet(l.table, t.opts.Split), t.opts.Volume, FormatSplit(t.opts.Split))
	}
	return ""
}

// otherSet says how a volume of the same root differs from one at split.
func otherSet(table *volumeTable, split int64) string {
	if table.Split != split {
		return "a volume of another split, of " + FormatSplit(table.Split)
	}
	return "a volume of another set of the same root, with other content beside it"
}

// replaced tells of a file that is no longer there, once it is not.
func (t *volumeTarget) replaced(l lyingFile, s *plannedSet, removed bool) {
	if t.opts.OnReplace == nil {
		return
	}
	what := "a damaged volume"
	if l.table != nil && (removed || l.table.set() != s.set) {
		what = otherSet(l.table, t.opts.Split)
	}
	t.opts.OnReplace(l.path, what, removed)
}

// removeStrays takes away volumes of the same root that a larger set had. Each is
// looked at again: writing may have taken hours.
func (t *volumeTarget) removeStrays(s *plannedSet, total int) error {
	if t.opts.Volume != 0 {
		return nil
	}
	var all []error
	for _, path := range t.there {
		l := lookAt(path)
		if l.number <= total || l.table == nil || l.table.Root != s.plan.base.Root {
			continue
		}
		if err := os.Remove(path); err != nil {
			all = append(all, err)
			continue
		}
		t.replaced(l, s, true)
	}
	return errors.Join(all...)
}
