package charts

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"waybill/internal/tarball"
)

// A ManifestError reports a file of Kubernetes objects that cannot be packed.
type ManifestError struct {
	File   string // as it was written
	Line   int    // 0: the whole file
	Reason string
	Err    error // may be nil
}

func (e *ManifestError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("manifests %q: %s", e.File, e.Reason)
	}
	return fmt.Sprintf("manifests %q, line %d: %s", e.File, e.Line, e.Reason)
}

func (e *ManifestError) Unwrap() error { return e.Err }

// resolveManifests packs files of Kubernetes objects as a chart. Every object
// is a file of its own in the chart, as it was written; a template beside it
// does nothing but hand it on, so that nothing in it is taken for a template.
// Definitions of kinds go to crds/.
func resolveManifests(baseDir string, src Source) (*Chart, error) {
	if !chartName.MatchString(src.Name) {
		return nil, &ManifestError{File: src.Manifests[0], Reason: fmt.Sprintf("name %q is no chart name", src.Name)}
	}
	m := manifestPacker{left: maxChartTotalBytes, seen: map[string]string{}}
	lines := []string{"manifests " + src.Name}
	for _, name := range src.Manifests {
		data, err := readManifests(baseDir, name, m.left)
		if err != nil {
			return nil, err
		}
		m.left -= int64(len(data))
		if err := m.add(name, data); err != nil {
			return nil, err
		}
		lines = append(lines, fmt.Sprintf("file %s %s", name, digest.FromBytes(data)))
	}
	c, err := m.chart(src)
	if err != nil {
		return nil, err
	}
	c.Source = strings.Join(src.Manifests, ", ")
	c.Inputs = inputsDigest(lines)
	return c, nil
}

// readManifests reads one of the files.
func readManifests(baseDir, name string, left int64) ([]byte, error) {
	full := filepath.FromSlash(name)
	if !filepath.IsAbs(full) {
		full = filepath.Join(baseDir, full)
	}
	info, err := os.Stat(full)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &SourceError{Path: name, Looked: full, Reason: "no such file", Advice: manifestAdvice, Err: err}
	case err != nil:
		return nil, &SourceError{Path: name, Looked: full, Reason: "cannot be read", Err: err}
	case info.IsDir():
		return nil, &SourceError{Path: name, Looked: full, Reason: "is a folder", Advice: manifestAdvice}
	case info.Size() > min(maxChartFileBytes, left):
		return nil, &ManifestError{File: name, Reason: fmt.Sprintf("is larger than Helm takes: %d bytes a file, %d together", maxChartFileBytes, maxChartTotalBytes)}
	}
	data, err := readBounded(full, maxChartFileBytes)
	if err != nil {
		return nil, &SourceError{Path: name, Looked: full, Reason: "cannot be read", Err: err}
	}
	return data, nil
}

const manifestAdvice = "manifests are files of Kubernetes objects; paths are relative to the release file"

// manifestPacker turns objects into the files of a chart.
type manifestPacker struct {
	files []tarball.File
	left  int64             // bytes that may still come
	seen  map[string]string // object to where it stands
	at    int               // number of the file
}

// add packs the objects of one file.
func (m *manifestPacker) add(name string, data []byte) error {
	documents, err := splitManifests(name, data)
	if err != nil {
		return err
	}
	m.at++
	found := 0
	for _, d := range documents {
		object, err := d.object(name)
		if err != nil {
			return err
		}
		if object == nil {
			continue
		}
		found++
		place := fmt.Sprintf("%q, line %d", name, object.line)
		if first, twice := m.seen[object.key()]; twice {
			return &ManifestError{File: name, Line: object.line, Reason: fmt.Sprintf("%s is there already (%s)", object.key(), first)}
		}
		m.seen[object.key()] = place
		m.pack(fmt.Sprintf("%03d-%03d-%s.yaml", m.at, found, plainName(name)), d.text, object)
	}
	if found == 0 {
		return &ManifestError{File: name, Reason: "holds no object"}
	}
	return nil
}

// pack makes the files of one object.
func (m *manifestPacker) pack(file string, text []byte, object *manifestObject) {
	if object.isDefinition() {
		m.files = append(m.files, tarball.File{Name: "crds/" + file, Data: text})
		return
	}
	m.files = append(m.files,
		tarball.File{Name: "manifests/" + file, Data: text},
		tarball.File{Name: "templates/" + file, Data: fmt.Appendf(nil, "{{ .Files.Get %q }}\n", "manifests/"+file)},
	)
}

// plainName is the last part of a path without what a file in a chart had
// better not be called.
func plainName(name string) string {
	base := path.Base(filepath.ToSlash(name))
	base = strings.TrimSuffix(base, path.Ext(base))
	const most = 40
	base = strings.Trim(oddLetters.ReplaceAllString(base, "-"), "-.")
	if base == "" {
		return "objects"
	}
	return base[:min(len(base), most)]
}

var oddLetters = regexp.MustCompile(`[^a-zA-Z0-9._-]+`)

// chart packs the files. Its version is made from them: 0.0.0-h and the first
// twelve hexadecimal digits of the digest of the tar of everything but
// Chart.yaml, so that other objects are another version.
func (m *manifestPacker) chart(src Source) (*Chart, error) {
	title := fmt.Sprintf("%q", src.Name)
	plain, err := tarOf(src.Name, m.files)
	if err != nil {
		return nil, &InvalidError{Chart: title, Err: err}
	}
	const digits = 12
	meta := fmt.Sprintf("apiVersion: v2\nname: %s\nversion: 0.0.0-h%s\ndescription: Kubernetes objects, sent as they were written\n",
		src.Name, digest.FromBytes(plain).Encoded()[:digits])
	files := append(slices.Clone(m.files), tarball.File{Name: "Chart.yaml", Data: []byte(meta)})
	c, err := packFiles(title, src.Name, files)
	if err != nil {
		return nil, err
	}
	c.Files = "" // the objects' files are in the inputs
	return c, nil
}
