package interop_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
)

// A carrier is a way to copy a bundle with a tool.
type carrier struct {
	name, tool string
	// args copy what from names to the tag at to.
	args func(b *bench, from, to place) []string
	// carries are the forms of signature that travel along. Nothing of the
	// others does.
	carries []string
	// attach are args for the tag of a signature that does not travel along,
	// where they differ.
	attach func(b *bench, from, to place) []string
	// rewrites says that signatures arrive in manifests of other digests.
	rewrites bool
}

// A place is a tag in a repository.
type place struct {
	registry        registry
	repository, tag string
}

func (p place) String() string   { return p.registry.at(p.repository, p.tag) }
func (p place) location() string { return "oci://" + p.String() }

func carriers() []carrier {
	return []carrier{
		{name: "oras cp -r", tool: "oras", args: orasCopy, carries: []string{"referrer"}},
		{name: "crane copy", tool: "crane", args: func(_ *bench, from, to place) []string {
			return []string{"copy", from.String(), to.String()}
		}},
		{name: "crane copy --all-tags", tool: "crane", args: func(_ *bench, from, to place) []string {
			return []string{"copy", "--all-tags", from.registry.host + "/" + from.repository, to.registry.host + "/" + to.repository}
		}, carries: []string{"tag", "referrer"}},
		{name: "regctl image copy", tool: "regctl", args: func(_ *bench, from, to place) []string {
			return regctl([]registry{from.registry, to.registry}, "image", "copy", from.String(), to.String())
		}},
		{name: "regctl image copy --digest-tags", tool: "regctl", args: func(_ *bench, from, to place) []string {
			return regctl([]registry{from.registry, to.registry}, "image", "copy", "--digest-tags", from.String(), to.String())
		}, carries: []string{"tag", "referrer"}}, // without the referrers endpoint an index of referrers has a digest tag
		{name: "regctl image copy --referrers", tool: "regctl", args: func(_ *bench, from, to place) []string {
			return regctl([]registry{from.registry, to.registry}, "image", "copy", "--referrers", from.String(), to.String())
		}, carries: []string{"referrer"}},
		{name: "skopeo copy --all", tool: "skopeo", attach: skopeoAnew, args: func(_ *bench, from, to place) []string {
			return skopeo("docker://"+from.String(), "docker://"+to.String())
		}},
		{name: "skopeo copy --all, use-sigstore-attachments", tool: "skopeo", attach: skopeoAnew, rewrites: true, args: func(b *bench, from, to place) []string {
			return append([]string{"--registries.d", b.path("registries.d")}, skopeo("docker://"+from.String(), "docker://"+to.String())...)
		}, carries: []string{"tag"}},
	}
}

func orasCopy(_ *bench, from, to place) []string {
	return []string{"cp", "-r", "--from-plain-http", "--to-plain-http", from.String(), to.String()}
}

// regctl is told by flags which registries have no TLS.
func regctl(registries []registry, args ...string) []string {
	for _, r := range registries {
		args = append(args, "--host", "reg="+r.host+",tls=disabled")
	}
	return args
}

// skopeo copies a list with all it lists and must not write a manifest anew.
func skopeo(from, to string) []string {
	return []string{"--insecure-policy", "copy", "--all", "--preserve-digests", "--src-tls-verify=false", "--dest-tls-verify=false", from, to}
}

// skopeoAnew lets skopeo write an index of referrers anew: skopeo 1.9 knows no
// artifactType in descriptors and leaves it out, which readers of our signatures
// do not mind.
func skopeoAnew(_ *bench, from, to place) []string {
	args := skopeo("docker://"+from.String(), "docker://"+to.String())
	return slices.DeleteFunc(args, func(arg string) bool { return arg == "--preserve-digests" })
}

// skopeoAttachments makes skopeo copy cosign's tags
// (containers-registries.d(5)).
const skopeoAttachments = "default-docker:\n  use-sigstore-attachments: true\n"

// every tool copies the bundle to another repository and to another registry
// with the same digest; it verifies there with the signatures the tool copied,
// or, where the tool copies none, once their tags are copied too
func (b *bench) testCopy(t *testing.T) {
	b.write(t, "registries.d/default.yaml", skopeoAttachments)
	for _, c := range carriers() {
		for _, form := range []string{"tag", "referrer"} {
			for _, from := range b.registries {
				for _, to := range b.registries {
					t.Run(strings.Join([]string{c.name, form, from.name, to.name}, "/"), func(t *testing.T) {
						b.need(t, c.tool)
						repository := "by-" + slug(c.name) + "/" + form + "-" + slug(from.name)
						b.copy(t, c, form, place{from, form, tag}, place{to, repository, tag})
					})
				}
			}
		}
	}
}

func (b *bench) copy(t *testing.T, c carrier, form string, from, to place) {
	b.must(t, c.tool, c.args(b, from, to)...)
	digest, _ := to.registry.manifest(t, to.repository, to.tag)
	b.sameRoot(t, digest)
	want := from.registry.attachments(t, from.repository)
	if !slices.Contains(c.carries, form) {
		b.refused(t, to.location())
		b.attach(t, c, from, to, slices.Sorted(maps.Keys(want)))
	}
	b.must(t, "bundle", "verify", to.location(), "--key", "ours.pub", "--read-data")
	got := to.registry.attachments(t, to.repository)
	if c.rewrites {
		for tag := range got {
			got[tag] = want[tag]
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the signatures of root and charts are not all there (-source +target):\n%s", diff)
	}
}

// attach copies the tags of signatures one by one.
func (b *bench) attach(t *testing.T, c carrier, from, to place, tags []string) {
	t.Helper()
	args := c.args
	if c.attach != nil {
		args = c.attach
	}
	for _, tag := range tags {
		from.tag, to.tag = tag, tag
		b.must(t, c.tool, args(b, from, to)...)
	}
}

// slug is a name as repositories and files have it.
func slug(name string) string {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	return strings.Join(words, "-")
}
