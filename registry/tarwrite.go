package registry

import (
	"context"
	"errors"
	"fmt"
	"hash"
	"io"
	"sync"

	"waybill/internal/tarball"
)

// tarWriter writes a planned tar to a file: any part at any time, several at
// once. Nothing is held of a blob but one buffer.
type tarWriter struct {
	plan  *tarPlan
	file  io.WriterAt
	place string

	mu       sync.Mutex
	problems []error // content that its source has not got, or not right
}

// A buffer holds what is written with one call. Eight of them, which is how many
// transfers there are at once by default, are no weight.
const tarBuffer = 1 << 20

var tarBuffers = sync.Pool{New: func() any { return new([tarBuffer]byte) }}

// write writes all parts. What one source has not got, or not right, doesn't
// keep the others from being written.
func (w *tarWriter) write(ctx context.Context, concurrency int) error {
	err := each(ctx, concurrency, len(w.plan.parts), func(ctx context.Context, i int) error {
		err := w.part(ctx, w.plan.parts[i])
		if isContentProblem(err) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.problems = append(w.problems, err)
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	return joinProblems(w.problems)
}

// part writes one file of the tar, its header first.
func (w *tarWriter) part(ctx context.Context, part tarPart) error {
	header, err := tarball.Header(part.Name, part.Size)
	if err != nil {
		return err
	}
	buffer := tarBuffers.Get().(*[tarBuffer]byte)
	defer tarBuffers.Put(buffer)
	out := &partWriter{file: w.file, at: part.Header, buffer: buffer[:]}
	if err := out.add(header); err != nil {
		return err
	}
	if part.data != nil {
		return errors.Join(out.add(part.data), out.pad(part.End()))
	}
	part.started()
	if err := w.blob(ctx, part, out); err != nil {
		return err
	}
	if err := out.pad(part.End()); err != nil {
		return err
	}
	part.done()
	return nil
}

// blob reads a blob from its supply and checks it on the way.
func (w *tarWriter) blob(ctx context.Context, part tarPart, out *partWriter) error {
	rc, err := part.open(ctx, part.from)
	if err != nil {
		return part.failed(err)
	}
	defer rc.Close() // it was only read from
	sum := part.blob.Digest.Algorithm().Hash()
	for left := part.Size; left > 0; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := out.from(rc, left, sum)
		left -= int64(n)
		part.read(n)
		switch {
		case isFileError(err):
			return err
		case errors.Is(err, io.EOF) && left > 0:
			return part.failed(w.wrong(part, fmt.Sprintf("truncated: %d of %d bytes", part.Size-left, part.Size)))
		case err != nil && !errors.Is(err, io.EOF):
			return part.failed(err)
		}
	}
	if n, _ := rc.Read(make([]byte, 1)); n > 0 && part.whole() {
		return part.failed(w.wrong(part, fmt.Sprintf("longer than the %d bytes its descriptor says", part.Size)))
	}
	if part.whole() && fmt.Sprintf("%x", sum.Sum(nil)) != part.blob.Digest.Encoded() {
		return part.failed(w.wrong(part, "the content is not what its digest says"))
	}
	return nil
}

func (w *tarWriter) wrong(part tarPart, reason string) error {
	return &ContentError{Ref: w.place, Digest: part.blob.Digest, Reason: reason}
}

// partWriter gathers what is written one behind the other.
type partWriter struct {
	file   io.WriterAt
	at     int64 // where the buffer goes
	buffer []byte
	filled int
}

// A fileError is one of the file that is written, not of what is read.
type fileError struct{ err error }

func (e *fileError) Error() string { return e.err.Error() }

func (e *fileError) Unwrap() error { return e.err }

func isFileError(err error) bool { return as[*fileError](err) }

func (o *partWriter) flush() error {
	if o.filled == 0 {
		return nil
	}
	if _, err := o.file.WriteAt(o.buffer[:o.filled], o.at); err != nil {
		return &fileError{err}
	}
	o.at, o.filled = o.at+int64(o.filled), 0
	return nil
}

func (o *partWriter) add(data []byte) error {
	for len(data) > 0 {
		if o.filled == len(o.buffer) {
			if err := o.flush(); err != nil {
				return err
			}
		}
		n := copy(o.buffer[o.filled:], data)
		o.filled, data = o.filled+n, data[n:]
	}
	return nil
}

// from reads once, at most left bytes, and says how many there were.
func (o *partWriter) from(r io.Reader, left int64, sum hash.Hash) (int, error) {
	if o.filled == len(o.buffer) {
		if err := o.flush(); err != nil {
			return 0, err
		}
	}
	room := o.buffer[o.filled:]
	n, err := r.Read(room[:min(int64(len(room)), left)])
	_, _ = sum.Write(room[:n]) // hashes don't fail
	o.filled += n
	return n, err
}

// pad writes what is gathered, and zeros up to an end.
func (o *partWriter) pad(end int64) error {
	if err := o.add(make([]byte, end-o.at-int64(o.filled))); err != nil {
		return err
	}
	return o.flush()
}
