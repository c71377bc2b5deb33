package registry

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
)

// volumeSet is the volumes of one archive, as a store of blobs. What lies in a
// volume that is not at hand is not there.
type volumeSet struct {
	archive string // the path without number, for messages
	table   volumeTable
	volumes []*volume // by number less one; nil for those that are not at hand
	where   map[digest.Digest]whereabouts
	cut     map[digest.Digest][]volumePart
}

// whereabouts of a blob: the volume it is whole in, 0 for one in pieces.
type whereabouts struct {
	size   int64
	volume int32
}

// A volume is one file of a set.
type volume struct {
	path  string
	blobs *archiveBlobs
	table volumeTable
	set   string
	index []byte
}

func newVolumeSet(archive string, of *volume) *volumeSet {
	s := &volumeSet{
		archive: archive, table: of.table, volumes: make([]*volume, of.table.Total),
		where: map[digest.Digest]whereabouts{}, cut: map[digest.Digest][]volumePart{},
	}
	for _, p := range of.table.all() {
		if p.Piece == 0 {
			s.where[p.Digest] = whereabouts{size: p.Size, volume: int32(p.Volume)}
			continue
		}
		s.where[p.Digest] = whereabouts{size: p.Size}
		s.cut[p.Digest] = append(s.cut[p.Digest], p)
	}
	for _, pieces := range s.cut {
		_ = checkPieces(pieces) // sorts them; they were checked
	}
	s.table.Contents, s.table.Elsewhere = nil, nil
	return s
}

// missing are the numbers of the volumes that are not at hand.
func (s *volumeSet) missing() []int {
	var numbers []int
	for i, v := range s.volumes {
		if v == nil {
			numbers = append(numbers, i+1)
		}
	}
	return numbers
}

// problem is an error about volumes of the set.
func (s *volumeSet) problem(volumes ...VolumeProblem) *VolumesError {
	return &VolumesError{Archive: s.archive, Volumes: volumes, Total: s.table.Total, Split: s.table.Split, Root: s.table.Root}
}

func (s *volumeSet) open(d digest.Digest) (blobFile, int64, error) {
	at, ok := s.where[d]
	if !ok {
		return nil, 0, fs.ErrNotExist
	}
	if at.volume != 0 {
		v := s.volumes[at.volume-1]
		if v == nil {
			return nil, 0, fs.ErrNotExist
		}
		return v.blobs.open(d)
	}
	joined := pieces{size: at.size}
	for _, p := range s.cut[d] {
		v := s.volumes[p.Volume-1]
		if v == nil {
			return nil, 0, fs.ErrNotExist
		}
		joined.parts = append(joined.parts, piece{volumePart: p, in: v})
	}
	return sectionOf(joined, 0, at.size), at.size, nil
}

func (s *volumeSet) size(d digest.Digest) (int64, error) {
	at, ok := s.where[d]
	if !ok || !s.atHand(d) {
		return 0, fs.ErrNotExist
	}
	return at.size, nil
}

// atHand says whether all of a blob is in volumes that are there.
func (s *volumeSet) atHand(d digest.Digest) bool {
	for _, n := range s.volumesOf(d) {
		if s.volumes[n-1] == nil {
			return false
		}
	}
	return true
}

// volumesOf are the numbers of the volumes that a blob is in.
func (s *volumeSet) volumesOf(d digest.Digest) []int {
	at, ok := s.where[d]
	switch {
	case !ok:
		return nil
	case at.volume != 0:
		return []int{int(at.volume)}
	}
	var numbers []int
	for _, p := range s.cut[d] {
		numbers = append(numbers, p.Volume)
	}
	return numbers
}

// damaged makes a failure to read a blob one of the volumes that it is in.
func (s *volumeSet) damaged(d digest.Digest, err error) error {
	if err == nil || !as[*ContentError](err) || as[*VolumesError](err) {
		return err
	}
	var problems []VolumeProblem
	for _, n := range s.blamed(d) {
		problems = append(problems, VolumeProblem{Number: n, Path: s.pathOf(n), Reason: "damaged: " + reasonFor(err), Err: err})
	}
	if len(problems) == 0 {
		return err
	}
	return s.problem(problems...)
}

