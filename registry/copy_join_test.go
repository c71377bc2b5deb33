package registry_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"waybill/internal/registrytest"
	"waybill/registry"
)

// Images of several repositories go to one place together: a blob that several
// have is sent once, and what hangs on one digest at several places is united.
func TestJoinedPlansSendOnce(t *testing.T) {
	config := blob(ocispec.MediaTypeImageConfig, `{"os":"linux"}`)
	base := blob(ocispec.MediaTypeImageLayerZstd, strings.Repeat("base", 9000))
	empty := blob(ocispec.MediaTypeImageLayer, "")
	same := image(t, config, "", nil, base, base, empty)
	one := image(t, config, "", nil, base, blob(ocispec.MediaTypeImageLayer, "one"))
	signed := func(by string) piece {
		return image(t, config, "", nil, signedLayer("same", by))
	}
	source := registrytest.New(t, registrytest.Options{})
	lay := func(repository string, root piece, by string) {
		c := cargo{root: root, tags: map[string]piece{}}
		c.pieces = []piece{config, base, empty, blob(ocispec.MediaTypeImageLayer, "one"), signedLayer("same", by), root}
		if by != "" {
			c.tags[tagOf(root, ".sig")] = signed(by)
			c.pieces = append(c.pieces, signed(by))
		}
		c.lay(t, client(t, quick()), "oci://"+source.Host+"/"+repository, "1")
	}
	lay("a", same, "by a")
	lay("b", same, "by b")
	lay("c", one, "")

	var mu sync.Mutex
	uploads := map[string]int{}
	target := registrytest.New(t, registrytest.Options{Fault: func(r *http.Request) *registrytest.Fault {
		if d := r.URL.Query().Get("digest"); d != "" && (r.Method == http.MethodPut || r.Method == http.MethodPost) {
			mu.Lock()
			uploads[d]++
			mu.Unlock()
		}
		return nil
	}})
	c := client(t, quick())
	for range 2 { // and again, to what is there
		var plans []*registry.CopyPlan
		for _, repository := range []string{"a", "b", "c"} {
			src := open(t, c, "oci://"+source.Host+"/"+repository+":1")
			plan, err := registry.PlanCopy(t.Context(), src, []ocispec.Descriptor{src.Root}, registry.CopyOptions{})
			if err != nil {
				t.Fatal(err)
			}
			plans = append(plans, plan)
		}
		dst, err := c.Create(t.Context(), location(t, "oci://"+target.Host+"/shop"))
		if err != nil {
			t.Fatal(err)
		}
		result, err := registry.JoinPlans(plans...).To(t.Context(), dst, registry.CopyOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(result.Attachments) != 2 {
			t.Errorf("attachments: %v", result.Attachments)
		}
	}
	for _, p := range []piece{config, base, empty} {
		if n := uploads[p.desc.Digest.String()]; n != 1 {
			t.Errorf("%s was sent %d times", p.desc.Digest, n)
		}
	}
	for _, m := range []piece{same, one} {
		src := open(t, c, "oci://"+target.Host+"/shop@"+m.desc.Digest.String())
		for _, p := range []piece{m, config, base} {
			if err := fetch(t.Context(), src, p); err != nil {
				t.Error(err)
			}
		}
	}
	if got := signatures(t, open(t, c, "oci://"+target.Host+"/shop@"+same.desc.Digest.String()), tagOf(same, ".sig")); len(got) != 2 {
		t.Errorf("signatures: %v", got)
	}
}

func TestCopyWithoutAttachments(t *testing.T) {
	cargo, c := newCargo(t, "alone"), client(t, quick())
	source := registrytest.New(t, registrytest.Options{})
	from := "oci://" + source.Host + "/shop"
	cargo.lay(t, c, from, "1.0.0")
	source.Forget()
	to := t.TempDir() + "/to.tar"
	result, err := carry(t.Context(), c, location(t, from+":1.0.0"), location(t, to), "1.0.0", registry.CopyOptions{WithoutAttachments: true})
	if err != nil || len(result.Attachments) > 0 {
		t.Fatalf("%v, %v", result.Attachments, err)
	}
	for _, r := range source.Requests() {
		if strings.Contains(r.Path, "/referrers/") || strings.Contains(r.Path, "sha256-") {
			t.Errorf("asked %s", r.Path)
		}
	}
	src := open(t, c, to)
	for tag := range cargo.tags {
		if _, err := src.Resolve(t.Context(), tag); err == nil {
			t.Errorf("%s is there", tag)
		}
	}
	if there, err := src.Has(t.Context(), ocispec.Descriptor{MediaType: ocispec.MediaTypeImageManifest, Digest: digest.FromString("x"), Size: 1}); there || err != nil {
		t.Errorf("%v, %v", there, err)
	}
}
