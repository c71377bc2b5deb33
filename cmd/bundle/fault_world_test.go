package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"

	"waybill/internal/registrytest"
	"waybill/registry"
)

// A worldOfFaults is a release whose bundle has charts, images of one and of
// several platforms, signatures in both forms and an SBOM on an image, and the
// registries that it goes from and to. Any request to either can go wrong.
type worldOfFaults struct {
	t              *testing.T
	source, target *watched
	from           string // where the bundle is
	root           digest.Digest
	usual          []string
	dir            string // the release's, with the keys
	looks          int
}

// A watched registry has requests that go wrong, and a reader who looks after each
// request at the tags that are being written.
type watched struct {
	*registrytest.Server
	registrytest.Injector
	twin *registrytest.Server // another host with the same content
	slow atomic.Bool          // there is a moment between two requests
	seen atomic.Int64         // requests

	mu       sync.Mutex
	watch    string // repository
	root     digest.Digest
	signed   bool // just now, by a key that never signs twice alike
	want     []string
	problems []string
}

func newWatched(t *testing.T, opts registrytest.Options) *watched {
	w := &watched{}
	opts.Fault, opts.After = w.before, w.after
	w.Server = registrytest.New(t, opts)
	w.twin = registrytest.New(t, registrytest.Options{Handler: w.WithoutFaults()})
	return w
}

func (w *watched) before(r *http.Request) *registrytest.Fault {
	w.seen.Add(1)
	if w.slow.Load() {
		time.Sleep(2 * time.Millisecond)
	}
	return w.Fault(r)
}

// reads lets a reader poll a repository, who knows what the root leads to.
func (w *watched) reads(repository string, root digest.Digest, signed bool, want []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watch, w.root, w.signed, w.want, w.problems = repository, root, signed, want, nil
}

// saw is what the reader saw that nobody should see.
func (w *watched) saw() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watch = ""
	return w.problems
}

func (w *watched) after(r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.watch == "" || w.Tagged(w.watch, "current") != w.root {
		return
	}
	got, err := w.Contents(w.watch, "current")
	if w.signed {
		got = withoutSignatures(got)
	}
	if missing := lacking(got, w.want); err != nil || len(missing) > 0 {
		w.problems = append(w.problems, fmt.Sprintf("after %s %s the tag leads to the bundle, and %v %s", r.Method, r.URL.Path, err, strings.Join(missing, ", ")))
		w.watch = ""
	}
}

// lacking is what is wanted and not got.
func lacking(got, want []string) []string {
	return slices.DeleteFunc(slices.Clone(want), func(line string) bool { return slices.Contains(got, line) })
}

const worldRelease = `apiVersion: waybill/v1
kind: Release
name: shop
version: 1.0.0
render: {kubeVersions: ["1.34.0"]}
components:
  - {name: web, chart: {path: web}, namespace: shop}
  - {name: worker, chart: {path: worker}, namespace: shop}
  - {name: tool, chart: {path: tool}, namespace: shop, images: ["HOST/up/extra:1"]}
`

const worldPod = `apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec: {containers: [{name: NAME, image: "HOST/up/NAME:1"}]}
`

// A targetOfFaults is one kind of registry to write to.
type targetOfFaults struct {
	name  string
	opts  registrytest.Options
	usual []string // flags of every run
}

var targetsOfFaults = []targetOfFaults{
	{name: "referrers endpoint"},
	{name: "no referrers endpoint", opts: registrytest.Options{NoReferrers: true}},
	{name: "in chunks", opts: registrytest.Options{Uploads: registrytest.Uploads{LocationQuery: "_state=x", CommitDigest: "-"}}, usual: []string{"--chunk-size", "65536"}},
	{name: "no chunks, no referrers endpoint", opts: registrytest.Options{NoReferrers: true, Uploads: registrytest.Uploads{RefuseChunks: 405, Absolute: true}}, usual: []string{"--chunk-size", "65536"}},
}