// blamed are the volumes to which a blob's damage is due: of one in pieces those
// whose piece is not what its checksum says, or all.
func (s *volumeSet) blamed(d digest.Digest) []int {
	var numbers []int
	for _, p := range s.cut[d] {
		if v := s.volumes[p.Volume-1]; v != nil && v.checkPiece(p) != nil {
			numbers = append(numbers, p.Volume)
		}
	}
	if len(numbers) > 0 {
		return numbers
	}
	return s.volumesOf(d)
}

// reasonFor is what is wrong, without the place.
func reasonFor(err error) string {
	var content *ContentError
	switch {
	case !errors.As(err, &content):
		return err.Error()
	case content.Digest == "":
		return content.Reason
	}
	return content.Digest.String() + ": " + content.Reason
}

// pathOf is where a volume is, or would be.
func (s *volumeSet) pathOf(number int) string {
	if v := s.volumes[number-1]; v != nil {
		return v.path
	}
	return volumePath(s.archive, number)
}

func (s *volumeSet) Close() error {
	var all []error
	for _, v := range s.volumes {
		if v != nil {
			all = append(all, v.blobs.Close())
		}
	}
	return errors.Join(all...)
}

// pieces are a blob that is cut, read in place.
type pieces struct {
	parts []piece
	size  int64
}

type piece struct {
	volumePart
	in *volume
}

func (p pieces) ReadAt(b []byte, off int64) (n int, err error) {
	for _, part := range p.parts {
		if off >= part.Offset+part.Length || len(b) == n {
			continue
		}
		at, err := part.in.blobs.entry(part.entry())
		if err != nil {
			return n, err
		}
		from := off - part.Offset
		most := min(int64(len(b)-n), part.Length-from)
		read, err := part.in.blobs.file.ReadAt(b[n:n+int(most)], at.offset+from)
		n += read
		off += int64(read)
		if int64(read) < most {
			return n, fmt.Errorf("%s: %w", part.in.path, err)
		}
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// entry is where a file of the tar is.
func (a *archiveBlobs) entry(name string) (span, error) {
	at, ok := a.entries[name]
	if !ok {
		return span{}, fs.ErrNotExist
	}
	return at, nil
}

// checkContents holds the tar against the table: nothing that is not listed, and
// everything that is, with its size.
func (v *volume) checkContents() error {
	listed := map[string]bool{layoutFile: true, indexFile: true, volumeFile: true}
	cut := false
	for _, p := range v.table.Contents {
		at, err := v.blobs.entry(p.entry())
		if err != nil {
			return fmt.Errorf("it lacks %s", p.entry())
		}
		if at.size != p.bytes() {
			return fmt.Errorf("%s has %d bytes, and %d are listed", p.entry(), at.size, p.bytes())
		}
		listed[p.entry()] = true
		cut = cut || p.Piece != 0
	}
	if cut {
		if _, err := v.blobs.entry(piecesFile); err != nil {
			return fmt.Errorf("it lacks %s", piecesFile)
		}
		listed[piecesFile] = true
	}
	if len(listed) == len(v.blobs.entries) {
		return nil
	}
	for name := range v.blobs.entries {
		if !listed[name] {
			return fmt.Errorf("%s is in it, and not listed", printable(strings.TrimSpace(name)))
		}
	}
	return nil
}

func (s *Source) volumeSet() (*volumeSet, error) {
	if p, ok := s.place.(*localPlace); ok {
		if set := setIn(p.blobs); set != nil {
			return set, nil
		}
	}
	return nil, &LocationError{Input: s.Location.String(), Reason: "is no volume of an archive"}
}

// setIn is the set of volumes that a store is, or begins with; nil for none.
func setIn(blobs blobStore) *volumeSet {
	switch b := blobs.(type) {
	case *volumeSet:
		return b
	case layered:
		return setIn(b.first)
	}
	return nil
}

// piecesAtHand are the pieces of a blob that are in volumes which are there.
func (s *volumeSet) piecesAtHand(d digest.Digest) []volumePart {
	return slices.DeleteFunc(slices.Clone(s.cut[d]), func(p volumePart) bool { return s.volumes[p.Volume-1] == nil })
}
