package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote/auth"
)

// Some volumes of many go into a registry as blobs, manifests too: what the last
// volume completes is read there. A piece of a blob is a blob by itself, named by
// a manifest under a tag, since its digest is only known to the volume it is in.
const pieceType = "application/vnd.waybill.piece.v1+json"

// pieceTag names the deposited piece of a blob.
func pieceTag(p volumePart) string {
	return pieceTagPrefix + p.Digest.Encoded()[:32] + "-" + strconv.Itoa(p.Piece)
}

const pieceTagPrefix = "waybill-piece-"

func isPieceTag(tag string) bool { return strings.HasPrefix(tag, pieceTagPrefix) }

// A Deposit is what [Source.Deposit] did.
type Deposit struct {
	Copied  Amount // pieces of blobs among it, each as an object
	Skipped Amount // there already
	// Missing are the volumes of which something is neither at hand nor at the
	// target.
	Missing []int
}

// Deposit brings the content of the volumes at hand to a registry without a tag to
// what they are volumes of, and finds out which other volumes are still missing.
// When none is, [Source.CompleteFrom] makes the source whole.
//
// Errors: *CopyError.
func (s *Source) Deposit(ctx context.Context, dst *Destination, opts CopyOptions) (Deposit, error) {
	set, err := s.volumeSet()
	if err != nil {
		return Deposit{}, err
	}
	d := &depositing{set: set, dst: dst, opts: opts, lacks: map[int]bool{}}
	all := slices.Sorted(maps.Keys(set.where))
	if opts.OnPlanned != nil {
		objects, size := 0, int64(0)
		for _, blob := range all {
			if set.atHand(blob) {
				objects, size = objects+1, size+set.where[blob].size
				continue
			}
			for _, p := range set.piecesAtHand(blob) {
				objects, size = objects+1, size+p.Length
			}
		}
		opts.OnPlanned(objects, size)
	}
	err = each(ctx, opts.Concurrency, len(all), func(ctx context.Context, i int) error { return d.blob(ctx, all[i]) })
	d.result.Missing = slices.Sorted(maps.Keys(d.lacks))
	return d.result, err
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

type depositing struct {
	set  *volumeSet
	dst  *Destination
	opts CopyOptions

	mu     sync.Mutex
	result Deposit
	lacks  map[int]bool
}

func (d *depositing) desc(blob digest.Digest) ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: octetStream, Digest: blob, Size: d.set.where[blob].size}
}

// blob sees to it that a blob is at the target when it is at hand, and else finds
// out whether it is.
func (d *depositing) blob(ctx context.Context, blob digest.Digest) error {
	desc := d.desc(blob)
	there, err := d.dst.Exists(ctx, desc)
	switch {
	case err != nil:
		return d.failed("looking for", desc, err)
	case there && !d.set.atHand(blob) && len(d.set.piecesAtHand(blob)) > 0:
		for _, p := range d.set.piecesAtHand(blob) {
			d.done(describePiece(p, blob), &d.result.Skipped, 0, true)
		}
		return nil
	case there:
		d.done(desc, &d.result.Skipped, 0, d.set.atHand(blob))
		return nil
	case d.set.atHand(blob):
		return d.push(ctx, desc)
	}
	for _, p := range d.set.cut[blob] {
		if err := d.piece(ctx, p); err != nil {
			return err
		}
	}
	if len(d.set.cut[blob]) == 0 {
		d.missing(d.set.volumesOf(blob)...)
	}
	return nil
}

func (d *depositing) missing(volumes ...int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, n := range volumes {
		d.lacks[n] = true
	}
}

func (d *depositing) push(ctx context.Context, desc ocispec.Descriptor) error {
	if d.opts.OnStart != nil {
		d.opts.OnStart(desc, "")
	}
	file, _, err := d.set.open(desc.Digest)
	if err != nil {
		return d.set.damaged(desc.Digest, err)
	}
	if err := d.send(ctx, desc, file, 0); err != nil {
		return d.set.damaged(desc.Digest, err)
	}
	d.done(desc, &d.result.Copied, desc.Size, true)
	return nil
}

