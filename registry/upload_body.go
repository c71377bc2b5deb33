package registry

import (
	"errors"
	"fmt"
	"io"
	"math"
	"sync"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// uploadBody gives a blob in pieces. The last piece that was given is held, so
// that it can be given again, in whole or from some offset on; content that can be
// read from any offset is not held but when it is small. What is given was
// checked: the end of the blob only comes when its digest is right.
//
// A transport may read a request's body after the request has failed. Readers of
// an earlier piece then get an error, and not the bytes of a later one.
type uploadBody struct {
	desc   ocispec.Descriptor
	place  string // what the content is for, for messages
	source io.Reader
	again  rereadable // nil: the source can't be read from any offset
	seeker io.Seeker  // nil: the source can be read once
	start  int64      // where the blob begins in the source
	spare  *sync.Pool // of buffers for small pieces

	mu    sync.Mutex
	rest  io.Reader // of the source, checked
	read  int64     // bytes taken from rest
	most  int64     // the most that read ever was
	held  []byte    // the bytes before read
	given int64     // size of the last piece
	age   int       // of readers; those of an earlier age are void
}

// rereadable is content that can be read from any offset. It fails by itself
// instead of ending well when it is not what its descriptor promised.
type rereadable interface {
	io.Reader
	readFrom(offset int64) error
	// doubt has the content hashed when it is read from its beginning again, and says
	// whether that is news.
	doubt() bool
}

// smallPiece is what is held of content that can be read from any offset: to send
// it again costs no reading then.
const smallPiece = 1 << 20

// uploadPiece is the body of a request.
type uploadPiece struct {
	open func() (io.ReadCloser, error)
	size int64
	once bool // opens a second time only as long as nothing was read
}

// sourceError is content that could not be read, as against content that could
// not be sent.
type sourceError struct{ err error }

func (e *sourceError) Error() string { return e.err.Error() }
func (e *sourceError) Unwrap() error { return e.err }

var (
	errStale    = errors.New("the request that this body belongs to is over")
	errReadOnce = errors.New("the upload would have to start again, and the content can be read only once")
)

func newUploadBody(desc ocispec.Descriptor, r io.Reader, place string, spare *sync.Pool) (*uploadBody, error) {
	b := &uploadBody{desc: desc, place: place, source: r, spare: spare}
	if again, ok := r.(rereadable); ok {
		b.again, b.rest = again, r
		return b, checkDescriptor(desc, place)
	}
	if seeker, ok := r.(io.Seeker); ok {
		if at, err := seeker.Seek(0, io.SeekCurrent); err == nil {
			b.seeker, b.start = seeker, at
		}
	}
	return b, b.begin()
}

func (b *uploadBody) begin() error {
	rest, err := checked(io.NopCloser(b.source), b.desc, b.place)
	if err != nil {
		return err
	}
	b.rest, b.read, b.held = rest, 0, b.held[:0]
	return nil
}

// restart goes back to the first byte.
func (b *uploadBody) restart() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.age++
	if b.read == int64(len(b.held)) {
		return nil // it is held
	}
	if b.again != nil {
		return b.goTo(0)
	}
	if b.seeker == nil {
		return errReadOnce
	}
	if _, err := b.seeker.Seek(b.start, io.SeekStart); err != nil {
		return &sourceError{fmt.Errorf("%s: reading it again: %w", b.place, err)}
	}
	return b.begin()
}

// goTo reads on from an offset of content that allows it.
func (b *uploadBody) goTo(offset int64) error {
	if err := b.again.readFrom(offset); err != nil {
		return &sourceError{fmt.Errorf("%s: reading it again: %w", b.place, err)}
	}
	b.read, b.held = offset, b.held[:0]
	return nil
}

// close makes all readers void: the source is the caller's again.
func (b *uploadBody) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.age++
	if cap(b.held) == smallPiece {
		b.spare.Put((*[smallPiece]byte)(b.held[:smallPiece]))
	}
	b.held = nil
}

// holds says whether a piece can begin at an offset.
func (b *uploadBody) holds(offset int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.again != nil && offset <= b.most || b.isHeld(offset)
}

func (b *uploadBody) isHeld(offset int64) bool {
	return offset >= b.read-int64(len(b.held)) && offset <= b.read
}

// largest is the largest piece that can be given without holding too much.
func (b *uploadBody) largest() int64 {
	if b.again != nil {
		return math.MaxInt64
	}
	return wholeBelow
}

// doubt has content that was refused hashed, and says whether it was not.
func (b *uploadBody) doubt() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.age++
	return b.again != nil && b.again.doubt()
}

// last is the size of the piece that was given last.
func (b *uploadBody) last() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.given
}

