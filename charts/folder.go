package charts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/opencontainers/go-digest"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/ignore"
	"sigs.k8s.io/yaml"

	"waybill/internal/tarball"
)

// A LinkError reports a link in a chart's folder that cannot be packed.
type LinkError struct {
	Path   string // of the link, below the chart's folder
	Target string // where it leads
	Reason string
}

func (e *LinkError) Error() string {
	return fmt.Sprintf("link %s (to %s) %s; copy what it names into the chart, or list it in .helmignore", e.Path, e.Target, e.Reason)
}

// A diskFolder is a chart's folder on disk.
type diskFolder struct {
	src  string // as it was written
	full string
}

// String is how messages call the folder.
func (d diskFolder) String() string { return fmt.Sprintf("%q", d.src) }

// id tells folders apart.
func (d diskFolder) id() string { return d.full }

// files are those Helm would load.
func (d diskFolder) files() ([]tarball.File, error) {
	if _, err := readChartFile(d.src, d.full); err != nil {
		return nil, err
	}
	files, err := readFolder(d.full)
	if err != nil {
		return nil, &InvalidError{Chart: d.String(), Err: err}
	}
	return files, nil
}

// sibling is the folder that a dependency's file:// means, which begins at the
// folder of the chart that has it.
func (d diskFolder) sibling(path string) (folder, error) {
	full := filepath.FromSlash(path)
	if !filepath.IsAbs(full) {
		full = filepath.Join(d.full, full)
	}
	info, err := os.Stat(full)
	if err != nil || !info.IsDir() {
		return nil, &SourceError{
			Path: fileScheme + path, Looked: full, Reason: "no such folder",
			Advice: "a dependency's file:// begins at the folder of the chart that names it", Err: err,
		}
	}
	return diskFolder{src: fileScheme + path, full: full}, nil
}

// resolveFolder packs a chart's folder.
func (f *finder) resolveFolder(ctx context.Context, src Source, full string, pins []PinnedDependency) (*Chart, error) {
	if err := refuseOutputs(src, full); err != nil {
		return nil, err
	}
	p, err := newPacking(diskFolder{src.Path, full}, src.Values)
	if err != nil {
		return nil, err
	}
	c, err := f.pack(ctx, p, pins)
	if err != nil {
		return nil, err
	}
	c.Source = src.Path
	c.Inputs, err = folderInputs(src, p)
	return c, err
}

// folderInputs are the path, the files as they lie there, and which
// dependencies are packed with them.
func folderInputs(src Source, p *packing) (digest.Digest, error) {
	lines, err := p.inputs()
	return inputsDigest(append([]string{"path " + src.Path}, lines...)), err
}

// readChartFile reads the one thing packing needs to know: the chart's name.
func readChartFile(src, full string) (*chart.Metadata, error) {
	data, err := readBounded(filepath.Join(full, "Chart.yaml"), maxChartFileBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &SourceError{Path: src, Looked: full, Reason: "is a folder without Chart.yaml", Advice: folderAdvice(full), Err: err}
	}
	if err != nil {
		return nil, &SourceError{Path: src, Looked: full, Reason: "its Chart.yaml cannot be read", Err: err}
	}
	meta := &chart.Metadata{}
	if err := yaml.Unmarshal(bytes.TrimPrefix(data, utf8BOM), meta); err != nil {
		return nil, &InvalidError{Chart: fmt.Sprintf("%q", src), Err: fmt.Errorf("reading Chart.yaml: %w", err)}
	}
	if !chartName.MatchString(meta.Name) || meta.Name == "." || meta.Name == ".." {
		return nil, &InvalidError{Chart: fmt.Sprintf("%q", src), Err: fmt.Errorf("name %q in Chart.yaml is no chart name", meta.Name)}
	}
	return meta, nil
}

// folderAdvice names the charts one level down, which is where they are when
// somebody names the folder of all charts.
func folderAdvice(full string) string {
	found, err := filepath.Glob(filepath.Join(full, "*", "Chart.yaml"))
	if err != nil || len(found) == 0 {
		return pathAdvice
	}
	const most = 5
	var names []string
	for _, f := range found[:min(len(found), most)] {
		names = append(names, filepath.Base(filepath.Dir(f)))
	}
	return "charts below it: " + strings.Join(names, ", ")
}

// readFolder is the list of files Helm would load from the folder, with the
// bytes they have. Version control's own folder never counts.
func readFolder(dir string) ([]tarball.File, error) {
	root, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, err
	}
	rules, err := ignoreRules(root)
	if err != nil {
		return nil, err
	}
	w := &walker{root: root, rules: rules, left: maxChartTotalBytes}
	if err := w.folder("", []string{root}); err != nil {
		return nil, err
	}
	return w.files, nil
}

func ignoreRules(root string) (*ignore.Rules, error) {
	data, err := readBounded(filepath.Join(root, ignore.HelmIgnore), maxChartFileBytes)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return parseRules(data)
}

// parseRules reads a .helmignore. There are rules without one.
func parseRules(data []byte) (*ignore.Rules, error) {
	rules, err := ignore.Parse(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", ignore.HelmIgnore, err)
	}
	rules.AddDefaults()
	return rules, nil
}

