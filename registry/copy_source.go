package registry

import (
	"context"
	"errors"
	"io"
)

// sourceReader reads a blob where it is copied from, and keeps the source's
// failure apart from the target's. An upload may go on from any offset that it
// has read up to: each byte is hashed once, or not at all until somebody doubts it.
type sourceReader struct {
	*checkedReader
	open    func(offset int64) (io.ReadCloser, error)
	onBytes func(int)
	at      int64
	err     error
}

func newSourceReader(ctx context.Context, n *copyNode, onBytes func(int), unhashed bool) (*sourceReader, error) {
	rc, err := n.openAt(ctx, 0)
	if err != nil {
		return nil, err
	}
	checking, err := newCheckedReader(rc, n.desc, n.src.place.name())
	if err != nil {
		return nil, err
	}
	checking.unhashed = unhashed
	return &sourceReader{
		checkedReader: checking, onBytes: onBytes,
		open: func(offset int64) (io.ReadCloser, error) { return n.openAt(ctx, offset) },
	}, nil
}

func (s *sourceReader) Read(p []byte) (int, error) {
	n, err := s.checkedReader.Read(p)
	s.at += int64(n)
	s.tell(n)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

func (s *sourceReader) tell(n int) {
	if n != 0 && s.onBytes != nil {
		s.onBytes(n)
	}
}

// readFrom goes on at an offset that was read before. What was counted beyond it
// is taken back, since it will be counted again.
func (s *sourceReader) readFrom(offset int64) error {
	_ = s.Close() // it was only read from
	s.err = nil
	rc, err := s.open(offset)
	if err != nil {
		s.err = err
		return err
	}
	s.again(rc, offset)
	s.tell(int(offset - s.at))
	s.at = offset
	return nil
}

func (s *sourceReader) doubt() bool {
	was := s.unhashed
	s.unhashed, s.left, s.hashed = false, s.desc.Size, 0
	s.verifier = s.desc.Digest.Verifier()
	return was
}
