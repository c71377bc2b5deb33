package charts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/storage/filesystem"
	"oras.land/oras-go/v2/errdef"
)

// A gitPlace is a commit of a git repository, as it was asked for.
type gitPlace struct {
	url     string
	baseDir string // where a relative path begins
	ref     string // empty for HEAD
	commit  string // when it is locked: then the ref decides nothing
}

// A gitClone is a repository that holds a commit and all that is in it. Who
// reads from it holds mu.
type gitClone struct {
	where  string // the repository, without credentials
	commit plumbing.Hash
	store  storer.EncodedObjectStorer
	mu     sync.Mutex
}

// clone finds the commit that is meant and brings it here. A repository on this
// machine is read where it lies; of others the one commit is fetched into a
// folder that nobody else reads, and that goes with the cache.
func (f *finder) clone(ctx context.Context, p gitPlace) (*gitClone, error) {
	if p.commit != "" && !fullCommit.MatchString(p.commit) {
		return nil, &GitError{Repository: masked(p.url), Reason: fmt.Sprintf("the lock names commit %q, which is none", p.commit)}
	}
	dir, isLocal, err := p.local()
	if err != nil {
		return nil, err
	}
	if isLocal {
		return cached(f.cache, fmt.Sprintf("git %q %q %q", dir, p.ref, p.commit), func() (*gitClone, error) {
			return f.openLocal(p, dir)
		})
	}
	if f.net == nil {
		return nil, &OfflineError{Chart: "in git", Source: masked(p.url)}
	}
	return cached(f.cache, fmt.Sprintf("git %q %q %q", p.url, p.ref, p.commit), func() (*gitClone, error) {
		return f.fetchGit(ctx, p)
	})
}

// fullCommit is a commit's whole name.
var fullCommit = regexp.MustCompile(`^[0-9a-f]{40}$`)

// scpLike is HOST:PATH as ssh has it, with or without a user.
var scpLike = regexp.MustCompile(`^([A-Za-z0-9._-]+@)?[A-Za-z0-9.-]{2,}:[^\\]`)

// local is the folder of a repository on this machine.
func (p gitPlace) local() (dir string, isLocal bool, err error) {
	path, isFile := strings.CutPrefix(p.url, fileScheme)
	switch {
	case isFile:
	case strings.HasPrefix(p.url, "https://"), strings.HasPrefix(p.url, "http://"), strings.HasPrefix(p.url, "ssh://"), strings.HasPrefix(p.url, "git+ssh://"):
		return "", false, nil
	case strings.Contains(p.url, "://"):
		return "", false, &GitError{Repository: masked(p.url), Reason: "is reached by https://, http://, ssh:// or a path; git:// says nothing of who answers"}
	case scpLike.MatchString(p.url):
		return "", false, nil
	}
	dir = filepath.FromSlash(path)
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(p.baseDir, dir)
	}
	return dir, true, nil
}

// openLocal opens a repository on this machine, bare or with its files beside
// it. Nothing of it is run and nothing written.
func (f *finder) openLocal(p gitPlace, dir string) (*gitClone, error) {
	f.onFetch("git repository " + masked(p.url))
	repo, err := git.PlainOpenWithOptions(dir, &git.PlainOpenOptions{EnableDotGitCommonDir: true})
	if err != nil {
		if _, statErr := os.Stat(dir); statErr != nil {
			return nil, &SourceError{Path: p.url, Looked: dir, Reason: "no such folder", Advice: "git names a URL, or a path relative to the release file", Err: statErr}
		}
		return nil, &SourceError{Path: p.url, Looked: dir, Reason: "is no git repository that can be read (" + err.Error() + ")", Err: err}
	}
	clone := &gitClone{where: masked(p.url), store: repo.Storer}
	refs := gitRefs{names: map[string]plumbing.Hash{}}
	list, err := repo.References()
	if err != nil {
		return nil, &GitError{Repository: clone.where, Reason: "its references cannot be read", Err: err}
	}
	err = list.ForEach(func(r *plumbing.Reference) error {
		resolved, err := repo.Reference(r.Name(), true)
		if err == nil { // a HEAD without a commit leads nowhere
			refs.names[r.Name().String()] = resolved.Hash()
		}
		return nil
	})
	if err != nil {
		return nil, &GitError{Repository: clone.where, Reason: "its references cannot be read", Err: err}
	}
	if p.commit != "" {
		clone.commit = plumbing.NewHash(p.commit)
	} else if clone.commit, err = refs.choose(clone.where, p.ref); err != nil {
		return nil, err
	}
	return clone, clone.peel()
}

// peel follows tags to the commit they name.
func (c *gitClone) peel() error {
	const most = 8
	for range most {
		o, err := c.store.EncodedObject(plumbing.AnyObject, c.commit)
		if errors.Is(err, plumbing.ErrObjectNotFound) {
			return &NotFoundError{What: "commit " + c.commit.String(), Where: "git repository " + c.where, Err: errdef.ErrNotFound}
		}
		if err != nil {
			return &GitError{Repository: c.where, Reason: "commit " + c.commit.String() + " cannot be read", Err: err}
		}
		switch o.Type() {
		case plumbing.CommitObject:
			return nil
		case plumbing.TagObject:
			tag, err := object.DecodeTag(c.store, o)
			if err != nil {
				return &GitError{Repository: c.where, Reason: "tag " + c.commit.String() + " cannot be read", Err: err}
			}
			c.commit = tag.Target
		default:
			return &GitError{Repository: c.where, Reason: fmt.Sprintf("%s is a %s, no commit", c.commit, o.Type())}
		}
	}
	return &GitError{Repository: c.where, Reason: "its tags name tags without end"}
}

// tree is the root of the files of the commit.
func (c *gitClone) tree() (*gitTree, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	commit, err := object.GetCommit(c.store, c.commit)
	if err != nil {
		return nil, &GitError{Repository: c.where, Reason: "commit " + c.commit.String() + " cannot be read", Err: err}
	}
	root, err := object.GetTree(c.store, commit.TreeHash)
	if err != nil {
		return nil, &GitError{Repository: c.where, Reason: "the files of commit " + c.commit.String() + " cannot be read", Err: err}
	}
	return &gitTree{clone: c, folders: map[string]*object.Tree{"": root}}, nil
}

// privateStore is a place for objects in a folder of its own, which is removed
// with the cache.
func (f *finder) privateStore() (*filesystem.Storage, error) {
	dir, err := os.MkdirTemp(f.tempDir, "waybill-git-")
	if err != nil {
		return nil, fmt.Errorf("making a folder for a git repository: %w", err)
	}
	f.cache.atEnd(func() error { return os.RemoveAll(dir) })
	store := filesystem.NewStorageWithOptions(osfs.New(dir), cache.NewObjectLRUDefault(), filesystem.Options{
		ExclusiveAccess: true, LargeObjectThreshold: maxChartFileBytes + 1,
	})
	return store, store.Init()
}
