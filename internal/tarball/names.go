package tarball

import (
	"archive/tar"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A HostileError reports an entry that no honest archive has. The archive is
// refused as a whole.
type HostileError struct {
	Entry  string // the name as the archive has it
	Reason string // what is wrong with it
}

func (e *HostileError) Error() string {
	return fmt.Sprintf("archive entry %q: %s", e.Entry, e.Reason)
}

// names remembers what a tar has named so far.
type names struct {
	files map[string]bool
	dirs  map[string]bool // named, or needed by a file below
}

func newNames() *names {
	return &names{files: map[string]bool{}, dirs: map[string]bool{}}
}

// addEntry checks one entry of a tar and says whether it is a directory.
func (n *names) addEntry(header *tar.Header, lastWins bool) (isDir bool, err error) {
	switch header.Typeflag {
	case tar.TypeReg:
		if lastWins && n.files[header.Name] {
			return false, nil
		}
		return false, n.addFile(header.Name)
	case tar.TypeDir:
		return true, n.addDir(header.Name)
	case tar.TypeSymlink, tar.TypeLink:
		return false, &HostileError{Entry: header.Name, Reason: fmt.Sprintf("is a link (to %q)", header.Linkname)}
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		return false, &HostileError{Entry: header.Name, Reason: "is a device or a pipe"}
	}
	return false, &HostileError{Entry: header.Name, Reason: fmt.Sprintf("is no regular file (tar type %q)", header.Typeflag)}
}

func (n *names) addFile(name string) error {
	if reason := badName(name); reason != "" {
		return &HostileError{Entry: name, Reason: reason}
	}
	if n.files[name] {
		return &HostileError{Entry: name, Reason: "is there twice"}
	}
	if n.dirs[name] {
		return &HostileError{Entry: name, Reason: "is a file and a folder"}
	}
	n.files[name] = true
	return n.addParents(name)
}

func (n *names) addDir(name string) error {
	trimmed := strings.TrimSuffix(name, "/")
	if reason := badName(trimmed); reason != "" {
		return &HostileError{Entry: name, Reason: reason}
	}
	if n.files[trimmed] {
		return &HostileError{Entry: name, Reason: "is a file and a folder"}
	}
	n.dirs[trimmed] = true
	return n.addParents(trimmed)
}

func (n *names) addParents(name string) error {
	for dir := path.Dir(name); dir != "." && !n.dirs[dir]; dir = path.Dir(dir) {
		if n.files[dir] {
			return &HostileError{Entry: name, Reason: fmt.Sprintf("lies below %q, which is a file", dir)}
		}
		n.dirs[dir] = true
	}
	return nil
}

// badName says what is wrong with a name, or nothing.
func badName(name string) string {
	switch {
	case name == "":
		return "has no name"
	case name == ".", strings.HasPrefix(name, "./"):
		return `begins with "."`
	case !utf8.ValidString(name), strings.IndexFunc(name, unicode.IsControl) >= 0:
		return "has a name that is not printable text"
	case strings.Contains(name, `\`):
		return "has a backslash in its name"
	case hasDrive(name):
		return "has a drive in its name"
	case path.IsAbs(name):
		return "has an absolute name"
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return `climbs out with ".."`
		}
		// A drive may hide below the first folder, which readers take away.
		if hasDrive(part) {
			return "has a drive in its name"
		}
	}
	if !fs.ValidPath(name) {
		return "has a name that is not clean"
	}
	return ""
}

func hasDrive(name string) bool {
	if len(name) < 2 || name[1] != ':' {
		return false
	}
	c := name[0] | 0x20
	return c >= 'a' && c <= 'z'
}
