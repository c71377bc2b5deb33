package charts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/opencontainers/go-digest"
)

// A SourceError reports a path where no chart is.
type SourceError struct {
	Path   string // as it was written
	Looked string // where that is
	Reason string // what is there instead
	Advice string // what to do about it
	Err    error  // what the file system said, may be nil
}

func (e *SourceError) Error() string {
	text := fmt.Sprintf("chart path %q: %s", e.Path, e.Reason)
	if e.Looked != "" && e.Looked != e.Path {
		text += " (looked at " + e.Looked + ")"
	}
	if e.Advice != "" {
		text += "; " + e.Advice
	}
	return text
}

func (e *SourceError) Unwrap() error { return e.Err }

const pathAdvice = "name a folder that holds Chart.yaml, or a .tgz that helm package made; paths are relative to the release file"

// Resolve finds a chart.
//
//   - A .tgz is taken byte for byte, with FILE.tgz.prov when that lies beside
//     it. A folder is packed so that the same files give the same bytes
//     anywhere: see [Chart.Files]. A relative path begins at baseDir.
//   - From a chart repository or a registry, git or manifests: not yet.
//
// Errors: [*SourceError] when there is no chart at the path, [*LinkError] and
// [*InvalidError] when there is one that cannot be packed or loaded,
// [*DependencyError] when it lacks a dependency that its own default values
// switch on, and [*OfflineError] when opts has no network and the source needs
// one.
func Resolve(ctx context.Context, baseDir string, src Source, opts ResolveOptions) (*Chart, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var c *Chart
	var err error
	switch src.kind() {
	case fromPath:
		c, err = resolvePath(baseDir, src)
	default:
		err = fmt.Errorf("charts from %s are not built yet", src.kind())
	}
	if err != nil {
		return nil, err
	}
	return c, c.checkDefaults()
}

// Inputs is the digest of everything that resolving depends on now:
// [Chart.Inputs] of the chart that [Resolve] would give. It asks no network.
// Of a chart from a repository or a registry that is repository, name and
// version as written, from git URL, ref and path as written, of a folder or
// manifests the files. Errors as [Resolve] without what a network says.
func Inputs(ctx context.Context, baseDir string, src Source) (digest.Digest, error) {
	c, err := Resolve(ctx, baseDir, src, ResolveOptions{})
	if err != nil {
		return "", err
	}
	return c.Inputs, nil
}

// resolvePath finds a chart that is a folder or an archive on disk.
func resolvePath(baseDir string, src Source) (*Chart, error) {
	if src.Path == "" {
		return nil, &SourceError{Path: src.Path, Reason: "is empty", Advice: pathAdvice}
	}
	full := filepath.FromSlash(src.Path)
	if !filepath.IsAbs(full) {
		full = filepath.Join(baseDir, full)
	}
	info, err := os.Stat(full)
	if err != nil {
		reason := "cannot be read"
		if errors.Is(err, fs.ErrNotExist) {
			reason = "no such file or folder"
		}
		return nil, &SourceError{Path: src.Path, Looked: full, Reason: reason, Advice: pathAdvice, Err: err}
	}
	switch {
	case info.IsDir():
		return resolveFolder(src, full)
	case info.Mode().IsRegular():
		return resolveArchive(src.Path, full, info)
	}
	return nil, &SourceError{Path: src.Path, Looked: full, Reason: "is no file and no folder", Advice: pathAdvice}
}

// checkDefaults is [Chart.checkDependencies] with the chart's own values.
func (c *Chart) checkDefaults() error {
	if len(c.missing) == 0 {
		return nil
	}
	loaded, err := c.load()
	if err != nil {
		return &InvalidError{Chart: c.title(), Err: err}
	}
	return c.checkDependencies(loaded, map[string]any{})
}

func resolveArchive(path, full string, info fs.FileInfo) (*Chart, error) {
	if info.Size() > maxArchiveBytes {
		return nil, &SourceError{Path: path, Looked: full, Reason: fmt.Sprintf("is larger than a chart may be (%d bytes)", int64(maxArchiveBytes))}
	}
	tgz, err := readBounded(full, maxArchiveBytes)
	if err != nil {
		return nil, &SourceError{Path: path, Looked: full, Reason: "cannot be read", Err: err}
	}
	if !bytes.HasPrefix(tgz, []byte{0x1F, 0x8B}) {
		return nil, notAnArchive(path, full)
	}
	provenance, err := readBounded(full+".prov", maxProvenanceBytes)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, &SourceError{Path: path + ".prov", Looked: full + ".prov", Reason: "cannot be read", Err: err}
	}
	c, err := openArchive(tgz, provenance)
	if err != nil {
		return nil, named(err, path)
	}
	c.Source = path
	lines := []string{"path " + path, "content " + c.Content.String()}
	if len(provenance) > 0 {
		lines = append(lines, "provenance "+digest.FromBytes(provenance).String())
	}
	c.Inputs = inputsDigest(lines)
	return c, nil
}

func notAnArchive(path, full string) error {
	e := &SourceError{Path: path, Looked: full, Reason: "is no chart archive (not compressed with gzip)", Advice: pathAdvice}
	if base := filepath.Base(full); base == "Chart.yaml" || base == "values.yaml" {
		e.Advice = fmt.Sprintf("name the folder it lies in: %q", filepath.ToSlash(filepath.Dir(filepath.FromSlash(path))))
	}
	return e
}

// named puts a path into an error of [Open], which knows none.
func named(err error, path string) error {
	var invalid *InvalidError
	if errors.As(err, &invalid) && invalid.Chart == "" {
		return &InvalidError{Chart: fmt.Sprintf("%q", path), Err: invalid.Err}
	}
	return err
}

// inputsDigest is the digest of a short text that names everything resolving
// depended on, one a line.
func inputsDigest(lines []string) digest.Digest {
	return digest.FromString("waybill chart inputs v1\n" + strings.Join(lines, "\n") + "\n")
}

func readBounded(name string, limit int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() // only read from
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%s is larger than %d bytes", name, limit)
	}
	return data, nil
}
