package main

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"waybill/internal/registrytest"
	"waybill/registry"
)

// publishImage puts an image of some layers into a registry.
func publishImage(t *testing.T, location string, layers ...[]byte) {
	t.Helper()
	loc, err := registry.ParseLocation(location)
	if err != nil {
		t.Fatal(err)
	}
	client, err := registry.NewClient(registry.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	dst, err := client.Create(t.Context(), loc)
	if err != nil {
		t.Fatal(err)
	}
	push := func(mediaType string, data []byte) ocispec.Descriptor {
		desc := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
		if err := dst.Push(t.Context(), desc, bytes.NewReader(data)); err != nil {
			t.Fatal(err)
		}
		return desc
	}
	manifest := ocispec.Manifest{MediaType: ocispec.MediaTypeImageManifest, Config: push(ocispec.MediaTypeImageConfig, []byte("{}"))}
	manifest.SchemaVersion = 2
	for _, layer := range layers {
		manifest.Layers = append(manifest.Layers, push(ocispec.MediaTypeImageLayer, layer))
	}
	data, err := json.Marshal(manifest)
	if err != nil {
		t.Fatal(err)
	}
	if err := dst.Tag(t.Context(), push(manifest.MediaType, data), loc.Ref.Tag); err != nil {
		t.Fatal(err)
	}
}

// someLayers are different bytes of one size.
func someLayers(n, size int) [][]byte {
	r := rand.New(rand.NewPCG(1, 1))
	all := make([][]byte, n)
	for i := range all {
		all[i] = make([]byte, size)
		for at := range all[i] {
			all[i][at] = byte(r.Uint32())
		}
	}
	return all
}

func isBlobRead(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/")
}

func namesHere(t *testing.T) []string {
	t.Helper()
	found, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range found {
		names = append(names, f.Name())
	}
	return names
}

func removeAll(t *testing.T, names []string) {
	t.Helper()
	for _, name := range names {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
}

// A save that is killed at whatever moment leaves its partial file and the
// journal and nothing else; what the file held stays. The next one goes on from
// there and makes the same bytes.
func TestKilledSave(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("HOME", t.TempDir())
	var seen atomic.Int64
	reg := registrytest.New(t, registrytest.Options{Fault: func(r *http.Request) *registrytest.Fault {
		if isBlobRead(r) {
			seen.Add(1)
			time.Sleep(2 * time.Millisecond)
		}
		return nil
	}})
	from := "oci://" + reg.Host + "/shop:1.0.0"
	publishImage(t, from, someLayers(40, 200<<10)...)
	if out, err := bundleProgram(t, "save", from, "whole.tar", "--quiet").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want, err := os.ReadFile("whole.tar")
	if err != nil {
		t.Fatal(err)
	}
	removeAll(t, namesHere(t))
	saved := []string{"shop.tar", "shop.tar.waybill.json", "shop.tar.waybill.txt"}
	blobs := seen.Load()
	killed, resumed := 0, 0
	for i := range int64(kills) {
		seen.Store(0)
		at := (i*blobs + rand.Int64N(blobs)) / kills // from early to late
		cmd := bundleProgram(t, "save", from, "shop.tar", "--quiet")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if killWhen(cmd.Wait, func() { _ = cmd.Process.Kill() }, func() bool { return seen.Load() >= at }) {
			killed++
		}
		for _, name := range namesHere(t) {
			if !slices.Contains(append([]string{"shop.tar.partial", "shop.tar.partial.journal"}, saved...), name) {
				t.Errorf("killed at blob %d: there is %s", at, name)
			}
		}
		if data, err := os.ReadFile("shop.tar"); err == nil && !bytes.Equal(data, want) {
			t.Errorf("killed at blob %d: the file has its name and is not whole", at)
		}
		seen.Store(0)
		out, err := bundleProgram(t, "save", from, "shop.tar").CombinedOutput()
		if err != nil {
			t.Errorf("killed at blob %d: the next save fails: %v: %s", at, err, out)
		}
		if seen.Load() < blobs && strings.Contains(string(out), "going on with shop.tar.partial") {
			resumed++
		}
		if data, err := os.ReadFile("shop.tar"); err != nil || !bytes.Equal(data, want) {
			t.Errorf("killed at blob %d: the next save makes another file, %v", at, err)
		}
		if diff := cmp.Diff(saved, namesHere(t)); diff != "" {
			t.Errorf("killed at blob %d: %s", at, diff)
		}
		removeAll(t, saved)
	}
	if killed < kills/2 || resumed < kills/4 {
		t.Errorf("only %d were killed, and only %d went on", killed, resumed)
	}
}

// A save that is interrupted ends soon, says what is kept and how it is gone on
// with; another one that would write the same file meanwhile is told so.
func TestInterruptedSave(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("HOME", t.TempDir())
	var reads atomic.Int64
	var hang atomic.Bool
	waiting := make(chan struct{}, 1)
	reg := registrytest.New(t, registrytest.Options{Fault: func(r *http.Request) *registrytest.Fault {
		if !isBlobRead(r) || !hang.Load() || reads.Add(1) < 5 {
			return nil
		}
		select {
		case waiting <- struct{}{}:
		default:
		}
		return &registrytest.Fault{Stall: 100_000}
	}})
	from := "oci://" + reg.Host + "/shop:1.0.0"
	publishImage(t, from, someLayers(8, 3<<20)...)
	hang.Store(true)
	cmd := bundleProgram(t, "save", from, "shop.tar", "--concurrency", "2")
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-waiting:
	case <-time.After(20 * time.Second):
		t.Fatalf("it reads nothing: %s", errOut.String())
	}
	hang.Store(false)
	if code, _, said := runBundle(t, "save", from, "shop.tar"); code != 1 || !strings.Contains(said, "is being written to by another process") {
		t.Errorf("a second writer: exit %d: %s", code, said)
	}
	time.Sleep(100 * time.Millisecond)
	interrupt(t, cmd)
	kept := "are kept in shop.tar.partial and shop.tar.partial.journal"
	if code := cmd.ProcessState.ExitCode(); code != 130 || !strings.Contains(errOut.String(), "error: interrupted; ") ||
		!strings.Contains(errOut.String(), kept) || !strings.Contains(errOut.String(), "run the same command again") {
		t.Errorf("exit %d: %s", code, errOut.String())
	}
	if diff := cmp.Diff([]string{"shop.tar.partial", "shop.tar.partial.journal"}, namesHere(t)); diff != "" {
		t.Error(diff)
	}
	code, out, said := runBundle(t, "save", from, "shop.tar", "-o", "json")
	if code != 0 || !strings.Contains(said, "going on with shop.tar.partial, which has ") || !strings.Contains(out, `"resumed": {`) {
		t.Errorf("exit %d: %s %s", code, out, said)
	}
	if code, _, said := runBundle(t, "copy", "shop.tar", "oci-layout:"+filepath.Join(t.TempDir(), "folder")); code != 0 {
		t.Errorf("what was saved does not copy: %s", said)
	}
}
