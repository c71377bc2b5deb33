package registry

import (
	"errors"
	"fmt"
	"slices"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

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
