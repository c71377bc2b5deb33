package rollout

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"waybill/bundle"
)

type fakeMissing []string

func (m fakeMissing) missing(context.Context, []string) ([]string, map[string]error) { return m, nil }

func (w *world) runs(namespace, pod, image, imageID string, phase corev1.PodPhase) {
	w.t.Helper()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: pod, Namespace: namespace},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: image}}},
		Status:     corev1.PodStatus{Phase: phase, ContainerStatuses: []corev1.ContainerStatus{{Name: "main", ImageID: imageID}}},
	}
	if _, err := w.client.CoreV1().Pods(namespace).Create(context.Background(), p, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// from lets a pod be of the object, directly.
func (w *world) from(namespace, pod string, o ObjectOrigin) {
	if w.charts.origins == nil {
		w.charts.origins = map[ObjectName]*ObjectOrigin{}
	}
	w.charts.origins[ObjectName{"v1", "Pod", namespace, pod}] = &o
}

func TestImagesThatRun(t *testing.T) {
	w := newWorld(t)
	req := replacing("1.0.0", digestA)
	digestD, digestE, digestF := digest.FromString("d"), digest.FromString("e"), digest.FromString("f")
	req.Source.Lock.Images = append(req.Source.Lock.Images, bundle.LockedImage{
		Digest: digestB, Upstream: digestD, References: []string{"quay.io/shop/db:2"},
		Manifests: []bundle.LockedManifest{{Platform: "linux/amd64", Digest: digestF}},
	})
	req.Images.Allow = []string{"ops.site/*"}
	w.mustInstall(req)

	ours := ObjectOrigin{HelmRelease: "web", HelmNamespace: "apps"}
	here := "site.example/shop@"
	running := corev1.PodRunning
	pods := map[string]struct {
		namespace, image, imageID string
		phase                     corev1.PodPhase
		origin                    ObjectOrigin
		want                      string // state, origin; empty: not listed
	}{
		"a-bundle":       {"apps", here + digestB.String(), here + digestB.String(), running, ours, "bundle chart"},
		"b-upstream":     {"apps", "quay.io/shop/db:2", "quay.io/shop/db@" + digestD.String(), running, ours, "bundle chart"},
		"c-platform":     {"apps", here + digestB.String(), here + digestE.String(), running, ours, "bundle chart"},
		"c-known":        {"apps", "quay.io/shop/db:2", "quay.io/shop/db@" + digestF.String(), running, ours, "bundle chart"},
		"d-config":       {"apps", here + digestB.String(), digestE.String(), running, ours, "bundle chart"},
		"e-replacement":  {"apps", "site.example/fix/nginx@" + digestC.String(), "docker-pullable://site.example/fix/nginx@" + digestC.String(), running, ours, "replacement chart"},
		"f-allowed":      {"apps", "ops.site/x:1", "ops.site/x@" + digestE.String(), running, ours, "allowed chart"},
		"g-foreign":      {"apps", "evil.example/x:1", "evil.example/x@" + digestE.String(), running, ours, "foreign chart"},
		"h-moved":        {"apps", "quay.io/shop/db:2", "quay.io/shop/db@" + digestE.String(), running, ours, "foreign chart"},
		"i-pulling":      {"apps", "evil.example/x:1", "", corev1.PodPending, ours, "foreign chart"},
		"j-ended":        {"apps", "evil.example/x:1", "evil.example/x@" + digestE.String(), corev1.PodSucceeded, ours, ""},
		"k-by-hand":      {"apps", "evil.example/y:1", "evil.example/y@" + digestE.String(), running, ObjectOrigin{}, "foreign unowned"},
		"l-other-helm":   {"apps", "evil.example/y:1", "evil.example/y@" + digestE.String(), running, ObjectOrigin{HelmRelease: "x", HelmNamespace: "apps"}, ""},
		"m-other-hook":   {"apps", "evil.example/y:1", "evil.example/y@" + digestE.String(), running, ObjectOrigin{Mark: "bank.v1.abc"}, ""},
		"n-hook":         {"apps", here + digestA.String(), here + digestA.String(), running, ObjectOrigin{Mark: "shop.v1.abc"}, "bundle chart"},
		"o-static":       {"apps", "evil.example/y:1", "evil.example/y@" + digestE.String(), running, ObjectOrigin{Owner: &ObjectName{"v1", "Node", "apps", "n"}}, ""},
		"p-operator":     {"apps", here + digestB.String(), here + digestB.String(), running, ObjectOrigin{Owner: &ObjectName{"apps/v1", "StatefulSet", "apps", "s"}}, "bundle operator"},
		"q-far-stranger": {"elsewhere", "evil.example/y:1", "evil.example/y@" + digestE.String(), running, ObjectOrigin{}, ""},
	}
	want := map[string]string{}
	foreign := 0
	for name, p := range pods {
		w.runs(p.namespace, name, p.image, p.imageID, p.phase)
		w.from(p.namespace, name, p.origin)
		if p.want != "" {
			want[name] = p.want
		}
		if len(p.want) > 7 && p.want[:7] == "foreign" {
			foreign++
		}
	}
	w.charts.origins[ObjectName{"apps/v1", "StatefulSet", "apps", "s"}] = &ObjectOrigin{Owner: &ObjectName{"shop.example/v1", "Shop", "apps", "r"}}
	w.charts.origins[ObjectName{"shop.example/v1", "Shop", "apps", "r"}] = &ours

	found, err := w.runner.Images(t.Context(), "shop")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, c := range found.Containers {
		got[c.Pod] = c.State + " " + c.Origin
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if found.Foreign != foreign || !found.Known || len(found.Replaced) != 1 {
		t.Errorf("found %d foreign, known %v, replaced %v", found.Foreign, found.Known, found.Replaced)
	}
	var unknown *NotFoundError
	if _, err := w.runner.Images(t.Context(), "bank"); !errors.As(err, &unknown) {
		t.Errorf("an unknown name: %v", err)
	}
}

// What others put into a pod of the release is named, beside what is the
// release's own in it.
func TestContainersThatOthersPutIntoAPod(t *testing.T) {
	w := newWorld(t)
	w.mustInstall(replacing("1.0.0", digestA))
	ours, evil := "site.example/shop@"+digestA.String(), "evil.example/x@"+digest.FromString("evil").String()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "apps"},
		Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{{Name: "first", Image: ours}, {Name: "proxy-init", Image: "evil.example/x:1"}},
			Containers:     []corev1.Container{{Name: "main", Image: ours}, {Name: "proxy", Image: "evil.example/x:1"}},
			EphemeralContainers: []corev1.EphemeralContainer{
				{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debugger", Image: "evil.example/x:1"}},
			},
		},
		Status: corev1.PodStatus{
			Phase:                      corev1.PodRunning,
			InitContainerStatuses:      []corev1.ContainerStatus{{Name: "first", ImageID: ours}, {Name: "proxy-init", ImageID: evil}},
			ContainerStatuses:          []corev1.ContainerStatus{{Name: "main", ImageID: ours}, {Name: "proxy", ImageID: evil}},
			EphemeralContainerStatuses: []corev1.ContainerStatus{{Name: "debugger", ImageID: evil}},
		},
	}
	if _, err := w.client.CoreV1().Pods("apps").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.from("apps", "web", ObjectOrigin{HelmRelease: "web", HelmNamespace: "apps"})
	found, err := w.runner.Images(t.Context(), "shop")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range found.Containers {
		got = append(got, c.Container+" "+c.State)
	}
	slices.Sort(got)
	want := []string{"debugger foreign", "first bundle", "main bundle", "proxy foreign", "proxy-init foreign"}
	if diff := cmp.Diff(want, got); diff != "" || found.Foreign != 3 {
		t.Errorf("%d foreign (-want +got):\n%s", found.Foreign, diff)
	}
}

