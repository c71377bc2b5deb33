package registrytest

import (
	"net/http"
	"regexp"
	"slices"
)

// Absent is what a registry does where somebody writes to a repository that
// nobody created.
type Absent string

// The ways of registries that make no repository by themselves.
const (
	AbsentUnknown Absent = "unknown" // 404 NAME_UNKNOWN
	AbsentClosed  Absent = "closed"  // the connection is closed without an answer
	AbsentLogin   Absent = "login"   // 401, whoever asks
	AbsentDenied  Absent = "denied"  // 403 DENIED
)

// repositoryPath finds the repository in the path of a request.
var repositoryPath = regexp.MustCompile(`^/v2/(.+?)/(?:blobs|manifests|tags|referrers)/`)

// refuses answers requests for a repository that is not there, as the option
// says, and reports whether it did.
func (s *Server) refuses(w http.ResponseWriter, r *http.Request) bool {
	found := repositoryPath.FindStringSubmatch(r.URL.Path)
	if s.opts.Absent == "" || found == nil || slices.Contains(s.opts.Repositories, found[1]) {
		return false
	}
	reading := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch {
	case s.opts.Absent == AbsentLogin:
		fail(w, http.StatusUnauthorized, "UNAUTHORIZED", "authentication required")
	case s.opts.Absent == AbsentDenied:
		fail(w, http.StatusForbidden, "DENIED", "requested access to the resource is denied")
	case s.opts.Absent == AbsentClosed && !reading:
		panic(http.ErrAbortHandler)
	default:
		fail(w, http.StatusNotFound, "NAME_UNKNOWN", "repository name not known to registry")
	}
	return true
}
