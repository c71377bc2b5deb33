package registry

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"waybill/internal/tarball"
)

// groupedBlob is a blob of an archive in its order, with what it is there for.
type groupedBlob struct {
	desc  ocispec.Descriptor
	group int
}

// A SplitError reports volumes that would be too small to hold anything, or too
// many.
type SplitError struct {
	Split  int64
	Enough int64 // a size that would do
}

func (e *SplitError) Error() string {
	return fmt.Sprintf("volumes of %d bytes are too small, since each lists what is in all of them; %s would do", e.Split, FormatSplit(e.Enough))
}

const (
	tarEnd        = 2 * tarBlock // a tar ends in two zero blocks: POSIX.1-2001, "ustar Interchange Format"
	smallestRoom  = 4 << 10      // for blobs, in each volume
	smallestPiece = 1 << 20      // unless volumes are smaller
	maxPieces     = 2            // in a volume: the end of one blob and the beginning of the next
)

// assignVolumes says which blob is in which volume. It depends on nothing but
// what it is given, and is docs/format.md's "Volumes" word by word. base is the
// table without parts.
//
// Errors: *SplitError.
func assignVolumes(blobs []groupedBlob, base volumeTable, indexSize int64) (volumePlan, error) {
	base.Format = volumeFormat
	plan, ok, err := tryVolumes(blobs, base, indexSize)
	if ok || err != nil {
		return plan, err
	}
	for enough := base; ; {
		enough.Split = nextPower(enough.Split)
		if _, ok, err := tryVolumes(blobs, enough, indexSize); ok || err != nil {
			return plan, errors.Join(err, &SplitError{Split: base.Split, Enough: enough.Split})
		}
	}
}

// nextPower is the next larger power of two.
func nextPower(n int64) int64 { return 1 << bits.Len64(uint64(n)) }

// tryVolumes fills volumes, with more room for the table until it fits. It gives
// up when the volumes are too small.
func tryVolumes(blobs []groupedBlob, base volumeTable, indexSize int64) (volumePlan, bool, error) {
	order := orderOf(blobs)
	for reserved := int64(0); ; {
		a := assigner{split: base.Split, order: order}
		if !a.assign(blobs, indexSize, reserved) {
			return volumePlan{}, false, nil
		}
		plan := a.plan(base)
		needs, err := plan.largestTable()
		switch {
		case err != nil:
			return plan, false, err
		case needs > maxVolumeFile:
			return plan, false, fmt.Errorf("%d blobs are too many for volumes", len(blobs))
		case needs <= reserved:
			return plan, true, nil
		}
		reserved = needs
	}
}

// volumePlan is what is in each volume of a set.
type volumePlan struct {
	base  volumeTable
	parts [][]volumePart // by number less one, in the order of the volume
}

// table is waybill-volume.json of one volume.
func (p volumePlan) table(number int) volumeTable {
	t := p.base
	t.Number = number
	for i, parts := range p.parts {
		if i+1 != number {
			t.Elsewhere = append(t.Elsewhere, parts...)
			continue
		}
		for _, part := range parts {
			part.Volume = 0
			t.Contents = append(t.Contents, part)
		}
	}
	return t
}

// largestTable is how large a table of the set is that lists everything as
// elsewhere, in whole blocks.
func (p volumePlan) largestTable() (int64, error) {
	t := p.base
	t.Number = t.Total
	for _, parts := range p.parts {
		for _, part := range parts {
			part.Volume = t.Total
			t.Elsewhere = append(t.Elsewhere, part)
		}
	}
	data, err := marshalVolume(t)
	return padded(int64(len(data))), err
}

func orderOf(blobs []groupedBlob) map[digest.Digest]int {
	order := make(map[digest.Digest]int, len(blobs))
	for i, b := range blobs {
		order[b.desc.Digest] = i
	}
	return order
}

// assigner fills volumes.
type assigner struct {
	split   int64
	head    int64 // what each volume has beside blobs
	room    int64 // for blobs in each
	order   map[digest.Digest]int
	volumes []*fill
}

