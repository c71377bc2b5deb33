package charts

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"waybill/internal/registrytest"
)

// asUpstream is the chart under a manifest that we would not write: with a time
// of creation, other spaces, and a layer of its maker's own.
func asUpstream(t testing.TB, reg *registrytest.Server, repository string, c *Chart, tags ...string) digest.Digest {
	t.Helper()
	extra := []byte("a note")
	config := c.blobs[configOf(t, c).Digest]
	m := ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2},
		Config:    ocispec.Descriptor{MediaType: MediaTypeConfig, Digest: digest.FromBytes(config), Size: int64(len(config))},
		Layers: []ocispec.Descriptor{
			{MediaType: "application/vnd.example.note", Digest: digest.FromBytes(extra), Size: int64(len(extra))},
			{MediaType: MediaTypeContent, Digest: c.Content, Size: int64(len(c.Archive()))},
		},
		Annotations: map[string]string{"org.opencontainers.image.created": "2024-01-01T00:00:00Z"},
	}
	data, err := json.MarshalIndent(m, "", "   ")
	if err != nil {
		t.Fatal(err)
	}
	for _, blob := range [][]byte{config, extra, c.Archive()} {
		pushBlob(t, reg, repository, ocispec.Descriptor{Digest: digest.FromBytes(blob)}, blob)
	}
	for _, tag := range tags {
		pushManifest(t, reg, repository, tag, ocispec.MediaTypeImageManifest, data)
	}
	return digest.FromBytes(data)
}

func configOf(t testing.TB, c *Chart) ocispec.Descriptor {
	t.Helper()
	var m ocispec.Manifest
	if err := json.Unmarshal(c.blobs[c.Manifest], &m); err != nil {
		t.Fatal(err)
	}
	return m.Config
}

func TestManifestOfARegistryIsTakenByteForByte(t *testing.T) {
	reg := registrytest.New(t, registrytest.Options{})
	chart := fromText(t, shop)
	want := asUpstream(t, reg, "charts/shop", chart, "1.2.3_build.5")
	c, err := Resolve(context.Background(), "", Source{Repository: "oci://" + reg.Host + "/charts", Name: "shop", Version: "1.2.3+build.5"}, ResolveOptions{Network: network(t)})
	if err != nil {
		t.Fatal(err)
	}
	if c.Manifest != want || c.Descriptor().Digest != want || c.Content != chart.Content {
		t.Errorf("manifest is %s, want %s", c.Manifest, want)
	}
	if c.Version() != "1.2.3+build.5" {
		t.Errorf("version became %s", c.Version())
	}
	var m ocispec.Manifest
	if err := json.Unmarshal(fetch(t, c, c.Descriptor()), &m); err != nil {
		t.Fatal(err)
	}
	for _, part := range append(m.Layers, m.Config) {
		fetch(t, c, part)
	}
	if got := c.Source; got != "oci://"+reg.Host+"/charts/shop" {
		t.Errorf("source is %s", got)
	}
}

// requests is what was asked for, without the host.
func requests(reg *registrytest.Server) []string {
	var list []string
	for _, r := range reg.Requests() {
		list = append(list, r.Method+" "+strings.TrimPrefix(r.Path, "/v2/"))
	}
	return list
}

func TestExactVersionAsksForOneTagAndNoList(t *testing.T) {
	reg := registrytest.New(t, registrytest.Options{})
	chart := versionOf(t, "shop", "1.0.0")
	pushChart(t, reg, "charts/shop", chart)
	reg.Forget()
	if _, err := Resolve(context.Background(), "", Source{Repository: "oci://" + reg.Host + "/charts", Name: "shop", Version: "1.0.0"}, ResolveOptions{Network: network(t)}); err != nil {
		t.Fatal(err)
	}
	byTag := 0
	for _, r := range requests(reg) {
		if strings.Contains(r, "tags/list") {
			t.Errorf("asked for the list: %s", r)
		}
		if strings.HasSuffix(r, "/manifests/1.0.0") {
			byTag++
		}
	}
	if byTag != 1 {
		t.Errorf("asked for the tag %d times: %v", byTag, requests(reg))
	}
}