// refuseOutputs finds what would be written into the chart that it is made from.
func refuseOutputs(source Source, full string) error {
	root, err := filepath.EvalSymlinks(full)
	if err != nil {
		return &SourceError{Path: source.Path, Looked: full, Reason: "cannot be read", Err: err}
	}
	rules, err := ignoreRules(root)
	if err != nil {
		return &InvalidError{Chart: fmt.Sprintf("%q", source.Path), Err: err}
	}
	for _, output := range source.Outputs {
		if name, packs := wouldPack(root, rules, output); packs {
			return &SourceError{
				Path: source.Path, Reason: fmt.Sprintf("the chart's folder would pack %s, which is written from what the chart is, so that the two could never agree", name),
				Advice: fmt.Sprintf("list %s in the chart's .helmignore, or keep it outside of the chart's folder", name),
			}
		}
	}
	return nil
}

// wouldPack says whether a path, there or not, lies in the folder and is not
// ignored, and gives its name in it.
func wouldPack(root string, rules *ignore.Rules, output string) (string, bool) {
	parent, err := filepath.EvalSymlinks(filepath.Dir(output))
	if err != nil {
		return "", false // nothing can be written there
	}
	if parent, err = filepath.Abs(parent); err != nil {
		return "", false
	}
	if root, err = filepath.Abs(root); err != nil {
		return "", false
	}
	name, err := filepath.Rel(root, filepath.Join(parent, filepath.Base(output)))
	if err != nil || name == "." || name == ".." || strings.HasPrefix(name, ".."+string(filepath.Separator)) {
		return "", false
	}
	name = filepath.ToSlash(name)
	for at, c := range name {
		if c != '/' {
			continue
		}
		if info, err := os.Stat(filepath.Join(root, name[:at])); err == nil && rules.Ignore(name[:at], info) {
			return "", false
		}
	}
	file, err := os.Stat(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		file, err = os.Stat(filepath.Join(root, "Chart.yaml")) // a file like that which will be there
	}
	return name, err == nil && !rules.Ignore(name, file)
}

// walker collects the files of one folder.
type walker struct {
	root  string
	rules *ignore.Rules
	files []tarball.File
	left  int64
}

// folder reads what lies in one folder below the root. The trail is where we
// have been, with links followed, so that a circle is found.
func (w *walker) folder(name string, trail []string) error {
	entries, err := os.ReadDir(filepath.Join(w.root, filepath.FromSlash(name)))
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if err := w.entry(path.Join(name, entry.Name()), entry, trail); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) entry(name string, entry fs.DirEntry, trail []string) error {
	full := filepath.Join(w.root, filepath.FromSlash(name))
	info, err := os.Lstat(full)
	if err != nil {
		return err
	}
	isLink := info.Mode()&fs.ModeSymlink != 0
	if isLink {
		// Helm asks the rules about what the link leads to.
		if target, err := os.Stat(full); err == nil {
			info = target
		}
	}
	if entry.Name() == ".git" || w.rules.Ignore(name, info) {
		return nil
	}
	actual := filepath.Join(trail[len(trail)-1], entry.Name())
	if isLink {
		if actual, err = w.follow(name, full); err != nil {
			return err
		}
	}
	switch {
	case info.IsDir():
		for _, before := range trail {
			if before == actual {
				return &LinkError{Path: name, Target: actual, Reason: "leads in a circle"}
			}
		}
		return w.folder(name, append(trail[:len(trail):len(trail)], actual))
	case info.Mode().IsRegular():
		return w.file(name, full)
	}
	return fmt.Errorf("%s is no regular file (%s); list it in .helmignore", name, info.Mode().Type())
}

// follow resolves a link that must stay below the root.
func (w *walker) follow(name, full string) (string, error) {
	written, err := os.Readlink(full)
	if err != nil {
		return "", err
	}
	actual, err := filepath.EvalSymlinks(full)
	if err != nil {
		return "", &LinkError{Path: name, Target: written, Reason: "leads nowhere"}
	}
	inside, err := filepath.Rel(w.root, actual)
	if err != nil || inside == ".." || strings.HasPrefix(inside, ".."+string(filepath.Separator)) {
		return "", &LinkError{Path: name, Target: written, Reason: "leads out of the chart's folder"}
	}
	return actual, nil
}

func (w *walker) file(name, full string) error {
	data, err := readBounded(full, min(maxChartFileBytes, w.left))
	if err != nil {
		info, statErr := os.Stat(full)
		switch {
		case statErr == nil && info.Size() > maxChartFileBytes:
			return fmt.Errorf("%s is larger than Helm loads (%d bytes); list it in .helmignore when no template reads it", name, maxChartFileBytes)
		case statErr == nil && info.Size() > w.left:
			return fmt.Errorf("the folder holds more than Helm loads (%d bytes), from %s on; list what the chart does not need in .helmignore", maxChartTotalBytes, name)
		}
		return fmt.Errorf("reading %s: %w", name, err)
	}
	w.left -= int64(len(data))
	w.files = append(w.files, tarball.File{Name: name, Mode: 0o644, Data: data})
	return nil
}
