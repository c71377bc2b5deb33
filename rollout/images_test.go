package rollout

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"waybill/bundle"
)

var (
	digestA = digest.FromString("a")
	digestB = digest.FromString("b")
	digestC = digest.FromString("c")
)

func lockWithImages() *bundle.Lock {
	return &bundle.Lock{Packed: bundle.PackedImages, Images: []bundle.LockedImage{
		{Digest: digestA, References: []string{"docker.io/library/nginx:1.27", "docker.io/library/nginx:latest"}, Components: []string{"web"}},
		{Digest: digestB, Upstream: digestC, References: []string{"quay.io:5000/shop/db:2"}, Components: []string{"db"}},
	}}
}

func TestWhereReferencesLead(t *testing.T) {
	lock := lockWithImages()
	for name, tc := range map[string]struct {
		images Images
		from   string
		to     string // empty: unknown
	}{
		"relocate":               {Images{Repository: "site.example/r"}, "docker.io/library/nginx:latest", "site.example/r@" + digestA.String()},
		"by the narrowed digest": {Images{Repository: "site.example/r"}, "quay.io:5000/shop/db@" + digestB.String(), "site.example/r@" + digestB.String()},
		"by upstream's digest":   {Images{Repository: "site.example/r"}, "quay.io:5000/shop/db:2@" + digestC.String(), "site.example/r@" + digestB.String()},
		"unknown":                {Images{Repository: "site.example/r"}, "docker.io/library/redis:7", ""},
		"expand":                 {Images{Prefix: "site.example/m"}, "quay.io:5000/shop/db:2", "site.example/m/quay.io_5000/shop/db:2@" + digestB.String()},
		"replaced in another place": {Images{Repository: "site.example/r", Replace: []bundle.ReplaceImage{{Name: "nginx:1.27", NewName: "site.example/fix/nginx", Digest: digestC}}},
			"docker.io/library/nginx:1.27", "site.example/fix/nginx@" + digestC.String()},
		"replaced where it is": {Images{Repository: "site.example/r", Replace: []bundle.ReplaceImage{{Name: "nginx:1.27", Digest: digestC}}},
			"docker.io/library/nginx:1.27", "site.example/r@" + digestC.String()},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := newImageMap(tc.images, lock, "", nil)
			if err != nil {
				t.Fatal(err)
			}
			if to, _ := m.locate(tc.from); to != tc.to {
				t.Errorf("%s leads to %q, want %q", tc.from, to, tc.to)
			}
		})
	}
	if _, err := newImageMap(Images{Repository: "r.example/r", Replace: []bundle.ReplaceImage{{Name: "nginx:9", Digest: digestC}}}, lock, "", nil); err == nil || !strings.Contains(err.Error(), "nginx:9") {
		t.Errorf("replacing what is not there: %v", err)
	}
}

