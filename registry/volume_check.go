package registry

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"waybill/internal/files"
	"waybill/internal/ref"
)

// blame says of a failure to read which volume it is in, or that it was left out.
func (p *localPlace) blame(rc io.ReadCloser, desc ocispec.Descriptor, err error) (io.ReadCloser, error) {
	if err != nil && p.delta.leaves(desc.Digest) {
		return nil, p.leftOutError(desc)
	}
	set := setIn(p.blobs)
	if set == nil {
		return rc, err
	}
	if err != nil {
		return nil, set.damaged(desc.Digest, err)
	}
	return blamingReader{ReadCloser: rc, set: set, digest: desc.Digest}, nil
}

type blamingReader struct {
	io.ReadCloser
	set    *volumeSet
	digest digest.Digest
}

func (r blamingReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	return n, r.set.damaged(r.digest, err)
}

// CheckVolumes reads all of the volumes that are at hand and holds every byte
// against what the volumes say of themselves. A source that is not in volumes
// passes. onBytes is told how much was read, and may be called at the same time;
// nil for nobody.
//
// Errors: *VolumesError with every volume that is damaged.
func (s *Source) CheckVolumes(ctx context.Context, onBytes func(n int)) error {
	set, err := s.volumeSet()
	if err != nil {
		return nil //nolint:nilerr // it is not in volumes
	}
	if onBytes == nil {
		onBytes = func(int) {}
	}
	problems := make([]error, len(set.volumes))
	err = each(ctx, defaultConcurrency, len(set.volumes), func(ctx context.Context, i int) error {
		if v := set.volumes[i]; v != nil {
			problems[i] = v.check(ctx, onBytes)
		}
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	var damaged []VolumeProblem
	for i, err := range problems {
		if err != nil {
			damaged = append(damaged, VolumeProblem{Number: i + 1, Path: set.pathOf(i + 1), Reason: "damaged: " + reasonFor(err), Err: err})
		}
	}
	if len(damaged) > 0 {
		return set.problem(damaged...)
	}
	return set.checkJoined(ctx)
}

// check reads a volume in the order in which it lies.
func (v *volume) check(ctx context.Context, onBytes func(n int)) error {
	sums, err := v.pieceSums()
	if err != nil {
		return err
	}
	for _, p := range v.table.Contents {
		at, err := v.blobs.entry(p.entry())
		if err != nil {
			return err
		}
		want := p.Digest
		if p.Piece != 0 {
			want = sums[p.entry()]
		}
		if err := v.hash(ctx, at, want, onBytes); err != nil {
			return err
		}
	}
	return nil
}

func (v *volume) hash(ctx context.Context, at span, want digest.Digest, onBytes func(n int)) error {
	h := want.Algorithm().Hash()
	r := io.NewSectionReader(v.blobs.file, at.offset, at.size)
	if _, err := io.CopyBuffer(struct{ io.Writer }{h}, tellingReader{ctx, r, onBytes}, make([]byte, 256<<10)); err != nil {
		return files.PlainError(err)
	}
	if digest.NewDigest(want.Algorithm(), h) != want {
		return &ContentError{Ref: v.path, Digest: want, Reason: "corrupt: the content is not what its digest says"}
	}
	return nil
}

// checkPiece holds one piece against its checksum.
func (v *volume) checkPiece(p volumePart) error {
	at, sum, err := v.findPiece(p)
	if err != nil {
		return err
	}
	return v.hash(context.Background(), at, sum, func(int) {})
}

// findPiece is where a piece lies in its volume, and its checksum.
func (v *volume) findPiece(p volumePart) (span, digest.Digest, error) {
	sums, err := v.pieceSums()
	if err != nil {
		return span{}, "", err
	}
	at, err := v.blobs.entry(p.entry())
	return at, sums[p.entry()], err
}

// tellingReader ends with its context and says how much was read.
type tellingReader struct {
	ctx     context.Context // of the check that this reader is part of
	r       io.Reader
	onBytes func(n int)
}

func (r tellingReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := r.r.Read(p)
	r.onBytes(n)
	return n, err
}

// pieceSums are the checksums of the pieces in a volume, by entry.
func (v *volume) pieceSums() (map[string]digest.Digest, error) {
	sums := map[string]digest.Digest{}
	isPiece := func(p volumePart) bool { return p.Piece != 0 }
	if !slices.ContainsFunc(v.table.Contents, isPiece) {
		return sums, nil
	}
	data, err := v.blobs.small(piecesFile, maxPiecesFile, v.path)
	if err != nil {
		return nil, err
	}
	var list volumePieces
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, &ContentError{Ref: v.path, Reason: piecesFile + " is not JSON", Err: err}
	}
	for _, p := range list.Pieces {
		sum := digest.NewDigestFromEncoded(digest.SHA256, p.SHA256)
		if ref.CheckDigest(p.Digest.String()) != nil || ref.CheckDigest(sum.String()) != nil {
			return nil, &ContentError{Ref: v.path, Reason: piecesFile + " has a checksum that is none"}
		}
		sums[volumePart{Digest: p.Digest, Piece: p.Piece}.entry()] = sum
	}
	for _, p := range v.table.Contents {
		if _, ok := sums[p.entry()]; isPiece(p) && !ok {
			return nil, &ContentError{Ref: v.path, Reason: fmt.Sprintf("%s lacks %s", piecesFile, p.entry())}
		}
	}
	return sums, nil
}

// checkJoined hashes the blobs that are cut, as wholes: each piece may be what its
// volume says and the pieces be of two different blobs.
func (s *volumeSet) checkJoined(ctx context.Context) error {
	for d := range s.cut {
		if !s.atHand(d) {
			continue
		}
		file, size, err := s.open(d)
		if err == nil {
			var rc io.ReadCloser
			if rc, err = checked(file, ocispec.Descriptor{Digest: d, Size: size}, s.archive); err == nil {
				_, err = io.Copy(io.Discard, tellingReader{ctx, rc, func(int) {}})
			}
		}
		if err != nil {
			return s.damaged(d, err)
		}
	}
	return nil
}

// listPieces makes waybill-pieces.json of a volume. What is not known yet has a
// place in it.
func listPieces(parts []volumePart, sums map[string]digest.Digest) ([]byte, error) {
	var list volumePieces
	for _, p := range parts {
		if p.Piece == 0 {
			continue
		}
		sum := cmp.Or(sums[p.entry()], digest.FromBytes(nil))
		list.Pieces = append(list.Pieces, pieceSum{Digest: p.Digest, Piece: p.Piece, SHA256: sum.Encoded()})
	}
	if len(list.Pieces) > maxPieces {
		return nil, errors.New("more pieces in a volume than there is room to list")
	}
	return json.Marshal(list)
}