// send pushes what is read at some place.
func (d *depositing) send(ctx context.Context, desc ocispec.Descriptor, from io.ReaderAt, at int64) error {
	open := func(offset int64) (io.ReadCloser, error) {
		return io.NopCloser(io.NewSectionReader(from, at+offset, desc.Size-offset)), nil
	}
	rc, err := open(0)
	if err != nil {
		return err
	}
	checking, err := newCheckedReader(rc, desc, d.set.archive)
	if err != nil {
		return err
	}
	source := &sourceReader{checkedReader: checking, open: open, onBytes: d.opts.OnBytes}
	if err := d.dst.Push(ctx, desc, source); err != nil {
		if source.err != nil {
			return source.err
		}
		return d.failed("writing", desc, err)
	}
	return nil
}

// piece sees to it that one piece of a blob is at the target when its volume is
// at hand.
func (d *depositing) piece(ctx context.Context, p volumePart) error {
	v := d.set.volumes[p.Volume-1]
	if v == nil {
		_, err := readPiece(ctx, d.dst, p)
		if errors.Is(err, errdef.ErrNotFound) {
			d.missing(p.Volume)
			return nil
		}
		return err
	}
	sums, err := v.pieceSums()
	if err != nil {
		return err
	}
	at, err := v.blobs.entry(p.entry())
	if err != nil {
		return err
	}
	desc := describePiece(p, sums[p.entry()])
	there, err := d.dst.Exists(ctx, desc)
	if err != nil {
		return d.failed("looking for", desc, err)
	}
	if !there {
		if err := d.send(ctx, desc, v.blobs.file, at.offset); err != nil {
			return d.set.damaged(p.Digest, err)
		}
	}
	if err := d.name(ctx, p, desc); err != nil {
		return d.failed("writing", desc, err)
	}
	if there {
		d.done(desc, &d.result.Skipped, 0, true)
	} else {
		d.done(desc, &d.result.Copied, desc.Size, true)
	}
	return nil
}

// describePiece is a piece as a blob by itself.
func describePiece(p volumePart, sum digest.Digest) ocispec.Descriptor {
	return ocispec.Descriptor{MediaType: octetStream, Digest: sum, Size: p.Length}
}

// name tags a manifest that leads to a piece, so that it is found and not
// collected as garbage.
func (d *depositing) name(ctx context.Context, p volumePart, piece ocispec.Descriptor) error {
	empty := ocispec.DescriptorEmptyJSON
	if there, err := d.dst.Exists(ctx, empty); err != nil {
		return err
	} else if !there {
		if err := d.dst.Push(ctx, empty, bytes.NewReader(empty.Data)); err != nil {
			return err
		}
	}
	data, err := json.Marshal(ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, ArtifactType: pieceType,
		Config: ocispec.Descriptor{MediaType: empty.MediaType, Digest: empty.Digest, Size: empty.Size}, Layers: []ocispec.Descriptor{piece},
	})
	if err != nil {
		return err
	}
	desc := content.NewDescriptorFromBytes(ocispec.MediaTypeImageManifest, data)
	if err := d.dst.Push(ctx, desc, bytes.NewReader(data)); err != nil {
		return err
	}
	return d.dst.Tag(ctx, desc, pieceTag(p))
}

func (d *depositing) failed(step string, desc ocispec.Descriptor, err error) error {
	return &CopyError{Side: "target", Ref: d.dst.target.name(), Digest: desc.Digest, Step: step, Err: err}
}

// done counts what is at the target; planned says that it was at hand.
func (d *depositing) done(desc ocispec.Descriptor, amount *Amount, sent int64, planned bool) {
	d.mu.Lock()
	amount.add(desc)
	d.mu.Unlock()
	if d.opts.OnDone != nil && planned {
		d.opts.OnDone(desc, "", sent)
	}
}

// readPiece finds the deposited piece of a blob.
func readPiece(ctx context.Context, dst *Destination, p volumePart) (ocispec.Descriptor, error) {
	desc, err := dst.Resolve(ctx, pieceTag(p))
	if err != nil {
		return desc, err
	}
	data, err := content.FetchAll(ctx, dst, desc)
	if err != nil {
		return desc, err
	}
	l, err := readLinks(data)
	if err != nil || l.ArtifactType != pieceType || len(l.Layers) != 1 || l.Layers[0].Size != p.Length {
		return desc, fmt.Errorf("tag %s names something else than a piece of %s: %w", pieceTag(p), p.Digest, errdef.ErrNotFound)
	}
	return l.Layers[0], nil
}

