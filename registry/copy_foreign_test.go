package registry_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"waybill/internal/registrytest"
	"waybill/registry"
)

const foreignLayer = "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip"

// foreignImage is an image whose layer has addresses.
func foreignImage(t *testing.T, mediaType string, urls ...string) (image0, config, layer piece) {
	config, layer = blob(ocispec.MediaTypeImageConfig, "{}"), blob(mediaType, "the base layer of windows")
	layer.desc.URLs = urls
	return image(t, config, "", nil, layer), config, layer
}

// A layer that may not be given on is carried, fetched from its addresses or
// left out, as was chosen; what its manifest says stays.
func TestCopyForeignLayerByChoice(t *testing.T) {
	var asked []string
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path)
		switch r.URL.Path {
		case "/good":
			_, _ = w.Write([]byte("the base layer of windows"))
		case "/wrong":
			_, _ = w.Write([]byte("the base layer of WINDOWS"))
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(upstream.Close)
	for name, tc := range map[string]struct {
		has    bool
		paths  string
		choice registry.ForeignChoice
		want   string // there, left out, or the failure
		asks   string
	}{
		"what the source has goes along":             {true, "/good", registry.ForeignAsIs, "there", ""},
		"what it hasn't stays":                       {false, "/good", registry.ForeignAsIs, "left out", ""},
		"included, from the source":                  {true, "/good", registry.ForeignInclude, "there", ""},
		"included, from its address":                 {false, "/good", registry.ForeignInclude, "there", "/good"},
		"included, from the second address":          {false, "/gone /good", registry.ForeignInclude, "there", "/gone /good"},
		"included, and no address has it":            {false, "/gone", registry.ForeignInclude, "file not found", "/gone"},
		"included, and an address has another thing": {false, "/wrong", registry.ForeignInclude, "/wrong", "/wrong"},
		"omitted, whoever has it":                    {true, "/good", registry.ForeignOmit, "left out", ""},
		"needed, and not there":                      {false, "/good", registry.ForeignNeeded, "is missing", ""},
	} {
		t.Run(name, func(t *testing.T) {
			asked = nil
			var urls []string
			for _, path := range strings.Fields(tc.paths) {
				urls = append(urls, upstream.URL+path+"?token=secret")
			}
			m, config, layer := foreignImage(t, foreignLayer, urls...)
			from := filepath.Join(t.TempDir(), "from")
			pieces := []piece{config, m}
			if tc.has {
				pieces = append(pieces, layer)
			}
			writeLayout(t, from, entryOf(m, "1.0.0"), pieces...)
			c := client(t, quick())
			src := open(t, c, from)
			plan, err := registry.PlanCopy(t.Context(), src, []ocispec.Descriptor{src.Root}, registry.CopyOptions{})
			if err != nil {
				t.Fatal(err)
			}
			found, err := plan.Foreign(t.Context())
			want := []registry.ForeignLayer{{Layer: layer.desc, Of: found[0].Of, Roots: []digest.Digest{m.desc.Digest}, Here: tc.has}}
			if diff := cmp.Diff(want, found); diff != "" || err != nil {
				t.Fatal(diff, err)
			}
			for _, address := range found[0].Addresses() {
				if strings.Contains(address, "secret") {
					t.Errorf("says %s", address)
				}
			}
			plan.ChooseForeign(found, func(registry.ForeignLayer) registry.ForeignChoice { return tc.choice })
			dst, err := c.Create(t.Context(), location(t, "oci-layout:"+filepath.Join(t.TempDir(), "to")))
			if err != nil {
				t.Fatal(err)
			}
			result, err := plan.To(t.Context(), dst, registry.CopyOptions{})
			if err == nil {
				err = errors.Join(dst.Tag(t.Context(), m.desc, "1.0.0"), dst.Commit(t.Context()))
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("says %v", err)
			}
			got := "there"
			switch {
			case err != nil && strings.Contains(err.Error(), tc.want):
				got = tc.want
				_ = dst.Abort()
			case err != nil:
				got = err.Error()
			case len(result.LeftOut) == 1 && result.LeftOut[0].Digest == layer.desc.Digest:
				got = "left out"
			}
			if got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
			if err == nil {
				written := open(t, c, dst.Location.String())
				if there, err := written.Has(t.Context(), layer.desc); err != nil || there != (tc.want == "there") {
					t.Errorf("the layer is there: %v, %v", there, err)
				}
				if err := fetch(t.Context(), written, m); err != nil {
					t.Error(err)
				}
			}
			if got := strings.Join(asked, " "); got != tc.asks {
				t.Errorf("asked for %q, want %q", got, tc.asks)
			}
		})
	}
}

