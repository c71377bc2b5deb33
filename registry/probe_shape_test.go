package registry_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"waybill/internal/registrytest"
	"waybill/registry"
)

// pushedManifest reads the manifest that a request pushes, and leaves it in the
// request.
func pushedManifest(r *http.Request) (m struct {
	ArtifactType string
	Config       *ocispec.Descriptor
	Manifests    []ocispec.Descriptor
}, ok bool) {
	if r.Method != http.MethodPut || !strings.Contains(r.URL.Path, "/manifests/") {
		return m, false
	}
	data, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(data))
	return m, err == nil && json.Unmarshal(data, &m) == nil
}

const (
	bundleType  = "application/vnd.example.bundle.v1+json"
	releaseType = "application/vnd.example.release.v1+json"
)

// A registry that refuses something of a bundle's shape is found out by a few
// bytes, and what it refuses is named; no tag is left.
func TestProbeShape(t *testing.T) {
	nestsIndex := func(m []ocispec.Descriptor) bool {
		for _, desc := range m {
			if desc.MediaType == ocispec.MediaTypeImageIndex || desc.MediaType == dockerList {
				return true
			}
		}
		return false
	}
	nested := registry.Shape{ArtifactType: bundleType, ManifestType: releaseType, Nested: []string{dockerList, ocispec.MediaTypeImageIndex}}
	flat := registry.Shape{ArtifactType: bundleType, ManifestType: releaseType}
	for name, tc := range map[string]struct {
		shape   registry.Shape
		refuses string
		status  int
		want    string // part of the message; empty: all is well
		nested  bool
	}{
		"all is taken":                              {nested, "nothing", 0, "", false},
		"an index inside an index":                  {nested, "nested", 400, "refuses an index inside an index", true},
		"an index inside an index, by a failure":    {nested, "nested", 500, "refuses an index inside an index", true},
		"an index inside an index, by its right":    {nested, "nested", 403, "refuses an index inside an index", true},
		"nothing nested where that is refused":      {flat, "nested", 400, "", false},
		"an index with a type of its own":           {nested, "indexType", 415, `refuses an index with artifactType "` + bundleType, false},
		"an index with a type, and nothing nested":  {flat, "indexType", 415, `refuses an index with artifactType "` + bundleType, false},
		"types that it doesn't know":                {nested, "type", 400, `refuses an image manifest with artifactType "` + releaseType + `" and an empty config`, false},
		"Docker's lists":                            {nested, "docker", 400, "refuses an index of type " + dockerList, false},
		"a plain index needs no trial":              {registry.Shape{}, "type", 400, "", false},
		"a login that is missing is another matter": {nested, "all", 401, "wants a login", false},
		"so is a right":                             {nested, "all", 403, "denies access", false},
		"so is a registry that fails":               {nested, "all", 503, "answers 503", false},
		"a failure that passes":                     {nested, "once", 503, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			var once atomic.Bool
			reg := registrytest.New(t, registrytest.Options{Fault: func(r *http.Request) *registrytest.Fault {
				m, ok := pushedManifest(r)
				bad := ok && map[string]bool{
					"nested":    nestsIndex(m.Manifests),
					"indexType": m.Manifests != nil && m.ArtifactType != "",
					"type":      m.Config != nil && m.ArtifactType != "",
					"docker":    r.Header.Get("Content-Type") == dockerList,
					"all":       true,
					"once":      ok && nestsIndex(m.Manifests) && once.CompareAndSwap(false, true),
				}[tc.refuses]
				if !bad {
					return nil
				}
				return &registrytest.Fault{Status: tc.status, Body: `{"errors":[{"code":"MANIFEST_INVALID","message":"no such thing"}]}`}
			}})
			settings := quick()
			settings.Retry = -1
			c := client(t, settings)
			to := location(t, "oci://"+reg.Host+"/shop:1.0.0")
			root := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageIndex, Digest: digest.FromString("root"), Size: 4}
			err := c.ProbeShape(t.Context(), tc.shape, root, to, location(t, "./layout/"), to)
			var refused *registry.ShapeError
			switch {
			case tc.want == "" && err != nil, tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Fatalf("got %v, want %q", err, tc.want)
			case errors.As(err, &refused) && (refused.Nested != tc.nested || refused.Host != reg.Host):
				t.Errorf("got %+v", refused)
			}
			if tags, err := c.List(t.Context(), to); err == nil && len(tags) > 0 {
				t.Errorf("left behind: %v", tags)
			}
			reg.Forget()
			again := c.ProbeShape(t.Context(), tc.shape, root, to)
			if n := len(reg.Requests()); tc.want == "" && (again != nil || n > 2) {
				t.Errorf("the second time: %v, %d requests", again, n)
			}
		})
	}
}

// What is at the target already was taken by it.
func TestProbeShapeOfWhatIsThere(t *testing.T) {
	reg, _, at := served(t, registrytest.Options{})
	c := client(t, quick())
	src := open(t, c, at)
	reg.Forget()
	shape := registry.Shape{ArtifactType: bundleType, Nested: []string{ocispec.MediaTypeImageIndex}}
	if err := c.ProbeShape(t.Context(), shape, src.Root, location(t, at)); err != nil || len(reg.Requests()) != 1 {
		t.Errorf("%v, %d requests", err, len(reg.Requests()))
	}
}

func TestShapeOf(t *testing.T) {
	index := []byte(`{"manifests":[{"mediaType":"` + dockerList + `"},{"mediaType":"` + ocispec.MediaTypeImageManifest + `"},{"mediaType":"` + dockerList + `"}],"artifactType":"x/y"}`)
	if got := registry.ShapeOf(index, releaseType); got.ArtifactType != "x/y" || got.ManifestType != releaseType || len(got.Nested) != 1 {
		t.Errorf("got %+v", got)
	}
	if got := registry.ShapeOf([]byte(`{"config":{}}`), ""); got.ArtifactType != "" || got.Nested != nil {
		t.Errorf("got %+v", got)
	}
}
