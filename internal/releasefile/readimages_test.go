package releasefile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"

	"waybill/bundle"
	"waybill/internal/registrytest"
	"waybill/registry"
)

const (
	dockerManifest = "application/vnd.docker.distribution.manifest.v2+json"
	dockerList     = "application/vnd.docker.distribution.manifest.list.v2+json"
	dockerConfig   = "application/vnd.docker.container.image.v1+json"
)

// An upstream is a registry that images are pushed to byte by byte.
type upstream struct {
	t      *testing.T
	server *registrytest.Server
	client *registry.Client
	// pushed is everything by digest.
	pushed map[digest.Digest]ocispec.Descriptor
}

func newUpstream(t *testing.T, opts registrytest.Options) upstream {
	client, err := registry.NewClient(registry.Settings{Retry: -1})
	if err != nil {
		t.Fatal(err)
	}
	return upstream{t, registrytest.New(t, opts), client, map[digest.Digest]ocispec.Descriptor{}}
}

func (u upstream) at(repository string) *registry.Destination {
	u.t.Helper()
	dst, err := u.client.Create(u.t.Context(), u.location("oci://"+u.server.Host+"/"+repository))
	if err != nil {
		u.t.Fatal(err)
	}
	return dst
}

func (u upstream) location(text string) registry.Location {
	u.t.Helper()
	loc, err := registry.ParseLocation(text)
	if err != nil {
		u.t.Fatal(err)
	}
	return loc
}

func (u upstream) push(repository, mediaType, data string) ocispec.Descriptor {
	u.t.Helper()
	desc := content.NewDescriptorFromBytes(mediaType, []byte(data))
	if err := u.at(repository).Push(u.t.Context(), desc, bytes.NewReader([]byte(data))); err != nil {
		u.t.Fatal(err)
	}
	u.pushed[desc.Digest] = desc
	return desc
}

// odd is a manifest as no library would write it.
func (u upstream) odd(repository, mediaType string, fields map[string]any) ocispec.Descriptor {
	u.t.Helper()
	data, err := json.MarshalIndent(fields, "\t ", "   ")
	if err != nil {
		u.t.Fatal(err)
	}
	return u.push(repository, mediaType, string(data)+"\n\n")
}

func (u upstream) tag(repository string, desc ocispec.Descriptor, tag string) string {
	u.t.Helper()
	if err := u.at(repository).Tag(u.t.Context(), desc, tag); err != nil {
		u.t.Fatal(err)
	}
	return u.server.Host + "/" + repository + ":" + tag
}

// image is one platform's manifest with layers.
func (u upstream) image(repository, platform, word string) ocispec.Descriptor {
	u.t.Helper()
	os, arch, _ := strings.Cut(platform, "/")
	config := u.push(repository, ocispec.MediaTypeImageConfig, fmt.Sprintf(`{"os":%q,"architecture":%q,"author":%q}`, os, arch, word))
	layers := []ocispec.Descriptor{
		u.push(repository, ocispec.MediaTypeImageLayerZstd, "the base that all images have"),
		u.push(repository, ocispec.MediaTypeImageLayerGzip, "layer of "+word+" for "+platform),
	}
	desc := u.odd(repository, ocispec.MediaTypeImageManifest, map[string]any{"schemaVersion": 2, "mediaType": ocispec.MediaTypeImageManifest, "config": config, "layers": layers})
	desc.Platform = &ocispec.Platform{OS: os, Architecture: arch}
	return desc
}

func (u upstream) index(repository, mediaType string, entries ...ocispec.Descriptor) ocispec.Descriptor {
	return u.odd(repository, mediaType, map[string]any{"schemaVersion": 2, "mediaType": mediaType, "manifests": entries})
}

func listed(references ...string) []bundle.ListedImage {
	var images []bundle.ListedImage
	for _, reference := range references {
		images = append(images, bundle.ListedImage{Reference: reference, Confidence: bundle.ImageCertain, Spellings: []string{reference}})
	}
	return images
}

func fileOf(platforms ...string) *File { return &File{Release: &bundle.Release{Platforms: platforms}} }

