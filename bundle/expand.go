package bundle

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"waybill/internal/ref"
)

// An Expanded is one image or chart of a bundle by a name that it has in a
// mirror where everything has a repository of its own.
type Expanded struct {
	Reference  ref.Reference // in the mirror, with tag and digest
	Role       string        // [RoleImage] or [RoleChart]
	Of         string        // the name it has elsewhere, without its digest unless that is all
	Components []string      // that use it, sorted; none: the release lists it
	Descriptor ocispec.Descriptor
	// Wanted is the tag that something else of the bundle has, or several
	// platforms would share. The tag of Reference is the anchor of the digest
	// then.
	Wanted string
}

// Expand names every image by each of its references, and every chart, in a
// mirror below prefix: [ref.Expand] of an image's normalised reference and of
// [Bundle.ChartReference]. What is named is sorted.
//
// Two images may want one tag although nothing is wrong: a chart that pins
// nginx:1.27 by digest beside one that doesn't, and the platforms of a flat
// bundle. The one whose reference is the tag alone gets it, the others are found
// by their digests, under the tag of those. Any other two things that would have
// one name, and names that registries don't take, are an [*ExpandError] with all
// of them.
func (b *Bundle) Expand(prefix string) ([]Expanded, error) {
	x := expanding{prefix: prefix}
	for _, entry := range b.Entries(RoleChart) {
		x.chart(b, entry)
	}
	entries := map[digest.Digest]ocispec.Descriptor{}
	for _, entry := range b.Entries(RoleImage) {
		entries[entry.Digest] = entry
	}
	platforms := platformsSharing(b.Lock.Images)
	for _, image := range b.Lock.Images {
		for _, reference := range image.References {
			x.image(image, entries[image.Digest], reference, platforms[reference] > 1)
		}
	}
	return x.settle()
}

// platformsSharing counts the images that have a reference: in a flat bundle one
// a platform.
func platformsSharing(images []LockedImage) map[string]int {
	n := map[string]int{}
	for _, image := range images {
		for _, reference := range image.References {
			n[reference]++
		}
	}
	return n
}

// An ExpandError reports what keeps a bundle from being expanded below a prefix.
type ExpandError struct {
	Prefix   string
	Problems []string // sorted
}

func (e *ExpandError) Error() string {
	return fmt.Sprintf("the bundle cannot be expanded below %s; nothing was written:\n%s", e.Prefix, strings.Join(e.Problems, "\n"))
}

// ChartReference is the name of a chart by which a mirror is told where it
// belongs: HOST/PATH/NAME:VERSION of one from a registry or a chart repository,
// else RELEASE/COMPONENT:VERSION. A repository's path and a chart's name are
// made to fit into a registry's: lower case, and a dash for what isn't allowed.
func (b *Bundle) ChartReference(c LockedChart) (string, error) {
	tag, err := ref.Tag(c.Version)
	if err != nil {
		return "", fmt.Errorf("chart %s of component %s: %w", c.Name, c.Component, err)
	}
	local := b.Lock.Release.Name + "/" + c.Component + ":" + tag
	if !b.fromRepository(c.Component) {
		return local, nil
	}
	at, err := url.Parse(c.Source)
	if err != nil || at.Host == "" {
		return local, nil
	}
	if at.Scheme == "oci" {
		return strings.TrimPrefix(c.Source, "oci://") + ":" + tag, nil
	}
	return at.Host + repositoryPath(at.Path) + ":" + tag, nil
}

func (b *Bundle) fromRepository(component string) bool {
	for _, c := range b.Release.Components {
		if c.Name == component {
			return c.Chart.Kind() == SourceRepository
		}
	}
	return false
}

var (
	notInPath = regexp.MustCompile(`[^a-z0-9._-]+`)
	between   = regexp.MustCompile(`[._-]+`)
	separator = regexp.MustCompile(`^(\.|_|__|-+)$`)
)

// repositoryPath makes a path of an address one that a repository may have, a
// slash before each part.
func repositoryPath(path string) string {
	var out strings.Builder
	for _, part := range strings.Split(strings.ToLower(path), "/") {
		part = notInPath.ReplaceAllString(part, "-")
		part = between.ReplaceAllStringFunc(part, func(s string) string {
			if separator.MatchString(s) {
				return s
			}
			return "-"
		})
		if part = strings.Trim(part, "._-"); part != "" {
			out.WriteString("/" + part)
		}
	}
	return out.String()
}

