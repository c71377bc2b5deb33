package charts

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"oras.land/oras-go/v2/errdef"

	"waybill/internal/near"
)

// gitRefs are the names a repository has for its commits.
type gitRefs struct {
	names  map[string]plumbing.Hash // refs/heads/…, refs/tags/…, HEAD
	peeled map[string]plumbing.Hash // the commits that annotated tags name
}

// choose finds what a ref names: a commit, a whole name (refs/…), a tag or a
// branch. A name that is both and means two things is refused: git's commands
// do not agree about it.
func (r gitRefs) choose(where, ref string) (plumbing.Hash, error) {
	if ref == "" {
		ref = "HEAD"
	}
	if fullCommit.MatchString(ref) {
		return plumbing.NewHash(ref), nil
	}
	if hash, ok := r.names[ref]; ok && (ref == "HEAD" || strings.HasPrefix(ref, "refs/")) {
		return hash, nil
	}
	tag, isTag := r.names["refs/tags/"+ref]
	branch, isBranch := r.names["refs/heads/"+ref]
	commit := tag
	if named, ok := r.peeled["refs/tags/"+ref]; ok {
		commit = named
	}
	switch {
	case isTag && isBranch && commit != branch:
		return plumbing.ZeroHash, &GitError{Repository: where, Reason: fmt.Sprintf("%q is a tag and a branch; write refs/tags/%s or refs/heads/%s", ref, ref, ref)}
	case isTag:
		return tag, nil
	case isBranch:
		return branch, nil
	}
	return plumbing.ZeroHash, r.notFound(where, ref)
}

// notFound says what was probably meant.
func (r gitRefs) notFound(where, ref string) error {
	var known []string
	for name := range r.names {
		short, isTag := strings.CutPrefix(name, "refs/tags/")
		if !isTag {
			var isBranch bool
			if short, isBranch = strings.CutPrefix(name, "refs/heads/"); !isBranch {
				continue
			}
		}
		known = append(known, short)
	}
	slices.Sort(known)
	e := &NotFoundError{What: fmt.Sprintf("tag, branch or commit %q", ref), Where: "git repository " + where, Near: near.Word(ref, known), Err: errdef.ErrNotFound}
	switch {
	case len(r.names) == 0:
		e.Advice = "it holds no commit yet"
	case shortCommit(ref):
		e.Advice = "a commit is written with all its 40 digits"
	}
	return e
}

// shortCommit is whether somebody probably meant a commit.
func shortCommit(ref string) bool {
	const shortest = 7
	return len(ref) >= shortest && strings.Trim(ref, "0123456789abcdef") == ""
}

// wants is what to ask a server for to get a commit: the tag that names it when
// there is one, since servers give what they have a name for. named is false
// when there is no name for it.
func (r gitRefs) wants(commit plumbing.Hash) (want plumbing.Hash, named bool) {
	for _, hash := range r.names {
		if hash == commit {
			return commit, true
		}
	}
	for _, name := range sortedKeys(r.peeled) {
		if r.peeled[name] == commit {
			return r.names[name], true
		}
	}
	return commit, false
}
