package registry

import "github.com/opencontainers/go-digest"

// Volumes says which volumes a source was opened from; nil when it was none.
func (s *Source) Volumes() *Volumes {
	set, err := s.volumeSet()
	if err != nil {
		return nil
	}
	return set.describe()
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