// piece gives size bytes, or what there is, from an offset on that is held.
// Bytes before the offset are let go.
func (b *uploadBody) piece(offset, size int64) (uploadPiece, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.age++
	size = min(size, b.desc.Size-offset)
	b.given = size
	if b.again != nil && size > smallPiece {
		return uploadPiece{size: size, open: func() (io.ReadCloser, error) { return b.stream(offset, size) }}, nil
	}
	if err := b.hold(offset, size); err != nil {
		return uploadPiece{}, err
	}
	age := b.age
	return uploadPiece{size: size, open: func() (io.ReadCloser, error) {
		return &pieceReader{body: b, age: age, at: offset, end: offset + size}, nil
	}}, nil
}

// stream reads bytes as they are sent, and voids who read some before.
func (b *uploadBody) stream(offset, size int64) (io.ReadCloser, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.age++
	if !b.isHeld(offset) {
		if err := b.goTo(offset); err != nil {
			return nil, err
		}
	}
	return &pieceReader{body: b, age: b.age, at: offset, end: offset + size}, nil
}

// hold takes size bytes from an offset on into memory, and lets go of others.
func (b *uploadBody) hold(offset, size int64) error {
	if !b.isHeld(offset) && b.again != nil {
		if err := b.goTo(offset); err != nil {
			return err
		}
	}
	if !b.isHeld(offset) {
		return fmt.Errorf("byte %d is not held: %w", offset, errReadOnce)
	}
	b.held = append(b.held[:0], b.held[offset-(b.read-int64(len(b.held))):]...)
	return b.fill(size)
}

// buffer has room for size bytes.
func (b *uploadBody) buffer(size int64) []byte {
	if size > smallPiece {
		return make([]byte, 0, size)
	}
	if spare, ok := b.spare.Get().(*[smallPiece]byte); ok {
		return spare[:0]
	}
	return make([]byte, 0, smallPiece)
}

// fill reads until size bytes are held.
func (b *uploadBody) fill(size int64) error {
	if have := int64(len(b.held)); have < size {
		if int64(cap(b.held)) < size {
			b.held = append(b.buffer(size), b.held...)
		}
		n, err := io.ReadFull(b.rest, b.held[have:size])
		b.held, b.read = b.held[:have+int64(n)], b.read+int64(n)
		b.most = max(b.most, b.read)
		if err != nil {
			return &sourceError{err}
		}
	}
	return b.atEnd()
}

// atEnd looks for bytes too many once all promised ones were read.
func (b *uploadBody) atEnd() error {
	if b.read < b.desc.Size {
		return nil
	}
	if _, err := b.rest.Read(make([]byte, 1)); err != nil && !errors.Is(err, io.EOF) {
		return &sourceError{err}
	}
	return nil
}

// whole gives all of the blob. What is not larger than hold, or can be read from
// any offset, can be given as often as it is needed.
func (b *uploadBody) whole(hold int64) (uploadPiece, error) {
	if b.desc.Size <= hold || b.again != nil {
		return b.piece(0, b.desc.Size)
	}
	if err := b.restart(); err != nil {
		return uploadPiece{}, err
	}
	b.mu.Lock()
	b.given = b.desc.Size
	b.mu.Unlock()
	return uploadPiece{size: b.desc.Size, once: true, open: func() (io.ReadCloser, error) {
		if err := b.restart(); err != nil {
			return nil, err
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		return &pieceReader{body: b, age: b.age, end: b.desc.Size}, nil
	}}, nil
}

// pieceReader reads what is held, and beyond that from the source.
type pieceReader struct {
	body    *uploadBody
	age     int
	at, end int64
}

func (r *pieceReader) Read(p []byte) (int, error) {
	b := r.body
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.age != b.age {
		return 0, errStale
	}
	if r.at == r.end {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), r.end-r.at)]
	n, err := 0, error(nil)
	if first := b.read - int64(len(b.held)); r.at < b.read {
		n = copy(p, b.held[r.at-first:])
	} else {
		n, err = b.readOn(p)
	}
	r.at += int64(n)
	return n, err
}

// readOn takes bytes from the source that are not held.
func (b *uploadBody) readOn(p []byte) (int, error) {
	n, err := b.rest.Read(p)
	b.read += int64(n)
	b.most = max(b.most, b.read)
	if n > 0 {
		b.held = b.held[:0]
	}
	if err != nil && (!errors.Is(err, io.EOF) || b.read < b.desc.Size) {
		return n, &sourceError{err}
	}
	if err := b.atEnd(); err != nil {
		return 0, err
	}
	return n, nil
}

func (r *pieceReader) Close() error { return nil }
