package registry_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"waybill/registry"
)

// Many writers of one layout: every one's bundle is there in the end.
func TestLayoutParallelWriters(t *testing.T) {
	at, c := filepath.Join(t.TempDir(), "layout"), client(t, quick())
	var writers sync.WaitGroup
	var want []string
	for i := range 8 {
		name := fmt.Sprintf("shop-1.%d.0", 7-i) // as List has them: newest first
		want = append(want, name)
		s := newSample(t, name)
		writers.Go(func() { store(t, c, at, name, s) })
	}
	writers.Wait()
	got, err := c.List(t.Context(), location(t, at))
	if err != nil || !cmp.Equal(want, got) {
		t.Errorf("there is %v, %v", got, err)
	}
	for _, name := range want {
		contractContent(t, open(t, c, at+"#"+name), newSample(t, name))
	}
	if found, _ := filepath.Glob(filepath.Join(at, ".*")); len(found) != 0 {
		t.Errorf("left behind: %v", found)
	}
}

// Another process writes too; one that is killed leaves the index whole.
func TestLayoutOtherProcess(t *testing.T) {
	const env = "REGISTRY_TEST_LAYOUT"
	if at := os.Getenv(env); at != "" {
		c := client(t, quick())
		store(t, c, at, "shop-theirs", newSample(t, "theirs"))
		for i := range 1000 {
			store(t, c, at, fmt.Sprintf("shop-%d", i), newSample(t, fmt.Sprint(i)))
		}
		return
	}
	at, c := filepath.Join(t.TempDir(), "layout"), client(t, quick())
	store(t, c, at, "shop-first", newSample(t, "first"))
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	other := exec.Command(program, "-test.run=^TestLayoutOtherProcess$")
	other.Env = append(os.Environ(), env+"="+at)
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	for {
		names, err := c.List(t.Context(), location(t, at))
		if err != nil {
			t.Fatal(err)
		}
		if len(names) > 10 {
			break
		}
		if len(names) > 2 {
			store(t, c, at, "shop-ours", newSample(t, "ours"))
		}
	}
	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = other.Wait() // killed
	store(t, c, at, "shop-last", newSample(t, "last"))
	for _, name := range []string{"first", "theirs", "ours", "last"} {
		contractContent(t, open(t, c, at+"#shop-"+name), newSample(t, name))
	}
}

// A name moves to the new root, and the old one stays, listed by its digest; given
// the name again it is listed once.
func TestNameMoves(t *testing.T) {
	for _, at := range []string{"layout", "archive.tar"} {
		t.Run(at, func(t *testing.T) {
			at, c := filepath.Join(t.TempDir(), at), client(t, quick())
			one, two := newSample(t, "one"), newSample(t, "two")
			for i, named := range []struct{ now, before sample }{{one, sample{}}, {two, one}, {one, two}} {
				dst, err := c.Update(t.Context(), location(t, at))
				if err != nil {
					t.Fatal(err)
				}
				named.now.write(t, dst, "shop")
				if err := dst.Commit(t.Context()); err != nil {
					t.Fatal(err)
				}
				held, err := c.Held(t.Context(), location(t, at))
				want := map[string]string{named.now.root.desc.Digest.String(): "shop"}
				if i > 0 {
					want[named.before.root.desc.Digest.String()] = ""
					contractContent(t, open(t, c, at+"@"+named.before.root.desc.Digest.String()), named.before)
				}
				got := map[string]string{}
				for _, desc := range held {
					got[desc.Digest.String()] = desc.Annotations[ocispec.AnnotationRefName]
				}
				if err != nil || len(held) != len(want) || !cmp.Equal(want, got) {
					t.Errorf("after write %d it holds %v, %v; want %v", i+1, held, err, want)
				}
				contractContent(t, open(t, c, at+"#shop"), named.now)
			}
			var several *registry.ChoiceError
			if _, err := c.Open(t.Context(), location(t, at)); !errors.As(err, &several) || len(several.Choices) != 2 {
				t.Errorf("without a name it answers %v", err)
			}
		})
	}
}

