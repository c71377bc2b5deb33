package registry

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/go-digest"

	"waybill/internal/ref"
)

// Volumes are described in docs/format.md, "Volumes". The files of a volume
// beside those of a layout:
const (
	volumeFile     = "waybill-volume.json"
	piecesFile     = "waybill-pieces.json"
	piecesDir      = "waybill-pieces"
	volumeFormat   = "application/vnd.waybill.volume.v1+json"
	volumeFamily   = "application/vnd.waybill.volume."
	maxVolumes     = 9999
	maxVolumeFile  = 64 << 20 // lists everything in a set: some 100 bytes for a blob
	maxPiecesFile  = 1 << 10  // of two pieces; five hundred bytes with the longest digests
	maxVolumeParts = 1_000_000
)

func isVolumeEntry(name string) bool {
	return name == volumeFile || name == piecesFile || strings.HasPrefix(name, piecesDir+"/")
}

// volumeTable is waybill-volume.json.
type volumeTable struct {
	Format    string        `json:"format"`
	Number    int           `json:"number"`
	Total     int           `json:"total"`
	Split     int64         `json:"split"`
	Root      digest.Digest `json:"root"`
	Name      string        `json:"name,omitempty"`
	Index     digest.Digest `json:"index"`
	Contents  []volumePart  `json:"contents"`
	Elsewhere []volumePart  `json:"elsewhere"`
}

// volumePart is a blob in a volume, or a piece of one.
type volumePart struct {
	Volume int           `json:"volume,omitempty"` // 0 in the list of a volume's own
	Digest digest.Digest `json:"digest"`
	Size   int64         `json:"size"`            // of the whole blob
	Piece  int           `json:"piece,omitempty"` // from 1; 0: the whole blob
	Offset int64         `json:"offset,omitempty"`
	Length int64         `json:"length,omitempty"`
}

// bytes is how much of the blob the part is.
func (p volumePart) bytes() int64 {
	if p.Piece == 0 {
		return p.Size
	}
	return p.Length
}

// entry is the name of the part in the tar.
func (p volumePart) entry() string {
	if p.Piece == 0 {
		return blobName(p.Digest)
	}
	return piecesDir + "/" + p.Digest.Algorithm().String() + "/" + p.Digest.Encoded() + "/" + strconv.Itoa(p.Piece)
}

// volumePieces is waybill-pieces.json.
type volumePieces struct {
	Pieces []pieceSum `json:"pieces"`
}

type pieceSum struct {
	Digest digest.Digest `json:"digest"` // of the whole blob
	Piece  int           `json:"piece"`
	SHA256 string        `json:"sha256"` // of the piece
}

// volumeName ends the path of a volume.
var volumeName = regexp.MustCompile(`^(.*\.tar)\.([0-9]{3,4})$`)

// volumePath is where a volume of an archive lies.
func volumePath(archive string, number int) string { return fmt.Sprintf("%s.%03d", archive, number) }

// archiveOf takes the number off the path of a volume.
func archiveOf(path string) (archive string, number int, ok bool) {
	m := volumeName.FindStringSubmatch(path)
	if m == nil {
		return path, 0, false
	}
	number, err := strconv.Atoi(m[2])
	return m[1], number, err == nil && number > 0
}

// notVolume refuses the name of a volume for what is to be a whole archive.
func notVolume(l Location) error {
	archive, _, ok := archiveOf(l.Path)
	if !ok {
		return nil
	}
	return &LocationError{Input: l.String(), Reason: "is the name of a volume; `bundle save SOURCE " + archive + " --split SIZE` writes volumes", Meant: Location{Kind: Archive, Path: archive, Name: l.Name}.String()}
}

// notInVolumes refuses to add to an archive that lies in volumes: they are written
// whole.
func notInVolumes(l Location, keep bool) error {
	if !keep || exists(l.Path) || len(VolumesOf(l.Path)) == 1 && VolumesOf(l.Path)[0] == l.Path {
		return nil
	}
	return &LocationError{Input: l.String(), Reason: "lies in volumes, to which nothing can be added; sign and tag before `bundle save --split`, or name another file", Err: os.ErrExist}
}

// marshalVolume encodes a table without spaces, in its fixed order.
func marshalVolume(t volumeTable) ([]byte, error) {
	if t.Contents == nil {
		t.Contents = []volumePart{}
	}
	if t.Elsewhere == nil {
		t.Elsewhere = []volumePart{}
	}
	return json.Marshal(t)
}

