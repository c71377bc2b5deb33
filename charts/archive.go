package charts

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/opencontainers/go-digest"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"

	"waybill/internal/tarball"
)

// What a chart may weigh. File and total are Helm's own limits: a chart beyond
// them cannot be installed.
const (
	maxChartFileBytes  = 5 << 20   // loader.MaxDecompressedFileSize
	maxChartTotalBytes = 100 << 20 // loader.MaxDecompressedChartSize
	maxArchiveBytes    = maxChartTotalBytes
	maxProvenanceBytes = 1 << 20
	maxNesting         = 8 // archives in archives in charts/
)

// An InvalidError reports bytes that are no chart Helm could install: not an
// archive, no Chart.yaml, a name or version Helm refuses.
type InvalidError struct {
	Chart string // name and version, or the path, as far as known
	Err   error
}

func (e *InvalidError) Error() string {
	if e.Chart == "" {
		return "reading chart: " + e.Err.Error()
	}
	return fmt.Sprintf("reading chart %s: %v", e.Chart, e.Err)
}

func (e *InvalidError) Unwrap() error { return e.Err }

// Open reads a packed chart, as a bundle holds it. It refuses hostile archives
// ([*tarball.HostileError]), archives beyond Helm's limits
// ([*tarball.LimitError]) and everything Helm could not load, all wrapped in
// [*InvalidError], before any other use of the bytes. Charts vendored as
// archives in charts/ are looked into the same way.
func Open(tgz []byte) (*Chart, error) {
	return openArchive(tgz, nil)
}

func openArchive(tgz, provenance []byte) (*Chart, error) {
	budget := int64(maxChartTotalBytes)
	files, err := readArchive(tgz, &budget, 0)
	if err != nil {
		return nil, &InvalidError{Err: err}
	}
	c := &Chart{Content: digest.FromBytes(tgz), archive: tgz, files: files}
	loaded, err := c.load()
	if err != nil {
		return nil, &InvalidError{Err: err}
	}
	c.meta = metadataOf(loaded.Metadata)
	c.missing = missingDependencies(loaded)
	c.known = sync.OnceValues(c.knownKeys)
	if err := c.makeManifest(loaded.Metadata, provenance); err != nil {
		return nil, &InvalidError{Chart: c.title(), Err: err}
	}
	return c, nil
}

// title is how messages call the chart.
func (c *Chart) title() string { return c.meta.Name + " " + c.meta.Version }

// readArchive reads one archive and takes away the top folder, whose name
// means nothing. Archives in charts/ count against the same budget.
func readArchive(tgz []byte, budget *int64, depth int) ([]tarball.File, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("charts are packed in charts more than %d deep", maxNesting)
	}
	// Published charts do hold a file twice, where a vendored chart was packed
	// over a folder of its name (metallb 0.16.1). Helm uses the last.
	limits := tarball.Limits{FileBytes: maxChartFileBytes, TotalBytes: max(*budget, 1), LastWins: true}
	entries, err := tarball.ReadGzip(bytes.NewReader(tgz), limits)
	if err != nil {
		return nil, err
	}
	files, err := stripTop(entries)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		*budget -= int64(len(f.Data))
	}
	for _, f := range files {
		if !isVendoredArchive(f.Name) {
			continue
		}
		if _, err := readArchive(f.Data, budget, depth+1); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	return files, nil
}

func stripTop(entries []tarball.File) ([]tarball.File, error) {
	var top string
	files := make([]tarball.File, 0, len(entries))
	for i, entry := range entries {
		first, rest, below := strings.Cut(entry.Name, "/")
		if !below {
			return nil, &tarball.HostileError{Entry: entry.Name, Reason: "lies beside the chart's folder, not in it"}
		}
		if i == 0 {
			top = first
		}
		if first != top {
			return nil, &tarball.HostileError{Entry: entry.Name, Reason: fmt.Sprintf("lies outside the chart's folder %q", top)}
		}
		files = append(files, tarball.File{Name: rest, Mode: entry.Mode, Data: entry.Data})
	}
	if len(files) == 0 {
		return nil, errors.New("the archive is empty")
	}
	return files, nil
}

// isVendoredArchive is whether Helm would unpack the file as a subchart.
func isVendoredArchive(name string) bool {
	dir, base := path.Split(name)
	return path.Ext(base) == ".tgz" && path.Base(dir) == "charts" && strings.IndexAny(base, "_.") != 0
}

// utf8BOM is what Helm's loader takes off the front of every file.
var utf8BOM = []byte{0xEF, 0xBB, 0xBF}

// loadFiles is Helm's loader over checked files. The chart it returns shares
// nothing that Helm changes with any other.
func loadFiles(files []tarball.File) (loaded *chart.Chart, err error) {
	defer recoverAs(&err, "loading chart")
	buffered := make([]*loader.BufferedFile, 0, len(files))
	for _, f := range files {
		buffered = append(buffered, &loader.BufferedFile{Name: f.Name, Data: bytes.TrimPrefix(f.Data, utf8BOM)})
	}
	loaded, err = loader.LoadFiles(buffered)
	if err != nil {
		return nil, err
	}
	if !chartName.MatchString(loaded.Metadata.Name) {
		return nil, fmt.Errorf("name %q in Chart.yaml: only letters, digits, dot, underscore and hyphen are allowed", loaded.Metadata.Name)
	}
	sortDependencies(loaded)
	if err := keepIntegers(loaded); err != nil {
		return nil, err
	}
	return loaded, nil
}

// chartName is what helm lint allows.
var chartName = regexp.MustCompile(`^[a-zA-Z0-9._-]+$`)

// sortDependencies undoes the random order of Helm's loader, which ranges over
// a map.
func sortDependencies(c *chart.Chart) {
	deps := slices.Clone(c.Dependencies())
	slices.SortStableFunc(deps, func(a, b *chart.Chart) int {
		if n := strings.Compare(a.Name(), b.Name()); n != 0 {
			return n
		}
		return strings.Compare(a.Metadata.Version, b.Metadata.Version)
	})
	c.SetDependencies(deps...)
	for _, d := range deps {
		sortDependencies(d)
	}
}

// recoverAs turns a panic of Helm over strange input into an error.
func recoverAs(err *error, act string) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("%s: helm gave up: %v", act, r)
	}
}

func metadataOf(m *chart.Metadata) Metadata {
	kind := m.Type
	if kind == "" {
		kind = "application"
	}
	meta := Metadata{
		Name: m.Name, Version: m.Version, AppVersion: m.AppVersion,
		APIVersion: m.APIVersion, Type: kind, KubeVersion: m.KubeVersion,
		Description: m.Description, Deprecated: m.Deprecated,
	}
	for _, d := range m.Dependencies {
		meta.Dependencies = append(meta.Dependencies, dependencyOf(d))
	}
	return meta
}

func dependencyOf(d *chart.Dependency) Dependency {
	return Dependency{
		Name: d.Name, Alias: d.Alias, Version: d.Version, Repository: d.Repository,
		Condition: d.Condition, Tags: slices.Clone(d.Tags),
	}
}