// CompleteFrom lets a source that some volumes are missing of read what is at a
// destination in their place. ctx is for all that will be read there.
func (s *Source) CompleteFrom(ctx context.Context, dst *Destination) error {
	set, err := s.volumeSet()
	if err != nil {
		return err
	}
	p := s.place.(*localPlace)
	p.blobs = layered{p.blobs, depositedBlobs{ctx, set, dst}}
	return p.readDelta()
}

// depositedBlobs are what earlier volumes have brought to a destination.
type depositedBlobs struct {
	ctx context.Context // of all that is read here
	set *volumeSet
	dst *Destination
}

func (b depositedBlobs) desc(d digest.Digest) (ocispec.Descriptor, error) {
	at, ok := b.set.where[d]
	if !ok {
		return ocispec.Descriptor{}, fs.ErrNotExist
	}
	return ocispec.Descriptor{MediaType: octetStream, Digest: d, Size: at.size}, nil
}

func (b depositedBlobs) size(d digest.Digest) (int64, error) {
	desc, err := b.desc(d)
	if err != nil {
		return 0, err
	}
	there, err := b.dst.Exists(b.ctx, desc)
	if err == nil && !there && len(b.set.cut[d]) == 0 {
		err = fs.ErrNotExist
	}
	return desc.Size, err
}

// open reads a small blob into memory: manifests, documents and signatures. A
// large one is there already, or in pieces that are joined.
func (b depositedBlobs) open(d digest.Digest) (blobFile, int64, error) {
	desc, err := b.desc(d)
	if err != nil {
		return nil, 0, err
	}
	there, err := b.dst.Exists(b.ctx, desc)
	switch {
	case err != nil:
		return nil, 0, err
	case !there:
		return b.join(desc)
	case desc.Size > maxRemembered:
		return nil, 0, fmt.Errorf("%s is at %s already", d, b.dst.target.name())
	}
	data, err := content.FetchAll(b.ctx, b.dst, desc)
	if err != nil {
		return nil, 0, err
	}
	return memoryBlob{bytes.NewReader(data)}, desc.Size, nil
}

// maxRemembered bounds what is read back of a destination: documents have 4 MiB.
const maxRemembered = 16 << 20

// join reads a blob in pieces, some of them at hand and some at the destination.
func (b depositedBlobs) join(desc ocispec.Descriptor) (blobFile, int64, error) {
	joined := &joinedPieces{set: b.set, size: desc.Size}
	for _, p := range b.set.cut[desc.Digest] {
		part := joinedPiece{volumePart: p}
		if b.set.volumes[p.Volume-1] == nil {
			at, err := readPiece(b.ctx, b.dst, p)
			if errors.Is(err, errdef.ErrNotFound) {
				return nil, 0, fs.ErrNotExist
			}
			if err != nil {
				return nil, 0, err
			}
			part.open = func(offset int64) (io.ReadCloser, error) { return b.dst.openAt(b.ctx, at, offset) }
		}
		joined.parts = append(joined.parts, part)
	}
	if len(joined.parts) == 0 {
		return nil, 0, fs.ErrNotExist
	}
	return joined, desc.Size, nil
}

// openAt reads from an offset on, unchecked.
func (d *Destination) openAt(ctx context.Context, desc ocispec.Descriptor, offset int64) (io.ReadCloser, error) {
	if p, ok := d.target.(place); ok {
		return p.openAt(ctx, desc, offset)
	}
	return nil, errors.ErrUnsupported
}

func (depositedBlobs) Close() error { return nil }

// joinedPieces is read from the front to the back, which is how content is
// copied.
type joinedPieces struct {
	set   *volumeSet
	parts []joinedPiece
	size  int64
	at    int64
	rc    io.ReadCloser // of the part that at is in
}

type joinedPiece struct {
	volumePart
	open func(offset int64) (io.ReadCloser, error) // nil: at hand
}