// What a component that was not part of an attempt runs is still of its bundle.
func TestImagesOfComponentsThatStayedBehind(t *testing.T) {
	w := newWorld(t)
	first, second := request("1.0.0", part("web"), part("db")), request("1.1.0", part("web"), part("db"))
	for req, d := range map[*Request]digest.Digest{&first: digestA, &second: digestB} {
		req.Source.Lock.Packed, req.Images = bundle.PackedImages, Images{Repository: "site.example/shop"}
		req.Source.Lock.Images = []bundle.LockedImage{{Digest: d, References: []string{"docker.io/library/nginx:1.27"}}}
	}
	w.mustInstall(first)
	w.runs("apps", "db-0", "site.example/shop@"+digestA.String(), "site.example/shop@"+digestA.String(), corev1.PodRunning)
	w.from("apps", "db-0", ObjectOrigin{HelmRelease: "db", HelmNamespace: "apps"})
	foreign := func() int {
		found, err := w.runner.Images(t.Context(), "shop")
		if err != nil {
			t.Fatal(err)
		}
		return found.Foreign
	}
	only := second
	only.Components = []string{"web"}
	w.mustInstall(only)
	if n := foreign(); n != 0 {
		t.Errorf("%d foreign while db stands from 1.0.0", n)
	}
	w.mustInstall(second)
	if n := foreign(); n != 1 {
		t.Errorf("%d foreign when nothing stands from 1.0.0", n)
	}
}

// A record from before images were kept in it says so, and the next install
// makes up for it.
func TestImagesOfAnOlderRecord(t *testing.T) {
	w := newWorld(t)
	req := request("1.0.0", part("web"))
	w.mustInstall(req)
	w.runs("apps", "web-0", "evil.example/x:1", "", corev1.PodRunning)
	w.from("apps", "web-0", ObjectOrigin{HelmRelease: "web", HelmNamespace: "apps"})
	found, err := w.runner.Images(t.Context(), "shop")
	if err != nil || found.Known || found.Foreign != 0 || len(found.Warnings) != 1 || found.Containers[0].State != ImageUnknown {
		t.Fatalf("found %+v, error %v", found, err)
	}
	req.Source.Lock.Images = lockWithImages().Images
	if out := w.mustInstall(req); out.Status != StatusDone || len(w.charts.taken()) > 1 {
		t.Errorf("the next install is %s", out.Status)
	}
	if found, err = w.runner.Images(t.Context(), "shop"); err != nil || !found.Known || found.Foreign != 1 {
		t.Errorf("then found %+v, error %v", found, err)
	}
	if out := w.mustInstall(req); out.Status != StatusUnchanged {
		t.Errorf("and then %s", out.Status)
	}
}