// Nobody need decide about an ordinary layer that the source has, though it has
// addresses, nor about one that some image has as an ordinary one.
func TestForeignLayersThatNeedNoChoice(t *testing.T) {
	config := blob(ocispec.MediaTypeImageConfig, "{}")
	addressed := blob(ocispec.MediaTypeImageLayerGzip, "addressed")
	addressed.desc.URLs = []string{"https://layers.example/1"}
	both := blob(foreignLayer, "both")
	ordinary := both
	ordinary.desc.MediaType = ocispec.MediaTypeImageLayerGzip
	nowhere := blob("application/vnd.oci.image.layer.nondistributable.v1.tar+zstd", "nowhere")
	one, two := image(t, config, "", nil, addressed, both), image(t, config, "", nil, ordinary, nowhere)
	list := manifest(t, ocispec.MediaTypeImageIndex, ocispec.Index{MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{one.desc, two.desc}})
	from := filepath.Join(t.TempDir(), "from")
	writeLayout(t, from, entryOf(list, "1.0.0"), config, addressed, both, one, two, list)
	src := open(t, client(t, quick()), from)
	plan, err := registry.PlanCopy(t.Context(), src, []ocispec.Descriptor{src.Root}, registry.CopyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	found, err := plan.Foreign(t.Context())
	if err != nil || len(found) != 1 || found[0].Layer.Digest != nowhere.desc.Digest || found[0].Here {
		t.Errorf("got %v, %v", found, err)
	}
}

// CNCF Distribution refuses addresses that its settings don't allow with a 500, as
// if it could work later. It is asked once, and what the refusal is about is said.
func TestCopyToRegistryThatRefusesAddresses(t *testing.T) {
	m, config, layer := foreignImage(t, foreignLayer, "https://layers.example/base.tar.gz")
	from := filepath.Join(t.TempDir(), "from")
	writeLayout(t, from, entryOf(m, "1.0.0"), config, layer, m)
	var asked atomic.Int64
	reg := registrytest.New(t, registrytest.Options{Fault: func(r *http.Request) *registrytest.Fault {
		if r.Method != http.MethodPut || !strings.Contains(r.URL.Path, "/manifests/") {
			return nil
		}
		asked.Add(1)
		return &registrytest.Fault{Status: http.StatusInternalServerError, Header: http.Header{"Content-Type": {"application/json"}},
			Body: `{"errors":[{"code":"UNKNOWN","message":"unknown error"},{"code":"UNKNOWN","message":"unknown error","detail":"invalid URL on layer"}]}`}
	}})
	c := client(t, quick())
	dst, err := c.Create(t.Context(), location(t, "oci://"+reg.Host+"/x"))
	if err != nil {
		t.Fatal(err)
	}
	src := open(t, c, from)
	_, err = registry.Copy(t.Context(), src, dst, []ocispec.Descriptor{src.Root}, registry.CopyOptions{})
	var refused *registry.AddressError
	if !errors.As(err, &refused) || refused.Host != reg.Host || !strings.Contains(err.Error(), m.desc.Digest.String()+": "+reg.Host+" refuses the addresses") {
		t.Errorf("got %v", err)
	}
	if asked.Load() != 1 {
		t.Errorf("asked %d times", asked.Load())
	}
}
