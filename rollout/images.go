package rollout

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"waybill/bundle"
	"waybill/internal/ref"
)

// Images says where nodes pull the images of a release from. The zero value
// keeps references as charts write them, and checks none.
type Images struct {
	// Repository is HOST/PATH of the bundle as nodes reach it: each reference
	// becomes Repository@digest.
	Repository string
	// Prefix is HOST/PATH below which each image has a repository of its own:
	// each reference becomes Prefix/host/path:tag@digest, as [ref.Expand] has it.
	Prefix string
	// Replace are images to use in place of others.
	Replace []bundle.ReplaceImage
	// Allow are patterns of references that may stay although nobody knows
	// them; * stands for any text.
	Allow []string
	// AllowUnknown makes warnings of references that are not known.
	AllowUnknown bool
	// Missing says which of these references the registry does not have that
	// nodes would ask, and which could not be asked for, with why. Nil: all of
	// them are known to be there.
	Missing func(ctx context.Context, references []string) (missing []string, unasked map[string]error)
}

// keep is whether references stay as they are.
func (i Images) keep() bool { return i.Repository == "" && i.Prefix == "" }

// An ImageUse is a place in what would be sent that names an image.
type ImageUse struct{ Reference, Object, Path string }

func (u ImageUse) String() string { return fmt.Sprintf("%s, %s: %s", u.Object, u.Path, u.Reference) }

// An ImageChange is a text that was rewritten, or, without From, the pull
// secret that was added.
type ImageChange struct {
	Object string `json:"object"`
	Path   string `json:"path"`
	From   string `json:"from"`
	To     string `json:"to"`
}

// A PreviewedImages is what becomes of the references of one component.
type PreviewedImages struct {
	Changes []ImageChange
	Unknown []ImageUse // of containers, and not in the map
	Stuck   []ImageUse // in the map, and in parts with no place for a digest
	Left    []ImageUse // in the map, and inside of longer texts, which are sent as they are
	Similar []ImageUse // texts elsewhere that read as references and are not in the map
	// Namespaces are those of objects with pods, as they are written: "" for
	// the component's own.
	Namespaces []string
}

// An imageMap knows what takes the place of each locked reference. A nil one
// keeps everything.
type imageMap struct {
	targets      map[string]string                  // by normalised reference
	digests      map[digest.Digest]string           // by the digest charts may name
	of           map[string][]string                // components by normalised reference; none: the release's
	vendors      map[string]digest.Digest           // of the vendor's images, by normalised reference
	platforms    map[string][]bundle.LockedManifest // of the indexes among the targets
	replacements []Replacement                      // of the site, ended ones among them
	allow        []*regexp.Regexp
	pull         string // name of the pull secret that is attached, empty for none
}

// newImageMap maps every locked reference. platform chooses among the images
// of a flat bundle, one a platform; recorded are the replacements known from
// before.
func newImageMap(i Images, lock *bundle.Lock, platform string, recorded []Replacement) (*imageMap, error) {
	if i.keep() {
		return nil, nil
	}
	m := &imageMap{targets: map[string]string{}, digests: map[digest.Digest]string{}, of: map[string][]string{}, vendors: map[string]digest.Digest{}, platforms: map[string][]bundle.LockedManifest{}}
	for _, image := range lock.Images {
		for _, reference := range image.References {
			if _, taken := m.targets[reference]; taken && !fitsPlatform(image.Platforms, platform) {
				continue // flat, and for other nodes
			}
			target, err := i.target(reference, image.Digest)
			if err != nil {
				return nil, err
			}
			m.targets[reference], m.of[reference], m.vendors[reference] = target, image.Components, upstreamOf(image)
			m.digests[image.Digest] = target
			m.platforms[target] = image.Manifests
			if image.Upstream != "" {
				m.digests[image.Upstream] = target
			}
		}
	}
	for _, pattern := range i.Allow {
		m.allow = append(m.allow, bundle.ImagePattern(pattern))
	}
	return m, m.replace(i.Replace, recorded)
}

// target is where nodes pull a locked reference from.
func (i Images) target(reference string, d digest.Digest) (string, error) {
	if i.Repository != "" {
		return i.Repository + "@" + d.String(), nil
	}
	expanded, err := ref.Expand(i.Prefix, reference, d)
	return expanded.String(), err
}

// locate returns what takes the place of a normalised reference. A reference
// with a digest is known by that too, whatever its name.
func (m *imageMap) locate(normalized string) (string, bool) {
	if target, ok := m.targets[normalized]; ok {
		return target, true
	}
	_, d, ok := strings.Cut(normalized, "@")
	if !ok {
		return "", false
	}
	target, ok := m.digests[digest.Digest(d)]
	return target, ok
}

func (m *imageMap) locator() func(string) (string, bool) {
	if m == nil {
		return nil
	}
	return m.locate
}

// digest is that of the map as far as one component uses it, empty for none.
func (m *imageMap) digest(component string) digest.Digest {
	if m == nil {
		return ""
	}
	var lines []string
	for reference, target := range m.targets {
		if users := m.of[reference]; len(users) == 0 || slices.Contains(users, component) {
			lines = append(lines, reference+" "+target+"\n")
		}
	}
	if m.pull != "" {
		lines = append(lines, "pull secret "+m.pull+"\n")
	}
	slices.Sort(lines)
	return digest.FromString("waybill image map v1\n" + strings.Join(lines, ""))
}

func (m *imageMap) allowed(reference string) bool {
	return slices.ContainsFunc(m.allow, func(p *regexp.Regexp) bool { return p.MatchString(reference) })
}