// expanding gathers who wants which name.
type expanding struct {
	prefix   string
	claims   []claim
	problems []string
}

// claim is a wish for a name. A weak one goes without when another has it.
type claim struct {
	Expanded
	weak bool
}

func (x *expanding) chart(b *Bundle, entry ocispec.Descriptor) {
	for _, component := range components(entry) {
		locked, _ := b.Lock.Chart(component) // it agrees with the entry, or Open had refused it
		reference, err := b.ChartReference(locked)
		if err != nil {
			x.problems = append(x.problems, err.Error())
			continue
		}
		x.claim(claim{Expanded: Expanded{Role: RoleChart, Of: reference, Components: []string{component}, Descriptor: plain(entry)}}, reference)
	}
}

func (x *expanding) image(image LockedImage, entry ocispec.Descriptor, reference string, shared bool) {
	of, _, pinned := strings.Cut(reference, "@")
	if r, err := ref.Parse(reference); err != nil || r.Tag == "" {
		of = reference
	}
	x.claim(claim{
		Expanded: Expanded{Role: RoleImage, Of: of, Components: image.Components, Descriptor: plain(entry)},
		weak:     pinned || shared,
	}, reference)
}

func (x *expanding) claim(c claim, reference string) {
	var err error
	if c.Reference, err = ref.Expand(x.prefix, reference, c.Descriptor.Digest); err != nil {
		x.problems = append(x.problems, err.Error())
		return
	}
	x.claims = append(x.claims, c)
}

// settle gives each name to one digest.
func (x *expanding) settle() ([]Expanded, error) {
	byName := map[string][]claim{}
	for _, c := range x.claims {
		byName[nameAndTag(c.Reference)] = append(byName[nameAndTag(c.Reference)], c)
	}
	settled := map[string][]claim{}
	for _, name := range sortedKeys(byName) {
		for _, c := range x.owner(byName[name]) {
			settled[nameAndTag(c.Reference)] = append(settled[nameAndTag(c.Reference)], c)
		}
	}
	var all []Expanded
	for _, name := range sortedKeys(settled) {
		claims := settled[name]
		if len(digestsOf(claims)) > 1 {
			x.problems = append(x.problems, collision(name, claims))
		}
		all = append(all, united(claims)...)
	}
	if len(x.problems) > 0 {
		slices.Sort(x.problems)
		return nil, &ExpandError{Prefix: x.prefix, Problems: slices.Compact(x.problems)}
	}
	return all, nil
}

// owner leaves a contested tag to those who have no other name, and gives the
// others the anchors of their digests.
func (x *expanding) owner(claims []claim) []claim {
	if len(digestsOf(claims)) == 1 {
		return claims
	}
	var strong, out []claim
	for _, c := range claims {
		if !c.weak {
			strong = append(strong, c)
		}
	}
	for _, c := range claims {
		if c.weak && !slices.Equal(digestsOf(strong), []digest.Digest{c.Descriptor.Digest}) {
			c.Wanted, c.Reference.Tag = c.Reference.Tag, ref.AnchorTag(c.Descriptor.Digest)
		}
		out = append(out, c)
	}
	return out
}

func digestsOf(claims []claim) []digest.Digest {
	var all []digest.Digest
	for _, c := range claims {
		all = append(all, c.Descriptor.Digest)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func collision(name string, claims []claim) string {
	var who []string
	for _, c := range claims {
		who = append(who, fmt.Sprintf("%s %s (%s)", c.Role, c.Of, c.Descriptor.Digest))
	}
	slices.Sort(who)
	return fmt.Sprintf("%s would be the name of %d things: %s", name, len(digestsOf(claims)), strings.Join(slices.Compact(who), ", "))
}

// united is one entry for those who agree on a name and a digest.
func united(claims []claim) []Expanded {
	slices.SortStableFunc(claims, func(a, b claim) int {
		return cmp.Or(cmp.Compare(a.Descriptor.Digest, b.Descriptor.Digest), cmp.Compare(a.Of, b.Of))
	})
	var all []Expanded
	for _, c := range claims {
		if last := len(all) - 1; last >= 0 && all[last].Descriptor.Digest == c.Descriptor.Digest {
			for _, component := range c.Components {
				all[last].Components = insert(slices.Clone(all[last].Components), component)
			}
			continue
		}
		all = append(all, c.Expanded)
	}
	return all
}

func nameAndTag(r ref.Reference) string { return r.Name() + ":" + r.Tag }
