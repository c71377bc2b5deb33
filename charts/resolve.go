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
//     it. A relative path begins at baseDir.
//   - A folder is packed so that the same files give the same bytes anywhere:
//     see [Chart.Files]. What its Chart.yaml needs and its charts/ lacks is
//     fetched and packed with it, when src.Values or the chart's own switch it
//     on: as Chart.lock says, else the newest that Chart.yaml allows.
//   - From a chart repository the archive is taken byte for byte, with its
//     .prov when it has one; from a registry the manifest and all it names.
//   - From git a folder is packed as one on disk; its source has the commit.
//   - Manifests are packed as a chart whose objects are sent as written.
//
// Errors: [*SourceError] when there is no chart at the path, [*LinkError],
// [*InvalidError] and [*ManifestError] when there is one that cannot be packed
// or loaded, [*DependencyError] when it lacks a dependency that its values
// switch on, [*OutOfSyncError] when its lock is of another Chart.yaml;
// [*VersionError], [*NotFoundError], [*AmbiguousError] and [*RepositoryError]
// about what a repository has, [*MovedError] when that is not what is pinned;
// [*OfflineError] when opts has no network and one is needed, and the network's
// own.
func Resolve(ctx context.Context, baseDir string, src Source, opts ResolveOptions) (_ *Chart, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f, end := newFinder(opts)
	defer func() { err = errors.Join(err, end()) }()
	c, err := f.resolve(ctx, baseDir, src, opts.Pinned)
	if err != nil {
		return nil, err
	}
	return c, c.checkSets(src.Values)
}

func (f *finder) resolve(ctx context.Context, baseDir string, src Source, pinned *Pinned) (*Chart, error) {
	switch src.kind() {
	case fromRepository:
		return f.resolveRepository(ctx, src, pinned)
	case fromGit:
		return f.resolveGit(ctx, baseDir, src, pinned)
	case fromManifests:
		return resolveManifests(baseDir, src)
	}
	return f.resolvePath(ctx, baseDir, src, pinned)
}

// Inputs is the digest of everything that resolving depends on now:
// [Chart.Inputs] of the chart that [Resolve] would give. It asks no network.
// Of a chart from a repository or a registry that is repository, name and
// version as written, from git URL, ref and path as written, of a folder or
// manifests the files, and which dependencies are switched on. Errors as
// [Resolve] without what a network says.
func Inputs(ctx context.Context, baseDir string, src Source) (digest.Digest, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	switch src.kind() {
	case fromRepository:
		return repositoryInputs(src), nil
	case fromGit:
		return gitInputs(src), nil
	case fromManifests:
		c, err := resolveManifests(baseDir, src)
		if err != nil {
			return "", err
		}
		return c.Inputs, nil
	}
	full, info, err := findPath(baseDir, src)
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		c, err := resolveArchive(src.Path, full, info)
		if err != nil {
			return "", err
		}
		return c.Inputs, nil
	}
	if err := refuseOutputs(src, full); err != nil {
		return "", err
	}
	p, err := newPacking(diskFolder{src.Path, full}, src.Values)
	if err != nil {
		return "", err
	}
	return folderInputs(src, p)
}

// resolveRepository finds a chart in a chart repository or a registry.
func (f *finder) resolveRepository(ctx context.Context, src Source, pinned *Pinned) (*Chart, error) {
	want, err := parseWanted(src.Name, src.Version)
	if err != nil {
		return nil, err
	}
	o := order{repository: src.Repository, want: want}
	if pinned != nil && pinned.Source == o.source() {
		o.pin = &pin{version: pinned.Version, content: pinned.Content, manifest: pinned.Manifest}
	}
	c, err := f.chart(ctx, o)
	if err != nil {
		return nil, err
	}
	c.Inputs = repositoryInputs(src)
	return c, nil
}

func repositoryInputs(src Source) digest.Digest {
	return inputsDigest([]string{"repository " + src.Repository, "name " + src.Name, "version " + src.Version})
}

// findPath is where a path leads, and what is there.
func findPath(baseDir string, src Source) (full string, info fs.FileInfo, err error) {
	if src.Path == "" {
		return "", nil, &SourceError{Path: src.Path, Reason: "is empty", Advice: pathAdvice}
	}
	full = filepath.FromSlash(src.Path)
	if !filepath.IsAbs(full) {
		full = filepath.Join(baseDir, full)
	}
	info, err = os.Stat(full)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil, &SourceError{Path: src.Path, Looked: full, Reason: "no such file or folder", Advice: pathAdvice, Err: err}
	case err != nil:
		return "", nil, &SourceError{Path: src.Path, Looked: full, Reason: "cannot be read", Advice: pathAdvice, Err: err}
	case !info.IsDir() && !info.Mode().IsRegular():
		return "", nil, &SourceError{Path: src.Path, Looked: full, Reason: "is no file and no folder", Advice: pathAdvice}
	}
	return full, info, nil
}

// resolvePath finds a chart that is a folder or an archive on disk.
func (f *finder) resolvePath(ctx context.Context, baseDir string, src Source, pinned *Pinned) (*Chart, error) {
	full, info, err := findPath(baseDir, src)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return resolveArchive(src.Path, full, info)
	}
	var pins []PinnedDependency
	if pinned != nil {
		pins = pinned.Dependencies
	}
	return f.resolveFolder(ctx, src, full, pins)
}

// checkSets is [Chart.checkDependencies] with each of the sets of values the
// chart will be used with, and with the chart's own when there are none.
func (c *Chart) checkSets(sets []map[string]any) error {
	if len(c.missing) == 0 {
		return nil
	}
	loaded, err := c.load()
	if err != nil {
		return &InvalidError{Chart: c.title(), Err: err}
	}
	for _, values := range orDefaults(sets) {
		if err := c.checkDependencies(loaded, helmValues(values)); err != nil {
			return err
		}
	}
	return nil
}

// orDefaults is the chart's own values when no sets of values are given.
func orDefaults(sets []map[string]any) []map[string]any {
	if len(sets) == 0 {
		return []map[string]any{{}}
	}
	return sets
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
		return nil, titled(err, fmt.Sprintf("%q", path))
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

// titled puts a chart's name into an error of [Open], which knows none.
func titled(err error, title string) error {
	var invalid *InvalidError
	if errors.As(err, &invalid) && invalid.Chart == "" {
		return &InvalidError{Chart: title, Err: invalid.Err}
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
