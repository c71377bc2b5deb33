package registry

import (
	"os"
	"sync/atomic"
)

// syncStep is how many bytes are written before they are brought to the disk.
const syncStep = 128 << 20

// A behindSync brings a file to its disk while more of it is written: little is
// left to be waited for at the end, and the journal can tell what is safe from
// a power cut.
type behindSync struct {
	written atomic.Int64
	wake    chan struct{}
	ended   chan struct{}
	err     error // the first; a system tells of it once
}

func newBehindSync(file *os.File, journal *journal) *behindSync {
	s := &behindSync{wake: make(chan struct{}, 1), ended: make(chan struct{})}
	before := journal.count() // what those lines say was not written by us
	go func() {
		defer close(s.ended)
		for range s.wake {
			lines := journal.count()
			if s.err = file.Sync(); s.err != nil {
				return
			}
			journal.safe(before, lines)
		}
	}()
	return s
}

// wrote notes that so many bytes more are in the file.
func (s *behindSync) wrote(n int) {
	after := s.written.Add(int64(n))
	if (after-int64(n))/syncStep == after/syncStep {
		return
	}
	select {
	case s.wake <- struct{}{}:
	default: // what is done next will do it
	}
}

// end waits until nothing is done any more, and says what went wrong. Nothing may
// be written after it.
func (s *behindSync) end() error {
	close(s.wake)
	<-s.ended
	return s.err
}
