package rollout

import (
	"fmt"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"waybill/bundle"
	"waybill/internal/ref"
)

// A Replacement is an image of the site's in the place of one of the release's.
// It ends when the vendor's image becomes another one.
type Replacement struct {
	Name      string        `json:"name"`             // normalised reference that is replaced
	Reference string        `json:"reference"`        // by digest
	Digest    digest.Digest `json:"digest"`           // of the site's image
	Reason    string        `json:"reason,omitempty"` // the site's words
	Vendor    digest.Digest `json:"vendor"`           // the vendor's image when it was first replaced
	Ended     bool          `json:"ended,omitempty"`  // not used any more
	Now       digest.Digest `json:"now,omitempty"`    // what the vendor has instead; with Ended and without it, nothing
}

func (r Replacement) String() string {
	reason := ""
	if r.Reason != "" {
		reason = " (" + r.Reason + ")"
	}
	switch {
	case !r.Ended:
		return fmt.Sprintf("%s is replaced by %s%s, until the vendor's %s changes", r.Name, r.Reference, reason, r.Vendor)
	case r.Now == "":
		return fmt.Sprintf("the replacement of %s by %s%s has ended: the release no longer has the image, which was %s", r.Name, r.Digest, reason, r.Vendor)
	}
	return fmt.Sprintf("the replacement of %s by %s%s has ended: the vendor's image was %s and is %s now, which is used", r.Name, r.Digest, reason, r.Vendor, r.Now)
}

// upstreamOf is the digest by which the vendor's image is told from another.
func upstreamOf(image bundle.LockedImage) digest.Digest {
	if image.Upstream != "" {
		return image.Upstream
	}
	return image.Digest
}

// replace puts the site's images in the place of others, unless the vendor's
// image is another than the recorded one. A name that nobody uses is an error:
// most often it is misspelt.
func (m *imageMap) replace(list []bundle.ReplaceImage, recorded []Replacement) error {
	for _, r := range list {
		name, err := ref.Normalize(r.Name)
		if err != nil {
			return &UsageError{Reason: "the site file's images.replace: " + err.Error()}
		}
		one := Replacement{Name: name, Digest: r.Digest, Reason: r.Reason, Vendor: m.vendors[name]}
		before := slices.IndexFunc(recorded, func(o Replacement) bool { return o.Name == name && o.Digest == r.Digest })
		if before >= 0 {
			one.Vendor = recorded[before].Vendor
		}
		target, known := m.targets[name]
		if !known && before < 0 {
			return &UsageError{Reason: fmt.Sprintf("the site file's images.replace names %s, which the lock does not have", r.Name)}
		}
		to := r.NewName
		if to == "" {
			to, _, _ = strings.Cut(target, "@")
		}
		if one.Reference = to + "@" + r.Digest.String(); !known {
			one.Reference = recorded[before].Reference
		}
		if one.Ended = one.Vendor != m.vendors[name]; one.Ended {
			one.Now = m.vendors[name]
		} else {
			m.targets[name] = one.Reference
		}
		m.replacements = append(m.replacements, one)
	}
	return nil
}

// replaced is what the record knows of replacements.
func (r *Record) replaced() []Replacement {
	if r == nil {
		return nil
	}
	return r.Replaced
}
