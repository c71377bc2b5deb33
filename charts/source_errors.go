package charts

import (
	"fmt"
	"strings"

	"github.com/opencontainers/go-digest"
)

// An OfflineError reports a source that cannot be had without a network where
// none was given.
type OfflineError struct {
	Chart  string // its name, as far as known
	Source string // where it would have to be fetched from
}

func (e *OfflineError) Error() string {
	return fmt.Sprintf("chart %s is at %s, and no network may be asked", e.Chart, e.Source)
}

// A NotFoundError reports a chart, a version, a ref or a folder that a
// repository which answered does not have. It matches errdef.ErrNotFound when
// Err does.
type NotFoundError struct {
	What   string   // what was looked for
	Where  string   // the repository, without credentials
	Near   string   // what was probably meant, may be empty
	Known  []string // what there is instead, the newest first
	Advice string   // what to do about it, may be empty
	Err    error
}

func (e *NotFoundError) Error() string {
	text := fmt.Sprintf("%s has no %s", e.Where, e.What)
	if e.Near != "" {
		text += fmt.Sprintf("; did you mean %q?", e.Near)
	}
	if len(e.Known) > 0 {
		text += "; there is " + strings.Join(e.Known, ", ")
	}
	if e.Advice != "" {
		text += "; " + e.Advice
	}
	return text
}

func (e *NotFoundError) Unwrap() error { return e.Err }

// A RepositoryError reports a repository that answered with something else than
// it should: an index that is none, an entry without a URL, an archive that is
// not what its entry says, an artifact that is no chart.
type RepositoryError struct {
	Repository string // without credentials
	Chart      string // name, with the version as far as known
	Reason     string
	Err        error
}

func (e *RepositoryError) Error() string {
	text := e.Repository
	if e.Chart != "" {
		text = fmt.Sprintf("chart %s of %s", e.Chart, e.Repository)
	}
	text += ": " + e.Reason
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

func (e *RepositoryError) Unwrap() error { return e.Err }

// A VersionError reports text that is neither a version nor a range of them, or
// a version that no registry could hold.
type VersionError struct {
	Chart   string
	Version string
	Reason  string
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("chart %s: version %q %s", e.Chart, e.Version, e.Reason)
}

// A MovedError reports that a repository or registry serves other content under
// the name and version that are locked.
type MovedError struct {
	Name, Version  string
	Repository     string // without credentials
	What           string // which of its parts: chart, manifest, signature
	Locked, Served digest.Digest
}

func (e *MovedError) Error() string {
	return fmt.Sprintf("%s now serves another %s as %s %s: locked is %s, served is %s",
		e.Repository, e.What, e.Name, e.Version, e.Locked, e.Served)
}

// An AmbiguousError reports a version that several builds fit, which differ in
// their metadata (what follows the +) alone, so that none is newer.
type AmbiguousError struct {
	Name, Version string // as asked for
	Repository    string
	Candidates    []string // versions, sorted
}

func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("chart %s of %s: several builds fit version %q and none is newer: %s; name one of them exactly",
		e.Name, e.Repository, e.Version, strings.Join(e.Candidates, ", "))
}
