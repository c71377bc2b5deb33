package tarball

import (
	"archive/tar"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
)

// A File is one regular file of a tar.
type File struct {
	Name string      // clean, relative, slash-separated
	Mode fs.FileMode // permission bits as the tar has them; Write ignores them
	Data []byte
}

// Write writes files as an uncompressed tar that depends on names and data
// alone: sorted by name, mode 0644, owner 0, time 0, USTAR headers, and PAX
// records only for names USTAR cannot hold. Directories are not written.
// A name that [Read] would refuse is a [*HostileError].
func Write(w io.Writer, files []File) error {
	sorted := slices.Clone(files)
	slices.SortStableFunc(sorted, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	seen := newNames()
	tw := tar.NewWriter(w)
	for _, f := range sorted {
		if err := seen.addFile(f.Name); err != nil {
			return err
		}
		header := &tar.Header{
			Typeflag: tar.TypeReg,
			Name:     f.Name,
			Mode:     0o644,
			Size:     int64(len(f.Data)),
			ModTime:  time.Unix(0, 0),
		}
		if err := tw.WriteHeader(header); err != nil {
			return fmt.Errorf("writing tar entry %q: %w", f.Name, err)
		}
		if _, err := tw.Write(f.Data); err != nil {
			return fmt.Errorf("writing tar entry %q: %w", f.Name, err)
		}
	}
	return tw.Close()
}

// WriteGzip writes the tar of [Write], compressed, with a gzip header that
// holds no name and no time (RFC 1952, section 2.3.1). The compressor is
// klauspost/compress at the version the module pins, because the standard
// library's output changes between Go releases.
func WriteGzip(w io.Writer, files []File) error {
	zw, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	if err := Write(zw, files); err != nil {
		return err
	}
	return zw.Close()
}
