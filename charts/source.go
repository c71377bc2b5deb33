package charts

import "github.com/opencontainers/go-digest"

// A Source says where a chart comes from, as a release file does. One of
// Repository, Git, Manifests and Path alone is set.
type Source struct {
	// Path is a chart's folder or its .tgz, relative to the release file. With
	// Git it is a folder of that repository, empty for its root.
	Path string
	// Repository is a chart repository (http://, https://) or a place in a
	// registry (oci://), which is joined with Name as in Chart.yaml. Version is
	// exact or a range.
	Repository, Name, Version string
	// Git is a repository: a URL, host:path as ssh has it, or a path. Ref is a
	// tag, a branch or a commit of it, empty for its HEAD.
	Git, Ref string
	// Manifests are files of Kubernetes objects, relative to the release file,
	// packed as a chart called Name.
	Manifests []string
	// Values are the sets of values the chart will be used with, each to be
	// laid over the chart's own, which stand alone when there are none. Of a
	// chart from a folder or git, a dependency that is in none of them switched
	// on is not fetched.
	Values []map[string]any
	// Outputs are files and folders that are written from what the chart is,
	// such as the lock. A folder that would pack one of them is refused: it
	// would be another chart as soon as that is written.
	Outputs []string
}

// kind is one of the four ways to name a chart.
type kind string

const (
	fromPath       kind = "path"
	fromRepository kind = "repository"
	fromGit        kind = "git"
	fromManifests  kind = "manifests"
)

func (s Source) kind() kind {
	switch {
	case s.Repository != "":
		return fromRepository
	case s.Git != "":
		return fromGit
	case len(s.Manifests) > 0:
		return fromManifests
	}
	return fromPath
}

// Pinned is what a lock says of a chart.
type Pinned struct {
	Version           string
	Source            string // as [Chart.Source] was, with the commit for git
	Content, Manifest digest.Digest
	Dependencies      []PinnedDependency
}

// A PinnedDependency is a dependency that was vendored into a chart from a
// folder or git, so that building again vendors the same again.
type PinnedDependency struct {
	Name, Version string // of the chart that was fetched, as its Chart.yaml has them
	Repository    string // as the parent's Chart.yaml has it
	Content       digest.Digest
}

// ResolveOptions are the options of [Resolve]. The zero value resolves what is
// on disk, and refuses everything else.
type ResolveOptions struct {
	// Network brings what is elsewhere. Nil: a source or a dependency that
	// needs one is an [*OfflineError].
	Network Network
	// Pinned is what the lock says of the chart; nil resolves anew. What is
	// pinned and still allowed by the source is kept: the exact version, the
	// manifest by its digest, the commit, the dependencies. Other content under
	// the same name and version is a [*MovedError].
	Pinned *Pinned
	// AskAgain asks, of a chart that is pinned by the digest of its manifest,
	// also where name and version lead now, so that a tag that moved is found
	// although what it named is still there. Building needs no tag, locking
	// wants to know.
	AskAgain bool
	// OnFetch is told of each request or clone before it is made: what, and
	// from where; for progress. It may be called at the same time.
	OnFetch func(what string)
	// TempDir is where git repositories are kept while they are needed, in a
	// folder of their own. Empty: the system's folder for such things.
	TempDir string
	// Cache is what several Resolve calls of one run share. Nil: nothing.
	Cache *Cache
}
