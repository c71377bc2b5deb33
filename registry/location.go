package registry

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/opencontainers/go-digest"

	"waybill/internal/ref"
)

// Kind is the sort of place a location is.
type Kind int

// The places a bundle can live.
const (
	Registry Kind = iota // a repository in a registry
	Archive              // one tar file, or a volume of one
	Layout               // a folder that is an OCI image layout
)

func (k Kind) String() string {
	switch k {
	case Registry:
		return "registry"
	case Archive:
		return "archive"
	}
	return "layout"
}

// A Location says where a bundle lives. [ParseLocation] makes it, String prints
// it, and what is printed is read back as the same.
type Location struct {
	Kind   Kind
	Ref    ref.Reference // in a registry; its Digest is empty, see Digest
	Path   string        // of a folder or file, as it was typed
	Name   string        // in an archive or layout: which of several, by its name in index.json
	Digest digest.Digest // which one, by digest; may stand beside a tag or name
}

const (
	schemeRegistry = "oci://"
	schemeLayout   = "oci-layout:"
	schemeArchive  = "oci-archive:"
)

var (
	digestSuffix = regexp.MustCompile(`@(sha[0-9]+:[^@#/]*)$`)
	archiveName  = regexp.MustCompile(`\.tar(\.[0-9]{3,})?$`)
	packedName   = regexp.MustCompile(`\.(tgz|tar\.(gz|zst|xz|bz2))$`)
	drivePath    = regexp.MustCompile(`^([A-Za-z]:[\\/]|\\\\)`)
	nextScheme   = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+._-]*:`)
)

// ParseLocation reads a location as a person types it:
//
//	oci://HOST[:PORT]/PATH[:TAG][@sha256:…]   a registry
//	./shop, /srv/shop, C:\shop, \\server\shop a folder is a layout, a file an archive
//	shop.tar, shop.tar.001                    an archive, whether it exists or not
//	shop                                      the same, when it exists
//	oci-layout:PATH, oci-archive:PATH         whatever the path looks like
//
// #NAME or @sha256:… after a path chooses one of several. Anything else is a
// [*LocationError] that says what was probably meant. The file system is looked
// at to tell a folder from a file, never changed.
func ParseLocation(s string) (Location, error) {
	if err := checkCharacters(s); err != nil {
		return Location{}, err
	}
	if rest, ok := strings.CutPrefix(s, schemeRegistry); ok {
		return parseRegistry(s, rest)
	}
	if rest, ok := strings.CutPrefix(s, schemeLayout); ok {
		return parseForced(s, rest, Layout)
	}
	if rest, ok := strings.CutPrefix(s, schemeArchive); ok {
		return parseForced(s, rest, Archive)
	}
	return parsePath(s)
}

func checkCharacters(s string) error {
	switch {
	case s == "":
		return &LocationError{Input: s, Reason: "is empty", Meant: schemeRegistry + "HOST/PATH:TAG"}
	case strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\uFFFD' }):
		return &LocationError{Input: s, Reason: "has characters that no location has"}
	case strings.TrimSpace(s) != s:
		return &LocationError{Input: s, Reason: "has spaces around it", Meant: strings.TrimSpace(s)}
	}
	return nil
}

func parseRegistry(input, rest string) (Location, error) {
	if at := strings.IndexByte(rest, '@'); at >= 0 && !strings.Contains(rest[:at], "/") {
		// What stands before the @ may be a password: it is not repeated.
		return Location{}, &LocationError{Input: schemeRegistry + "…" + rest[at:], Reason: "has credentials in it; log in instead", Meant: schemeRegistry + rest[at+1:]}
	}
	r, err := ref.Parse(rest)
	if err != nil {
		return Location{}, &LocationError{Input: input, Reason: "is no registry location: " + reasonOf(err), Meant: meantRegistry(rest)}
	}
	l := Location{Kind: Registry, Ref: r, Digest: r.Digest}
	l.Ref.Digest = ""
	return l, nil
}

func parseForced(input, rest string, kind Kind) (Location, error) {
	l, err := splitPath(input, rest)
	switch {
	case err != nil:
		return Location{}, err
	case l.Path == "":
		return Location{}, &LocationError{Input: input, Reason: "names no path", Meant: prefixOf(kind) + "PATH"}
	case strings.HasPrefix(l.Path, "//") && !exists(l.Path):
		return Location{}, &LocationError{Input: input, Reason: "has slashes that belong to URLs", Meant: prefixOf(kind) + strings.TrimPrefix(rest, "//")}
	}
	l.Kind = kind
	return l, nil
}

func parsePath(s string) (Location, error) {
	l, err := splitPath(s, s)
	if err != nil {
		return Location{}, err
	}
	info, statErr := os.Stat(l.Path)
	switch {
	case l.Path == "":
		return Location{}, &LocationError{Input: s, Reason: "names no path", Meant: "./PATH" + s}
	case statErr == nil && info.IsDir():
		l.Kind = Layout
	case statErr == nil:
		l.Kind = Archive
	case !looksLikePath(l.Path):
		return Location{}, unknownLocation(s)
	case packedName.MatchString(l.Path):
		return Location{}, &LocationError{Input: s, Reason: "does not exist, and archives are not compressed", Meant: packedName.ReplaceAllString(l.Path, ".tar")}
	default:
		l.Kind = kindByName(l.Path)
	}
	return l, nil
}

// splitPath takes @digest and #NAME off a path. A # that belongs to something
// that exists, or to the folder that it would be in, is part of the path.
func splitPath(input, s string) (Location, error) {
	var l Location
	if m := digestSuffix.FindStringSubmatchIndex(s); m != nil {
		d := s[m[2]:m[3]]
		if err := ref.CheckDigest(d); err != nil {
			return Location{}, &LocationError{Input: input, Reason: "ends in something that is no whole digest: " + err.Error()}
		}
		l.Digest, s = digest.Digest(d), s[:m[0]]
	}
	l.Path = s
	if at := strings.LastIndexByte(s, '#'); at >= 0 && !exists(s) && !inFolderName(s, at) {
		l.Path, l.Name = s[:at], s[at+1:]
		if l.Name == "" {
			return Location{}, &LocationError{Input: input, Reason: "has nothing after the #", Meant: l.Path + "#NAME"}
		}
	}
	return l, nil
}

// inFolderName says whether what stands at is part of the name of a folder.
func inFolderName(s string, at int) bool {
	dir := filepath.Dir(s)
	return at < len(dir) && isDirectory(dir)
}

// String prints the location as [ParseLocation] reads it.
func (l Location) String() string {
	if l.Kind == Registry {
		r := l.Ref
		r.Digest = l.Digest
		return schemeRegistry + r.String()
	}
	s := l.Path
	if !looksLikePath(s) || kindByName(s) != l.Kind || packedName.MatchString(s) {
		s = prefixOf(l.Kind) + s
	}
	if l.Name != "" {
		s += "#" + l.Name
	}
	if l.Digest != "" {
		s += "@" + l.Digest.String()
	}
	return s
}

// WithDigest is the same place, pinned to one digest.
func (l Location) WithDigest(d digest.Digest) Location {
	l.Digest = d
	return l
}

// SamePath says whether two locations are the same file or folder.
func (l Location) SamePath(other Location) bool {
	a, errA := os.Stat(l.Path)
	b, errB := os.Stat(other.Path)
	return errA == nil && errB == nil && os.SameFile(a, b)
}

func prefixOf(k Kind) string {
	if k == Archive {
		return schemeArchive
	}
	return schemeLayout
}

// kindByName is the kind of a path that nothing else is known about.
func kindByName(path string) Kind {
	if archiveName.MatchString(path) {
		return Archive
	}
	return Layout
}

// looksLikePath says whether s is a path though nothing is known about it. What
// begins like a scheme and ends in .tar is one, when no scheme was meant.
func looksLikePath(s string) bool {
	if hasPathStart(s) {
		return true
	}
	scheme := nextScheme.FindString(s)
	return archiveName.MatchString(s) && !strings.HasPrefix(s[len(scheme):], "//") && (scheme == "" || !isScheme(strings.TrimSuffix(scheme, ":")))
}

func hasPathStart(s string) bool {
	for _, start := range []string{"/", "./", "../"} {
		if strings.HasPrefix(s, start) {
			return true
		}
	}
	return s == "." || s == ".." || drivePath.MatchString(s)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
