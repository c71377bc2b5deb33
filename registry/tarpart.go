package registry

import (
	"hash/crc32"
	"io"
	"sync"

	"waybill/internal/disk"
	"waybill/internal/tarball"
)

const (
	// What is written with one call, of large blobs and of others. There are as many
	// of the others on their way as transfers at a time.
	largeBuffer = 1 << 20
	smallBuffer = 256 << 10

	// ringLength is how many buffers a large blob has: one that is filled, and those
	// that are hashed and written meanwhile.
	ringLength = 6
)

// A partBuffer is memory that a disk can read by itself, and who still reads it.
type partBuffer struct {
	data []byte
	busy sync.WaitGroup
}

var largeBuffers, smallBuffers = buffersOf(largeBuffer), buffersOf(smallBuffer)

func buffersOf(size int) *sync.Pool {
	return &sync.Pool{New: func() any { return &partBuffer{data: disk.Buffer(size)} }}
}

// waitFor waits until nobody reads the buffers any more.
func waitFor(ring []*partBuffer) {
	for _, b := range ring {
		b.busy.Wait()
	}
}

// partWriter writes a part of a tar from its begin to its end. It gathers what
// is written in a buffer; when it has more than one, those that are full are
// hashed and written while another is filled.
type partWriter struct {
	file     io.WriterAt
	past     io.WriterAt // the same file past the system's cache; nil for none
	disk     *behindSync
	follower *tarFollower // gets the bytes from memory; nil: it reads them in the file
	digest   *besideHash  // of the content; nil for none

	ring     []*partBuffer // the first is filled
	at       int64         // where it goes
	start    int           // what is gathered is between start and filled
	filled   int
	from, to int    // content in it that digest was not given yet
	sum      uint32 // of what was written

	mu  sync.Mutex
	err error // the first of writing
}

// newPartWriter begins at a place, behind what has a checksum.
func newPartWriter(file io.WriterAt, at int64, sum uint32, ring []*partBuffer) *partWriter {
	o := &partWriter{file: file, at: at, sum: sum, ring: ring}
	o.begin()
	return o
}

// begin has the buffer filled from where it is as far from a boundary as its
// place in the file.
func (o *partWriter) begin() {
	o.start = int(o.at % disk.Alignment)
	o.filled = o.start
}

func (o *partWriter) buffer() []byte { return o.ring[0].data }

func (o *partWriter) full() bool { return o.filled == len(o.buffer()) }

// flush sees to it that what is gathered is written, and says what went wrong so
// far.
func (o *partWriter) flush() error {
	current := o.ring[0]
	data := current.data[o.start:o.filled]
	if len(data) == 0 {
		return o.failure()
	}
	o.sum = crc32.Update(o.sum, castagnoli, data)
	if len(o.ring) > 1 && o.to > o.from {
		current.busy.Add(1)
		o.digest.give(current.data[o.from:o.to], current.busy.Done)
		o.from, o.to = 0, 0
	}
	o.hashRest()
	if o.follower != nil {
		current.busy.Add(1)
		o.follower.offer(o.at, data, current.busy.Done)
	}
	if o.past == nil {
		o.wrote(o.file.WriteAt(data, o.at))
	} else {
		current.busy.Add(1)
		go func(at int64) {
			defer current.busy.Done()
			o.writePast(data, at)
		}(o.at)
	}
	o.at += int64(len(data))
	o.ring = append(o.ring[1:], current)
	o.ring[0].busy.Wait()
	o.begin()
	return o.failure()
}

// writePast writes what fills whole blocks past the cache, and the rest through
// it.
func (o *partWriter) writePast(data []byte, at int64) {
	head := min(-at&(disk.Alignment-1), int64(len(data)))
	whole := (int64(len(data)) - head) &^ (disk.Alignment - 1)
	for _, piece := range []struct {
		file     io.WriterAt
		from, to int64
	}{{o.file, 0, head}, {o.past, head, head + whole}, {o.file, head + whole, int64(len(data))}} {
		if piece.from == piece.to {
			continue
		}
		n, err := piece.file.WriteAt(data[piece.from:piece.to], at+piece.from)
		if err != nil && piece.file == o.past && disk.IsNotPast(err) {
			n, err = o.file.WriteAt(data[piece.from:piece.to], at+piece.from)
		}
		o.wrote(n, err)
	}
}

func (o *partWriter) wrote(n int, err error) {
	if err == nil {
		o.disk.wrote(n)
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.err = &fileError{err}
	}
}

func (o *partWriter) failure() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// settle waits until all that was flushed is written and hashed, and hashes the
// content that was not.
func (o *partWriter) settle() error {
	waitFor(o.ring)
	o.hashRest()
	return o.failure()
}

// settleHash waits until all content is hashed. Some may not be written yet.
func (o *partWriter) settleHash() error {
	o.hashRest()
	return o.failure()
}

func (o *partWriter) hashRest() {
	if o.to > o.from {
		o.digest.add(o.buffer()[o.from:o.to])
		o.from, o.to = 0, 0
	}
}

func (o *partWriter) addHeader(part tarPart) error {
	header, err := tarball.Header(part.Name, part.Size)
	if err != nil {
		return err
	}
	return o.add(header)
}

func (o *partWriter) add(data []byte) error {
	for len(data) > 0 {
		if o.full() {
			if err := o.flush(); err != nil {
				return err
			}
		}
		n := copy(o.buffer()[o.filled:], data)
		o.filled, data = o.filled+n, data[n:]
	}
	return nil
}

// readFrom reads content once, at most left bytes and what there is room for.
func (o *partWriter) readFrom(r io.Reader, left int64) (int, error) {
	room := o.buffer()[o.filled:]
	n, err := r.Read(room[:min(int64(len(room)), left)])
	if o.from == o.to {
		o.from = o.filled
	}
	o.filled += n
	o.to = o.filled
	return n, err
}

// pad writes what is gathered, and zeros up to an end.
func (o *partWriter) pad(end int64) error {
	if err := o.add(make([]byte, end-o.at-int64(o.filled-o.start))); err != nil {
		return err
	}
	if err := o.flush(); err != nil {
		return err
	}
	return o.settle()
}
