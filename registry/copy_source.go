package registry

import (
	"errors"
	"io"
)

// sourceReader keeps the source's failure apart from the target's. It is an
// io.Seeker as far as an upload that starts again needs one: content is fetched
// again from its first byte.
type sourceReader struct {
	rc      io.ReadCloser
	again   func() (io.ReadCloser, error)
	onBytes func(int)
	at      int64
	err     error
}

func (s *sourceReader) Read(p []byte) (int, error) {
	n, err := s.rc.Read(p)
	s.at += int64(n)
	s.tell(n)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

func (s *sourceReader) tell(n int) {
	if n != 0 && s.onBytes != nil {
		s.onBytes(n)
	}
}

// Seek tells where the reader is, and goes to the beginning. What was counted is
// taken back, since it will be counted again.
func (s *sourceReader) Seek(offset int64, whence int) (int64, error) {
	switch {
	case offset == 0 && whence == io.SeekCurrent:
		return s.at, nil
	case offset != 0 || whence != io.SeekStart:
		return 0, errors.New("content of another place begins at its first byte")
	}
	_ = s.rc.Close() // it was only read from
	s.err = nil
	rc, err := s.again()
	if err != nil {
		s.err = err
		return 0, err
	}
	s.rc = rc
	s.tell(-int(s.at))
	s.at = 0
	return 0, nil
}

func (s *sourceReader) Close() error { return s.rc.Close() }