type fill struct {
	parts []volumePart
	used  int64
}

// assign fills as many volumes as it takes; false when they are too small.
func (a *assigner) assign(blobs []groupedBlob, indexSize, table int64) bool {
	a.head = tarEnd
	for name, size := range map[string]int64{layoutFile: int64(len(layoutFileBytes())), indexFile: indexSize, volumeFile: table} {
		a.head += entrySize(name, size)
	}
	a.room = a.split - a.head
	isLarge := func(b groupedBlob) bool { return entrySize(blobName(b.desc.Digest), b.desc.Size) > a.room }
	if slices.ContainsFunc(blobs, isLarge) {
		a.room -= entrySize(piecesFile, maxPiecesFile)
	}
	if a.room < smallestRoom {
		return false
	}
	var large, rest []groupedBlob
	for _, b := range blobs {
		switch {
		case isLarge(b):
			large = append(large, b)
		case b.group == groupRest:
			rest = append(rest, b)
		case len(a.volumes) <= maxVolumes:
			a.put(b)
		}
	}
	bySize := func(x, y groupedBlob) int {
		return cmp.Or(cmp.Compare(y.desc.Size, x.desc.Size), cmp.Compare(x.desc.Digest, y.desc.Digest))
	}
	slices.SortFunc(large, bySize)
	slices.SortFunc(rest, bySize)
	for _, b := range large {
		if a.cut(b); len(a.volumes) > maxVolumes {
			return false
		}
	}
	for _, b := range rest {
		if a.put(b); len(a.volumes) > maxVolumes {
			return false
		}
	}
	return true
}

// put puts a blob into the first volume that has room.
func (a *assigner) put(b groupedBlob) {
	size := entrySize(blobName(b.desc.Digest), b.desc.Size)
	at := slices.IndexFunc(a.volumes, func(f *fill) bool { return f.used+size <= a.room })
	if at < 0 {
		a.volumes = append(a.volumes, &fill{})
		at = len(a.volumes) - 1
	}
	f := a.volumes[at]
	f.parts = append(f.parts, volumePart{Digest: b.desc.Digest, Size: b.desc.Size})
	f.used += size
}

// cut puts a blob into the last volume and as many new ones as it takes.
func (a *assigner) cut(b groupedBlob) {
	worth := min(smallestPiece, a.room/2)
	for piece, at := 1, int64(0); at < b.desc.Size && len(a.volumes) <= maxVolumes; piece++ {
		part := volumePart{Digest: b.desc.Digest, Size: b.desc.Size, Piece: piece, Offset: at}
		if len(a.volumes) == 0 || a.volumes[len(a.volumes)-1].used+worth > a.room {
			a.volumes = append(a.volumes, &fill{})
		}
		f := a.volumes[len(a.volumes)-1]
		room := a.room - f.used
		room -= entrySize(part.entry(), room) - padded(room) // its header
		part.Length = min(b.desc.Size-at, room/tarBlock*tarBlock)
		f.parts = append(f.parts, part)
		f.used += entrySize(part.entry(), part.Length)
		at += part.Length
	}
}

// plan is what was assigned, each volume's parts in order.
func (a *assigner) plan(base volumeTable) volumePlan {
	base.Total = len(a.volumes)
	p := volumePlan{base: base}
	for i, f := range a.volumes {
		slices.SortFunc(f.parts, func(x, y volumePart) int {
			return cmp.Or(cmp.Compare(min(x.Piece, 1), min(y.Piece, 1)), cmp.Compare(a.order[x.Digest], a.order[y.Digest]), cmp.Compare(x.Piece, y.Piece))
		})
		for j := range f.parts {
			f.parts[j].Volume = i + 1
		}
		p.parts = append(p.parts, f.parts)
	}
	return p
}

// entrySize is how much of a tar an entry takes.
func entrySize(name string, size int64) int64 {
	header, err := tarball.Header(name, size)
	if err != nil { // it is said of the blob when the tar is planned
		return 3*tarBlock + padded(size)
	}
	return int64(len(header)) + padded(size)
}
