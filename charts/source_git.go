package charts

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/opencontainers/go-digest"
	"oras.land/oras-go/v2/errdef"
)

// A GitError reports a git repository that could not be read.
type GitError struct {
	Repository  string // without credentials
	Reason      string
	Denied      bool // it wants a login, or another one
	Unreachable bool // it did not answer; running again is right
	Err         error
}

func (e *GitError) Error() string {
	text := fmt.Sprintf("git repository %s: %s", e.Repository, e.Reason)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

func (e *GitError) Unwrap() error { return e.Err }

// gitSource is what a lock says the source is, as far as the release file says
// it: URL//PATH@REF. The commit follows after a #.
func gitSource(src Source) string {
	ref := src.Ref
	if ref == "" {
		ref = "HEAD"
	}
	return masked(src.Git) + "//" + strings.Trim(path.Clean("/"+src.Path), "/") + "@" + ref
}

func gitInputs(src Source) digest.Digest {
	return inputsDigest([]string{"git " + src.Git, "ref " + src.Ref, "path " + src.Path})
}

// resolveGit packs a folder, or takes an archive, of a git repository.
func (f *finder) resolveGit(ctx context.Context, baseDir string, src Source, pinned *Pinned) (*Chart, error) {
	where := gitSource(src)
	var commit string
	var pins []PinnedDependency
	if pinned != nil {
		if locked, ok := strings.CutPrefix(pinned.Source, where+"#"); ok {
			commit = locked
		}
		pins = pinned.Dependencies
	}
	clone, err := f.clone(ctx, gitPlace{url: src.Git, baseDir: baseDir, ref: src.Ref, commit: commit})
	if err != nil {
		return nil, err
	}
	c, err := f.gitChart(ctx, clone, src, pins)
	if err != nil {
		return nil, err
	}
	c.Source = where + "#" + clone.commit.String()
	c.Inputs = gitInputs(src)
	return c, nil
}

// gitChart makes the chart of a path in a commit.
func (f *finder) gitChart(ctx context.Context, clone *gitClone, src Source, pins []PinnedDependency) (*Chart, error) {
	tree, err := clone.tree()
	if err != nil {
		return nil, err
	}
	dir, archive, err := tree.chart(src)
	if err != nil || archive != nil {
		return archive, err
	}
	p, err := newPacking(gitFolder{tree: tree, dir: dir, src: src.Path}, src.Values)
	if err != nil {
		return nil, err
	}
	return f.pack(ctx, p, pins)
}

// chart finds what is at the source's path: a folder, or an archive.
func (t *gitTree) chart(src Source) (dir string, archive *Chart, err error) {
	t.clone.mu.Lock()
	defer t.clone.mu.Unlock()
	dir, entry, err := t.resolve("", src.Path)
	if err != nil {
		return "", nil, &NotFoundError{
			What: fmt.Sprintf("%q at commit %s", src.Path, t.clone.commit), Where: "git repository " + t.clone.where,
			Advice: "path is a chart's folder in the repository", Err: errdef.ErrNotFound,
		}
	}
	switch entry.Mode {
	case filemode.Dir:
		return dir, nil, nil
	case filemode.Submodule:
		return "", nil, submoduleError(src.Path)
	}
	archive, err = gitArchive(t, src, dir)
	return "", archive, err
}

// gitArchive is an archive that is kept in git, taken byte for byte.
func gitArchive(tree *gitTree, src Source, name string) (*Chart, error) {
	title := fmt.Sprintf("%q", src.Path)
	tgz, err := tree.read(name, maxArchiveBytes)
	if err != nil {
		return nil, &InvalidError{Chart: title, Err: err}
	}
	if !isGzip(tgz) {
		return nil, notAnArchive(src.Path, name)
	}
	var provenance []byte
	if at, _, err := tree.resolve("", name+".prov"); err == nil {
		if provenance, err = tree.read(at, maxProvenanceBytes); err != nil {
			return nil, &InvalidError{Chart: title, Err: err}
		}
	}
	c, err := openArchive(tgz, provenance)
	return c, titled(err, title)
}