// carry resolves images, and copies them to a place.
func (u upstream) carry(file *File, to string, images []bundle.ListedImage, opts CargoOptions) (*ResolvedImages, registry.CopyResult, *Cargo) {
	u.t.Helper()
	resolved, err := file.ResolveImages(u.t.Context(), u.client, images, ImageOptions{})
	if err != nil {
		u.t.Fatal(err)
	}
	cargo, err := ReadCargo(u.t.Context(), u.client, resolved.Origins, opts)
	if err != nil {
		u.t.Fatal(err)
	}
	u.t.Cleanup(func() { _ = cargo.Close() })
	dst, err := u.client.Create(u.t.Context(), u.location(to))
	if err != nil {
		u.t.Fatal(err)
	}
	result, err := cargo.Plan.To(u.t.Context(), dst, registry.CopyOptions{})
	if err != nil {
		u.t.Fatal(err)
	}
	for _, image := range resolved.Locked {
		if resolved.Indexes[image.Digest] != nil {
			continue
		}
		desc := ocispec.Descriptor{MediaType: image.MediaType, Digest: image.Digest, Size: image.Size}
		if err := dst.Tag(u.t.Context(), desc, "t"+image.Digest.Encoded()[:12]); err != nil {
			u.t.Fatal(err)
		}
	}
	if err := dst.Commit(u.t.Context()); err != nil {
		u.t.Fatal(err)
	}
	return resolved, result, cargo
}

