// Package ref reads and writes the names that registries know: references to
// something in a repository, the tag a version gets, and the one spelling of an
// image name that Docker means.
//
// It knows only names. Where a name leads is package registry's business.
// Begin with [Parse]; image names that people wrote into charts go through
// [Normalize] first.
package ref

import (
	_ "crypto/sha256" // the digests that references may have
	_ "crypto/sha512"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"
)

// A Reference names a repository and, when given, what is in it:
// host[:port]/path[:tag][@digest].
type Reference struct {
	Host       string        // host name, with :port when there is one
	Repository string        // path in the registry, lower case
	Tag        string        // may move; empty for none
	Digest     digest.Digest // never moves; empty for none
}

// maxName is the limit on host and path together, as distribution has it.
const maxName = reference.RepositoryNameTotalLengthMax

var (
	hostPattern = regexp.MustCompile(`^` + reference.DomainRegexp.String() + `$`)
	// The distribution specification's <name>, section "Pulling manifests".
	repositoryPattern = regexp.MustCompile(`^[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*$`)
	// The distribution specification's <reference> as a tag, same section.
	tagPattern = regexp.MustCompile(`^[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}$`)
)

// Parse reads host[:port]/path[:tag][@digest]. The first part is always the
// host and nothing is filled in: no default host, no default tag.
func Parse(s string) (Reference, error) {
	host, rest, ok := strings.Cut(s, "/")
	if !ok || host == "" || rest == "" {
		return Reference{}, fmt.Errorf("reference %q: want HOST/PATH[:TAG][@DIGEST]", s)
	}
	r := Reference{Host: host, Repository: rest}
	if path, d, ok := strings.Cut(r.Repository, "@"); ok {
		r.Repository, r.Digest = path, digest.Digest(d)
		if err := CheckDigest(d); err != nil {
			return Reference{}, fmt.Errorf("reference %q: %w", s, err)
		}
	}
	if path, tag, ok := strings.Cut(r.Repository, ":"); ok {
		r.Repository, r.Tag = path, tag
		if err := CheckTag(tag); err != nil {
			return Reference{}, fmt.Errorf("reference %q: %w", s, err)
		}
	}
	if !hostPattern.MatchString(r.Host) {
		return Reference{}, fmt.Errorf("reference %q: %q is no host", s, r.Host)
	}
	if err := CheckRepository(r.Repository); err != nil {
		return Reference{}, fmt.Errorf("reference %q: %w", s, err)
	}
	if len(r.Host)+1+len(r.Repository) > maxName {
		return Reference{}, fmt.Errorf("reference %q: host and path are longer than %d characters", s, maxName)
	}
	return r, nil
}

// String is the form that [Parse] reads.
func (r Reference) String() string {
	s := r.Name()
	if r.Tag != "" {
		s += ":" + r.Tag
	}
	if r.Digest != "" {
		s += "@" + r.Digest.String()
	}
	return s
}

// Name is host and repository, without tag and digest.
func (r Reference) Name() string { return r.Host + "/" + r.Repository }

// CheckRepository says whether s can be the path of a repository.
func CheckRepository(s string) error {
	if !repositoryPattern.MatchString(s) {
		return fmt.Errorf("%q is no repository path (lower case letters, digits, and . _ - between them)", s)
	}
	if len(s) > maxName {
		return fmt.Errorf("repository path %q is longer than %d characters", s, maxName)
	}
	return nil
}

// CheckTag says whether s can be a tag.
func CheckTag(s string) error {
	switch {
	case s == "":
		return errors.New("the tag is empty")
	case len(s) > 128:
		return fmt.Errorf("tag %q is longer than 128 characters", s)
	case !tagPattern.MatchString(s):
		return fmt.Errorf("%q is no tag (letters, digits, and . _ - after the first)", s)
	}
	return nil
}

// CheckDigest says whether s is a whole digest of an algorithm that is safe to
// rely on: sha256 or sha512.
func CheckDigest(s string) error {
	d, err := digest.Parse(s)
	if err != nil {
		return fmt.Errorf("%q is no digest: %w", s, err)
	}
	if a := d.Algorithm(); a != digest.SHA256 && a != digest.SHA512 {
		return fmt.Errorf("digest %q: want sha256 or sha512", s)
	}
	return nil
}

// Tag gives the tag of a semantic version: the version itself with "+", which
// tags can't have, as "_". Helm does the same.
func Tag(version string) (string, error) {
	tag := strings.ReplaceAll(version, "+", "_")
	if err := CheckTag(tag); err != nil {
		return "", fmt.Errorf("version %q as a tag: %w", version, err)
	}
	return tag, nil
}

// AnchorTag is the tag of something that is known by its digest alone: waybill-
// and the first 16 digits of that. It is never sha256-<hex>, which is the tag of
// a list of referrers.
func AnchorTag(d digest.Digest) string { return "waybill-" + d.Encoded()[:16] }

// Normalize spells out an image reference as Docker means it: nginx is
// docker.io/library/nginx:latest. A tag beside a digest stays. Normalizing
// twice changes nothing.
func Normalize(image string) (string, error) {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return "", fmt.Errorf("image reference %q: %w", image, err)
	}
	return reference.TagNameOnly(named).String(), nil
}
