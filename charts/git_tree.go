package charts

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"helm.sh/helm/v3/pkg/ignore"

	"waybill/internal/tarball"
)

// A gitTree is the files of one commit. Nothing of it is written to disk under
// a name it chooses.
type gitTree struct {
	clone   *gitClone
	folders map[string]*object.Tree // by path, as they are needed
}

// What a link may lead to besides a place.
var (
	errNowhere = errors.New("leads nowhere")
	errOutside = errors.New("leads out of the chart's folder")
	errCircle  = errors.New("leads in a circle")
)

// folder is the tree at a path, in which no part is a link.
func (t *gitTree) folder(dir string) (*object.Tree, error) {
	if tree, ok := t.folders[dir]; ok {
		return tree, nil
	}
	entry, err := t.entry(dir)
	if err != nil {
		return nil, err
	}
	if entry.Mode != filemode.Dir {
		return nil, errNowhere
	}
	tree, err := object.GetTree(t.clone.store, entry.Hash)
	if err != nil {
		return nil, fmt.Errorf("reading folder %s of commit %s: %w", dir, t.clone.commit, err)
	}
	t.folders[dir] = tree
	return tree, nil
}

// entry is what stands at a path, in which no part but the last is a link.
func (t *gitTree) entry(name string) (object.TreeEntry, error) {
	if name == "" {
		return object.TreeEntry{Mode: filemode.Dir}, nil
	}
	dir, base := path.Split(name)
	tree, err := t.folder(strings.TrimSuffix(dir, "/"))
	if err != nil {
		return object.TreeEntry{}, err
	}
	at := slices.IndexFunc(tree.Entries, func(e object.TreeEntry) bool { return e.Name == base })
	if at < 0 {
		return object.TreeEntry{}, errNowhere
	}
	return tree.Entries[at], nil
}

// resolve follows links: name, seen from the folder from, ends at actual.
func (t *gitTree) resolve(from, name string) (actual string, entry object.TreeEntry, err error) {
	const mostLinks = 40
	done, links := from, 0
	todo := strings.Split(name, "/")
	entry = object.TreeEntry{Mode: filemode.Dir}
	for len(todo) > 0 {
		part := todo[0]
		todo = todo[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			if done == "" {
				return "", entry, errOutside
			}
			done = strings.TrimSuffix(path.Dir("/" + done)[1:], "/")
			continue
		}
		next := path.Join(done, part)
		if entry, err = t.entry(next); err != nil {
			return "", entry, err
		}
		if entry.Mode != filemode.Symlink {
			done = next
			continue
		}
		if links++; links > mostLinks {
			return "", entry, errCircle
		}
		target, err := t.target(entry)
		if err != nil {
			return "", entry, err
		}
		if path.IsAbs(target) {
			return "", entry, errOutside
		}
		todo = append(strings.Split(target, "/"), todo...)
	}
	entry, err = t.entry(done)
	return done, entry, err
}

// target is where a link says it leads.
func (t *gitTree) target(entry object.TreeEntry) (string, error) {
	const longest = 4096
	data, err := t.blob(entry.Hash, longest)
	return string(data), err
}