// Whatever an image is made of arrives byte for byte: in a registry, an archive
// and a layout.
func TestImagesAreCarriedByteForByte(t *testing.T) {
	u := newUpstream(t, registrytest.Options{})
	const repo = "team/odd"
	empty := u.push(repo, ocispec.MediaTypeImageLayer, "")
	raw := u.push(repo, "application/vnd.docker.image.rootfs.diff.tar", "an uncompressed layer")
	zstd := u.push(repo, ocispec.MediaTypeImageLayerZstd, "a zstd layer")
	docker := u.push(repo, dockerConfig, `{"os":"linux","architecture":"amd64"}`)
	inline := u.push(repo, ocispec.MediaTypeImageLayerGzip, "a layer that is in the manifest too")
	inline.Data = []byte("a layer that is in the manifest too")
	wasm := u.push(repo, "application/vnd.wasm.config.v0+json", `{"os":"wasip1","architecture":"wasm"}`)
	dockerImage := u.odd(repo, dockerManifest, map[string]any{"schemaVersion": 2, "mediaType": dockerManifest, "config": docker, "layers": []any{raw, raw, empty, zstd}})
	dockerImage.Platform = &ocispec.Platform{OS: "linux", Architecture: "amd64"}
	octets := u.push(repo, "application/octet-stream", `{"architecture":"amd64", "os":"linux"}`)
	amd, arm := u.image(repo, "linux/amd64", "odd"), u.image(repo, "linux/arm64", "odd")
	attestation := u.image(repo, "unknown/unknown", "attestation")
	attestation.Annotations = map[string]string{"vnd.docker.reference.digest": amd.Digest.String(), "vnd.docker.reference.type": "attestation-manifest"}
	inner := u.index(repo, dockerList, amd)
	var references []string
	for tag, desc := range map[string]ocispec.Descriptor{
		"docker":     dockerImage,
		"list":       u.index(repo, dockerList, dockerImage, arm),
		"attested":   u.index(repo, ocispec.MediaTypeImageIndex, arm, amd, attestation),
		"nested":     u.index(repo, ocispec.MediaTypeImageIndex, inner, arm),
		"untyped":    u.odd(repo, ocispec.MediaTypeImageManifest, map[string]any{"schemaVersion": 2, "config": docker, "layers": []any{inline, empty}}),
		"wasm":       u.odd(repo, ocispec.MediaTypeImageManifest, map[string]any{"schemaVersion": 2, "mediaType": ocispec.MediaTypeImageManifest, "config": wasm, "layers": []any{zstd}}),
		"octets":     u.odd(repo, dockerManifest, map[string]any{"schemaVersion": 2, "mediaType": dockerManifest, "config": octets, "layers": []any{raw}}),
		"layerless":  u.odd(repo, ocispec.MediaTypeImageManifest, map[string]any{"schemaVersion": 2, "mediaType": ocispec.MediaTypeImageManifest, "config": docker, "layers": []any{}}),
		"unknown":    u.odd(repo, ocispec.MediaTypeImageManifest, map[string]any{"schemaVersion": 2, "mediaType": ocispec.MediaTypeImageManifest, "artifactType": "application/vnd.example.model", "config": empty, "layers": []any{raw}, "x-field": map[string]any{"kept": 1e30}}),
		"emptyindex": u.index(repo, ocispec.MediaTypeImageIndex),
	} {
		references = append(references, u.tag(repo, desc, tag))
	}
	slices.Sort(references)
	target := registrytest.New(t, registrytest.Options{})
	for name, to := range map[string]string{
		"registry": "oci://" + target.Host + "/shop",
		"archive":  filepath.Join(t.TempDir(), "shop.tar"),
		"layout":   "oci-layout:" + filepath.Join(t.TempDir(), "shop"),
	} {
		t.Run(name, func(t *testing.T) {
			resolved, _, _ := u.carry(fileOf(), to, listed(references...), CargoOptions{})
			platforms := map[string]string{}
			for _, image := range resolved.Locked {
				_, tag, _ := strings.Cut(image.References[0], "odd:")
				platforms[tag] = strings.Join(image.Platforms, " ")
			}
			want := map[string]string{
				"docker": "linux/amd64", "list": "linux/amd64 linux/arm64", "attested": "linux/amd64 linux/arm64", "nested": "linux/amd64 linux/arm64",
				"untyped": "linux/amd64", "wasm": "", "octets": "linux/amd64", "layerless": "linux/amd64", "unknown": "", "emptyindex": "",
			}
			if diff := cmp.Diff(want, platforms); diff != "" {
				t.Error(diff)
			}
			at := u.location(to).WithDigest(resolved.Locked[0].Digest)
			src, err := u.client.Open(t.Context(), at)
			if err != nil {
				t.Fatal(err)
			}
			defer src.Close()
			for _, desc := range u.pushed {
				if _, err := content.FetchAll(t.Context(), src, ocispec.Descriptor{MediaType: desc.MediaType, Digest: desc.Digest, Size: desc.Size}); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// A lock with one entry for each digest, as earlier programs wrote them, says of
// one platform of an index that it is an image by itself.
func TestLockedDigestOfAnEarlierLock(t *testing.T) {
	amd, arm, list := digest.FromString("amd"), digest.FromString("arm"), digest.FromString("list")
	lock := &bundle.Lock{Images: []bundle.LockedImage{
		{Digest: amd, References: []string{"docker.io/shop/one:1", "docker.io/shop/two:1"}},
		{Digest: arm, References: []string{"docker.io/shop/two:1"}, Upstream: list},
	}}
	for reference, want := range map[string]string{"docker.io/shop/one:1": amd.String(), "docker.io/shop/two:1": list.String(), "docker.io/shop/three:1": ""} {
		if got := lockedDigest(lock, reference); got != want {
			t.Errorf("%s: got %q, want %q", reference, got, want)
		}
	}
}

// Two references of one digest are one entry, and one reference with two digests
// are two; the same images lead to the same lock in whatever order they come.
func TestReferencesAndDigests(t *testing.T) {
	u := newUpstream(t, registrytest.Options{})
	one, two := u.image("a/app", "linux/amd64", "one"), u.image("a/app", "linux/amd64", "two")
	u.image("b/app", "linux/amd64", "two")
	first := u.tag("a/app", one, "1")
	same := u.tag("a/app", one, "stable")
	other := u.tag("b/app", two, "1")
	both := []string{first + "@" + one.Digest.String(), first + "@" + two.Digest.String()}
	images := listed(append([]string{first, same, other}, both...)...)
	resolved, err := fileOf().ResolveImages(t.Context(), u.client, images, ImageOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[digest.Digest][]string{}
	for _, image := range resolved.Locked {
		got[image.Digest] = image.References
	}
	sorted := func(all ...string) []string { slices.Sort(all); return all }
	want := map[digest.Digest][]string{one.Digest: sorted(first, same, both[0]), two.Digest: sorted(other, both[1])}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(resolved.Moved) != 1 || !strings.Contains(resolved.Moved[0], both[1]) || !strings.Contains(resolved.Moved[0], one.Digest.String()) {
		t.Errorf("moved: %v", resolved.Moved)
	}
	for range 5 {
		rand.Shuffle(len(images), func(i, j int) { images[i], images[j] = images[j], images[i] })
		again, err := fileOf().ResolveImages(t.Context(), u.client, images, ImageOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(resolved.Locked, again.Locked); diff != "" {
			t.Error(diff)
		}
	}
}

// A blob that images of several repositories have is sent once, and what hangs
// on one digest at several of them comes along from all.
func TestCargoMovesOnce(t *testing.T) {
	u := newUpstream(t, registrytest.Options{})
	var references []string
	for _, repository := range []string{"a/app", "b/app", "c/app"} {
		m := u.image(repository, "linux/amd64", "same")
		signed := u.push(repository, "application/vnd.dev.cosign.simplesigning.v1+json", "signed in "+repository)
		config := u.push(repository, ocispec.MediaTypeImageConfig, `{"os":"linux","architecture":"amd64","author":"same"}`)
		signature := u.odd(repository, ocispec.MediaTypeImageManifest, map[string]any{"schemaVersion": 2, "mediaType": ocispec.MediaTypeImageManifest, "config": config, "layers": []any{signed}})
		u.tag(repository, signature, strings.Replace(m.Digest.String(), ":", "-", 1)+".sig")
		references = append(references, u.tag(repository, m, "1"))
	}
	references = append(references, u.tag("d/other", u.image("d/other", "linux/amd64", "other"), "1"))
	for name, tc := range map[string]struct {
		without bool
		hanging int
	}{"with what hangs on them": {false, 3}, "without": {true, 0}} {
		t.Run(name, func(t *testing.T) {
			target := registrytest.New(t, registrytest.Options{})
			_, result, _ := u.carry(fileOf(), "oci://"+target.Host+"/shop", listed(references...), CargoOptions{WithoutAttachments: tc.without, Concurrency: 3})
			if len(result.Attachments) != tc.hanging {
				t.Errorf("attachments: %v", result.Attachments)
			}
			for desc, n := range uploads(target) {
				if n != 1 {
					t.Errorf("%s was sent %d times", desc, n)
				}
			}
			if result.Skipped.Objects != 0 {
				t.Errorf("%d were there already", result.Skipped.Objects)
			}
		})
	}
}

// uploads counts how often each blob was sent.
func uploads(server *registrytest.Server) map[string]int {
	sent := map[string]int{}
	for _, r := range server.Requests() {
		if i := strings.Index(r.Query, "digest="); i >= 0 && (r.Method == http.MethodPut || r.Method == http.MethodPost) {
			sent[r.Query[i:]]++
		}
	}
	return sent
}

// What hangs on an index is about all of it: where some platforms are carried it
// stays behind, and that is said.
func TestNarrowedImagesLeaveSignaturesBehind(t *testing.T) {
	u := newUpstream(t, registrytest.Options{})
	amd, arm, win := u.image("app", "linux/amd64", "x"), u.image("app", "linux/arm64", "x"), u.image("app", "windows/amd64", "x")
	list := u.index("app", ocispec.MediaTypeImageIndex, amd, arm, win)
	u.tag("app", u.image("app", "linux/amd64", "signature"), strings.Replace(list.Digest.String(), ":", "-", 1)+".sig")
	u.tag("app", u.image("app", "linux/amd64", "sbom"), strings.Replace(amd.Digest.String(), ":", "-", 1)+".sbom")
	reference := u.tag("app", list, "1")
	for name, tc := range map[string]struct {
		platforms []string
		behind    int
		hanging   int
	}{
		"whole":        {nil, 0, 2},
		"one platform": {[]string{"linux/amd64"}, 1, 1},
		"two of three": {[]string{"linux/amd64", "windows/amd64"}, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			to := "oci-layout:" + filepath.Join(t.TempDir(), "to")
			resolved, result, cargo := u.carry(fileOf(tc.platforms...), to, listed(reference), CargoOptions{})
			if len(cargo.Behind()) != tc.behind || len(result.Attachments) != tc.hanging {
				t.Errorf("behind %v, attachments %v", cargo.Behind(), result.Attachments)
			}
			if tc.behind > 0 && (resolved.Locked[0].Upstream != list.Digest || !strings.Contains(cargo.Behind()[0], list.Digest.String())) {
				t.Errorf("%v: %v", resolved.Locked[0], cargo.Behind())
			}
		})
	}
}

// A registry that denies to look for signatures keeps no image from being carried.
func TestCargoOfARegistryThatDeniesSignatures(t *testing.T) {
	u := newUpstream(t, registrytest.Options{Fault: func(r *http.Request) *registrytest.Fault {
		if strings.Contains(r.URL.Path, "/manifests/sha256-") && strings.HasSuffix(r.URL.Path, ".sig") {
			return &registrytest.Fault{Status: http.StatusForbidden}
		}
		return nil
	}})
	reference := u.tag("app", u.image("app", "linux/amd64", "x"), "1")
	_, _, cargo := u.carry(fileOf(), "oci-layout:"+filepath.Join(t.TempDir(), "to"), listed(reference), CargoOptions{})
	undetermined := cargo.Plan.Undetermined()
	if len(undetermined) != 1 || undetermined[0].Status != http.StatusForbidden || !strings.HasSuffix(undetermined[0].Of, "/app:1") {
		t.Errorf("got %+v", undetermined)
	}
}

// Docker's first manifests are refused by name, with the remedy, also within an
// index.
func TestSchema1IsRefused(t *testing.T) {
	const schema1 = "application/vnd.docker.distribution.manifest.v1+prettyjws"
	body := `{"schemaVersion":1,"name":"old/app","tag":"1","fsLayers":[],"history":[]}`
	index := fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"manifests":[{"mediaType":%q,"digest":%q,"size":%d,"platform":{"os":"linux","architecture":"amd64"}}]}`,
		dockerList, schema1, digest.FromString(body), len(body))
	u := newUpstream(t, registrytest.Options{Fault: func(r *http.Request) *registrytest.Fault {
		answer := func(mediaType, body string) *registrytest.Fault {
			return &registrytest.Fault{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", mediaType)
				w.Header().Set("Docker-Content-Digest", digest.FromString(body).String())
				http.ServeContent(w, r, "", time.Time{}, strings.NewReader(body))
			})}
		}
		switch {
		case strings.HasSuffix(r.URL.Path, "/old/app/manifests/1"), strings.HasSuffix(r.URL.Path, "/old/app/manifests/"+digest.FromString(body).String()):
			return answer(schema1, body)
		case strings.HasPrefix(r.URL.Path, "/v2/old/list/manifests/"):
			return answer(dockerList, index)
		}
		return nil
	}})
	_, err := fileOf().ResolveImages(t.Context(), u.client, listed(u.server.Host+"/old/app:1", u.server.Host+"/old/list:1"), ImageOptions{})
	if err == nil {
		t.Fatal("it was taken")
	}
	for _, want := range []string{u.server.Host + "/old/app:1 ", u.server.Host + "/old/list:1 ", "push it again with a current tool"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
}

func TestForeignLayersNeedAChoice(t *testing.T) {
	u := newUpstream(t, registrytest.Options{})
	layer := u.push("app", "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip", "windows")
	layer.URLs = []string{"https://mcr.example/windows"}
	config := u.push("app", dockerConfig, `{"os":"windows","architecture":"amd64"}`)
	win := u.odd("app", dockerManifest, map[string]any{"schemaVersion": 2, "mediaType": dockerManifest, "config": config, "layers": []any{layer}})
	win.Platform = &ocispec.Platform{OS: "windows", Architecture: "amd64"}
	amd, arm := u.image("app", "linux/amd64", "x"), u.image("app", "linux/arm64", "x")
	reference := u.tag("app", u.index("app", dockerList, amd, arm, win), "1")
	for name, tc := range map[string]struct {
		platforms []string
		shape     string
	}{"in an index": {}, "in a narrowed one": {platforms: []string{"linux/amd64", "windows/amd64"}}, "flat": {shape: bundle.ShapeFlat}, "alone": {platforms: []string{"windows/amd64"}}} {
		t.Run(name, func(t *testing.T) {
			file := fileOf(tc.platforms...)
			file.Release.Shape = tc.shape
			resolved, err := file.ResolveImages(t.Context(), u.client, listed(reference), ImageOptions{})
			if err != nil {
				t.Fatal(err)
			}
			_, err = ReadCargo(t.Context(), u.client, resolved.Origins, CargoOptions{})
			var choice *ForeignError
			if !errors.As(err, &choice) || !strings.Contains(err.Error(), reference) || !strings.Contains(err.Error(), layer.Digest.String()) ||
				!strings.Contains(choice.UsageHint(), "include") || !strings.Contains(choice.UsageHint(), "omit") {
				t.Fatalf("got %v", err)
			}
			for _, how := range []string{ForeignInclude, ForeignOmit} {
				cargo, err := ReadCargo(t.Context(), u.client, resolved.Origins, CargoOptions{Foreign: how})
				if err != nil {
					t.Fatal(err)
				}
				var entries []digest.Digest
				for entry := range cargo.LeftOut {
					entries = append(entries, entry)
				}
				want := map[string]int{ForeignInclude: 0, ForeignOmit: 1}[how]
				if len(entries) != want {
					t.Errorf("%s leaves out %v", how, cargo.LeftOut)
				}
				if want == 1 && !slices.ContainsFunc(resolved.Locked, func(i bundle.LockedImage) bool {
					return i.Digest == entries[0] && slices.Contains(i.Platforms, "windows/amd64")
				}) {
					t.Errorf("%s is no entry with that layer", entries[0])
				}
				if err := cargo.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	file := fileOf("linux/amd64")
	resolved, err := file.ResolveImages(t.Context(), u.client, listed(reference), ImageOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ReadCargo(t.Context(), u.client, resolved.Origins, CargoOptions{}); err != nil {
		t.Errorf("of a platform without such a layer: %v", err)
	}
}

func TestOutdatedImages(t *testing.T) {
	u := newUpstream(t, registrytest.Options{})
	one, two := u.image("app", "linux/amd64", "one"), u.image("app", "linux/amd64", "two")
	still, moves := u.tag("app", one, "still"), u.tag("app", one, "moves")
	pinned, digestOnly := moves+"@"+one.Digest.String(), u.server.Host+"/app@"+one.Digest.String()
	lock := &bundle.Lock{Images: []bundle.LockedImage{
		{Digest: one.Digest, References: []string{still, moves, pinned, digestOnly, u.server.Host + "/app:gone"}, Components: []string{"web"}},
		{Digest: two.Digest, Upstream: one.Digest, References: []string{u.tag("app", one, "narrowed")}},
	}}
	u.tag("app", two, "moves")
	found, err := fileOf().OutdatedImages(t.Context(), u.client, lock)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range found {
		got = append(got, fmt.Sprintf("%s: %s (%t)", strings.TrimPrefix(o.Reference, u.server.Host), o, o.Behind()))
		if o.Gone != (o.Now == "") {
			t.Errorf("%s: gone is %t", o.Reference, o.Gone)
		}
	}
	d1, d2 := one.Digest.String(), two.Digest.String()
	want := []string{
		"/app:gone: the tag is gone; locked is " + d1 + " (true)",
		"/app:moves: the tag moved from " + d1 + " to " + d2 + " (true)",
		"/app:moves@" + d1 + ": the tag moved from " + d1 + " to " + d2 + "; the digest beside it decides (false)",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
