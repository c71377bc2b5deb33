package ref

import (
	"fmt"
	"strings"

	"github.com/opencontainers/go-digest"
)

// ParsePrefix reads HOST[/PATH], below which a mirror has repositories of its
// own, and gives it back without a slash at its end.
func ParsePrefix(s string) (string, error) {
	prefix := strings.TrimRight(s, "/")
	r, err := Parse(prefix + "/x")
	if err != nil || r.Tag != "" || r.Digest != "" || prefix == "" {
		return "", fmt.Errorf("%q is no HOST/PATH, without oci://, tag or digest", s)
	}
	return prefix, nil
}

// Expand names something in a mirror that gives everything a repository of its
// own below prefix, HOST[/PATH]:
//
//	PREFIX/<host, ':' as '_'>/<repository>:<tag>@<digest>
//
// Reference is a normalised one ([Normalize]); its host is written in lower
// case, as a path must be. One without a tag gets [AnchorTag] of the digest,
// which is d, whatever digest the reference has: of an image that was narrowed
// that is upstream's.
//
// It depends on nothing else, so that whoever fills the mirror and whoever
// pulls from it find the same. Two references that differ never get one name,
// but for their digests and the case of their hosts. An error says what makes
// the reference, or the prefix, no name of a repository.
func Expand(prefix, reference string, d digest.Digest) (Reference, error) {
	prefix, err := ParsePrefix(prefix)
	if err != nil {
		return Reference{}, err
	}
	r, err := Parse(reference)
	if err != nil {
		return Reference{}, err
	}
	if err := CheckDigest(d.String()); err != nil {
		return Reference{}, err
	}
	host := strings.ReplaceAll(strings.ToLower(r.Host), ":", "_")
	if err := CheckRepository(host); err != nil {
		return Reference{}, fmt.Errorf("%s cannot be expanded: its host %s can stand in no repository path", reference, r.Host)
	}
	tag := r.Tag
	if tag == "" {
		tag = AnchorTag(d)
	}
	expanded, err := Parse(prefix + "/" + host + "/" + r.Repository + ":" + tag)
	if err != nil {
		return Reference{}, fmt.Errorf("%s cannot be expanded below %s: %w", reference, prefix, err)
	}
	expanded.Digest = d
	return expanded, nil
}
