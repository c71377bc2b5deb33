package registry

import (
	"encoding"
	"hash"
	"io"
	"sync"
)

// A tarFollower computes the checksum of a planned tar behind those who write it:
// it reads what stands at the front of the file while what comes later is still on
// its way, so that little is left to read when the last byte is written. One
// writer may offer it what it writes, so that it need not be read. The journal is
// told how far it is, so that a write that goes on later need not read all of it
// again.
type tarFollower struct {
	plan    *tarPlan
	file    io.ReaderAt
	journal *journal
	sum     hash.Hash

	mu     sync.Mutex
	news   sync.Cond
	parts  []followed
	offers []offered
	reads  bool  // it takes no offers
	at     int64 // hashed up to here
	ahead  int64 // what is being hashed ends here
	part   int   // the part that is in
	noted  int64 // the journal knows up to here
	resume claim // where an earlier run was; no content: nowhere
	resets int
	whole  bool // all is written
	ended  bool // nothing more will be written, and not all is
}

// followed is how far one part is written: up to a place in the tar.
type followed struct {
	written int64
	told    int64 // what a later run can rely on
}

// offered is a piece of the tar that is in memory.
type offered struct {
	at   int64
	data []byte
	done func()
}

func (o offered) end() int64 { return o.at + int64(len(o.data)) }

// followBuffer is what is read at once.
const followBuffer = 1 << 20

func newTarFollower(plan *tarPlan, file io.ReaderAt, journal *journal, sum hash.Hash, resume claim) *tarFollower {
	f := &tarFollower{plan: plan, file: file, journal: journal, sum: sum, resume: resume, parts: make([]followed, len(plan.parts))}
	f.news.L = &f.mu
	for i, part := range plan.parts {
		f.parts[i] = followed{part.Header, part.Header}
	}
	return f
}

// reached notes that a part is written up to a place, and how much of that the
// journal knows. A nil follower follows nothing.
func (f *tarFollower) reached(part int, written, told int64) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.parts[part] = followed{written, max(told, f.parts[part].told)}
	f.news.Signal()
}

// offer gives a piece of the tar that will not be read in the file: everything
// before it is written or will be, without anybody's waiting for this piece. Its
// bytes must not change until done is called. All offers come in order.
func (f *tarFollower) offer(at int64, data []byte, done func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended || f.whole || f.reads {
		done()
		return
	}
	f.offers = append(f.offers, offered{at, data, done})
	f.news.Signal()
}

// release lets all offers go.
func (f *tarFollower) release() {
	for _, o := range f.offers {
		o.done()
	}
	f.offers = nil
}

// altered notes that a part is written anew from its beginning.
func (f *tarFollower) altered(part int) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	begin := f.plan.parts[part].Header
	f.parts[part] = followed{begin, begin}
	if f.resume.content > begin {
		f.resume = claim{}
	}
	if max(f.at, f.ahead) > begin {
		f.restart()
	}
}

// restart begins with the first byte again, and reads everything in the file:
// who offered something has let go of what was before.
func (f *tarFollower) restart() {
	f.at, f.ahead, f.part, f.noted = 0, 0, 0, 0
	f.resets++
	f.reads = true
	f.release()
}

// complete notes that all parts are written: what is left is
// read, whatever comes.
func (f *tarFollower) complete() {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.whole = true
	f.release()
	for i, part := range f.plan.parts {
		f.parts[i].written = part.End()
	}
	f.news.Signal()
}

// stop ends it, unless all is written.
func (f *tarFollower) stop() {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended = !f.whole; f.ended {
		f.release()
	}
	f.news.Signal()
}

// A followStep is what is done next.
type followStep struct {
	from, to int64
	data     []byte // the bytes; nil: they are read in the file
	done     func() // whose data it is is told
	isTold   bool   // the journal may name the end
	resets   int    // how often all was begun anew
}

