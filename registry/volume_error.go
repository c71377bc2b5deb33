package registry

import (
	"fmt"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
)

// A VolumesError reports volumes of an archive that are missing, damaged, there
// twice, or of another set.
type VolumesError struct {
	Archive string // the path without number
	Volumes []VolumeProblem
	Total   int           // of the set; 0 when nothing is known of it
	Split   int64         // the size the set was made with; 0 when not known
	Root    digest.Digest // of the set; may be empty
}

// A VolumeProblem is what is wrong with one volume.
type VolumeProblem struct {
	Number int    // 0 when it is not known
	Path   string // where it is, or would be
	Reason string
	Err    error // the cause, may be nil

	table *volumeTable // of one that is damaged behind it; may be nil

	stray bool // it does not belong here, so making it again is no help
}

func (e *VolumesError) Error() string {
	var all []string
	for _, v := range e.Volumes {
		all = append(all, e.one(v))
	}
	return strings.Join(all, "\n")
}

func (e *VolumesError) one(v VolumeProblem) string {
	switch {
	case v.Number == 0:
		return fmt.Sprintf("%s: %s", v.Path, v.Reason)
	case e.Total == 0:
		return fmt.Sprintf("volume %d (%s): %s", v.Number, v.Path, v.Reason)
	}
	return fmt.Sprintf("volume %d of %d (%s): %s", v.Number, e.Total, v.Path, v.Reason)
}

// Unwrap gives the causes.
func (e *VolumesError) Unwrap() []error {
	var all []error
	for _, v := range e.Volumes {
		if v.Err != nil {
			all = append(all, v.Err)
		}
	}
	return all
}

// Again is what to type, with SOURCE for where the archive came from, to have
// the volumes made again that can be.
func (e *VolumesError) Again() []string {
	if e.Split == 0 {
		return nil
	}
	var lines []string
	for _, v := range e.Volumes {
		if !v.stray && v.Number > 0 {
			archive := e.Archive
			if at, _, ok := archiveOf(v.Path); ok {
				archive = at
			}
			if !strings.HasSuffix(archive, ".tar") {
				archive = "FILE.tar" // volumes under other names
			}
			lines = append(lines, fmt.Sprintf("bundle save SOURCE@%s %s --split %s --volume %d", e.Root, archive, FormatSplit(e.Split), v.Number))
		}
	}
	return slices.Compact(lines)
}
