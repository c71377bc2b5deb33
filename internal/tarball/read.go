package tarball

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/klauspost/compress/gzip"
)

// Limits bounds what a reader takes from a stranger's tar. A zero field means
// its default.
type Limits struct {
	Files      int   // entries, directories included; default 50,000
	FileBytes  int64 // bytes of one file; default 64 MiB
	TotalBytes int64 // bytes of all files together; default 512 MiB
	// LastWins takes the last of several files under one name, as unpacking
	// does. By default they are refused.
	LastWins bool
}

// Defaults of [Limits].
const (
	DefaultFiles      = 50_000
	DefaultFileBytes  = 64 << 20
	DefaultTotalBytes = 512 << 20
)

func (l Limits) withDefaults() Limits {
	if l.Files <= 0 {
		l.Files = DefaultFiles
	}
	if l.FileBytes <= 0 {
		l.FileBytes = DefaultFileBytes
	}
	if l.TotalBytes <= 0 {
		l.TotalBytes = DefaultTotalBytes
	}
	return l
}

// streamBytes is how long the uncompressed stream may be: the files, and for
// each entry its header, its padding and a fair share of PAX records.
func (l Limits) streamBytes() int64 {
	const overhead = 4 << 10
	const trailer = 1 << 20
	return l.TotalBytes + int64(l.Files)*overhead + trailer
}

// A LimitError reports a tar that is larger than the reader takes.
type LimitError struct {
	Entry string // the entry that went over, empty when it is the whole
	What  string // "bytes of one file", "bytes", "entries"
	Limit int64
}

func (e *LimitError) Error() string {
	if e.Entry == "" {
		return fmt.Sprintf("archive holds more than %d %s", e.Limit, e.What)
	}
	return fmt.Sprintf("archive entry %q goes over the limit of %d %s", e.Entry, e.Limit, e.What)
}

// ErrCorrupt is wrapped by errors about bytes that are no tar, no gzip, or end
// too early.
var ErrCorrupt = errors.New("not a whole gzip-compressed tar")

// ReadGzip reads a gzip-compressed tar to its end, checksum included. Errors:
// [*HostileError], [*LimitError], and everything about the bytes themselves
// wraps [ErrCorrupt].
func ReadGzip(r io.Reader, l Limits) ([]File, error) {
	zr, err := gzip.NewReader(r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	defer zr.Close() // closing a reader frees nothing that was written
	return Read(zr, l)
}

// Read reads an uncompressed tar to its end. Directories are checked and left
// out, global PAX headers (as git archive writes) are skipped. Errors as
// [ReadGzip].
func Read(r io.Reader, l Limits) ([]File, error) {
	l = l.withDefaults()
	stream := &bounded{r: r, left: l.streamBytes()}
	tr := tar.NewReader(stream)
	seen := newNames()
	var files []File
	at := map[string]int{} // name to place in files
	left := l.TotalBytes
	for entries := 0; ; {
		header, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, stream.explain(err, l)
		}
		if header.Typeflag == tar.TypeXGlobalHeader {
			continue
		}
		if entries++; entries > l.Files {
			return nil, &LimitError{What: "entries", Limit: int64(l.Files)}
		}
		isDir, err := seen.addEntry(header, l.LastWins)
		if err != nil {
			return nil, err
		}
		if isDir {
			continue
		}
		if header.Size > l.FileBytes {
			return nil, &LimitError{Entry: header.Name, What: "bytes of one file", Limit: l.FileBytes}
		}
		if left -= header.Size; left < 0 {
			return nil, &LimitError{Entry: header.Name, What: "bytes", Limit: l.TotalBytes}
		}
		data, err := io.ReadAll(tr)
		if err != nil {
			return nil, stream.explain(err, l)
		}
		mode := fs.FileMode(header.Mode).Perm() //nolint:gosec // only the permission bits are kept
		file := File{Name: header.Name, Mode: mode, Data: data}
		if i, twice := at[file.Name]; twice {
			files[i] = file
			continue
		}
		at[file.Name] = len(files)
		files = append(files, file)
	}
	// The tar ends before the stream does: what follows is padding, and behind
	// it the checksum of the compressor that tells a truncated file.
	if _, err := io.Copy(io.Discard, stream); err != nil {
		return nil, stream.explain(err, l)
	}
	return files, nil
}

// bounded is a reader that fails, rather than ends, when too much was read.
type bounded struct {
	r    io.Reader
	left int64
	over bool
}

var errTooLong = errors.New("stream too long")

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		b.over = true
		return 0, errTooLong
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.r.Read(p)
	b.left -= int64(n)
	return n, err
}

func (b *bounded) explain(err error, l Limits) error {
	if b.over {
		return &LimitError{What: "bytes", Limit: l.TotalBytes}
	}
	return fmt.Errorf("%w: %w", ErrCorrupt, err)
}
