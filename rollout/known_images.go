package rollout

import (
	"regexp"
	"strings"

	"github.com/opencontainers/go-digest"

	"waybill/bundle"
	"waybill/internal/ref"
)

// knownSet is what a record knows of images.
type knownSet struct {
	recorded   bool
	bundle     map[digest.Digest]string // reference of the lock by digest
	site       map[digest.Digest]string // of replacements
	references map[string]bool          // of the lock, sent as they are written
	allow      []*regexp.Regexp
}

func knownImages(rec *Record) *knownSet {
	k := &knownSet{recorded: len(rec.Images) > 0, bundle: map[digest.Digest]string{}, site: map[digest.Digest]string{}, references: map[string]bool{}}
	for _, image := range rec.Images {
		k.bundle[image.Digest] = image.Reference
		for _, manifest := range image.Manifests {
			k.bundle[manifest] = image.Reference
		}
		if image.Upstream != "" {
			k.bundle[image.Upstream] = image.Reference
		}
		if image.Replaced {
			k.site[digestIn(image.Target)] = image.Reference
		}
		if image.Target == "" {
			k.references[image.Reference] = true
		}
	}
	for _, pattern := range rec.AllowedImages {
		k.allow = append(k.allow, bundle.ImagePattern(pattern))
	}
	return k
}

var anyDigest = regexp.MustCompile(`sha256:[0-9a-f]{64}$`)

// digestIn is the digest at the end of a reference or of what a node calls an
// image: repository@sha256:…, docker-pullable://…@sha256:…, sha256:….
func digestIn(text string) digest.Digest { return digest.Digest(anyDigest.FindString(text)) }

// judge says what an image is, and which reference of the lock it is. A node
// may name the image of its platform in place of the index, which the lock knows
// too, or its configuration: what is asked for by digest can be nothing else.
func (k *knownSet) judge(image string, running digest.Digest) (state, reference string) {
	if !k.recorded {
		return ImageUnknown, ""
	}
	for _, d := range []digest.Digest{running, digestIn(image)} {
		if reference := k.site[d]; d != "" && reference != "" {
			return ImageOfReplacement, reference
		}
		if reference := k.bundle[d]; d != "" && reference != "" {
			return ImageOfBundle, reference
		}
	}
	normalized, err := ref.Normalize(strings.TrimSpace(image))
	if err != nil {
		return ImageForeign, ""
	}
	if running == "" && k.references[normalized] {
		return ImageOfBundle, normalized // not pulled yet
	}
	for _, pattern := range k.allow {
		if pattern.MatchString(image) || pattern.MatchString(normalized) {
			return ImageAllowed, ""
		}
	}
	return ImageForeign, ""
}
