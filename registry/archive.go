package registry

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"waybill/internal/files"
	"waybill/internal/ref"
)

// maxEntries bounds what is kept in memory of a stranger's archive: a bundle of
// a thousand images has some ten thousand blobs.
const maxEntries = 1_000_000

// archiveBlobs reads blobs at their places in a tar file. Nothing is unpacked,
// and any number of blobs can be read at the same time.
type archiveBlobs struct {
	file    *os.File
	entries map[string]span // by name in the tar
	docker  bool            // it has the table of `docker save`
}

type span struct{ offset, size int64 }

// openArchive reads the table of a tar that holds an OCI image layout.
func openArchive(l Location) (*localPlace, error) {
	place := placeName(l)
	file, size, err := openRegular(l.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &LocationError{Input: l.String(), Reason: "does not exist"}
	case isOurs(err):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("opening %s: %w", place, files.PlainError(err))
	}
	blobs := &archiveBlobs{file: file, entries: map[string]span{}}
	p := &localPlace{place: place, blobs: blobs}
	if err := blobs.scan(size, place); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if p.index, err = blobs.readTop(place); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if !p.isVolume() {
		err = p.readDelta()
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return p, nil
}

// scan notes where each file begins, and refuses a tar that is cut off or that
// no OCI layout would be.
func (a *archiveBlobs) scan(size int64, place string) error {
	bad := func(reason string, err error) error {
		return &ContentError{Ref: place, Reason: reason, Err: err}
	}
	if isUnfinished(a.file, size) {
		return bad("truncated: it was not saved to its end", ErrUnfinished)
	}
	if reason, advice := notTar(a.file); reason != "" {
		return &ContentError{Ref: place, Reason: reason, Advice: advice}
	}
	reader := tar.NewReader(a.file)
	end := int64(0)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return bad("truncated", err)
		}
		if err != nil {
			return bad("corrupt: it is no tar archive, or a damaged one", err)
		}
		offset, err := a.file.Seek(0, io.SeekCurrent)
		if err != nil {
			return fmt.Errorf("reading %s: %w", place, files.PlainError(err))
		}
		if header.Size > size-offset {
			return bad(fmt.Sprintf("truncated: it ends within %s", printable(header.Name)), nil)
		}
		end = offset + padded(header.Size)
		if err := a.note(header, offset, place); err != nil {
			return err
		}
	}
	if size < end+tarBlock {
		return bad("truncated: the mark at its end is missing", nil)
	}
	return nil
}

const tarBlock = 512

// dockerTable lists what `docker save` has written.
const dockerTable = "manifest.json"

func padded(size int64) int64 { return (size + tarBlock - 1) / tarBlock * tarBlock }

// note checks one entry and keeps its place.
func (a *archiveBlobs) note(header *tar.Header, offset int64, place string) error {
	refuse := func(reason string) error {
		return &ContentError{Ref: place, Reason: fmt.Sprintf("refused: entry %s %s", printable(fmt.Sprintf("%q", header.Name)), reason)}
	}
	name := strings.TrimPrefix(header.Name, "./")
	switch {
	case header.Typeflag == tar.TypeDir:
		return nil
	case header.Typeflag != tar.TypeReg || isSparse(header):
		return refuse("is no plain file")
	case !fs.ValidPath(name) || strings.ContainsAny(name, `\:`) && !strings.HasPrefix(name, ocispec.ImageBlobsDir+"/"):
		return refuse("has a name that leads elsewhere")
	case len(a.entries) >= maxEntries:
		return refuse(fmt.Sprintf("is one more than %d", maxEntries))
	}
	a.docker = a.docker || name == dockerTable
	if name != layoutFile && name != indexFile && !isVolumeEntry(name) && !strings.HasPrefix(name, ocispec.ImageBlobsDir+"/") {
		return nil // other tools put their own tables beside
	}
	if _, twice := a.entries[name]; twice {
		return refuse("is there twice")
	}
	a.entries[name] = span{offset, header.Size}
	return nil
}

func isSparse(header *tar.Header) bool {
	for key := range header.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return true
		}
	}
	return false
}

// notTar names what a file is instead, when that can be seen from its first bytes,
// and what to do about it.
func notTar(r io.ReaderAt) (reason, advice string) {
	var head [100]byte // of a tar, the first name: POSIX.1-2001, "ustar Interchange Format"
	n, _ := r.ReadAt(head[:], 0)
	switch {
	case n == 0:
		return "truncated: it is empty", ""
	case bytes.HasPrefix(head[:n], []byte{0x1f, 0x8b}):
		return "is compressed with gzip", "unpack it first, with `gunzip` or `tar`, and name the .tar"
	case bytes.HasPrefix(head[:n], []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return "is compressed with zstd", "unpack it first, with `zstd -d`, and name the .tar"
	case bytes.ContainsAny(head[:n], "\r\n"):
		return "corrupt: it is no tar archive", ""
	}
	return "", ""
}

// readTop reads the two files that make a tar a layout.
func (a *archiveBlobs) readTop(place string) (ocispec.Index, error) {
	var index ocispec.Index
	data, err := a.small(layoutFile, maxLayoutFile, place)
	if err != nil {
		return index, err
	}
	if err := checkLayoutFile(data, place); err != nil {
		return index, err
	}
	data, err = a.small(indexFile, maxIndexFile, place)
	if err != nil {
		return index, err
	}
	return readIndex(data, place)
}

func (a *archiveBlobs) small(name string, limit int64, place string) ([]byte, error) {
	at, ok := a.entries[name]
	switch {
	case !ok && a.docker:
		return nil, &ContentError{
			Ref: place, Reason: "is an archive of `docker save`, not of an OCI layout: there is no " + name,
			Advice: "`skopeo copy docker-archive:FILE.tar oci-archive:OTHER.tar` makes one that can be read",
		}
	case !ok:
		return nil, &ContentError{Ref: place, Reason: "is no OCI layout archive: there is no " + name}
	case at.size > limit:
		return nil, &ContentError{Ref: place, Reason: fmt.Sprintf("refused: %s is larger than %d bytes", name, limit)}
	}
	data, err := io.ReadAll(io.NewSectionReader(a.file, at.offset, at.size))
	if err != nil {
		return nil, fmt.Errorf("reading %s of %s: %w", name, place, files.PlainError(err))
	}
	return data, nil
}

func (a *archiveBlobs) find(d digest.Digest) (span, error) {
	if err := ref.CheckDigest(d.String()); err != nil {
		return span{}, err
	}
	at, ok := a.entries[blobName(d)]
	if !ok {
		return span{}, fs.ErrNotExist
	}
	return at, nil
}

func blobName(d digest.Digest) string {
	return ocispec.ImageBlobsDir + "/" + d.Algorithm().String() + "/" + d.Encoded()
}

func (a *archiveBlobs) open(d digest.Digest) (blobFile, int64, error) {
	at, err := a.find(d)
	if err != nil {
		return nil, 0, err
	}
	return sectionOf(a.file, at.offset, at.size), at.size, nil
}

// section is a blob within the archive's file, which stays open.
type section struct {
	*io.SectionReader
	in io.ReaderAt
	at int64
}

func sectionOf(in io.ReaderAt, at, size int64) section {
	return section{io.NewSectionReader(in, at, size), in, at}
}

func (section) Close() error { return nil }

func (a *archiveBlobs) size(d digest.Digest) (int64, error) {
	at, err := a.find(d)
	return at.size, err
}

func (a *archiveBlobs) Close() error { return a.file.Close() }