// read is the content of a file.
func (t *gitTree) read(name string, limit int64) ([]byte, error) {
	entry, err := t.entry(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	data, err := t.blob(entry.Hash, limit)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if bytes.HasPrefix(data, []byte("version https://git-lfs.github.com/spec/")) {
		return nil, fmt.Errorf("%s is kept with Git LFS, and here is only the name of its content; keep it in git itself", name)
	}
	return data, nil
}

// blob is an object's bytes, whose size is looked at before they are read.
func (t *gitTree) blob(hash plumbing.Hash, limit int64) ([]byte, error) {
	size, err := t.clone.store.EncodedObjectSize(hash)
	if err != nil {
		return nil, err
	}
	if size > limit {
		return nil, errTooLarge
	}
	blob, err := object.GetBlob(t.clone.store, hash)
	if err != nil {
		return nil, err
	}
	r, err := blob.Reader()
	if err != nil {
		return nil, err
	}
	defer r.Close() // only read from
	return readAtMost(r, limit)
}

// A gitFolder is a chart's folder in a git repository.
type gitFolder struct {
	tree *gitTree
	dir  string // where it is, links followed
	src  string // as it was written
}

// String is how messages call the folder.
func (g gitFolder) String() string {
	return fmt.Sprintf("%q in git repository %s at commit %s", g.src, g.tree.clone.where, g.tree.clone.commit)
}

// id tells folders apart.
func (g gitFolder) id() string { return g.dir }

// sibling is the folder that a dependency's file:// means. It is in the same
// commit.
func (g gitFolder) sibling(name string) (folder, error) {
	g.tree.clone.mu.Lock()
	defer g.tree.clone.mu.Unlock()
	if path.IsAbs(name) {
		return nil, &SourceError{Path: fileScheme + name, Reason: "is a path of one machine, and the chart comes from git", Advice: "begin it at the chart's folder (file://../NAME)"}
	}
	dir, entry, err := g.tree.resolve(g.dir, name)
	if errors.Is(err, errOutside) {
		return nil, &SourceError{Path: fileScheme + name, Reason: "leads out of the git repository"}
	}
	if err != nil || entry.Mode != filemode.Dir {
		return nil, &SourceError{Path: fileScheme + name, Reason: fmt.Sprintf("no such folder in git repository %s at commit %s", g.tree.clone.where, g.tree.clone.commit), Err: err}
	}
	return gitFolder{tree: g.tree, dir: dir, src: fileScheme + name}, nil
}

// files are those Helm would load, with the bytes the commit has.
func (g gitFolder) files() ([]tarball.File, error) {
	g.tree.clone.mu.Lock()
	defer g.tree.clone.mu.Unlock()
	if _, _, err := g.tree.resolve(g.dir, "Chart.yaml"); err != nil {
		return nil, &SourceError{
			Path: g.src, Reason: fmt.Sprintf("is a folder without Chart.yaml in git repository %s at commit %s", g.tree.clone.where, g.tree.clone.commit),
			Advice: g.advice(), Err: err,
		}
	}
	w := &gitWalker{tree: g.tree, root: g.dir, left: maxChartTotalBytes}
	if err := w.readRules(); err != nil {
		return nil, &InvalidError{Chart: g.String(), Err: err}
	}
	if err := w.folder("", []string{g.dir}); err != nil {
		return nil, &InvalidError{Chart: g.String(), Err: err}
	}
	return w.files, nil
}

// advice names the charts one level down.
func (g gitFolder) advice() string {
	tree, err := g.tree.folder(g.dir)
	if err != nil {
		return ""
	}
	const most = 5
	var below []string
	for _, entry := range tree.Entries {
		if _, _, err := g.tree.resolve(g.dir, entry.Name+"/Chart.yaml"); err == nil && len(below) < most {
			below = append(below, entry.Name)
		}
	}
	if len(below) == 0 {
		return "path names the folder that holds Chart.yaml"
	}
	return "charts below it: " + strings.Join(below, ", ")
}

// gitWalker collects the files of one folder.
type gitWalker struct {
	tree  *gitTree
	root  string
	rules *ignore.Rules
	files []tarball.File
	left  int64
	seen  int // entries looked at
}

func (w *gitWalker) readRules() error {
	at, _, err := w.tree.resolve(w.root, ignore.HelmIgnore)
	if errors.Is(err, errNowhere) {
		w.rules, err = parseRules(nil)
		return err
	}
	if err != nil {
		return &LinkError{Path: ignore.HelmIgnore, Reason: err.Error()}
	}
	data, err := w.tree.read(at, maxChartFileBytes)
	if err != nil {
		return err
	}
	w.rules, err = parseRules(data)
	return err
}

// folder reads what lies in one folder below the root. The trail is where we
// have been, with links followed, so that a circle is found.
func (w *gitWalker) folder(name string, trail []string) error {
	tree, err := w.tree.folder(trail[len(trail)-1])
	if err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	if len(trail) > maxGitDepth {
		return fmt.Errorf("%s lies more than %d folders deep", name, maxGitDepth)
	}
	if w.seen += len(tree.Entries); w.seen > maxGitEntries {
		return fmt.Errorf("the folder holds more than %d files and folders", maxGitEntries)
	}
	for _, entry := range tree.Entries {
		if err := w.entry(path.Join(name, entry.Name), entry, trail); err != nil {
			return err
		}
	}
	return nil
}

// What bounds folders in folders: a commit can have any number of them for next
// to nothing, by naming one of them many times.
const (
	maxGitDepth   = 64
	maxGitEntries = 20_000
)

func (w *gitWalker) entry(name string, entry object.TreeEntry, trail []string) error {
	actual := path.Join(trail[len(trail)-1], entry.Name)
	if entry.Name == "" || entry.Name == "." || entry.Name == ".." || strings.ContainsAny(entry.Name, `/\`) {
		return &tarball.HostileError{Entry: path.Join(name, entry.Name), Reason: "has a name no file may have"}
	}
	var linkErr error
	if entry.Mode == filemode.Symlink {
		dir := trail[len(trail)-1]
		var followed object.TreeEntry
		written, err := w.tree.target(entry)
		if err != nil {
			return fmt.Errorf("reading link %s: %w", name, err)
		}
		if actual, followed, linkErr = w.tree.resolve(dir, entry.Name); linkErr == nil {
			followed.Name = entry.Name
			entry = followed
		}
		linkErr = w.insideLink(name, written, actual, linkErr)
	}
	if entry.Name == ".git" || w.rules.Ignore(name, gitInfo{entry}) {
		return nil
	}
	if linkErr != nil {
		return linkErr
	}
	switch entry.Mode {
	case filemode.Submodule:
		return submoduleError(name)
	case filemode.Dir:
		if slices.Contains(trail, actual) {
			return &LinkError{Path: name, Target: actual, Reason: errCircle.Error()}
		}
		return w.folder(name, append(trail[:len(trail):len(trail)], actual))
	}
	return w.file(name, actual)
}

// insideLink refuses a link that leads nowhere, or out of the root.
func (w *gitWalker) insideLink(name, written, actual string, err error) error {
	switch {
	case err != nil:
	case w.root != "" && actual != w.root && !strings.HasPrefix(actual, w.root+"/"):
		err = errOutside
	default:
		return nil
	}
	return &LinkError{Path: name, Target: written, Reason: err.Error()}
}

func (w *gitWalker) file(name, actual string) error {
	data, err := w.tree.read(actual, min(maxChartFileBytes, w.left))
	if errors.Is(err, errTooLarge) {
		return fmt.Errorf("%s is larger than Helm loads (%d bytes a file, %d together); list what no template reads in .helmignore", name, maxChartFileBytes, maxChartTotalBytes)
	}
	if err != nil {
		return err
	}
	w.left -= int64(len(data))
	w.files = append(w.files, tarball.File{Name: name, Mode: 0o644, Data: data})
	return nil
}

// submoduleError is for a folder whose files are in another repository.
func submoduleError(name string) error {
	return &InvalidError{Chart: fmt.Sprintf("%q", name), Err: errors.New("is a git submodule, whose files are in another repository; name that repository, or keep the files in this one")}
}

// gitInfo is what .helmignore asks about a file.
type gitInfo struct{ entry object.TreeEntry }

func (i gitInfo) Name() string       { return i.entry.Name }
func (i gitInfo) Size() int64        { return 0 }
func (i gitInfo) ModTime() time.Time { return time.Time{} }
func (i gitInfo) IsDir() bool {
	return i.entry.Mode == filemode.Dir || i.entry.Mode == filemode.Submodule
}
func (i gitInfo) Sys() any { return nil }

func (i gitInfo) Mode() fs.FileMode {
	if i.IsDir() {
		return fs.ModeDir
	}
	return 0
}

var _ fs.FileInfo = gitInfo{}