func TestRegistryVersions(t *testing.T) {
	reg := registrytest.New(t, registrytest.Options{})
	for _, v := range []string{"1.0.0", "1.2.3+build.5", "1.2.3+build.10", "1.10.0", "2.0.0-rc.1", "0.9.0+only"} {
		pushChart(t, reg, "charts/shop", versionOf(t, "shop", v))
	}
	pushChart(t, reg, "charts/shop", versionOf(t, "shop", "1.0.0"), "latest", "v1.0.0", "sha256-abc.sig")
	tests := map[string]struct{ version, want, err string }{
		"exact":                       {"1.0.0", "1.0.0", ""},
		"plus sign":                   {"1.2.3+build.5", "1.2.3+build.5", ""},
		"underscore":                  {"1.2.3_build.5", "1.2.3+build.5", ""},
		"the other build":             {"1.2.3+build.10", "1.2.3+build.10", ""},
		"several builds":              {"1.2.3", "", `chart shop of oci://HOST/charts: several builds fit version "1.2.3" and none is newer: 1.2.3+build.10, 1.2.3+build.5; name one of them exactly`},
		"several builds of a range":   {"~1.2", "", `chart shop of oci://HOST/charts: several builds fit version "~1.2" and none is newer: 1.2.3+build.10, 1.2.3+build.5; name one of them exactly`},
		"one build":                   {"0.9.0", "0.9.0+only", ""},
		"range":                       {"^1", "1.10.0", ""},
		"pre-release not asked for":   {">=1.0.0", "1.10.0", ""},
		"pre-release asked for":       {">=1.0.0-0", "2.0.0-rc.1", ""},
		"a version under two tags":    {"~1.0.0", "1.0.0", ""},
		"not there":                   {"3.0.0", "", `oci://HOST/charts has no chart shop 3.0.0; there is 2.0.0-rc.1, 1.10.0, 1.2.3+build.10, 1.2.3+build.5, 1.0.0, and 2 older`},
		"nothing in the range":        {"^3", "", `oci://HOST/charts has no chart shop ^3; there is 2.0.0-rc.1, 1.10.0, 1.2.3+build.10, 1.2.3+build.5, 1.0.0, and 2 older`},
		"too long to be a tag":        {"1.0.0+" + strings.Repeat("x", 130), "", `chart shop: version "1.0.0+` + strings.Repeat("x", 130) + `" can be no tag in a registry: at most 128 letters, digits, dots, hyphens and underscores`},
		"no version":                  {"1.0.0/../..", "", `chart shop: version "1.0.0/../.." is neither a version (1.2.3) nor a range (~1.2, >=1.2 <2)`},
		"exact although v is written": {"v1.0.0", "1.0.0", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			reg.Forget()
			c, err := Resolve(context.Background(), "", Source{Repository: "oci://" + reg.Host + "/charts", Name: "shop", Version: test.version}, ResolveOptions{Network: network(t)})
			if test.err != "" {
				if err == nil {
					t.Fatalf("got %s", c.Version())
				}
				if diff := cmp.Diff(test.err, strings.ReplaceAll(err.Error(), reg.Host, "HOST")); diff != "" {
					t.Error(diff)
				}
				var version *VersionError
				if errors.As(err, &version) && len(reg.Requests()) > 0 {
					t.Errorf("the network was asked: %v", requests(reg))
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if c.Version() != test.want {
				t.Errorf("got %s, want %s", c.Version(), test.want)
			}
		})
	}
}

// pagedTags serves the list of tags a few at a time.
func pagedTags(t testing.TB, tags []string) *registrytest.Server {
	t.Helper()
	const page = 3
	var reg *registrytest.Server //nolint:staticcheck // the fault needs it
	reg = registrytest.New(t, registrytest.Options{Fault: func(r *http.Request) *registrytest.Fault {
		if !strings.HasSuffix(r.URL.Path, "/tags/list") {
			return nil
		}
		rest := tags
		if last := r.URL.Query().Get("last"); last != "" {
			for i, tag := range tags {
				if tag == last {
					rest = tags[i+1:]
				}
			}
		}
		f := &registrytest.Fault{Status: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}}
		if len(rest) > page {
			rest = rest[:page]
			f.Header.Set("Link", fmt.Sprintf(`<%s?last=%s>; rel="next"`, r.URL.Path, rest[page-1]))
		}
		body, err := json.Marshal(map[string]any{"name": "charts/shop", "tags": rest})
		if err != nil {
			t.Error(err)
		}
		f.Body = string(body)
		return f
	}})
	return reg
}

func TestEveryPageOfTagsIsRead(t *testing.T) {
	var tags []string
	for i := range 20 {
		tags = append(tags, fmt.Sprintf("1.%d.0", i))
	}
	reg := pagedTags(t, tags)
	pushChart(t, reg, "charts/shop", versionOf(t, "shop", "1.19.0"))
	c, err := Resolve(context.Background(), "", Source{Repository: "oci://" + reg.Host + "/charts", Name: "shop", Version: "^1"}, ResolveOptions{Network: network(t)})
	if err != nil {
		t.Fatal(err)
	}
	if c.Version() != "1.19.0" {
		t.Errorf("got %s", c.Version())
	}
}

