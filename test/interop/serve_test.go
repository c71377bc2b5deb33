package interop_test

import (
	"bufio"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// ender is [keeper] for a program that has to end well when it is told to.
const ender = `"$@" &
trap '' HUP INT QUIT TERM
cat >/dev/null
kill -TERM $! && wait $!`

// serve runs bundle serve over a folder or an archive, with more flags, until the
// test ends.
func (b *bench) serve(t *testing.T, name, path string, more ...string) registry {
	t.Helper()
	cmd := exec.Command("sh", append([]string{"-c", ender, "ender", b.bundle, "serve", path, "--listen", "127.0.0.1:0"}, more...)...)
	cmd.Dir = b.dir
	cmd.Env = []string{"HOME=" + b.path("home"), "PATH=" + os.Getenv("PATH")}
	talk, err := os.Create(b.path(name + ".log"))
	if err != nil {
		t.Fatal(err)
	}
	defer talk.Close()
	cmd.Stderr = talk
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = pipe.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("ending %s: %v\n%s", name, err, b.read(t, name+".log"))
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	_, host, ok := strings.Cut(strings.TrimSpace(line), "://")
	if err != nil || !ok {
		t.Fatalf("%s says %q, %v\n%s", name, line, err, b.read(t, name+".log"))
	}
	return registry{name: name, host: host}
}

// other people's tools push to a folder that bundle serve serves and pull from
// it, and the folder is a layout all the while
func (b *bench) testServeFolder(t *testing.T) {
	served := b.serve(t, "served folder", "./served")
	from := place{b.registries[0], "tag", tag}
	for _, c := range carriers() {
		t.Run(slug(c.name), func(t *testing.T) {
			b.need(t, c.tool)
			in := place{served, "by/" + slug(c.name), tag}
			b.must(t, c.tool, c.args(b, from, in)...)
			digest, _ := served.manifest(t, in.repository, in.tag)
			b.sameRoot(t, digest)
			out := place{b.registries[0], "out-of-serve/" + slug(c.name), tag}
			b.must(t, c.tool, c.args(b, in, out)...)
			digest, _ = out.registry.manifest(t, out.repository, out.tag)
			b.sameRoot(t, digest)
			b.must(t, "bundle", "verify", in.location(), "--policy", "none", "--read-data")
			b.must(t, "bundle", "verify", "./served#"+in.repository+":"+tag, "--policy", "none")
		})
	}
	t.Run("helm", func(t *testing.T) { b.servesHelm(t, served) })
	for _, c := range cosigns() {
		t.Run("cosign "+c.name, func(t *testing.T) { b.servesCosign(t, served, c) })
	}
}

func (b *bench) servesHelm(t *testing.T, served registry) {
	b.need(t, "helm")
	b.must(t, "helm", "push", "--plain-http", "given/db-2.0.1.tgz", "oci://"+served.host+"/charts")
	b.write(t, "served-helm/readme", "a place for one chart\n")
	b.must(t, "helm", "pull", "--plain-http", "-d", "served-helm", "oci://"+served.host+"/charts/db", "--version", "2.0.1")
	if got := b.onlyChart(t, "served-helm"); string(got) != string(b.release.given) {
		t.Error("the chart is not the .tgz that was pushed")
	}
}

func (b *bench) servesCosign(t *testing.T, served registry, c cosign) {
	c.prepare(t, b)
	at := place{served, "signed-by/cosign-" + c.name, tag}
	b.must(t, "bundle", "build", "--no-images", "--unsigned", "--annotation", "by=cosign "+c.name, "-t", at.location())
	digest, _ := served.manifest(t, at.repository, tag)
	image := served.at(at.repository, digest)
	b.must(t, c.tool, append(append([]string{"sign", "--yes", "--key", "theirs.key", "--recursive"}, c.sign...), image)...)
	b.must(t, "bundle", "verify", at.location(), "--key", "theirs.pub")
	b.must(t, c.tool, c.verify(c.form, "theirs.pub", image)...)
}

// other people's tools pull from an archive that bundle serve serves
func (b *bench) testServeArchive(t *testing.T) {
	for _, form := range []string{"tag", "referrer"} {
		served := b.serve(t, "served archive "+form, "./"+form+".tar")
		from := place{served, "shop", tag}
		for _, c := range carriers() {
			t.Run(form+"/"+slug(c.name), func(t *testing.T) {
				b.need(t, c.tool)
				to := place{b.registries[0], "out-of-archive/" + form + "/" + slug(c.name), tag}
				b.must(t, c.tool, c.args(b, from, to)...)
				digest, _ := to.registry.manifest(t, to.repository, to.tag)
				b.sameRoot(t, digest)
			})
		}
		for _, chart := range slices.Sorted(maps.Keys(b.release.charts)) {
			t.Run(form+"/helm/"+chart, func(t *testing.T) {
				b.need(t, "helm")
				b.must(t, "helm", "template", "--plain-http", chart, "oci://"+served.at("shop", b.release.charts[chart]))
			})
		}
		for _, c := range cosigns() {
			t.Run(form+"/cosign "+c.name, func(t *testing.T) {
				c.prepare(t, b)
				b.must(t, c.tool, c.verify(form, "ours.pub", served.at("shop", b.release.root))...)
			})
		}
	}
}

// bundle copy brings a bundle from every registry to every other, a folder and an
// archive, and the signatures of root and charts hold there, for cosign too
func (b *bench) testOurCopy(t *testing.T) {
	served := b.serve(t, "copied into", "./copied-into")
	registries := append(slices.Clone(b.registries), served)
	for _, form := range forms() {
		for _, from := range b.registries {
			for _, to := range registries {
				t.Run(strings.Join([]string{form, from.name, to.name}, "/"), func(t *testing.T) {
					source, target := place{from, form, tag}, place{to, "copied/" + form + "-" + slug(from.name), tag}
					b.carries(t, form, source, target)
				})
			}
		}
	}
}

func (b *bench) carries(t *testing.T, form string, source, target place) {
	archive := "./copied/" + slug(form+" "+source.registry.name+" "+target.registry.name) + ".tar"
	b.write(t, "copied/readme", "made by bundle copy\n")
	b.must(t, "bundle", "copy", source.location(), target.location(), archive, "--key", "ours.pub")
	for _, at := range []string{target.location(), archive} {
		b.must(t, "bundle", "verify", at, "--key", "ours.pub", "--read-data")
	}
	back := place{b.registries[0], filepath.Join("back", strings.TrimSuffix(filepath.Base(archive), ".tar")), tag}
	b.must(t, "bundle", "copy", archive, back.location(), "--key", "ours.pub")
	for _, c := range cosigns() {
		if _, err := b.find(c.tool); err != nil {
			t.Logf("not tried with cosign %s: %v", c.name, err)
			continue
		}
		c.prepare(t, b)
		for _, digest := range b.signed() {
			for _, at := range []place{target, back} {
				b.must(t, c.tool, c.verify(form, "ours.pub", at.registry.at(at.repository, digest))...)
			}
		}
	}
	if got, _ := target.registry.manifest(t, target.repository, tag); got != b.release.root {
		t.Errorf("the target is %s", got)
	}
}
