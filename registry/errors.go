package registry

import (
	"fmt"
	"strings"

	"github.com/opencontainers/go-digest"
	"oras.land/oras-go/v2/errdef"

	"waybill/internal/credentials"
)

// A LocationError reports a word that is no location, or one that leads nowhere.
type LocationError struct {
	Input  string // as typed, without credentials
	Reason string
	Meant  string // what was probably meant; may be empty
	Err    error  // what was found there instead, may be nil
}

func (e *LocationError) Error() string {
	s := fmt.Sprintf("location %q %s", e.Input, e.Reason)
	if e.Meant != "" {
		s += fmt.Sprintf("; did you mean %s?", e.Meant)
	}
	return s
}

func (e *LocationError) Unwrap() error { return e.Err }

// A TagError reports a word that can't be a tag of a registry, or a name in an
// archive or layout.
type TagError struct {
	Tag string
	Err error
}

func (e *TagError) Error() string { return fmt.Sprintf("%q can't be a tag: %v", e.Tag, e.Err) }

func (e *TagError) Unwrap() error { return e.Err }

// A ChoiceError reports a place with several things in it and no choice made.
type ChoiceError struct {
	Location string
	Choices  []string // complete locations, the best guess first
}

func (e *ChoiceError) Error() string {
	if len(e.Choices) == 0 {
		return fmt.Sprintf("%s: give a tag or digest; there are no tags here", e.Location)
	}
	return fmt.Sprintf("%s: say which one: %s", e.Location, strings.Join(e.Choices, ", "))
}

// A NotFoundError reports something that is not in a place that answered. It
// matches oras-go's errdef.ErrNotFound with errors.Is.
type NotFoundError struct {
	Host  string // empty for a local place
	Ref   string // where it was looked for
	What  string // repository, tag, manifest, blob, with its name
	Known []string
	Err   error
}

func (e *NotFoundError) Error() string {
	s := fmt.Sprintf("%s: %s not found", e.Ref, e.What)
	if len(e.Known) > 0 {
		s += "; there is " + strings.Join(e.Known, ", ")
	}
	return s
}

func (e *NotFoundError) Unwrap() error { return e.Err }

// Is makes the error one of oras-go's not-found errors.
func (e *NotFoundError) Is(target error) bool { return target == errdef.ErrNotFound }

// A DeniedError reports a registry that wants a login (401) or other rights (403).
type DeniedError struct {
	Host        string
	Ref         string
	What        string // what was asked for or done, with its name; may be empty
	Status      int
	Rejected    bool   // a login was sent, and it is not good
	Credentials string // where the credentials came from, or where none were found; never what they are
	Reason      string // what the registry says
	Err         error
}

func (e *DeniedError) Error() string {
	var s string
	switch {
	case e.Status == 401 && e.Rejected:
		s = fmt.Sprintf("%scredentials rejected for %s by %s", named(e.What), e.Ref, e.Host)
	case e.Status == 401:
		s = fmt.Sprintf("%s: %s%s wants a login", e.Ref, named(e.What), e.Host)
	default:
		s = fmt.Sprintf("%s: %s%s denies access", e.Ref, named(e.What), e.Host)
	}
	s += fmt.Sprintf(" (%d)", e.Status)
	if e.Reason != "" {
		s += ": " + e.Reason
	}
	if e.Credentials != "" {
		s += "; " + e.Credentials
	}
	return s
}

// named is a part of a message that may be missing.
func named(what string) string {
	if what == "" {
		return ""
	}
	return what + ": "
}

func (e *DeniedError) Unwrap() error { return e.Err }

// A CredentialsError reports a credentials file or helper that does not work.
// Going on without a login would hide it.
type CredentialsError = credentials.Error

// An UnreachableError reports a host that gave no usable answer: no name, no
// connection, no trust, no progress, too busy for as long as patience lasted, or
// something else than a registry in its place.
type UnreachableError struct {
	Host   string
	Why    Why
	Ref    string
	What   string // what was asked for or done, with its name; may be empty
	Status int    // 429 or 5xx when the host did answer
	Reason string // the plain cause
	Err    error
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("%s: %s%s: %s", e.Ref, named(e.What), e.Host, e.Reason)
}

