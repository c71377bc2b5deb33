// Package interop_test proves with other people's programs that a bundle is
// ordinary: oras, crane, regctl and skopeo carry it between CNCF Distribution
// 2.8 and 3 and read our archives and layouts, Helm pulls charts out of it,
// containerd pulls images from a mirror of it, and cosign 2.6 and 3.1 accept what
// we sign as we accept what they sign.
//
// It knows how those programs are called. What a bundle is stays in
// waybill/bundle, how signatures are judged in waybill/signing; of ours it uses
// the program bundle alone, as a person would. Begin with [TestInterop].
//
// The test skips unless WAYBILL_INTEROP names a folder of the programs;
// "make interop" builds what comes from Go modules and sets it. A program that
// is neither there nor in PATH skips what needs it, and is named.
// docs/registries.md tells what was found.
package interop_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestInterop(t *testing.T) {
	b := newBench(t)
	t.Run("copy", b.testCopy)
	t.Run("read", b.testRead)
	t.Run("write", b.testWrite)
	t.Run("pull", b.testPull)
	t.Run("serve folder", b.testServeFolder)
	t.Run("serve archive", b.testServeArchive)
	t.Run("our copy", b.testOurCopy)
	t.Run("mirror", b.testMirror)
	t.Run("login", b.testLogin)
	t.Run("cosign accepts ours", b.testCosignAcceptsOurs)
	t.Run("we accept cosign's", b.testWeAcceptCosigns)
}

// A bench is what all parts of the test share: a folder, the programs, two
// registries, and one bundle in several places.
type bench struct {
	dir        string // holds everything that the test writes, the programs' home too
	peers      string // the folder that WAYBILL_INTEROP names
	bundle     string // our program
	registries []registry
	release    release
}

// newBench starts the registries and builds the bundle; the end of t ends and
// removes both.
func newBench(t *testing.T) *bench {
	t.Helper()
	peers := os.Getenv("WAYBILL_INTEROP")
	if peers == "" {
		t.Skip("WAYBILL_INTEROP names no folder of programs: run make interop")
	}
	dir := t.TempDir()
	b := &bench{dir: dir, peers: peers, bundle: filepath.Join(dir, "bin", "bundle")}
	build := exec.Command("go", "build", "-o", b.bundle, "waybill/cmd/bundle")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building bundle: %v\n%s", err, out)
	}
	for _, name := range []string{"distribution-2.8", "distribution-3"} {
		if r, ok := b.startRegistry(t, name); ok {
			b.registries = append(b.registries, r)
		}
	}
	if len(b.registries) == 0 {
		t.Skip("there is no registry to try against")
	}
	b.makeRelease(t)
	return b
}

// path is a name in the bench's folder.
func (b *bench) path(name ...string) string {
	return filepath.Join(append([]string{b.dir}, name...)...)
}

func (b *bench) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(b.path(name)), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(b.path(name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (b *bench) read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(b.path(name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}
