package bundle

import (
	"errors"
	"fmt"
	"strings"

	"github.com/opencontainers/go-digest"

	"waybill/internal/near"
)

// ErrNotBundle is returned, wrapped, by [Open] for content that is no bundle:
// a plain image, a chart, an index of something else.
var ErrNotBundle = errors.New("not a bundle")

// ErrNoVersion is returned by [MakeLock] when neither the release file nor the
// options say which version the release has.
var ErrNoVersion = errors.New("the release has no version")

// An AnnotationError reports an annotation that nobody but the bundle writes.
type AnnotationError struct{ Key string }

func (e *AnnotationError) Error() string {
	return fmt.Sprintf("annotation %q belongs to the bundle itself", e.Key)
}

// A VersionError reports a release version that is no semantic version.
type VersionError struct{ Version string }

func (e *VersionError) Error() string {
	return fmt.Sprintf("version %q is not a semantic version such as 1.2.3, without a leading v", e.Version)
}

// A Problem is one thing found in a document.
type Problem struct {
	Line   int    `json:"line,omitempty"`   // counted from 1; 0 when the place is not known
	Column int    `json:"column,omitempty"` // counted from 1; 0 when the place is not known
	Path   string `json:"path,omitempty"`   // the place in the document, such as components[2].chart
	// Message says what is wrong, in lower case and without a full stop.
	Message string `json:"message"`
}

// String returns "path: message", or the message alone.
func (p Problem) String() string {
	if p.Path == "" {
		return p.Message
	}
	return p.Path + ": " + p.Message
}

// in returns the problem as compilers print it: file:line:column: text.
func (p Problem) in(file string) string {
	if p.Line == 0 {
		return fmt.Sprintf("%s: %s", file, p)
	}
	return fmt.Sprintf("%s:%d:%d: %s", file, p.Line, p.Column, p)
}

func listProblems(file string, problems []Problem) string {
	lines := make([]string, len(problems))
	for i, p := range problems {
		lines[i] = p.in(file)
	}
	return strings.Join(lines, "\n")
}

// A FileError reports a document that does not parse or does not fit its
// schema, with all that is wrong with it, in the order of the file.
type FileError struct {
	File     string // the name given to the parse function
	Problems []Problem
}

func (e *FileError) Error() string { return listProblems(e.File, e.Problems) }

// A LintError reports a release file that fits the schema and still cannot be
// locked or built: what [Release.Check] found.
type LintError struct {
	File     string
	Problems []Problem
}

func (e *LintError) Error() string { return listProblems(e.File, e.Problems) }

// A ContentError reports content that is missing, is not what its digest or
// size says, or contradicts the lock.
type ContentError struct {
	Digest digest.Digest
	Reason string // such as "incomplete: it is missing", "corrupt: content is sha256:…"
	// Component and Chart say what the content belongs to; empty when it
	// belongs to no chart. Several components are joined by commas.
	Component, Chart string
}

func (e *ContentError) Error() string {
	var owner string
	if e.Component != "" {
		owner = fmt.Sprintf(" (component %s, chart %s)", e.Component, e.Chart)
	}
	return fmt.Sprintf("%s%s: %s", e.Digest, owner, e.Reason)
}

// A NewerError reports a bundle, or a document in one, of a version this
// program does not know.
type NewerError struct {
	Digest digest.Digest
	Type   string // the media type, artifact type or apiVersion that is not known
}

func (e *NewerError) Error() string {
	return fmt.Sprintf("%s was made by a newer waybill: %q is not known here", e.Digest, e.Type)
}

// An UnknownRoleError reports entries of a bundle whose role this program does
// not know. They can be copied; a bundle with them cannot be installed.
type UnknownRoleError struct {
	Roles []string // sorted
}

func (e *UnknownRoleError) Error() string {
	return fmt.Sprintf("the bundle was made by a newer waybill: it has entries of unknown role %s", quoteAll(e.Roles))
}

// A StaleError reports a lock that does not belong to the release file as it
// stands, or is not there although it was asked for.
type StaleError struct {
	Differences []string // one fact each, in the order of the release file
	ChartsOnly  bool     // the lock is one of charts, and images are wanted too
	ImagesToo   bool     // the lock is one of charts and images, and charts are wanted alone
}

func (e *StaleError) Error() string {
	return "the lock is stale: " + strings.Join(e.Differences, "; ")
}

// A ComponentError reports what went wrong with one component of several.
type ComponentError struct {
	Component string
	Act       string // what was done, such as "resolving the chart"
	Err       error
}

func (e *ComponentError) Error() string {
	return fmt.Sprintf("component %s: %s: %v", e.Component, e.Act, e.Err)
}

func (e *ComponentError) Unwrap() error { return e.Err }

// An UnknownComponentError reports a component name that the release does not have.
type UnknownComponentError struct {
	Name  string
	Known []string // sorted
}

func (e *UnknownComponentError) Error() string {
	text := fmt.Sprintf("no component %q; there are %s", e.Name, strings.Join(e.Known, ", "))
	if meant := near.Word(e.Name, e.Known); meant != "" {
		text += fmt.Sprintf("; did you mean %q?", meant)
	}
	return text
}

func quoteAll(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = fmt.Sprintf("%q", w)
	}
	return strings.Join(quoted, ", ")
}
