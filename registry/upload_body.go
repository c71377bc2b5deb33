package registry

import (
	"errors"
	"fmt"
	"io"
	"sync"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// uploadBody gives a blob in pieces. The last piece that was given is held, so
// that it can be given again, in whole or from some offset on. What is given was
// checked: the end of the blob only comes when its digest is right.
//
// A transport may read a request's body after the request has failed. Readers of
// an earlier piece then get an error, and not the bytes of a later one.
type uploadBody struct {
	desc   ocispec.Descriptor
	place  string // what the content is for, for messages
	source io.Reader
	seeker io.Seeker // nil: the source can be read once
	start  int64     // where the blob begins in the source

	mu    sync.Mutex
	rest  io.Reader // of the source, checked
	read  int64     // bytes taken from rest
	held  []byte    // the bytes before read
	given int64     // size of the last piece
	age   int       // of readers; those of an earlier age are void
}

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

func newUploadBody(desc ocispec.Descriptor, r io.Reader, place string) (*uploadBody, error) {
	b := &uploadBody{desc: desc, place: place, source: r}
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
	if b.seeker == nil {
		return errReadOnce
	}
	if _, err := b.seeker.Seek(b.start, io.SeekStart); err != nil {
		return &sourceError{fmt.Errorf("%s: reading it again: %w", b.place, err)}
	}
	return b.begin()
}

// close makes all readers void: the source is the caller's again.
func (b *uploadBody) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.age++
	b.held = nil
}

// holds says whether a piece can begin at an offset.
func (b *uploadBody) holds(offset int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return offset >= b.read-int64(len(b.held)) && offset <= b.read
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
	first := b.read - int64(len(b.held))
	if offset < first || offset > b.read {
		return uploadPiece{}, fmt.Errorf("byte %d is not held: %w", offset, errReadOnce)
	}
	b.held = append(b.held[:0], b.held[offset-first:]...)
	size = min(size, b.desc.Size-offset)
	if err := b.fill(size); err != nil {
		return uploadPiece{}, err
	}
	b.given = size
	age := b.age
	return uploadPiece{size: size, open: func() (io.ReadCloser, error) {
		return &pieceReader{body: b, age: age, at: offset, end: offset + size}, nil
	}}, nil
}

// fill reads until size bytes are held.
func (b *uploadBody) fill(size int64) error {
	if have := int64(len(b.held)); have < size {
		if int64(cap(b.held)) < size {
			b.held = append(make([]byte, 0, size), b.held...)
		}
		n, err := io.ReadFull(b.rest, b.held[have:size])
		b.held, b.read = b.held[:have+int64(n)], b.read+int64(n)
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

// whole gives all of the blob. What is not larger than hold is held, and can be
// given as often as it is needed.
func (b *uploadBody) whole(hold int64) (uploadPiece, error) {
	if b.desc.Size <= hold {
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