// readVolume reads a table and refuses one that no set could have.
func readVolume(data []byte) (volumeTable, error) {
	var t volumeTable
	dec := json.NewDecoder(bytes.NewReader(data))
	if err := dec.Decode(&t); err != nil {
		return t, fmt.Errorf("%s is not what it should be: %w", volumeFile, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return t, fmt.Errorf("%s goes on after its end", volumeFile)
	}
	if t.Format != volumeFormat && strings.HasPrefix(t.Format, volumeFamily) {
		return t, fmt.Errorf("made by a newer waybill (%s)", printable(t.Format))
	}
	if err := t.check(); err != nil {
		return t, fmt.Errorf("%s: %w", volumeFile, err)
	}
	return t, nil
}

func (t volumeTable) check() error {
	switch {
	case t.Format != volumeFormat:
		return fmt.Errorf("its format is %q", printable(t.Format))
	case t.Total < 1 || t.Total > maxVolumes:
		return fmt.Errorf("it is of %d volumes", t.Total)
	case t.Number < 1 || t.Number > t.Total:
		return fmt.Errorf("it is number %d of %d", t.Number, t.Total)
	case t.Split <= 0:
		return fmt.Errorf("volumes of %d bytes", t.Split)
	case len(t.Contents)+len(t.Elsewhere) > maxVolumeParts:
		return fmt.Errorf("more than %d blobs", maxVolumeParts)
	case ref.CheckDigest(t.Root.String()) != nil || ref.CheckDigest(t.Index.String()) != nil:
		return errors.New("the digest of its root or its index.json is none")
	case t.Name != "" && !localName.MatchString(t.Name):
		return fmt.Errorf("the name %q", printable(t.Name))
	}
	for _, p := range t.Contents {
		if p.Volume != 0 {
			return fmt.Errorf("%s is listed as its own and as of volume %d", p.Digest, p.Volume)
		}
	}
	for _, p := range t.Elsewhere {
		if p.Volume < 1 || p.Volume > t.Total || p.Volume == t.Number {
			return fmt.Errorf("%s is listed as of volume %d", p.Digest, p.Volume)
		}
	}
	return checkParts(t.all())
}

// all is every part of the set with its volume, in the order of volumes, and in
// each as it is listed.
func (t volumeTable) all() []volumePart {
	all := make([]volumePart, 0, len(t.Contents)+len(t.Elsewhere))
	for _, p := range t.Contents {
		p.Volume = t.Number
		all = append(all, p)
	}
	all = append(all, t.Elsewhere...)
	slices.SortStableFunc(all, func(a, b volumePart) int { return a.Volume - b.Volume })
	return all
}

// checkParts sees to it that every blob is there once, or in pieces that cover
// it exactly.
func checkParts(all []volumePart) error {
	cut := map[digest.Digest][]volumePart{}
	whole := make(map[digest.Digest]bool, len(all))
	sum := int64(0)
	for _, p := range all {
		if err := ref.CheckDigest(p.Digest.String()); err != nil {
			return err
		}
		if p.Size < 0 || p.bytes() > math.MaxInt64-sum {
			return fmt.Errorf("%s: a size of %d", p.Digest, p.Size)
		}
		sum += p.bytes()
		switch {
		case p.Piece != 0:
			cut[p.Digest] = append(cut[p.Digest], p)
		case p.Offset != 0 || p.Length != 0:
			return fmt.Errorf("%s is whole, and from %d on", p.Digest, p.Offset)
		case whole[p.Digest]:
			return fmt.Errorf("%s is listed twice", p.Digest)
		default:
			whole[p.Digest] = true
		}
	}
	for d, pieces := range cut {
		if whole[d] {
			return fmt.Errorf("%s is listed whole and in pieces", d)
		}
		if err := checkPieces(pieces); err != nil {
			return err
		}
	}
	return nil
}

// checkPieces wants the pieces of one blob to be in order of their numbers once
// sorted, one beginning where the one before ends.
func checkPieces(pieces []volumePart) error {
	slices.SortStableFunc(pieces, func(a, b volumePart) int { return a.Piece - b.Piece })
	at := int64(0)
	for i, p := range pieces {
		switch {
		case p.Size != pieces[0].Size:
			return fmt.Errorf("the pieces of %s are of blobs of %d and %d bytes", p.Digest, pieces[0].Size, p.Size)
		case p.Piece != i+1:
			return fmt.Errorf("%s lacks its piece %d", p.Digest, i+1)
		case p.Offset != at || p.Length <= 0 || p.Length > p.Size-at:
			return fmt.Errorf("piece %d of %s is %d bytes from %d on, which leaves a gap or overlaps", p.Piece, p.Digest, p.Length, p.Offset)
		}
		at += p.Length
	}
	if at != pieces[0].Size {
		return fmt.Errorf("the pieces of %s end at %d of %d bytes", pieces[0].Digest, at, pieces[0].Size)
	}
	return nil
}

// set tells volumes that belong together: all of the table but which of them
// it is.
func (t volumeTable) set() string {
	h := sha256.New()
	fmt.Fprintf(h, "%s %d %d %s %q %s\n", t.Format, t.Total, t.Split, t.Root, t.Name, t.Index)
	for _, p := range t.all() {
		fmt.Fprintf(h, "%d %s %d %d %d %d\n", p.Volume, p.Digest, p.Size, p.Piece, p.Offset, p.Length)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// FormatSplit writes a number of bytes as GNU split reads it, exactly.
func FormatSplit(n int64) string {
	for i, unit := range []string{"T", "G", "M", "K"} {
		if size := int64(1) << (10 * (4 - i)); n >= size && n%size == 0 {
			return strconv.FormatInt(n/size, 10) + unit
		}
	}
	return strconv.FormatInt(n, 10)
}
