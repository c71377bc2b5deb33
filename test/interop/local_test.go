package interop_test

import (
	"path/filepath"
	"strings"
	"testing"
)

// A reader is a way to copy a bundle out of our archive or layout.
type reader struct {
	name, tool string
	// args copy what reference, a name or a digest, names in the file or
	// folder of a form to the place.
	args func(form, reference string, to place) []string
	// byName says that the tool takes any name; else only one that could be a
	// tag.
	byName  bool
	carries string // the form of signature that travels along
}

func readers() []reader {
	return []reader{
		{name: "skopeo copy --all oci-archive:FILE:NAME", tool: "skopeo", byName: true, args: func(form, reference string, to place) []string {
			return skopeo("oci-archive:"+form+".tar:"+reference, "docker://"+to.String())
		}},
		{name: "skopeo copy --all oci:DIR:NAME", tool: "skopeo", byName: true, args: func(form, reference string, to place) []string {
			return skopeo("oci:"+form+".layout:"+reference, "docker://"+to.String())
		}},
		{name: "oras cp -r --from-oci-layout FILE:NAME", tool: "oras", byName: true, carries: "referrer", args: func(form, reference string, to place) []string {
			return []string{"cp", "-r", "--from-oci-layout", "--to-plain-http", form + ".tar:" + reference, to.String()}
		}},
		{name: "oras cp -r --from-oci-layout DIR:NAME", tool: "oras", byName: true, carries: "referrer", args: func(form, reference string, to place) []string {
			return []string{"cp", "-r", "--from-oci-layout", "--to-plain-http", form + ".layout:" + reference, to.String()}
		}},
		{name: "regctl image copy --digest-tags --referrers ocidir://DIR:NAME", tool: "regctl", carries: "tag", args: func(form, reference string, to place) []string {
			at := ":"
			if strings.HasPrefix(reference, "sha256:") {
				at = "@"
			}
			return regctl([]registry{to.registry}, "image", "copy", "--digest-tags", "--referrers", "ocidir://"+form+".layout"+at+reference, to.String())
		}},
		{name: "regctl image import FILE --name NAME", tool: "regctl", byName: true, args: func(form, reference string, to place) []string {
			return regctl([]registry{to.registry}, "image", "import", to.String(), form+".tar", "--name", reference)
		}},
	}
}

// other people's tools read our archives and layouts and push the same digest
func (b *bench) testRead(t *testing.T) {
	for _, r := range readers() {
		for _, form := range []string{"tag", "referrer"} {
			for _, to := range b.registries {
				t.Run(strings.Join([]string{slug(r.name), form, to.name}, "/"), func(t *testing.T) {
					b.need(t, r.tool)
					b.readInto(t, r, form, place{to, "read-by/" + slug(r.name) + "/" + form, tag})
				})
			}
		}
	}
	t.Run("version with build metadata", b.testReadOddName)
}

func (b *bench) readInto(t *testing.T, r reader, form string, to place) {
	b.must(t, r.tool, r.args(form, name, to)...)
	digest, _ := to.registry.manifest(t, to.repository, to.tag)
	b.sameRoot(t, digest)
	if !strings.Contains(r.carries, form) {
		b.refused(t, to.location())
		if form == "referrer" {
			b.must(t, "bundle", "verify", to.location(), "--policy", "none", "--read-data")
			return // our layouts list referrers without a tag: only a tool that looks for subjects finds them
		}
		signature := strings.Replace(b.release.root, ":", "-", 1) + ".sig"
		b.must(t, r.tool, r.args(form, signature, place{to.registry, to.repository, signature})...)
	}
	b.must(t, "bundle", "verify", to.location(), "--key", "ours.pub", "--read-data")
}

// the + of a version stays in the name that a bundle has in an archive or a
// layout, as image-spec's "Pre-Defined Annotation Keys" allows; regctl takes
// only names that could be tags, so there the digest is given
func (b *bench) testReadOddName(t *testing.T) {
	const odd = "shop-1.4.0+build.7"
	b.must(t, "bundle", "build", "--no-images", "--signing-key", "ours.key", "-t", "./odd.tar#"+odd, "-t", "./odd.layout#"+odd)
	to := b.registries[0]
	for _, r := range readers() {
		t.Run(slug(r.name), func(t *testing.T) {
			b.need(t, r.tool)
			place := place{to, "odd/" + slug(r.name), tag}
			reference := odd
			if !r.byName {
				if out, err := b.run(t, r.tool, r.args("odd", odd, place)...); err == nil {
					t.Errorf("%s takes the name now: %s", r.tool, out)
				}
				reference = b.release.root
			}
			b.must(t, r.tool, r.args("odd", reference, place)...)
			digest, _ := to.manifest(t, place.repository, tag)
			b.sameRoot(t, digest)
		})
	}
}

// A writer is a way to make an archive or a layout of a bundle with a tool.
type writer struct {
	name, tool string
	args       func(from place, file string) []string
	carries    string
}

func writers() []writer {
	return []writer{
		{name: "skopeo copy --all to oci-archive", tool: "skopeo", args: func(from place, file string) []string {
			return skopeo("docker://"+from.String(), "oci-archive:"+file+":"+name)
		}},
		{name: "skopeo copy --all to oci", tool: "skopeo", args: func(from place, file string) []string {
			return skopeo("docker://"+from.String(), "oci:"+file+":"+name)
		}},
		{name: "oras cp -r --to-oci-layout", tool: "oras", carries: "referrer", args: func(from place, file string) []string {
			return []string{"cp", "-r", "--from-plain-http", "--to-oci-layout", from.String(), file + ":" + name}
		}},
		{name: "oras backup --include-referrers", tool: "oras", carries: "referrer", args: func(from place, file string) []string {
			return []string{"backup", "--plain-http", "--include-referrers", "--output", file, from.String()}
		}},
		{name: "regctl image copy --digest-tags --referrers to ocidir", tool: "regctl", carries: "tag referrer", args: func(from place, file string) []string {
			return regctl([]registry{from.registry}, "image", "copy", "--digest-tags", "--referrers", from.String(), "ocidir://"+file+":"+name)
		}},
		{name: "regctl image export", tool: "regctl", args: func(from place, file string) []string {
			return regctl([]registry{from.registry}, "image", "export", from.String(), file)
		}},
		{name: "crane pull --format oci", tool: "crane", args: func(from place, file string) []string {
			return []string{"pull", "--format", "oci", from.String(), file}
		}},
	}
}

// we read the archives and layouts that other people's tools make of a bundle
func (b *bench) testWrite(t *testing.T) {
	for _, w := range writers() {
		for _, form := range []string{"tag", "referrer"} {
			t.Run(slug(w.name)+"/"+form, func(t *testing.T) {
				b.need(t, w.tool)
				file := filepath.Join("written", slug(w.name)+"-"+form)
				if strings.Contains(w.name, "archive") || strings.Contains(w.name, "export") {
					file += ".tar"
				}
				b.write(t, "written/readme", "made by other people's tools\n")
				b.must(t, w.tool, w.args(place{b.registries[0], form, tag}, file)...)
				at := "./" + file + "@" + b.release.root
				if !strings.Contains(w.carries, form) {
					b.refused(t, at)
					b.must(t, "bundle", "verify", at, "--policy", "none")
					return
				}
				b.must(t, "bundle", "verify", at, "--key", "ours.pub")
			})
		}
	}
}
