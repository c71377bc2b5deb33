package registry_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"

	"waybill/internal/ref"
	"waybill/internal/registrytest"
	"waybill/registry"
)

// fleet is a root with images that share their configuration and one layer. On
// each image hangs a signature.
func fleet(t testing.TB, images int) (cargo, []piece) {
	config, shared := blob(ocispec.MediaTypeImageConfig, `{"os":"linux"}`), blob(ocispec.MediaTypeImageLayer, strings.Repeat("shared ", 900))
	c := cargo{pieces: []piece{config, shared}, tags: map[string]piece{}}
	var all []piece
	index := ocispec.Index{MediaType: ocispec.MediaTypeImageIndex}
	index.SchemaVersion = 2
	for i := range images {
		layer, signed := blob(ocispec.MediaTypeImageLayer, fmt.Sprintf("layer %d", i)), signedLayer(fmt.Sprintf("image %d", i), "by one")
		m := image(t, config, "", nil, shared, layer)
		signature := image(t, config, "", nil, signed)
		c.pieces = append(c.pieces, layer, m, signed, signature)
		c.tags[tagOf(m, ".sig")] = signature
		all = append(all, m)
		index.Manifests = append(index.Manifests, m.desc)
	}
	c.root = manifest(t, ocispec.MediaTypeImageIndex, index)
	c.pieces = append(c.pieces, c.root)
	return c, all
}

// placements gives each image a repository below host/m.
func placements(t testing.TB, host string, images []piece) []registry.Placement {
	t.Helper()
	var all []registry.Placement
	for i, p := range images {
		r, err := ref.Parse(fmt.Sprintf("%s/m/quay.io/team/app-%d:1", host, i))
		if err != nil {
			t.Fatal(err)
		}
		r.Digest = p.desc.Digest
		all = append(all, registry.Placement{Ref: r, Root: p.desc})
	}
	return all
}

