package interop_test

import (
	"strings"
	"testing"
)

// A cosign is one of its two lines.
type cosign struct {
	name, tool string
	// sign are the flags with which it signs with a key and asks nobody, in the
	// form it prefers.
	sign []string
	form string
	// root says that a signature in the referrer form is verified with
	// --trusted-root only, though nothing of it is used for a key.
	root bool
}

func cosigns() []cosign {
	return []cosign{
		{name: "2.6", tool: "cosign", sign: []string{"--tlog-upload=false"}, form: "tag", root: true},
		{name: "3.1", tool: "cosign3", sign: []string{"--signing-config", "signing-config.json"}, form: "referrer"},
	}
}

// prepare writes an empty trusted root and a signing configuration that names
// no log and no timestamp authority.
func (c cosign) prepare(t *testing.T, b *bench) {
	t.Helper()
	b.need(t, c.tool)
	b.must(t, c.tool, "trusted-root", "create", "--out", "trusted-root.json")
	if c.name == "3.1" {
		b.must(t, c.tool, "signing-config", "create", "--out", "signing-config.json")
	}
}

// verify are the arguments to verify without a log.
func (c cosign) verify(form, key, image string) []string {
	args := []string{"verify", "--key", key, "--insecure-ignore-tlog=true"}
	if c.root && form != "tag" {
		args = append(args, "--trusted-root", "trusted-root.json")
	}
	return append(args, image)
}

// both cosigns accept our signatures of the root and of each chart, in each
// form, and none by another key
func (b *bench) testCosignAcceptsOurs(t *testing.T) {
	for _, c := range cosigns() {
		t.Run(c.name, func(t *testing.T) {
			c.prepare(t, b)
			for _, form := range forms() {
				for _, r := range b.registries {
					t.Run(form+"/"+r.name, func(t *testing.T) {
						for _, digest := range b.signed() {
							b.must(t, c.tool, c.verify(form, "ours.pub", r.at(form, digest))...)
						}
						if out, err := b.run(t, c.tool, c.verify(form, "other.pub", r.at(form, b.release.root))...); err == nil {
							t.Errorf("the other key was accepted: %s", out)
						}
					})
				}
			}
		})
	}
}

// signed are the digests that bundle build signs: the root's and the charts'.
func (b *bench) signed() []string {
	out := []string{b.release.root}
	for _, digest := range b.release.charts {
		out = append(out, digest)
	}
	return out
}

// we accept what both cosigns sign in the form each of them prefers, and add a
// signature of that form without a loss. (Where a digest has a referrer, both
// cosigns look at referrers only, so a signature in the tag form would hide
// from them.)
func (b *bench) testWeAcceptCosigns(t *testing.T) {
	for _, c := range cosigns() {
		t.Run(c.name, func(t *testing.T) {
			c.prepare(t, b)
			for _, r := range b.registries {
				t.Run(r.name, func(t *testing.T) {
					at := place{r, "signed-by/cosign-" + c.name, tag}
					b.must(t, "bundle", "build", "--no-images", "--unsigned", "-t", at.location())
					args := append([]string{"sign", "--yes", "--key", "theirs.key", "--recursive"}, c.sign...)
					b.must(t, c.tool, append(args, r.at(at.repository, b.release.root))...)
					b.must(t, "bundle", "verify", at.location(), "--key", "theirs.pub")
					b.refused(t, at.location())
					b.must(t, "bundle", "sign", at.location(), "--key", "ours.key", "--signature-format", c.form)
					b.must(t, "bundle", "verify", at.location(), "--key", "ours.pub", "--key", "theirs.pub", "--threshold", "2")
					for _, key := range []string{"ours.pub", "theirs.pub"} {
						b.must(t, c.tool, c.verify(c.form, key, r.at(at.repository, b.release.root))...)
					}
					b.inspects(t, at)
				})
			}
		})
	}
}

// inspects wants inspect to show that two keys signed.
func (b *bench) inspects(t *testing.T, at place) {
	t.Helper()
	out := b.must(t, "bundle", "inspect", at.location(), "--key", "ours.pub", "--key", "theirs.pub", "--threshold", "2")
	if !strings.Contains(out, "ours.pub") || !strings.Contains(out, "theirs.pub") {
		t.Errorf("inspect does not name both signers:\n%s", out)
	}
}