func (j *joinedPieces) Read(p []byte) (int, error) {
	if j.at >= j.size {
		return 0, io.EOF
	}
	i := slices.IndexFunc(j.parts, func(p joinedPiece) bool { return j.at < p.Offset+p.Length })
	part := j.parts[i]
	if part.open == nil {
		n, err := pieces{parts: []piece{{part.volumePart, j.set.volumes[part.Volume-1]}}}.ReadAt(p[:min(int64(len(p)), part.Offset+part.Length-j.at)], j.at)
		j.at += int64(n)
		return n, err
	}
	if j.rc == nil {
		rc, err := part.open(j.at - part.Offset)
		if err != nil {
			return 0, err
		}
		j.rc = rc
	}
	n, err := j.rc.Read(p[:min(int64(len(p)), part.Offset+part.Length-j.at)])
	j.at += int64(n)
	if j.at == part.Offset+part.Length {
		err = j.drop()
	} else if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func (j *joinedPieces) drop() error {
	if j.rc == nil {
		return nil
	}
	err := j.rc.Close()
	j.rc = nil
	return err
}

func (j *joinedPieces) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += j.at
	case io.SeekEnd:
		offset += j.size
	}
	j.at = offset
	return j.at, j.drop()
}

func (j *joinedPieces) ReadAt([]byte, int64) (int, error) { return 0, errors.ErrUnsupported }

func (j *joinedPieces) Close() error { return j.drop() }

// ForgetPieces removes the tags of pieces that were deposited, once what they are
// pieces of is there. A registry that removes nothing keeps them: how many it
// kept is returned.
func (s *Source) ForgetPieces(ctx context.Context, dst *Destination) (kept int, err error) {
	set, err := s.volumeSet()
	if err != nil {
		return 0, err
	}
	p, ok := dst.target.(*remotePlace)
	if !ok {
		return 0, nil
	}
	for _, cut := range set.cut {
		for _, part := range cut {
			gone, err := p.removeTag(ctx, pieceTag(part))
			if err != nil {
				return kept, err
			}
			if !gone {
				kept++
			}
		}
	}
	return kept, nil
}

// ForgetPieces removes the tags of pieces of what was planned, once it is there:
// volumes may have left them, of whatever set, before it came in another way. A
// registry that lists no tags keeps them without a word, one that removes nothing
// says how many.
func (p *CopyPlan) ForgetPieces(ctx context.Context, dst *Destination) (kept int, err error) {
	target, ok := dst.target.(*remotePlace)
	if !ok {
		return 0, nil
	}
	tags := target.pieceTags(ctx)
	if len(tags) == 0 {
		return 0, ctx.Err()
	}
	whole := map[string]*copyNode{}
	for _, n := range p.blobs {
		whole[n.desc.Digest.Encoded()[:32]] = n
	}
	for _, tag := range tags {
		of, _, _ := strings.Cut(strings.TrimPrefix(tag, pieceTagPrefix), "-")
		n := whole[of]
		if n == nil {
			continue
		}
		if there, err := dst.Exists(ctx, n.desc); err != nil || !there {
			continue // it was left out
		}
		gone, err := target.removeTag(ctx, tag)
		if err != nil {
			return kept, err
		}
		if !gone {
			kept++
		}
	}
	return kept, ctx.Err()
}

// pieceTags are the tags of pieces, as far as the registry lists them. Tags are
// listed in order, so that few others are read.
func (p *remotePlace) pieceTags(ctx context.Context) []string {
	var all []string
	_ = p.tagsAfter(ctx, pieceTagPrefix, func(page []string) error {
		for _, tag := range page {
			if isPieceTag(tag) {
				all = append(all, tag)
			}
		}
		if last := len(page) - 1; last < 0 || page[last] > pieceTagPrefix && !isPieceTag(page[last]) {
			return fs.ErrExist // enough
		}
		return nil
	})
	return all
}

// removeTag removes a tag and what it names, as far as the registry does such
// things, and says whether it is gone.
func (p *remotePlace) removeTag(ctx context.Context, tag string) (bool, error) {
	desc, err := p.Resolve(ctx, tag)
	if errors.Is(err, errdef.ErrNotFound) {
		return true, nil
	}
	if err != nil {
		return false, ctx.Err()
	}
	// Some registries remove tags and some what they name, and some neither.
	for _, reference := range []string{tag, desc.Digest.String()} {
		u := p.uploads()
		u.Path = "/v2/" + p.ref.Repository + "/manifests/" + reference
		within := auth.AppendRepositoryScope(ctx, p.repo.Reference, auth.ActionDelete)
		req, err := http.NewRequestWithContext(within, http.MethodDelete, (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String(), nil)
		if err != nil {
			return false, err
		}
		if resp, err := p.do(req); err == nil { //nolint:bodyclose // drain closes it
			drain(resp.Body)
		}
	}
	_, err = p.Resolve(ctx, tag)
	return errors.Is(err, errdef.ErrNotFound), ctx.Err()
}
