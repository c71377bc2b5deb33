package disk

import (
	"io"
	"os"
	"sync"
	"unsafe"
)

// readStep is what is read with one call.
const readStep = 1 << 20

// Buffer is memory for writes and reads past the cache: it begins at a block. Size
// is a multiple of [Alignment].
func Buffer(size int) []byte {
	data := make([]byte, size+Alignment)
	skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(data)))) & (Alignment - 1) //nolint:gosec // its address and nothing else
	return data[skip:][:size:size]
}

var readBuffers = sync.Pool{New: func() any {
	b := Buffer(readStep)
	return &b
}}

// ReadOnce reads size bytes of a file, once, from a place on: what the system has
// in its cache from there, and the rest past the cache, so that a large file does
// not drive out what is read more often. It reads ahead while what was read is
// used. The file stays open, and its position where it is.
//
// It is f itself that is read where a system can't do so. A file that is shorter
// ends early.
func ReadOnce(f *os.File, from, size int64) io.ReadCloser {
	past, err := openPast(f)
	if err != nil {
		return io.NopCloser(io.NewSectionReader(f, from, size))
	}
	r := &onceReader{
		file: f, past: past, at: from, end: from + size,
		read: make(chan readPiece), free: make(chan *[]byte, 2), ended: make(chan struct{}),
	}
	for range cap(r.free) {
		r.free <- readBuffers.Get().(*[]byte)
	}
	go r.run()
	return r
}

// onceReader has two buffers: one is used while the other is filled.
type onceReader struct {
	file, past *os.File
	at, end    int64

	read  chan readPiece
	free  chan *[]byte
	ended chan struct{}
	close sync.Once

	now readPiece
}

type readPiece struct {
	buffer *[]byte
	data   []byte // what is left of it
	err    error  // behind the data
}

func (r *onceReader) run() {
	defer close(r.read)
	for r.at < r.end {
		var buffer *[]byte
		select {
		case buffer = <-r.free:
		case <-r.ended:
			return
		}
		piece := r.next(buffer)
		select {
		case r.read <- piece:
		case <-r.ended:
			r.free <- buffer
			return
		}
		if piece.err != nil {
			return
		}
	}
}

// next fills a buffer, from the block on in which the place is.
func (r *onceReader) next(buffer *[]byte) readPiece {
	data := *buffer
	begin := r.at &^ (Alignment - 1)
	if want := r.end - begin; want < int64(len(data)) {
		data = data[:(want+Alignment-1)&^(Alignment-1)]
	}
	from := r.past
	if isCached(r.file, begin, int64(len(data))) {
		from = r.file
	}
	n, err := from.ReadAt(data, begin)
	if from == r.past && IsNotPast(err) {
		n, err = r.file.ReadAt(data, begin)
	}
	have := min(begin+int64(n), r.end)
	piece := readPiece{buffer: buffer}
	if have > r.at {
		piece.data = data[r.at-begin : have-begin]
		r.at = have
	}
	if have < r.end && n < len(data) {
		if piece.err = err; err == nil {
			piece.err = io.EOF
		}
	}
	return piece
}

func (r *onceReader) Read(p []byte) (int, error) {
	for len(r.now.data) == 0 {
		if r.now.err != nil {
			return 0, r.now.err
		}
		r.giveBack()
		piece, more := <-r.read
		if !more {
			return 0, io.EOF
		}
		r.now = piece
	}
	n := copy(p, r.now.data)
	r.now.data = r.now.data[n:]
	return n, nil
}

func (r *onceReader) giveBack() {
	if r.now.buffer != nil {
		r.free <- r.now.buffer
		r.now = readPiece{err: r.now.err}
	}
}

// Close ends reading ahead.
func (r *onceReader) Close() error {
	r.close.Do(func() {
		close(r.ended)
		for piece := range r.read { // until it has ended
			r.free <- piece.buffer
		}
		r.giveBack()
		for range cap(r.free) {
			readBuffers.Put(<-r.free)
		}
		_ = r.past.Close() // it was only read from
		r.now = readPiece{err: os.ErrClosed}
	})
	return nil
}