// run reads until all of the tar but the mark at its end is hashed, and says
// whether that came to be.
func (f *tarFollower) run() (bool, error) {
	defer f.stop() // nobody need wait for it any more
	buffer := make([]byte, followBuffer)
	for {
		step, more := f.next()
		if !more {
			return step.from == f.plan.tar.Trailer(), nil
		}
		if step.from == 0 {
			f.sum.Reset()
		}
		data := step.data
		if data == nil {
			data = buffer[:step.to-step.from]
			if n, err := f.file.ReadAt(data, step.from); err != nil && n < len(data) {
				return false, err
			}
		}
		_, _ = f.sum.Write(data) // hashes don't fail
		f.advance(step)
	}
}

// next waits until there is something to do.
func (f *tarFollower) next() (followStep, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		if f.ended {
			return followStep{from: f.at}, false
		}
		f.takeUp()
		if f.resume.content == 0 {
			f.dropOffers()
			if step := f.reach(); step.to > f.at || step.isTold {
				f.ahead = step.to
				return step, true
			}
			if f.at == f.plan.tar.Trailer() {
				return followStep{from: f.at}, false
			}
		}
		f.news.Wait()
	}
}

// dropOffers lets go of what was hashed already, as it was in the file.
func (f *tarFollower) dropOffers() {
	for len(f.offers) > 0 && f.offers[0].end() <= f.at {
		f.offers[0].done()
		f.offers = f.offers[1:]
	}
}

// takeUp goes on where an earlier run was, once everything before it proved to be
// there.
func (f *tarFollower) takeUp() {
	if f.resume.content == 0 {
		return
	}
	if len(f.offers) > 0 && f.offers[0].at < f.resume.content {
		f.resume = claim{} // it was of other bytes
		return
	}
	state, ok := f.sum.(encoding.BinaryUnmarshaler)
	switch {
	case !ok || f.resume.content > f.plan.tar.Trailer():
		f.resume = claim{}
	case f.front() < f.resume.content:
		return
	case state.UnmarshalBinary(f.resume.state) != nil:
		f.resume = claim{}
	default:
		f.at, f.noted, f.resume = f.resume.content, f.resume.content, claim{}
	}
}

// front is up to where all is written.
func (f *tarFollower) front() int64 {
	for i, part := range f.plan.parts {
		if f.parts[i].written < part.End() {
			return f.parts[i].written
		}
	}
	return f.plan.tar.Trailer()
}

// reach is what can be hashed now.
func (f *tarFollower) reach() followStep {
	for f.part < len(f.parts) && f.at >= f.plan.parts[f.part].End() {
		f.part++
	}
	step := followStep{from: f.at, to: f.at, resets: f.resets}
	limit := f.at + followBuffer
	if len(f.offers) > 0 {
		o := f.offers[0]
		if o.at <= f.at {
			step.to, step.data, step.done = o.end(), o.data[f.at-o.at:], o.done
			f.offers = f.offers[1:]
			return step
		}
		limit = min(limit, o.at)
	}
	for part := f.part; part < len(f.parts) && step.to < limit; part++ {
		p := f.parts[part]
		step.to = min(p.written, limit)
		if told := min(p.told, step.to); told-f.noted >= journalStep && told >= f.at {
			step.to, step.isTold = told, true
			return step
		}
		if p.written < f.plan.parts[part].End() {
			break
		}
	}
	return step
}

// advance notes what was hashed, unless it was written anew in the meantime.
func (f *tarFollower) advance(step followStep) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if step.done != nil {
		defer step.done()
	}
	if step.resets != f.resets {
		return
	}
	f.at = step.to
	if !step.isTold {
		return
	}
	f.noted = f.at
	state, ok := f.sum.(encoding.BinaryMarshaler)
	if f.journal == nil || !ok {
		return
	}
	if data, err := state.MarshalBinary(); err == nil {
		f.journal.at(wholeTar, f.at, 0, data)
	}
}