// prepareImages makes the image map of an analysis.
func (r *Runner) prepareImages(ctx context.Context, a *analysis) error {
	if a.req.Images.keep() {
		if site := a.req.Site; site != nil && site.Images != nil && len(site.Images.Replace) > 0 {
			a.warn("images are kept as charts write them; the site file's images.replace is not used")
		}
		return nil
	}
	lock := a.req.Source.Lock
	if lock.Packed != bundle.PackedImages {
		return &UsageError{Reason: "the bundle holds charts only, no images that nodes could pull from it; --images keep leaves references as they are"}
	}
	platform, err := r.platformOf(ctx, lock)
	var no *RefusedError
	if errors.As(err, &no) {
		a.plan.Refusals = append(a.plan.Refusals, no.Reasons...)
	} else if err != nil {
		return err
	}
	if a.images, err = newImageMap(a.req.Images, lock, platform, a.record().replaced()); err != nil {
		return err
	}
	a.images.pull = a.pull.attached()
	a.plan.Replaced = a.images.replacements
	for _, one := range a.plan.Replaced {
		if one.Ended {
			a.warn("%s; remove it from the site file's images.replace", one)
		}
	}
	return r.checkPullable(ctx, a)
}

// checkPullable refuses images that nodes would not find. A registry that nodes
// reach and this machine does not is only said.
func (r *Runner) checkPullable(ctx context.Context, a *analysis) error {
	if a.req.Images.Missing == nil {
		return nil
	}
	platforms, err := r.nodePlatforms(ctx)
	if err != nil && !errors.Is(err, errForbidden) {
		return err
	}
	names := a.images.pulled(platforms)
	targets := sortedKeys(names)
	missing, unasked := a.req.Images.Missing(ctx, targets)
	for _, target := range missing {
		if slices.ContainsFunc(a.images.replacements, func(r Replacement) bool { return !r.Ended && r.Reference == target }) {
			a.refuse("image-missing", "the site file's images.replace puts %s in the place of %s, and its registry does not have it", target, names[target])
			continue
		}
		a.refuse("image-missing", "nodes would pull %s as %s, which its registry does not have; copy the bundle there first%s", names[target], target, a.req.Images.howToCopy())
	}
	if len(unasked) > 0 {
		first := sortedKeys(unasked)[0]
		a.warn("whether nodes find their images was not checked for %d of %d: %s: %v", len(unasked), len(targets), first, unasked[first])
	}
	return ctx.Err()
}

// pulled are the references that nodes of these platforms ask a registry for, and
// the one of the release that each stands for: of an index the manifest of a
// platform too. Without platforms all of them count.
func (m *imageMap) pulled(platforms []string) map[string]string {
	names := map[string]string{}
	for _, reference := range sortedKeys(m.targets) {
		target := m.targets[reference]
		names[target] = reference
		repository, _, _ := strings.Cut(target, "@")
		for _, manifest := range m.platforms[target] {
			if len(platforms) == 0 || slices.ContainsFunc(platforms, func(p string) bool { return fitsPlatform([]string{manifest.Platform}, p) }) {
				names[repository+"@"+manifest.Digest.String()] = reference + " for " + manifest.Platform
			}
		}
	}
	return names
}

// howToCopy says what makes a mirror of the images, "" for the bundle's own
// repository.
func (i Images) howToCopy() string {
	if i.Prefix == "" {
		return ""
	}
	return " with --expand " + i.Prefix
}

// kinOf says which other tags of an unknown image the lock has: charts name some by
// the version of Kubernetes. It is "" for none.
func (a *analysis) kinOf(unknown string) string {
	normalized, err := ref.Normalize(unknown)
	if err != nil {
		return ""
	}
	wanted, err := ref.Parse(normalized)
	if err != nil {
		return ""
	}
	var kin []string
	for _, reference := range sortedKeys(a.images.targets) {
		if r, err := ref.Parse(reference); err == nil && r.Name() == wanted.Name() {
			kin = append(kin, reference)
		}
	}
	if len(kin) == 0 {
		return ""
	}
	return fmt.Sprintf("; the lock has %s: where the chart goes by the version of Kubernetes, %s belongs into render.kubeVersions of the release file",
		strings.Join(kin, ", "), strings.TrimPrefix(a.caps.Version, "v"))
}

// checkImages holds the references of a component against the map.
func (a *analysis) checkImages(component string, found PreviewedImages) findings {
	var f findings
	if a.images == nil {
		return f
	}
	say := func(code, format string, args ...any) {
		if a.req.Images.AllowUnknown {
			f.warn(component, format, args...)
			return
		}
		f.refuse(component, code, format, args...)
	}
	for _, use := range found.Unknown {
		if !a.images.allowed(use.Reference) {
			say("unknown-image", "%s is an image that neither the lock nor the site file knows; add it to the release, allow it in the site file (images.allow), or try with --allow-unknown-images%s", use, a.kinOf(use.Reference))
		}
	}
	for _, use := range found.Stuck {
		say("image-in-parts", "%s is written in parts with no place for a digest; --images expand:PREFIX names it by a tag", use)
	}
	for _, use := range found.Left {
		f.warn(component, "%s stands inside of a longer text, which is sent as it is; what reads it asks for the image by that name", use)
	}
	for _, use := range found.Similar {
		if !a.images.allowed(use.Reference) {
			f.warn(component, "%s reads as an image that is not in the bundle", use)
		}
	}
	return f
}
