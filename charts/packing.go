package charts

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sync/errgroup"
	"helm.sh/helm/v3/pkg/chart"

	"waybill/internal/tarball"
)

// A folder is a chart's folder, on disk or in a git repository.
type folder interface {
	fmt.Stringer // how messages call it
	// id tells folders apart.
	id() string
	// files are those Helm would load, below the folder.
	files() ([]tarball.File, error)
	// sibling is the folder at a path that begins at this one.
	sibling(path string) (folder, error)
}

// A packing is a chart's folder and what has to be fetched to make a whole
// chart of it. Making one asks no network.
type packing struct {
	from     folder
	files    []tarball.File
	loaded   *chart.Chart
	needs    []need
	warnings []string
}

// maxFolderDepth bounds folders that depend on folders.
const maxFolderDepth = 16

// newPacking reads a folder and works out which of its dependencies these sets
// of values switch on and its charts/ lacks.
func newPacking(from folder, sets []map[string]any) (*packing, error) {
	return packingBelow(nil, from, orDefaults(sets))
}

// packingBelow is newPacking for the folder at the end of a chain of folders
// that depend on each other.
func packingBelow(trail []string, from folder, sets []map[string]any) (*packing, error) {
	if slices.Contains(trail, from.id()) || len(trail) > maxFolderDepth {
		return nil, &InvalidError{Chart: from.String(), Err: fmt.Errorf("its dependencies go in a circle: %s", strings.Join(append(trail, from.id()), " → "))}
	}
	files, err := from.files()
	if err != nil {
		return nil, err
	}
	loaded, err := loadFiles(files)
	if err != nil {
		return nil, &InvalidError{Chart: from.String(), Err: err}
	}
	p := &packing{from: from, files: files, loaded: loaded}
	if err := p.findNeeds(append(trail, from.id()), sets); err != nil {
		return nil, err
	}
	return p, nil
}

// name is the folder in the archive that the files go into.
func (p *packing) name() string { return p.loaded.Metadata.Name }

// inputs are the lines that tell whether packing again would give the same,
// but for what the repositories of its dependencies say.
func (p *packing) inputs() ([]string, error) {
	plain, err := tarOf(p.name(), p.files)
	if err != nil {
		return nil, &InvalidError{Chart: p.from.String(), Err: err}
	}
	lines := []string{"files " + digest.FromBytes(plain).String()}
	for _, n := range p.needs {
		line := fmt.Sprintf("dependency %s %s %s", n.entry.Name, n.entry.Version, masked(n.entry.Repository))
		if n.folder != nil {
			below, err := n.folder.inputs()
			if err != nil {
				return nil, err
			}
			line += " " + inputsDigest(below).String()
		}
		lines = append(lines, line)
	}
	return lines, nil
}

// pack fetches what the folder needs and makes a chart of all of it. It reads
// the pack again, so that a chart from a folder went through the same checks as
// one from an archive.
func (f *finder) pack(ctx context.Context, p *packing, pins []PinnedDependency) (*Chart, error) {
	fetched, err := f.fetchNeeds(ctx, p, pins)
	if err != nil {
		return nil, err
	}
	files := slices.Clone(p.files)
	var dependencies []PinnedDependency
	warnings := slices.Clone(p.warnings)
	for i, sub := range fetched {
		name := path.Join("charts", sub.Name()+"-"+sub.Version()+".tgz")
		warnings = append(warnings, sub.Warnings...)
		if slices.ContainsFunc(files, func(f tarball.File) bool { return f.Name == name }) {
			continue // two entries of Chart.yaml mean one chart
		}
		files = append(files, tarball.File{Name: name, Mode: 0o644, Data: sub.Archive()})
		if p.needs[i].folder != nil {
			dependencies = append(dependencies, sub.Dependencies...)
			continue
		}
		dependencies = append(dependencies, PinnedDependency{
			Name: sub.Name(), Version: sub.Version(), Repository: masked(p.needs[i].entry.Repository), Content: sub.Content,
		})
	}
	c, err := packFiles(p.from.String(), p.name(), files)
	if err != nil {
		return nil, err
	}
	c.Dependencies, c.Warnings = uniqueDependencies(dependencies), warnings
	return c, nil
}

// uniqueDependencies leaves out what two folders depend on alike.
func uniqueDependencies(list []PinnedDependency) []PinnedDependency {
	var unique []PinnedDependency
	for _, d := range list {
		if !slices.Contains(unique, d) {
			unique = append(unique, d)
		}
	}
	return unique
}

// packFiles makes a chart of its files. title is how messages call it.
func packFiles(title, name string, files []tarball.File) (*Chart, error) {
	plain, err := tarOf(name, files)
	if err != nil {
		return nil, &InvalidError{Chart: title, Err: err}
	}
	var packed bytes.Buffer
	if err := tarball.WriteGzip(&packed, under(name, files)); err != nil {
		return nil, &InvalidError{Chart: title, Err: err}
	}
	c, err := openArchive(packed.Bytes(), nil)
	if err != nil {
		return nil, titled(err, title)
	}
	c.Files = digest.FromBytes(plain)
	return c, nil
}

// tarOf is the uncompressed tar of a chart's files.
func tarOf(name string, files []tarball.File) ([]byte, error) {
	var plain bytes.Buffer
	err := tarball.Write(&plain, under(name, files))
	return plain.Bytes(), err
}

// under puts files into a folder.
func under(name string, files []tarball.File) []tarball.File {
	moved := slices.Clone(files)
	for i := range moved {
		moved[i].Name = name + "/" + moved[i].Name
	}
	return moved
}

// fetchNeeds fetches what a folder needs, in the order of its Chart.yaml.
func (f *finder) fetchNeeds(ctx context.Context, p *packing, pins []PinnedDependency) ([]*Chart, error) {
	const atOnce = 4
	fetched := make([]*Chart, len(p.needs))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i, n := range p.needs {
		group.Go(func() (err error) {
			fetched[i], err = f.fetchNeed(ctx, p, n, pins)
			return err
		})
	}
	return fetched, group.Wait()
}