func TestArtifactsThatAreNoChart(t *testing.T) {
	const emptyConfig = "{}"
	config := func(mediaType string) ocispec.Descriptor {
		return ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromString(emptyConfig), Size: int64(len(emptyConfig))}
	}
	layer := ocispec.Descriptor{MediaType: MediaTypeContent, Digest: digest.FromString("layer"), Size: 5}
	image := func(c ocispec.Descriptor, layers ...ocispec.Descriptor) ocispec.Manifest {
		return ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, Config: c, Layers: layers}
	}
	artifact := image(config(ocispec.MediaTypeEmptyJSON), layer)
	artifact.ArtifactType = "application/vnd.example"
	tests := map[string]struct {
		mediaType string
		manifest  any
		want      string
	}{
		"an image":             {ocispec.MediaTypeImageManifest, image(config(ocispec.MediaTypeImageConfig), layer), "is a container image, not a Helm chart"},
		"an artifact":          {ocispec.MediaTypeImageManifest, artifact, `is no Helm chart, but an artifact of type "application/vnd.example"`},
		"an index":             {ocispec.MediaTypeImageIndex, ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{}}, "is an index of several manifests, not a Helm chart: name a chart's own repository and version"},
		"a chart with nothing": {ocispec.MediaTypeImageManifest, image(config(MediaTypeConfig)), "is no Helm chart: its manifest names 0 chart archives, one is right"},
		"a chart too many":     {ocispec.MediaTypeImageManifest, image(config(MediaTypeConfig), layer, layer), "is no Helm chart: its manifest names 2 chart archives, one is right"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			reg := registrytest.New(t, registrytest.Options{})
			for _, blob := range []string{emptyConfig, "layer"} {
				pushBlob(t, reg, "charts/shop", ocispec.Descriptor{Digest: digest.FromString(blob)}, []byte(blob))
			}
			data, err := json.Marshal(test.manifest)
			if err != nil {
				t.Fatal(err)
			}
			pushManifest(t, reg, "charts/shop", "1.0.0", test.mediaType, data)
			_, err = Resolve(context.Background(), "", Source{Repository: "oci://" + reg.Host + "/charts", Name: "shop", Version: "1.0.0"}, ResolveOptions{Network: network(t)})
			var repository *RepositoryError
			if !errors.As(err, &repository) {
				t.Fatalf("got %v", err)
			}
			if want := "chart shop 1.0.0 of oci://" + reg.Host + "/charts: " + test.want; err.Error() != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		})
	}
}

// The first request for a tag is answered with one chart, every later one with
// another.
func TestTagThatMovesMeanwhile(t *testing.T) {
	first, second := versionOf(t, "shop", "1.0.0"), fromText(t, "-- Chart.yaml --\napiVersion: v2\nname: shop\nversion: 1.0.0\n")
	var reg *registrytest.Server
	moved := false
	reg = registrytest.New(t, registrytest.Options{Fault: func(r *http.Request) *registrytest.Fault {
		if moved || !strings.HasSuffix(r.URL.Path, "/manifests/1.0.0") || r.Method == http.MethodPut {
			return nil
		}
		moved = true // this request is answered as before, the next ones not
		return &registrytest.Fault{
			Status: http.StatusOK, Body: string(first.blobs[first.Manifest]),
			Header: http.Header{"Content-Type": {ocispec.MediaTypeImageManifest}, "Docker-Content-Digest": {first.Manifest.String()}, "Content-Length": {fmt.Sprint(len(first.blobs[first.Manifest]))}},
		}
	}})
	pushChart(t, reg, "charts/shop", first, "old")
	pushChart(t, reg, "charts/shop", second)
	reg.Forget()
	src := Source{Repository: "oci://" + reg.Host + "/charts", Name: "shop", Version: "1.0.0"}
	c, err := Resolve(context.Background(), "", src, ResolveOptions{Network: network(t)})
	if err != nil {
		t.Fatal(err)
	}
	if c.Manifest != first.Manifest || c.Content != first.Content {
		t.Error("the result is not wholly what the first answer named")
	}
	pinned := &Pinned{Version: c.Version(), Source: c.Source, Content: c.Content, Manifest: c.Manifest}
	reg.Forget()
	again, err := Resolve(context.Background(), "", src, ResolveOptions{Network: network(t), Pinned: pinned})
	if err != nil || again.Manifest != first.Manifest {
		t.Fatalf("what is pinned is not fetched: %v", err)
	}
	for _, r := range requests(reg) {
		if strings.HasSuffix(r, "1.0.0") || strings.Contains(r, "tags") {
			t.Errorf("a pinned chart needs no tag: %s", r)
		}
	}
	_, err = Resolve(context.Background(), "", src, ResolveOptions{Network: network(t), Pinned: pinned, AskAgain: true})
	want := fmt.Sprintf("oci://%s/charts now serves another manifest as shop 1.0.0: locked is %s, served is %s", reg.Host, first.Manifest, second.Manifest)
	if err == nil || err.Error() != want {
		t.Errorf("asked again: got  %v\nwant %s", err, want)
	}
}