// newWorldOfFaults makes the release and builds it at the source.
func newWorldOfFaults(t *testing.T, target targetOfFaults) *worldOfFaults {
	t.Helper()
	w := &worldOfFaults{t: t, source: newWatched(t, registrytest.Options{}), target: newWatched(t, target.opts), usual: target.usual, dir: t.TempDir()}
	t.Chdir(w.dir)
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("COSIGN_PASSWORD", "")
	files := map[string]string{"release.yaml": worldRelease}
	for name, platforms := range map[string][]string{"web": {"amd64", "arm64"}, "worker": {"amd64"}, "tool": {"amd64"}, "extra": {"amd64", "arm64"}} {
		w.image("up/"+name, platforms, name == "worker")
		files[name+"/Chart.yaml"] = "apiVersion: v2\nname: " + name + "\nversion: 1.0.0\n"
		files[name+"/templates/pod.yaml"] = strings.ReplaceAll(worldPod, "NAME", name)
	}
	for name, text := range files {
		files[name] = strings.ReplaceAll(text, "HOST", w.source.Host)
	}
	writeFiles(t, files)
	w.from = "oci://" + w.source.Host + "/shop:current"
	for _, args := range [][]string{
		{"keygen", "--prefix", "vendor"},
		{"build", "--signing-key", "vendor.key", "--signature-format", "both", "-t", w.from},
	} {
		if code, _, errOut := runBundle(t, args...); code != 0 {
			t.Fatal(errOut)
		}
	}
	w.root = w.source.Tagged("shop", "current")
	if lines, err := w.source.Contents("shop", "current"); err != nil || len(lines) < 40 {
		t.Fatalf("the bundle has only %d parts: %v %s", len(lines), err, strings.Join(lines, "\n"))
	}
	return w
}

// image puts an image into the source, with an SBOM when that is wanted.
func (w *worldOfFaults) image(repository string, platforms []string, withSBOM bool) {
	client, err := registry.NewClient(registry.Settings{})
	w.ok(err)
	loc, err := registry.ParseLocation("oci://" + w.source.Host + "/" + repository + ":1")
	w.ok(err)
	dst, err := client.Create(w.t.Context(), loc)
	w.ok(err)
	var entries []ocispec.Descriptor
	for _, arch := range platforms {
		config := w.push(dst, ocispec.MediaTypeImageConfig, ocispec.Image{Platform: ocispec.Platform{OS: "linux", Architecture: arch}, Author: repository})
		size := 100
		if arch == "arm64" {
			size = 5000 // several chunks
		}
		layer := w.push(dst, ocispec.MediaTypeImageLayer, strings.Repeat("layer of "+repository+" for "+arch, size))
		desc := w.push(dst, ocispec.MediaTypeImageManifest, ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, Config: config, Layers: []ocispec.Descriptor{layer}})
		desc.Platform = &ocispec.Platform{OS: "linux", Architecture: arch}
		entries = append(entries, desc)
	}
	root := entries[0]
	if len(entries) > 1 {
		root = w.push(dst, ocispec.MediaTypeImageIndex, ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: entries})
	}
	if withSBOM {
		empty := w.push(dst, ocispec.MediaTypeEmptyJSON, struct{}{})
		sbom := w.push(dst, "application/spdx+json", "an SBOM")
		subject := ocispec.Descriptor{MediaType: root.MediaType, Digest: root.Digest, Size: root.Size}
		w.push(dst, ocispec.MediaTypeImageManifest, ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, ArtifactType: "application/spdx+json", Config: empty, Layers: []ocispec.Descriptor{sbom}, Subject: &subject})
	}
	w.ok(dst.Tag(w.t.Context(), root, "1"))
}

func (w *worldOfFaults) push(dst *registry.Destination, mediaType string, v any) ocispec.Descriptor {
	data, err := json.Marshal(v)
	w.ok(err)
	desc := content.NewDescriptorFromBytes(mediaType, data)
	w.ok(dst.Push(w.t.Context(), desc, bytes.NewReader(data)))
	return desc
}

func (w *worldOfFaults) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// withoutSignatures leaves out of a registry's contents what differs between two
// signatures by one key, and keeps that there is one and on what.
func withoutSignatures(lines []string) []string {
	var out []string
	for _, line := range lines {
		switch words := strings.Fields(line); {
		case words[0] == "attached":
		case words[0] == "tag", strings.Contains(line, "sigstore.bundle"):
			out = append(out, strings.Join(slices.Delete(words, len(words)-1, len(words)), " "))
		default:
			out = append(out, line)
		}
	}
	return out
}

