package tarball

import (
	"archive/tar"
	"bytes"
	"fmt"
	"time"
)

// A Plan is a tar before it is written: which files it will hold, in their
// order, and so where each of its bytes will be. Nothing but the names and the
// sizes decides that, so that any part of the tar can be written at any time, in
// any order, and by several at once. The zero value is a tar without files.
type Plan struct {
	files []Planned
	end   int64
}

// Planned is one file of a [Plan]. All places are counted from the tar's first
// byte.
type Planned struct {
	Name   string
	Size   int64
	Header int64 // where its header begins
	Offset int64 // where its content begins
}

// End is where what follows the content begins: the next header, or the mark at
// the tar's end. From Offset+Size to there are zeros.
func (p Planned) End() int64 { return p.Offset + padded(p.Size) }

const (
	block   = 512       // POSIX.1-2001, "ustar Interchange Format"
	trailer = 2 * block // the mark at the end: two blocks of zeros

	// ustarLimit is the first size that USTAR's octal digits can't hold; a PAX
	// record takes it.
	ustarLimit = 8 << 30
)

func padded(size int64) int64 { return (size + block - 1) / block * block }

// Add puts a file behind those that are there. A name is taken as it is, and
// must be one that USTAR can hold.
func (p *Plan) Add(name string, size int64) (Planned, error) {
	header, err := Header(name, size)
	if err != nil {
		return Planned{}, err
	}
	f := Planned{Name: name, Size: size, Header: p.end, Offset: p.end + int64(len(header))}
	p.files, p.end = append(p.files, f), f.End()
	return f, nil
}

// Files are the files in their order. The caller leaves them as they are.
func (p *Plan) Files() []Planned { return p.files }

// Trailer is where the mark at the tar's end begins.
func (p *Plan) Trailer() int64 { return p.end }

// Size is the whole tar's, with the mark at its end.
func (p *Plan) Size() int64 { return p.end + trailer }

// Header is what stands before a file's content: the same on every machine and
// any day, a regular file of mode 0644, owner 0, time 0. It is one block, and
// three for files of 8 GiB and more.
func Header(name string, size int64) ([]byte, error) {
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644, ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}
	if size >= ustarLimit {
		h.Format = tar.FormatPAX
	}
	var out bytes.Buffer
	if err := tar.NewWriter(&out).WriteHeader(h); err != nil {
		return nil, fmt.Errorf("planning tar entry %q: %w", name, err)
	}
	return out.Bytes(), nil
}