func TestPinnedManifestThatHasGone(t *testing.T) {
	locked, served := versionOf(t, "shop", "1.0.0"), fromText(t, "-- Chart.yaml --\napiVersion: v2\nname: shop\nversion: 1.0.0\n")
	reg := registrytest.New(t, registrytest.Options{})
	pushChart(t, reg, "charts/shop", served)
	src := Source{Repository: "oci://" + reg.Host + "/charts", Name: "shop", Version: "1.0.0"}
	pinned := &Pinned{Version: "1.0.0", Source: "oci://" + reg.Host + "/charts/shop", Content: locked.Content, Manifest: locked.Manifest}
	_, err := Resolve(context.Background(), "", src, ResolveOptions{Network: network(t), Pinned: pinned})
	var moved *MovedError
	if !errors.As(err, &moved) || moved.Locked != locked.Manifest || moved.Served != served.Manifest {
		t.Errorf("got %v", err)
	}
}

func TestIndexThatPointsIntoARegistry(t *testing.T) {
	reg := registrytest.New(t, registrytest.Options{})
	chart := versionOf(t, "shop", "1.0.0")
	manifest := asUpstream(t, reg, "public/shop", chart, "1.0.0")
	server := newFileServer(t)
	index := func(digest string) {
		server.files["/index.yaml"] = fmt.Appendf(nil, "entries:\n  shop:\n  - version: 1.0.0\n    urls: [\"oci://%s/public/shop:1.0.0\"]\n    digest: %q\n", reg.Host, digest)
	}
	index(chart.Content.Encoded())
	src := Source{Repository: server.URL, Name: "shop", Version: "1.x"}
	c, err := Resolve(context.Background(), "", src, ResolveOptions{Network: network(t)})
	if err != nil {
		t.Fatal(err)
	}
	if c.Manifest != manifest || c.Source != server.URL+"/shop" {
		t.Errorf("got %s from %s", c.Manifest, c.Source)
	}
	index(strings.Repeat("0", 64))
	if _, err = Resolve(context.Background(), "", src, ResolveOptions{Network: network(t)}); err == nil {
		t.Error("another digest than the index says was taken")
	}
}

// Before version 3.7 Helm pushed charts under another type.
func TestOldChartOfARegistry(t *testing.T) {
	reg := registrytest.New(t, registrytest.Options{})
	chart := versionOf(t, "shop", "1.0.0")
	pushChart(t, reg, "charts/shop", chart)
	old := bytes.ReplaceAll(chart.blobs[chart.Manifest], []byte(MediaTypeContent), []byte("application/tar+gzip"))
	pushManifest(t, reg, "charts/shop", "1.0.0", ocispec.MediaTypeImageManifest, old)
	c, err := Resolve(context.Background(), "", Source{Repository: "oci://" + reg.Host + "/charts", Name: "shop", Version: "1.0.0"}, ResolveOptions{Network: network(t)})
	if err != nil {
		t.Fatal(err)
	}
	if c.Manifest != digest.FromBytes(old) || c.Content != chart.Content {
		t.Errorf("got %s", c.Manifest)
	}
}

func TestLostLayerIsNamed(t *testing.T) {
	reg := registrytest.New(t, registrytest.Options{})
	chart := versionOf(t, "shop", "1.0.0")
	pushChart(t, reg, "charts/shop", chart)
	if err := reg.RemoveBlob("charts/shop", chart.Content); err != nil {
		t.Fatal(err)
	}
	_, err := Resolve(context.Background(), "", Source{Repository: "oci://" + reg.Host + "/charts", Name: "shop", Version: "1.0.0"}, ResolveOptions{Network: network(t)})
	if err == nil || !strings.Contains(err.Error(), "fetching chart shop 1.0.0: ") || !strings.Contains(err.Error(), chart.Content.String()) {
		t.Errorf("got %v", err)
	}
}

func TestChangedLayerIsRefused(t *testing.T) {
	chart := versionOf(t, "shop", "1.0.0")
	reg := registrytest.New(t, registrytest.Options{Fault: func(r *http.Request) *registrytest.Fault {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, chart.Content.String()) {
			return &registrytest.Fault{Edit: func(b []byte) []byte { return bytes.Replace(b, b[20:22], []byte("!!"), 1) }}
		}
		return nil
	}})
	pushChart(t, reg, "charts/shop", chart)
	_, err := Resolve(context.Background(), "", Source{Repository: "oci://" + reg.Host + "/charts", Name: "shop", Version: "1.0.0"}, ResolveOptions{Network: network(t)})
	if err == nil {
		t.Error("changed bytes were taken")
	}
}