// Reading a layout changes nothing in it, and needs no right to.
func TestLayoutReadingWritesNothing(t *testing.T) {
	at, c, s := filepath.Join(t.TempDir(), "layout"), client(t, quick()), newSample(t, "one")
	store(t, c, at, "shop", s)
	before := tree(t, at)
	src := open(t, c, at)
	contractContent(t, src, s)
	contractAttachments(t, src, s)
	if diff := cmp.Diff(before, tree(t, at)); diff != "" {
		t.Error(diff)
	}
}

func tree(t *testing.T, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.Walk(root, func(path string, info os.FileInfo, err error) error {
		if err == nil {
			out[path] = fmt.Sprint(info.Mode(), info.ModTime(), info.Size())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Entries that others wrote stay as they are.
func TestLayoutKeepsForeignEntries(t *testing.T) {
	at, c, s := filepath.Join(t.TempDir(), "layout"), client(t, quick()), newSample(t, "one")
	store(t, c, at, "shop", s)
	file := filepath.Join(at, "index.json")
	foreign := ocispec.Index{Manifests: []ocispec.Descriptor{s.chart.desc}, Annotations: map[string]string{"kept": "yes"}}
	foreign.Manifests[0].Annotations = map[string]string{ocispec.AnnotationRefName: "podinfo", "tool": "other"}
	data, err := json.Marshal(foreign)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
	store(t, c, at, "shop", s)
	data, err = os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"kept":"yes"`, `"tool":"other"`, `"podinfo"`, `"shop"`} {
		if !bytes.Contains(data, []byte(want)) {
			t.Errorf("%s is gone from %s", want, data)
		}
	}
}

func TestLayoutThatIsNone(t *testing.T) {
	dir, c := t.TempDir(), client(t, quick())
	if err := os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	var content *registry.ContentError
	if _, err := c.Open(t.Context(), location(t, dir)); !errors.As(err, &content) {
		t.Errorf("opening a folder of other things: %v", err)
	}
	if _, err := c.Create(t.Context(), location(t, dir)); !errors.As(err, &content) {
		t.Errorf("writing into a folder of other things: %v", err)
	}
	var notThere *registry.LocationError
	for _, at := range []string{"./absent", "absent.tar", "oci-archive:" + dir, "oci-layout:" + filepath.Join(dir, "notes.txt")} {
		if _, err := c.Open(t.Context(), location(t, at)); !errors.As(err, &notThere) {
			t.Errorf("opening %s: %v", at, err)
		}
	}
}

// Giving up a new layout at once leaves no folder.
func TestLayoutAbort(t *testing.T) {
	at, c := filepath.Join(t.TempDir(), "layout"), client(t, quick())
	dst, err := c.Create(t.Context(), location(t, at))
	if err != nil {
		t.Fatal(err)
	}
	if err := dst.Abort(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(at); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is still there: %v", err)
	}
	dst, err = c.Create(t.Context(), location(t, at))
	if err != nil {
		t.Fatal(err)
	}
	s := newSample(t, "one")
	s.write(t, dst, "shop")
	if err := dst.Abort(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Open(t.Context(), location(t, at)); err == nil || !strings.Contains(err.Error(), "no file index.json") {
		t.Errorf("opening what was given up: %v", err)
	}
	store(t, c, at, "shop", s) // and the next run completes it
	contractContent(t, open(t, c, at), s)
}

// What a writer that was killed left half-written goes when the next one comes.
func TestLayoutWriterTakesAwayWhatWasLeft(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "layout")
	c := client(t, registry.Settings{})
	store(t, c, dir, "one", newSample(t, "one"))
	left := []string{filepath.Join(dir, ".tmp-a"), filepath.Join(dir, "blobs", "sha256", ".tmp-b")}
	for _, path := range left {
		if err := os.WriteFile(path, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	store(t, c, dir, "two", newSample(t, "two"))
	for _, path := range left {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
