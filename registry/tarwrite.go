package registry

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"sync"
	"time"

	"waybill/internal/disk"
	"waybill/internal/files"
)

// tarWriting says how [writeTar] writes.
type tarWriting struct {
	place       string // printed
	concurrency int
	hooks       *ResumeHooks
	sum         *tarSum // computed while the tar is written; nil for no need of it
}

// writeTar writes a planned tar to a partial file, goes on with what an
// interrupted write of the same plan has left, and gives it its name. It closes
// the file, whatever happens: what is worth it is kept, and that is an
// *UnfinishedError.
func writeTar(ctx context.Context, to *partialFile, plan *tarPlan, how tarWriting) error {
	claims, why, err := to.begin(ctx, plan, how.place)
	switch {
	case err != nil && to.before > 0 && why == "":
		return explainWrite(errors.Join(err, to.keep()), how.place)
	case err != nil:
		return explainWrite(errors.Join(err, to.drop()), how.place)
	}
	w := &tarWriter{
		plan: plan, file: to.file, journal: to.journal, claims: claims, hooks: how.hooks,
		follower: how.sum.follow(plan, to, claims[wholeTar]),
		disk:     newBehindSync(to.file, to.journal), before: to.before,
	}
	defer w.follower.stop()
	if past, err := disk.Past(to.name()); err == nil {
		defer past.Close() // what it has written is synced with the rest
		w.past = past
		defer disk.Overlap()()
	}
	if to.before > 0 {
		how.hooks.resumed(w.resumption(to.name(), why))
	}
	err = w.write(ctx, how.concurrency)
	if failed := w.disk.end(); err == nil && failed != nil {
		err = &fileError{failed}
	}
	if err == nil {
		w.follower.complete()
		err = to.finish(plan)
	}
	done := w.done()
	switch {
	case err == nil:
		return nil
	case done.Bytes == 0:
		return explainWrite(errors.Join(err, to.drop()), how.place)
	}
	return &UnfinishedError{
		Place: how.place, Partial: to.name(), Journal: to.journalName(),
		Done: done, Of: plan.amount(), Err: explainWrite(errors.Join(err, to.keep()), how.place),
	}
}

// tarWriter writes a planned tar to a file: any part at any time, several at
// once, large ones in order. Nothing is held of a blob but its buffers.
type tarWriter struct {
	plan     *tarPlan
	file     tarFile
	past     *os.File // the same past the system's cache; nil where that is not possible
	before   int64    // how long the file was
	journal  *journal
	disk     *behindSync
	lanes    *lanes
	claims   map[string]claim
	hooks    *ResumeHooks
	follower *tarFollower // nil for none

	mu       sync.Mutex
	problems []error          // content that its source has not got, or not right
	written  map[string]int64 // of each blob's content, by name; -1: all
}

// tarFile is what a tar is written to, and read again when an interrupted write
// goes on.
type tarFile interface {
	io.WriterAt
	io.ReaderAt
}

// After so many bytes of one blob the journal is told. A process that is killed
// loses no more of each blob.
const journalStep = 32 << 20

