package registry

import (
	"encoding"
	"errors"
	"hash"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
)

// A besideHash computes a digest beside its caller's work: what it is given is
// hashed on another core, in order, while the caller goes on. Its methods are
// called by one at a time, and close at the end.
type besideHash struct {
	sum     hash.Hash
	queue   chan givenPiece // nil: nothing was given yet
	pending sync.WaitGroup  // what was given and is not hashed

	idle, busy time.Duration // since somebody asked
}

type givenPiece struct {
	data []byte
	done func()
}

func newBesideHash(algorithm digest.Algorithm) *besideHash {
	return &besideHash{sum: algorithm.Hash()}
}

// give has data hashed, which must not change until done is called.
func (h *besideHash) give(data []byte, done func()) {
	if h.queue == nil {
		h.queue = make(chan givenPiece, ringLength)
		go h.run(h.queue)
	}
	h.pending.Add(1)
	h.queue <- givenPiece{data, done}
}

func (h *besideHash) run(queue <-chan givenPiece) {
	for last := time.Now(); ; {
		piece, more := <-queue
		if !more {
			return
		}
		begun := time.Now()
		_, _ = h.sum.Write(piece.data) // hashes don't fail
		piece.done()
		h.idle, h.busy = h.idle+begun.Sub(last), h.busy+time.Since(begun)
		last = time.Now()
		h.pending.Done()
	}
}

// add hashes data now.
func (h *besideHash) add(data []byte) {
	h.settle()
	_, _ = h.sum.Write(data) // hashes don't fail
}

// settle waits until all that was given is hashed.
func (h *besideHash) settle() { h.pending.Wait() }

// hasWaited says whether most of the time since it was asked last went by in
// waiting for data.
func (h *besideHash) hasWaited() bool {
	h.settle()
	waited := h.idle > 2*h.busy
	h.idle, h.busy = 0, 0
	return waited
}

func (h *besideHash) close() {
	h.settle()
	if h.queue != nil {
		close(h.queue)
		h.queue = nil
	}
}

func (h *besideHash) reset() {
	h.settle()
	h.sum.Reset()
}

// encoded is the digest without its algorithm.
func (h *besideHash) encoded(algorithm digest.Algorithm) string {
	h.settle()
	return digest.NewDigest(algorithm, h.sum).Encoded()
}

var errNoState = errors.New("the state of this hash can't be kept")

// state is how far it is, for [besideHash.goOn].
func (h *besideHash) state() ([]byte, error) {
	h.settle()
	if m, ok := h.sum.(encoding.BinaryMarshaler); ok {
		return m.MarshalBinary()
	}
	return nil, errNoState
}

// goOn takes up a state. After an error nothing was hashed.
func (h *besideHash) goOn(state []byte) error {
	h.settle()
	err := errNoState
	if u, ok := h.sum.(encoding.BinaryUnmarshaler); ok {
		err = u.UnmarshalBinary(state)
	}
	if err != nil {
		h.sum.Reset()
	}
	return err
}