// The digest of a component's map changes with the images it uses, and only
// with those.
func TestImageMapDigestIsOfOneComponent(t *testing.T) {
	digests := func(lock *bundle.Lock) (web, db digest.Digest) {
		m, err := newImageMap(Images{Repository: "site.example/r"}, lock, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		return m.digest("web"), m.digest("db")
	}
	web, db := digests(lockWithImages())
	other := lockWithImages()
	other.Images[0].Digest = digestC
	web2, db2 := digests(other)
	if web == web2 || db != db2 || web == db {
		t.Errorf("web %s then %s, db %s then %s", web, web2, db, db2)
	}
}

func TestFlatBundlesServeTheNodesPlatform(t *testing.T) {
	lock := &bundle.Lock{Packed: bundle.PackedImages, Images: []bundle.LockedImage{
		{Digest: digestA, Platforms: []string{"linux/amd64"}, References: []string{"docker.io/library/nginx:latest"}},
		{Digest: digestB, Platforms: []string{"linux/arm64/v8"}, References: []string{"docker.io/library/nginx:latest"}},
	}}
	if !isFlat(lock) || isFlat(lockWithImages()) {
		t.Fatal("flat is not told from nested")
	}
	for platform, want := range map[string]digest.Digest{"linux/amd64": digestA, "linux/arm64": digestB} {
		m, err := newImageMap(Images{Repository: "site.example/r"}, lock, platform, nil)
		if err != nil {
			t.Fatal(err)
		}
		if to, _ := m.locate("docker.io/library/nginx:latest"); to != "site.example/r@"+want.String() {
			t.Errorf("on %s it is %s", platform, to)
		}
	}
}

// What is composed for a diff or a rendering leads where the install will.
func TestComposedFlatBundlesServeTheNodesPlatform(t *testing.T) {
	node := func(name, arch string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{OperatingSystem: "linux", Architecture: arch}}}
	}
	req := request("1.0.0", part("web"))
	req.Images = Images{Repository: "site.example/r"}
	req.Source.Lock.Packed, req.Source.Lock.Images = bundle.PackedImages, []bundle.LockedImage{
		{Digest: digestA, Platforms: []string{"linux/amd64"}, References: []string{"docker.io/library/nginx:latest"}},
		{Digest: digestB, Platforms: []string{"linux/arm64/v8"}, References: []string{"docker.io/library/nginx:latest"}},
	}
	for name, tc := range map[string]struct {
		nodes []runtime.Object
		want  string // reference, or the refusal
	}{
		"one platform":           {[]runtime.Object{node("a", "arm64"), node("b", "arm64")}, "site.example/r@" + digestB.String()},
		"two":                    {[]runtime.Object{node("a", "arm64"), node("b", "amd64")}, "the nodes are linux/amd64, linux/arm64; a bundle of shape nested serves several"},
		"nodes that say nothing": {[]runtime.Object{node("a", "")}, "no node says what its platform is"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tc.nodes...)
			composed, err := Compose(t.Context(), req, w.runner)
			_, planErr := w.runner.Plan(t.Context(), req)
			if err != nil {
				if !strings.Contains(err.Error(), tc.want) || planErr == nil || !strings.Contains(planErr.Error(), tc.want) {
					t.Errorf("composing: %v; planning: %v", err, planErr)
				}
				return
			}
			if to, _ := composed[0].Locate("docker.io/library/nginx:latest"); to != tc.want || planErr != nil {
				t.Errorf("it leads to %s; planning: %v", to, planErr)
			}
		})
	}
}