// signedState is the state of a place whose signatures were made just now.
func (w *worldOfFaults) signedState(place string) string {
	at := place
	if !strings.HasPrefix(place, "oci://") {
		if _, err := os.Stat(place); errors.Is(err, fs.ErrNotExist) {
			return ""
		}
		w.looks++
		at = fmt.Sprintf("oci://%s/look-%d:current", w.target.Host, w.looks)
		if code, _, errOut := runBundle(w.t, "copy", place, at, "--policy", "none", "--quiet"); code != 0 {
			return "broken: " + errOut
		}
	}
	state := w.state(at)
	if state == "" || strings.HasPrefix(state, "broken") {
		return state
	}
	return strings.Join(withoutSignatures(strings.Split(state, "\n")), "\n")
}

// state is all that a place holds under its name; empty for nothing.
func (w *worldOfFaults) state(place string) string {
	w.t.Helper()
	if rest, ok := strings.CutPrefix(place, "oci://"+w.target.Host+"/"); ok {
		repository, tag, _ := strings.Cut(rest, ":")
		if w.target.Tagged(repository, tag) != w.root {
			return ""
		}
		lines, err := w.target.Contents(repository, tag)
		if err != nil {
			return "broken: " + err.Error()
		}
		return strings.Join(lines, "\n")
	}
	if info, err := os.Stat(place); err == nil && info.IsDir() {
		return w.folderState(place)
	}
	return w.filesState(place)
}

// filesState lists the files of a place, which may be one, or volumes, with a packing
// list beside them. What is not whole yet by its name is none of them.
func (w *worldOfFaults) filesState(place string) string {
	entries, err := os.ReadDir(filepath.Dir(place))
	w.ok(err)
	var lines []string
	for _, e := range entries {
		if !strings.Contains(e.Name(), ".partial") && !e.IsDir() {
			lines = append(lines, e.Name()+" "+w.hash(filepath.Join(filepath.Dir(place), e.Name())))
		}
	}
	return strings.Join(lines, "\n")
}

func (w *worldOfFaults) hash(file string) string {
	f, err := os.Open(file)
	w.ok(err)
	defer f.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, f)
	w.ok(err)
	return fmt.Sprintf("%x", sum.Sum(nil))
}

// folderState lists the files of a folder with what is in them. A layout without
// an index holds nothing yet.
func (w *worldOfFaults) folderState(dir string) string {
	if _, err := os.Stat(filepath.Join(dir, "index.json")); err != nil {
		return ""
	}
	var lines []string
	w.ok(filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			lines = append(lines, strings.TrimPrefix(path, dir)+" "+w.hash(path))
		}
		return err
	}))
	return strings.Join(lines, "\n")
}

// ownNames are what a place of the name NAME may consist of: the file or folder, or
// volumes, and a packing list.
var ownNames = regexp.MustCompile(`^NAME(\.[0-9]{3}|\.waybill\.(txt|json))?$`)

// leftNames are what a run which did not end may leave.
var leftNames = regexp.MustCompile(`^NAME(\.[0-9]{3})?\.partial(\.journal)?$`)

// besides are the names in the folder of a place that are neither its own nor
// those that a run which did not end may leave.
func (w *worldOfFaults) besides(place string, left bool) []string {
	if strings.HasPrefix(place, "oci://") {
		return nil
	}
	entries, err := os.ReadDir(filepath.Dir(place))
	w.ok(err)
	var out []string
	for _, e := range entries {
		name := strings.Replace(e.Name(), filepath.Base(place), "NAME", 1)
		if !ownNames.MatchString(name) && !(left && leftNames.MatchString(name)) {
			out = append(out, e.Name())
		}
	}
	return out
}

// previous puts something else under the tag that a run will move.
func (w *worldOfFaults) previous(place string) {
	loc, err := registry.ParseLocation(place)
	w.ok(err)
	if loc.Kind != registry.Registry {
		return
	}
	client, err := registry.NewClient(registry.Settings{})
	w.ok(err)
	dst, err := client.Create(w.t.Context(), loc)
	w.ok(err)
	empty := w.push(dst, ocispec.MediaTypeEmptyJSON, struct{}{})
	old := w.push(dst, ocispec.MediaTypeImageManifest, ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, ArtifactType: "application/vnd.example.old", Config: empty, Layers: []ocispec.Descriptor{}})
	w.ok(dst.Tag(context.Background(), old, loc.Ref.Tag))
}
