package registry

import (
	"errors"
	"io"
	"slices"
)

// joinedPieces is read from the front to the back, which is how content is
// copied.
type joinedPieces struct {
	set   *volumeSet
	parts []joinedPiece
	size  int64
	at    int64
	rc    io.ReadCloser // of the part that at is in
}

type joinedPiece struct {
	volumePart
	open func(offset int64) (io.ReadCloser, error) // nil: at hand
}

func (j *joinedPieces) Read(p []byte) (int, error) {
	if j.at >= j.size {
		return 0, io.EOF
	}
	i := slices.IndexFunc(j.parts, func(p joinedPiece) bool { return j.at < p.Offset+p.Length })
	part := j.parts[i]
	if part.open == nil {
		n, err := pieces{parts: []piece{{part.volumePart, j.set.volumes[part.Volume-1]}}}.ReadAt(p[:min(int64(len(p)), part.Offset+part.Length-j.at)], j.at)
		j.at += int64(n)
		return n, err
	}
	if j.rc == nil {
		rc, err := part.open(j.at - part.Offset)
		if err != nil {
			return 0, err
		}
		j.rc = rc
	}
	n, err := j.rc.Read(p[:min(int64(len(p)), part.Offset+part.Length-j.at)])
	j.at += int64(n)
	if j.at == part.Offset+part.Length {
		err = j.drop()
	} else if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func (j *joinedPieces) drop() error {
	if j.rc == nil {
		return nil
	}
	err := j.rc.Close()
	j.rc = nil
	return err
}

func (j *joinedPieces) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += j.at
	case io.SeekEnd:
		offset += j.size
	}
	j.at = offset
	return j.at, j.drop()
}

func (j *joinedPieces) ReadAt([]byte, int64) (int, error) { return 0, errors.ErrUnsupported }

func (j *joinedPieces) Close() error { return j.drop() }