// Of an index nodes ask for the manifest of their platform too.
func TestWhatNodesPullIsAskedFor(t *testing.T) {
	lock := lockWithImages()
	lock.Images[1].Manifests = []bundle.LockedManifest{{Platform: "linux/amd64", Digest: digest.FromString("amd")}, {Platform: "linux/arm64/v8", Digest: digest.FromString("arm")}}
	m, err := newImageMap(Images{Prefix: "site.example/m"}, lock, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	nginx, db := "site.example/m/docker.io/library/nginx", "site.example/m/quay.io_5000/shop/db:2"
	want := []string{nginx + ":1.27@" + digestA.String(), nginx + ":latest@" + digestA.String(), db + "@" + digest.FromString("arm").String(), db + "@" + digestB.String()}
	slices.Sort(want)
	if diff := cmp.Diff(want, sortedKeys(m.pulled([]string{"linux/arm64"}))); diff != "" {
		t.Error(diff)
	}
	if n := len(m.pulled(nil)); n != 5 {
		t.Errorf("%d are asked for where nodes are not known, want 5", n)
	}
}

// A record that is too large loses what is known of platforms first.
func TestRecordsWithManyImagesShrink(t *testing.T) {
	w := newWorld(t)
	req := request("1.0.0", part("web"))
	req.Source.Lock.Packed = bundle.PackedImages
	for i := range 3000 {
		image := bundle.LockedImage{Digest: digest.FromString(fmt.Sprint(i)), References: []string{fmt.Sprintf("quay.io/shop/i%d:1", i)}}
		for p := range 6 {
			image.Manifests = append(image.Manifests, bundle.LockedManifest{Platform: fmt.Sprintf("linux/p%d", p), Digest: digest.FromString(fmt.Sprint(i, p))})
		}
		req.Source.Lock.Images = append(req.Source.Lock.Images, image)
	}
	w.mustInstall(req)
	rec := w.record("shop")
	if len(rec.Images) != 3000 || rec.ImagesLeftOut || rec.Images[0].Manifests != nil {
		t.Errorf("%d images are recorded, left out: %v, the first %+v", len(rec.Images), rec.ImagesLeftOut, rec.Images[0])
	}
}

func TestPlanHoldsImagesAgainstTheLock(t *testing.T) {
	previewed := PreviewedImages{
		Changes: []ImageChange{{Object: "Deployment/web", Path: "spec", From: "nginx", To: "site.example/r@" + digestA.String()}},
		Unknown: []ImageUse{{Reference: "evil:1", Object: "Job/hook", Path: "spec.containers[a].image"}, {Reference: "ops/ok:1", Object: "Job/ok", Path: "p"}},
		Stuck:   []ImageUse{{Reference: "shop/x:1", Object: "Shop/a", Path: "spec.image"}},
		Left:    []ImageUse{{Reference: "nginx", Object: "ConfigMap/c", Path: "data.script"}},
		Similar: []ImageUse{{Reference: "ghcr.io/a/b:1", Object: "ConfigMap/c", Path: "data.x"}},
	}
	for name, tc := range map[string]struct {
		unknown  bool
		refusals []string
		warnings int
	}{
		"refused":     {false, []string{"unknown-image", "image-in-parts"}, 2},
		"let through": {true, nil, 4},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.charts.previews["web"] = Preview{Changed: true, Images: previewed}
			req := request("1.0.0", part("web"))
			req.Source.Lock.Packed = bundle.PackedImages
			req.Images = Images{Repository: "site.example/r", Allow: []string{"ops/*"}, AllowUnknown: tc.unknown}
			plan, err := w.runner.Plan(t.Context(), req)
			if (err != nil) != (tc.refusals != nil) || plan == nil {
				t.Fatalf("plan %v, error %v", plan, err)
			}
			var codes []string
			for _, r := range plan.Refusals {
				codes = append(codes, r.Code)
			}
			if diff := cmp.Diff(tc.refusals, codes); diff != "" {
				t.Error(diff)
			}
			if len(plan.Warnings) != tc.warnings {
				t.Errorf("warnings: %q", plan.Warnings)
			}
			for _, c := range plan.Components {
				if c.Name == "web" && len(c.Images) != 1 {
					t.Errorf("rewritten in web: %v", c.Images)
				}
			}
		})
	}
}

// Some charts name an image by the version of Kubernetes.
func TestUnknownImageNamesItsKin(t *testing.T) {
	w := newWorld(t)
	w.charts.previews["web"] = Preview{Changed: true, Images: PreviewedImages{Unknown: []ImageUse{{Reference: "nginx:1.34", Object: "Job/a"}, {Reference: "evil:1", Object: "Job/b"}}}}
	req := request("1.0.0", part("web"))
	req.Source.Lock.Packed, req.Source.Lock.Images = bundle.PackedImages, lockWithImages().Images
	req.Images = Images{Repository: "site.example/r"}
	plan, _ := w.runner.Plan(t.Context(), req)
	if len(plan.Refusals) != 2 || !strings.HasSuffix(plan.Refusals[0].Message, "the lock has docker.io/library/nginx:1.27, docker.io/library/nginx:latest: where the chart goes by the version of Kubernetes, 1.34.4-eks-1a2b belongs into render.kubeVersions of the release file") ||
		strings.Contains(plan.Refusals[1].Message, "the lock has") {
		t.Errorf("refusals are %v", plan.Refusals)
	}
}

func TestBundleOfChartsHasNoImagesToPull(t *testing.T) {
	w := newWorld(t)
	req := request("1.0.0", part("web"))
	req.Source.Lock.Packed = bundle.PackedCharts
	req.Images = Images{Repository: "site.example/r"}
	if _, err := w.runner.Plan(t.Context(), req); err == nil || !strings.Contains(err.Error(), "charts only") {
		t.Errorf("error is %v", err)
	}
}