// planned reads a root from a layout that was laid there.
func planned(t *testing.T, c *registry.Client, cargo cargo) *registry.CopyPlan {
	t.Helper()
	at := filepath.Join(t.TempDir(), "from")
	cargo.lay(t, c, at, "one")
	src := open(t, c, at)
	plan, err := registry.PlanCopy(t.Context(), src, []ocispec.Descriptor{src.Root}, registry.CopyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// blobRequests counts what uploads blobs, and what asks for mounts.
func blobRequests(reg *registrytest.Server) (uploads, mounts int) {
	for _, r := range reg.Requests() {
		switch {
		case strings.Contains(r.Query, "mount="):
			mounts++
		case r.Method == http.MethodPut && strings.Contains(r.Path, "/blobs/uploads/"):
			uploads++
		}
	}
	return uploads, mounts
}

func writes(reg *registrytest.Server) []string {
	var all []string
	for _, r := range reg.Requests() {
		if r.Method == http.MethodPut || r.Method == http.MethodPatch || r.Method == http.MethodPost && !strings.HasSuffix(r.Path, "/blobs/uploads/") {
			all = append(all, r.Method+" "+r.Path)
		}
	}
	return all
}

// checkExpanded fails unless every image is where it was placed, with what hangs
// on it.
func checkExpanded(t *testing.T, c *registry.Client, all []registry.Placement) {
	t.Helper()
	for _, p := range all {
		name := p.Ref
		name.Digest = ""
		src := open(t, c, "oci://"+name.String())
		if src.Root.Digest != p.Root.Digest {
			t.Errorf("%s is %s, want %s", name, src.Root.Digest, p.Root.Digest)
		}
		parts, err := content.Successors(t.Context(), src, src.Root)
		if err != nil || len(parts) != 3 {
			t.Fatalf("%s has the parts %v, %v", name, parts, err)
		}
		for _, part := range parts {
			if _, err := content.FetchAll(t.Context(), src, part); err != nil {
				t.Error(err)
			}
		}
		signature := strings.Replace(p.Root.Digest.String(), ":", "-", 1) + ".sig"
		if _, err := src.Resolve(t.Context(), signature); err != nil {
			t.Errorf("%s has lost its signature: %v", name, err)
		}
	}
}

// Blobs are taken over from the repository that has them all, and the second
// time nothing is written.
func TestExpandTakesBlobsOver(t *testing.T) {
	reg := registrytest.New(t, registrytest.Options{})
	c := client(t, quick())
	cargo, images := fleet(t, 5)
	plan := planned(t, c, cargo)
	bundle := location(t, "oci://"+reg.Host+"/shop:1.0.0")
	dst, err := c.Update(t.Context(), bundle)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := plan.To(t.Context(), dst, registry.CopyOptions{}); err != nil {
		t.Fatal(err)
	}
	mounts := &registry.Mounts{}
	mounts.Hold(bundle, plan)
	opts := registry.ExpandOptions{CopyOptions: registry.CopyOptions{Mounts: mounts}}
	for round, want := range []string{registry.PlacementNew, registry.PlacementThere} {
		reg.Forget()
		all := placements(t, reg.Host, images)
		x, err := c.Expand(plan, all)
		if err != nil {
			t.Fatal(err)
		}
		if err := x.Check(t.Context(), opts); err != nil {
			t.Fatal(err)
		}
		if w := writes(reg); len(w) > 0 {
			t.Errorf("checking wrote %v", w)
		}
		result, err := x.Run(t.Context(), opts)
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range result.Placed {
			if p.State != want || p.Ref != all[i].Ref {
				t.Errorf("round %d: %s is %s, want %s", round, p.Ref, p.State, want)
			}
		}
		uploads, mounted := blobRequests(reg)
		if uploads != 0 || mounted != result.Mounted.Objects {
			t.Errorf("round %d: %d uploads, %d mounts asked for, %d done", round, uploads, mounted, result.Mounted.Objects)
		}
		if round == 0 && mounted != 5*4 { // configuration, two layers, and a signature's, each
			t.Errorf("%d blobs were taken over", mounted)
		}
		if round == 1 {
			if w := writes(reg); len(w) > 0 {
				t.Errorf("the second time wrote %v", w)
			}
			for _, r := range reg.Requests() {
				if r.Method == http.MethodPost {
					t.Errorf("the second time asked for %s", r.Path)
				}
			}
		}
		checkExpanded(t, c, all)
	}
}

// Where no repository has them all, what two share is sent once.
func TestExpandSendsSharedBlobsOnce(t *testing.T) {
	reg := registrytest.New(t, registrytest.Options{})
	c := client(t, quick())
	cargo, images := fleet(t, 12)
	all := placements(t, reg.Host, images)
	x, err := c.Expand(planned(t, c, cargo), all)
	if err != nil {
		t.Fatal(err)
	}
	result, err := x.Run(t.Context(), registry.ExpandOptions{})
	if err != nil {
		t.Fatal(err)
	}
	uploads, _ := blobRequests(reg)
	if want := 2 + 12*2; uploads != want || result.Mounted.Objects != 2*11 {
		t.Errorf("%d blobs were uploaded, want %d; %d taken over", uploads, want, result.Mounted.Objects)
	}
	checkExpanded(t, c, all)
}

// A registry that refuses to mount gets everything, and is asked no more than a
// few times.
func TestExpandWithoutMounts(t *testing.T) {
	for _, answer := range []int{http.StatusAccepted, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusInternalServerError} {
		t.Run(http.StatusText(answer), func(t *testing.T) {
			reg := registrytest.New(t, registrytest.Options{Fault: func(r *http.Request) *registrytest.Fault {
				if !r.URL.Query().Has("mount") {
					return nil
				}
				if answer == http.StatusAccepted {
					r.URL.RawQuery = ""
					return nil
				}
				return &registrytest.Fault{Status: answer}
			}})
			c := client(t, quick())
			cargo, images := fleet(t, 8)
			plan := planned(t, c, cargo)
			mounts := &registry.Mounts{}
			mounts.Hold(location(t, "oci://"+reg.Host+"/shop"), plan)
			all := placements(t, reg.Host, images)
			x, err := c.Expand(plan, all)
			if err != nil {
				t.Fatal(err)
			}
			opts := registry.ExpandOptions{CopyOptions: registry.CopyOptions{Mounts: mounts, Concurrency: 1}}
			if _, err := x.Run(t.Context(), opts); err != nil {
				t.Fatal(err)
			}
			checkExpanded(t, c, all)
			if _, asked := blobRequests(reg); answer != http.StatusAccepted && asked != 3 {
				t.Errorf("asked %d times", asked)
			}
			if n := reg.Sessions(); n != 0 {
				t.Errorf("%d uploads were left open", n)
			}
		})
	}
}

// Tags that may not move, and repositories that can't be written to, are all
// named before anything is written.
func TestExpandChecksFirst(t *testing.T) {
	c := client(t, quick())
	cargo, images := fleet(t, 4)
	plan := planned(t, c, cargo)
	t.Run("tags", func(t *testing.T) {
		reg := registrytest.New(t, registrytest.Options{})
		s := newSample(t, "other")
		for i := range 2 {
			store(t, c, fmt.Sprintf("oci://%s/m/quay.io/team/app-%d", reg.Host, i), "1", s)
		}
		reg.Forget()
		x, err := c.Expand(plan, placements(t, reg.Host, images))
		if err != nil {
			t.Fatal(err)
		}
		opts := registry.ExpandOptions{MayMove: func(_ context.Context, dst *registry.Destination, tag string, _ ocispec.Descriptor) error {
			return fmt.Errorf("tag %s of %s stays", tag, dst.Location.Ref.Repository)
		}}
		err = x.Check(t.Context(), opts)
		for i, want := range []bool{true, true, false, false} {
			if got := err != nil && strings.Contains(err.Error(), fmt.Sprintf("tag 1 of m/quay.io/team/app-%d stays", i)); got != want {
				t.Errorf("app-%d is named: %v, want %v: %v", i, got, want, err)
			}
		}
		if w := writes(reg); len(w) > 0 {
			t.Errorf("wrote %v", w)
		}
		opts.MayMove = nil
		result, err := x.Run(t.Context(), opts)
		if err != nil {
			t.Fatal(err)
		}
		var states []string
		for _, p := range result.Placed {
			states = append(states, p.State)
		}
		if !slices.Equal(states, []string{"moved", "moved", "new", "new"}) || result.Placed[0].Before != s.root.desc.Digest {
			t.Errorf("got %v, before %s", states, result.Placed[0].Before)
		}
	})
	for _, absent := range []registrytest.Absent{registrytest.AbsentUnknown, registrytest.AbsentClosed, registrytest.AbsentLogin, registrytest.AbsentDenied} {
		t.Run("repositories "+string(absent), func(t *testing.T) {
			reg := registrytest.New(t, registrytest.Options{Absent: absent, Repositories: []string{"m/quay.io/team/app-1"}})
			x, err := c.Expand(plan, placements(t, reg.Host, images))
			if err != nil {
				t.Fatal(err)
			}
			var targets *registry.TargetsError
			if err := x.Check(t.Context(), registry.ExpandOptions{}); !errors.As(err, &targets) || len(targets.Targets) != 3 {
				t.Errorf("got %v", err)
			}
			if w := writes(reg); len(w) > 0 {
				t.Errorf("wrote %v", w)
			}
		})
	}
	t.Run("names", func(t *testing.T) {
		reg := registrytest.New(t, registrytest.Options{Fault: func(r *http.Request) *registrytest.Fault {
			if r.URL.Path == "/v2/" {
				return nil
			}
			return &registrytest.Fault{Status: http.StatusBadRequest, Body: `{"errors":[{"code":"NAME_INVALID","message":"at most two parts"}]}`}
		}})
		x, err := c.Expand(plan, placements(t, reg.Host, images))
		if err != nil {
			t.Fatal(err)
		}
		err = x.Check(t.Context(), registry.ExpandOptions{})
		var targets *registry.TargetsError
		if !errors.As(err, &targets) || len(targets.Targets) != 4 || !strings.Contains(err.Error(), "to name otherwise, shorter or with fewer parts (400: at most two parts)") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("paths", func(t *testing.T) {
		_, err := c.Expand(plan, placements(t, "docker.io", images))
		var deep *registry.PlacementError
		if !errors.As(err, &deep) || len(deep.Names) != 4 || deep.Most != 2 {
			t.Errorf("got %v", err)
		}
	})
}

// A registry whose collection of garbage does not follow an index finds a tag at
// every part of one, and at the image itself one that does not move.
func TestExpandAnchors(t *testing.T) {
	reg := registrytest.New(t, registrytest.Options{})
	c := client(t, quick())
	cargo := newCargo(t, "one")
	plan := planned(t, c, cargo)
	var list piece
	for _, p := range cargo.pieces {
		if p.desc.MediaType == dockerList {
			list = p
		}
	}
	all := placements(t, reg.Host, []piece{list})
	x, err := c.Expand(plan, all)
	if err != nil {
		t.Fatal(err)
	}
	result, err := x.Run(t.Context(), registry.ExpandOptions{CopyOptions: registry.CopyOptions{AnchorTags: true}})
	if err != nil {
		t.Fatal(err)
	}
	src := open(t, c, "oci://"+all[0].Ref.Host+"/"+all[0].Ref.Repository+":1")
	children, err := content.Successors(t.Context(), src, src.Root)
	if err != nil || len(children) != 2 || result.Anchors < len(children) {
		t.Fatalf("parts %v, %v; %d anchors", children, err, result.Anchors)
	}
	for _, child := range append(children, src.Root) {
		if desc, err := src.Resolve(t.Context(), ref.AnchorTag(child.Digest)); err != nil || desc.Digest != child.Digest {
			t.Errorf("%s has no anchor: %v", child.Digest, err)
		}
	}
	if n := len(result.Attachments); n != 9-3 { // all but those of the root and the chart
		t.Errorf("%d attachments of the list are there", n)
	}
}

// What would be done is told without a write.
func TestExpandCompare(t *testing.T) {
	reg := registrytest.New(t, registrytest.Options{})
	c := client(t, quick())
	cargo, images := fleet(t, 3)
	plan := planned(t, c, cargo)
	x, err := c.Expand(plan, placements(t, reg.Host, images))
	if err != nil {
		t.Fatal(err)
	}
	before, err := x.Compare(t.Context(), registry.ExpandOptions{})
	if err != nil || before.Copied.Objects != 3*(4+2) || before.Placed[0].State != registry.PlacementNew {
		t.Errorf("before: %+v, %v", before, err)
	}
	if w := writes(reg); len(w) > 0 {
		t.Errorf("wrote %v", w)
	}
	if _, err := x.Run(t.Context(), registry.ExpandOptions{}); err != nil {
		t.Fatal(err)
	}
	after, err := x.Compare(t.Context(), registry.ExpandOptions{})
	if err != nil || after.Copied.Objects != 0 || after.Skipped.Objects != 3*(4+2) || after.Placed[0].State != registry.PlacementThere {
		t.Errorf("after: %+v, %v", after, err)
	}
}
