package registry

import (
	"encoding"
	"hash"
	"io"
	"sync"
)

// A tarFollower computes the checksum of a planned tar behind those who write it:
// it reads what stands at the front of the file while what comes later is still on
// its way, so that little is left to read when the last byte is written. The
// journal is told how far it is, so that a write that goes on later need not read
// all of it again.
type tarFollower struct {
	plan    *tarPlan
	file    io.ReaderAt
	journal *journal
	sum     hash.Hash

	mu     sync.Mutex
	news   sync.Cond
	parts  []followed
	at     int64 // hashed up to here
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

// followStep is what is read at once.
const followStep = 1 << 20

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
	if f.at > begin {
		f.restart()
	}
}

// restart begins with the first byte again.
func (f *tarFollower) restart() {
	f.at, f.part, f.noted = 0, 0, 0
	f.resets++
}

// complete notes that all parts are written, late ones too: what is left is
// read, whatever comes.
func (f *tarFollower) complete() {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.whole = true
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
	f.ended = !f.whole
	f.news.Signal()
}

// run reads until all of the tar but the mark at its end is hashed, and says
// whether that came to be.
func (f *tarFollower) run() (bool, error) {
	buffer := make([]byte, followStep)
	for {
		from, to, isTold, resets, more := f.next()
		if !more {
			return from == f.plan.tar.Trailer(), nil
		}
		if from == 0 {
			f.sum.Reset()
		}
		n, err := f.file.ReadAt(buffer[:to-from], from)
		if err != nil && int64(n) < to-from {
			return false, err
		}
		_, _ = f.sum.Write(buffer[:n]) // hashes don't fail
		f.advance(to, isTold, resets)
	}
}

// next waits for bytes to read, and says from where to where, whether the end of
// them is one that the journal may name, and how often all was begun anew.
func (f *tarFollower) next() (from, to int64, isTold bool, resets int, more bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		if f.ended {
			return f.at, f.at, false, f.resets, false
		}
		f.takeUp()
		if to, isTold = f.reach(); f.resume.content == 0 && to > f.at {
			return f.at, to, isTold, f.resets, true
		}
		if f.at == f.plan.tar.Trailer() {
			return f.at, f.at, false, f.resets, false
		}
		f.news.Wait()
	}
}

// takeUp goes on where an earlier run was, once everything before it proved to be
// there.
func (f *tarFollower) takeUp() {
	if f.resume.content == 0 {
		return
	}
	part := 0
	for part < len(f.parts) && f.parts[part].written == f.plan.parts[part].End() {
		part++
	}
	place := f.plan.tar.Trailer()
	if part < len(f.parts) {
		place = f.parts[part].written
	}
	state, ok := f.sum.(encoding.BinaryUnmarshaler)
	switch {
	case !ok || f.resume.content > f.plan.tar.Trailer():
		f.resume = claim{}
	case place < f.resume.content:
		return
	case state.UnmarshalBinary(f.resume.state) != nil:
		f.resume = claim{}
	default:
		f.at, f.noted, f.resume = f.resume.content, f.resume.content, claim{}
	}
}

// reach is how far can be read now, at most a step.
func (f *tarFollower) reach() (to int64, isTold bool) {
	for f.part < len(f.parts) && f.at >= f.plan.parts[f.part].End() {
		f.part++
	}
	limit := f.at + followStep
	to = f.at
	for part := f.part; part < len(f.parts) && to < limit; part++ {
		p := f.parts[part]
		to = min(p.written, limit)
		if told := min(p.told, to); told-f.noted >= journalStep && told > f.at {
			return told, true
		}
		if p.written < f.plan.parts[part].End() {
			break
		}
	}
	return to, false
}

// advance notes what was hashed, unless it was written anew in the meantime.
func (f *tarFollower) advance(to int64, isTold bool, resets int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if resets != f.resets {
		return
	}
	f.at = to
	state, ok := f.sum.(encoding.BinaryMarshaler)
	if !isTold || f.journal == nil || !ok {
		return
	}
	if data, err := state.MarshalBinary(); err == nil {
		f.journal.at(wholeTar, to, 0, data)
		f.noted = to
	}
}