func (e *UnreachableError) Unwrap() error { return e.Err }

// NeedsCertificate says whether the host wants a TLS client certificate and was
// shown none.
func (e *UnreachableError) NeedsCertificate() bool { return certificateWanted(e.Err) }

// Why says what can be done about a host that gave no usable answer.
type Why int

// What can be done about it.
const (
	WhyNow   Why = iota // it may answer later, or otherwise: running again is right
	WhyPage             // a web page is in its place: of a proxy, a login to the network, another service
	WhyWrong            // it leads nowhere, and will again: redirects without end or without TLS, a token service that is none
)

// A ContentError reports bytes that are not what was promised: another digest
// or size, truncated, missing from a place that must have them, or not an OCI
// layout at all.
type ContentError struct {
	Ref    string        // the place
	Digest digest.Digest // of the content; empty when the place itself is wrong
	Reason string
	Advice string // what to do, where copying it again would bring the same
	Err    error
}

func (e *ContentError) Error() string {
	if e.Digest == "" {
		return fmt.Sprintf("%s: %s", e.Ref, e.Reason)
	}
	return fmt.Sprintf("%s: %s: %s", e.Ref, e.Digest, e.Reason)
}

func (e *ContentError) Unwrap() error { return e.Err }

// A ManifestTypeError reports a manifest of a type that this package can't read:
// what belongs to it is not known, so that a copy could not be whole.
type ManifestTypeError struct {
	Ref       string // the place
	Digest    digest.Digest
	MediaType string // as its descriptor says
}

func (e *ManifestTypeError) Error() string {
	if e.Schema1() {
		return fmt.Sprintf("%s: %s is an image in Docker's first format, which registries no longer take", e.Ref, e.Digest)
	}
	return fmt.Sprintf("%s: %s: %q is no type of manifest that is known, so neither are its parts", e.Ref, e.Digest, e.MediaType)
}

// Schema1 says whether it is Docker's first format, which has a remedy.
func (e *ManifestTypeError) Schema1() bool { return isSchema1(e.MediaType) }

// A BusyError reports a layout that another process is writing to.
type BusyError struct {
	Path   string
	Holder string // what the holder wrote into the lock file; may be empty
}

func (e *BusyError) Error() string {
	if e.Holder == "" {
		return fmt.Sprintf("%s is being written to by another process", e.Path)
	}
	return fmt.Sprintf("%s is being written to by %s", e.Path, e.Holder)
}

// An AddressError reports a registry that takes no manifest in which a layer has
// addresses of its own. CNCF Distribution doesn't, unless its settings allow them.
type AddressError struct {
	Host string
	Ref  string
	What string // the manifest, with its digest
	Err  error
}

func (e *AddressError) Error() string {
	return fmt.Sprintf("%s: %s: %s refuses the addresses that it has for a layer", e.Ref, e.What, e.Host)
}

func (e *AddressError) Unwrap() error { return e.Err }

// A LeftOutError reports a registry that takes no manifest without a layer that was
// left out, since it may not be given on.
type LeftOutError struct {
	Layer digest.Digest
	Err   error // the registry's answer
}

func (e *LeftOutError) Error() string {
	return fmt.Sprintf("%v; layer %s may not be given on and was left out", e.Err, e.Layer)
}

func (e *LeftOutError) Unwrap() error { return e.Err }

// A ResponseError reports an answer that is none of the other errors: the
// registry understood and refused, with its words.
type ResponseError struct {
	Host   string
	Ref    string
	Status int
	Reason string
	Err    error
}

func (e *ResponseError) Error() string {
	return fmt.Sprintf("%s: %s answers %d: %s", e.Ref, e.Host, e.Status, e.Reason)
}

func (e *ResponseError) Unwrap() error { return e.Err }