// write writes all parts. What one source has not got, or not right, doesn't
// keep the others from being written.
func (w *tarWriter) write(ctx context.Context, concurrency int) error {
	w.written = map[string]int64{}
	for name, c := range w.claims {
		w.written[name] = c.content
		if c.whole {
			w.written[name] = -1
		}
	}
	w.lanes = newLanes(w.largeParts(), concurrency)
	err := each(ctx, concurrency, len(w.plan.parts), func(ctx context.Context, i int) error {
		err := w.part(ctx, i)
		if err != nil {
			w.follower.stop() // the tar will not be whole, and nobody need wait for its sum
		}
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

// resumption is how much of the plan's blobs the journal claims.
func (w *tarWriter) resumption(name, why string) Resumption {
	r := Resumption{Partial: name, Why: why}
	for _, part := range w.plan.parts {
		c, ok := w.claims[part.Name]
		if !ok {
			continue
		}
		n := c.content
		if c.whole {
			n = part.Size
		}
		r.Kept.Objects, r.Kept.Bytes = r.Kept.Objects+1, r.Kept.Bytes+n
		if c.safe {
			r.Safe += n
		}
	}
	return r
}

// done is how much there is of the plan's blobs.
func (w *tarWriter) done() Amount {
	w.mu.Lock()
	defer w.mu.Unlock()
	var a Amount
	for _, part := range w.plan.parts {
		n := w.written[part.Name]
		switch {
		case part.data != nil:
		case n < 0:
			a.Objects, a.Bytes = a.Objects+1, a.Bytes+part.Size
		default:
			a.Bytes += min(n, part.Size)
		}
	}
	return a
}

func (w *tarWriter) note(part tarPart, content int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.written[part.Name] = content
}

// part sees to it that one file of the tar is written.
func (w *tarWriter) part(ctx context.Context, i int) error {
	part := w.plan.parts[i]
	if part.data != nil {
		return w.dataPart(i)
	}
	fed := false
	if w.isLarge(part) {
		alone, err := w.lanes.enter(ctx, i)
		if err != nil {
			return err
		}
		defer w.lanes.leave()
		fed = alone && w.follower != nil
	}
	part.started()
	p := &blobPart{tarPart: part, index: i, writer: w, fed: fed, sum: newBesideHash(part.content().Algorithm())}
	defer p.end()
	p.takeBuffers()
	if err := p.run(ctx); err != nil {
		return err
	}
	w.follower.reached(i, part.End(), part.End())
	w.note(part, -1)
	part.done(p.told)
	return nil
}

func (w *tarWriter) dataPart(i int) error {
	part := w.plan.parts[i]
	buffer := smallBuffers.Get().(*partBuffer)
	defer smallBuffers.Put(buffer)
	out := newPartWriter(w.file, part.Header, 0, []*partBuffer{buffer})
	out.disk = w.disk
	err := errors.Join(out.addHeader(part), out.add(part.data), out.pad(part.End()))
	if err == nil {
		w.follower.reached(i, part.End(), part.End())
	}
	return err
}

// isLarge says whether a part takes a lane: one of which nothing, or not all, is
// there.
func (w *tarWriter) isLarge(part tarPart) bool {
	return part.data == nil && part.Size >= largeBlob && !w.claims[part.Name].whole
}

func (w *tarWriter) largeParts() []int {
	var large []int
	for i, part := range w.plan.parts {
		if w.isLarge(part) {
			large = append(large, i)
		}
	}
	return large
}

// blobPart is a blob on its way to its place.
type blobPart struct {
	tarPart
	index  int // of the plan's parts
	writer *tarWriter
	fed    bool       // the follower gets it from memory
	pool   *sync.Pool // of its buffers
	ring   []*partBuffer
	out    *partWriter
	sum    *besideHash // of the content so far
	there  int64       // how much of the content that is
	noted  int64       // how much of it the journal knows
	told   int64       // how much was read

	begun   time.Time     // when the journal was told last
	reading time.Duration // since then
}

// takeBuffers takes the memory that the blob needs.
func (p *blobPart) takeBuffers() {
	n := 1
	p.pool = smallBuffers
	switch {
	case p.fed:
		n, p.pool = ringLength, largeBuffers
	case p.writer.isLarge(p.tarPart):
		n, p.pool = 2, largeBuffers
	}
	for range n {
		p.ring = append(p.ring, p.pool.Get().(*partBuffer))
	}
}

// end gives them back, when nobody reads them any more.
func (p *blobPart) end() {
	waitFor(p.ring)
	for _, b := range p.ring {
		p.pool.Put(b)
	}
	p.sum.close()
}

func (p *blobPart) run(ctx context.Context) error {
	c, claimed := p.writer.claims[p.Name]
	if claimed {
		claimed = p.takeOver(c)
		if claimed && c.whole {
			return nil
		}
		if !claimed {
			p.writer.note(p.tarPart, 0)
			p.writer.hooks.altered(p.blob)
		}
	}
	if !claimed {
		if err := p.fresh(); err != nil {
			return err
		}
	}
	err := p.copy(ctx)
	if claimed && as[*mismatchError](err) {
		// What is there is the start of something else, whatever the journal says.
		p.read(-int(p.told))
		p.told = 0
		if err = p.fresh(); err == nil {
			err = p.copy(ctx)
		}
	}
	switch {
	case err == nil:
		p.writer.journal.done(p.Name, p.out.sum)
		return nil
	case !isFileError(err) && !isContentProblem(err) && p.there > p.noted && errors.Join(p.out.flush(), p.out.settle()) == nil:
		p.tell()
	}
	return err
}

// fresh begins with the first byte.
func (p *blobPart) fresh() error {
	p.writer.follower.altered(p.index)
	p.sum.reset()
	p.to(p.Header, 0)
	p.there, p.noted = 0, 0
	return p.out.addHeader(p.tarPart)
}

// to goes on writing at a place, behind what has a checksum.
func (p *blobPart) to(at int64, sum uint32) {
	waitFor(p.ring)
	p.out = newPartWriter(p.writer.file, at, sum, p.ring)
	p.out.digest, p.out.disk = p.sum, p.writer.disk
	if p.fed {
		p.out.follower = p.writer.follower
		if p.writer.past != nil {
			p.out.past = p.writer.past
		}
	}
	p.begun, p.reading = time.Now(), 0
}

// takeOver holds a claim against what is in the file, and goes on from there
// when it is true.
func (p *blobPart) takeOver(c claim) bool {
	end := p.Offset + c.content
	if c.whole {
		end = p.End()
	}
	if c.content > p.Size || !p.writer.isThere(c, p.Header, end, p.ring[0].data) {
		return false
	}
	if c.whole {
		p.writer.saidAgain(p.Name, c)
		return true
	}
	if p.sum.goOn(c.state) != nil {
		return false
	}
	p.writer.saidAgain(p.Name, c)
	p.to(end, c.sum)
	p.there, p.noted = c.content, c.content
	p.writer.follower.reached(p.index, end, end)
	return true
}

// saidAgain lets the journal say again what was read again.
func (w *tarWriter) saidAgain(name string, c claim) {
	switch {
	case c.safe:
	case c.whole:
		w.journal.done(name, c.sum)
	default:
		w.journal.at(name, c.content, c.sum, c.state)
	}
}

// isThere says whether what is claimed is in the file.
func (w *tarWriter) isThere(c claim, from, to int64, buffer []byte) bool {
	if c.safe && to <= w.before {
		return true
	}
	sum, err := sumOf(w.file, from, to, buffer)
	return err == nil && sum == c.sum
}

func sumOf(r io.ReaderAt, from, to int64, buffer []byte) (uint32, error) {
	sum := uint32(0)
	for from < to {
		n, err := r.ReadAt(buffer[:min(int64(len(buffer)), to-from)], from)
		sum, from = crc32.Update(sum, castagnoli, buffer[:n]), from+int64(n)
		if err != nil && from < to {
			return 0, err
		}
	}
	return sum, nil
}

// copy brings what is left from where the blob comes from, and checks all of the
// part.
func (p *blobPart) copy(ctx context.Context) error {
	if p.there < p.Size || p.Size == 0 {
		if err := p.transfer(ctx); err != nil {
			return err
		}
	}
	if err := p.out.settleHash(); err != nil {
		return err
	}
	if want := p.content(); p.sum.encoded(want.Algorithm()) != want.Encoded() {
		return p.failed(&mismatchError{p.wrong("corrupt: the content is not what its digest says")})
	}
	return p.out.pad(p.End())
}

func (p *blobPart) transfer(ctx context.Context) error {
	rc, err := p.open(ctx, p.from+p.there)
	if err != nil {
		return p.failed(err)
	}
	defer rc.Close() // it was only read from
	for p.there < p.Size {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := p.makeRoom(); err != nil {
			return err
		}
		begun := time.Now()
		n, err := p.out.readFrom(rc, p.Size-p.there)
		p.reading += time.Since(begun)
		p.there, p.told = p.there+int64(n), p.told+int64(n)
		p.read(n)
		switch {
		case errors.Is(err, io.EOF) && p.there < p.Size:
			return p.failed(p.wrong(fmt.Sprintf("truncated: %d of %d bytes", p.there, p.Size)))
		case err != nil && !errors.Is(err, io.EOF):
			return p.failed(err)
		}
	}
	if !p.whole() {
		return nil
	}
	if n, _ := io.ReadFull(rc, make([]byte, 1)); n > 0 {
		return p.failed(p.wrong(fmt.Sprintf("corrupt: longer than the %d bytes its descriptor says", p.Size)))
	}
	return nil
}

// makeRoom writes a buffer that is full.
func (p *blobPart) makeRoom() error {
	if !p.out.full() {
		return nil
	}
	if err := p.out.flush(); err != nil {
		return err
	}
	if p.there-p.noted >= journalStep {
		if err := p.out.settle(); err != nil {
			return err
		}
		p.tell()
	}
	if !p.fed {
		p.writer.follower.reached(p.index, p.out.at, 0)
	}
	return nil
}

// tell lets the journal know how much there is, once that is in the file.
func (p *blobPart) tell() {
	if p.writer.isLarge(p.tarPart) {
		p.writer.lanes.adapt(p.sum.hasWaited() && 2*p.reading > time.Since(p.begun))
	}
	p.begun, p.reading = time.Now(), 0
	p.noted = p.there
	data, err := p.sum.state()
	if err != nil {
		return
	}
	p.writer.journal.at(p.Name, p.there, p.out.sum, data)
	p.writer.note(p.tarPart, p.there)
	p.writer.follower.reached(p.index, p.out.at, p.out.at)
}

func (p *blobPart) wrong(reason string) *ContentError {
	return &ContentError{Ref: p.place, Digest: p.blob.Digest, Reason: reason}
}

// A mismatchError is content that is not what its digest says: here it may be
// what was there before that is wrong.
type mismatchError struct{ *ContentError }

func (e *mismatchError) Unwrap() error { return e.ContentError }

// A fileError is one of the file that is written, not of what is read.
type fileError struct{ err error }

func (e *fileError) Error() string { return files.PlainError(e.err).Error() }

func (e *fileError) Unwrap() error { return e.err }

func isFileError(err error) bool { return as[*fileError](err) }
