package rollout

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"waybill/bundle"
)

func shop() Request {
	return withSite(request("1.0.0", part("db"), part("web", "db"), part("job", "web")), bundle.Site{Site: "berlin-1"})
}

func TestUninstallWhole(t *testing.T) {
	w := newWorld(t)
	w.mustInstall(shop())
	w.charts.taken()
	dry, err := w.runner.Uninstall(context.Background(), UninstallRequest{Instance: "shop", DryRun: true})
	if err != nil || dry.Status != StatusPlanned || len(w.charts.taken()) > 0 {
		t.Fatalf("dry run: %+v, %v", dry, err)
	}
	out, err := w.runner.Uninstall(context.Background(), UninstallRequest{Instance: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"uninstall job", "uninstall web", "uninstall db"}, w.charts.taken()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if !slices.Equal(out.NamespacesLeft, []string{"apps"}) {
		t.Errorf("namespaces left are %q", out.NamespacesLeft)
	}
	secrets, _ := w.client.CoreV1().Secrets("").List(context.Background(), metav1.ListOptions{})
	leases, _ := w.client.CoordinationV1().Leases("").List(context.Background(), metav1.ListOptions{})
	if len(secrets.Items) > 0 || len(leases.Items) > 0 {
		t.Errorf("%d records and %d leases are left", len(secrets.Items), len(leases.Items))
	}
	if out := w.mustInstall(shop()); out.Revision != 1 {
		t.Errorf("installed again as revision %d", out.Revision)
	}
}

func TestUninstallNamed(t *testing.T) {
	w := newWorld(t)
	w.mustInstall(shop())
	w.charts.taken()
	_, err := w.runner.Uninstall(context.Background(), UninstallRequest{Instance: "shop", Components: []string{"web"}})
	if got := codes(t, err); !slices.Equal(got, []string{"needed"}) || !strings.Contains(err.Error(), "component job needs it") {
		t.Errorf("refusals are %q: %v", got, err)
	}
	_, err = w.runner.Uninstall(context.Background(), UninstallRequest{Instance: "shop", Components: []string{"jop"}})
	var unknown *UnknownError
	if !errors.As(err, &unknown) || unknown.Nearest != "job" {
		t.Errorf("error is %v", err)
	}
	if _, err = w.runner.Uninstall(context.Background(), UninstallRequest{Instance: "shop", Components: []string{"web", "job"}}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"uninstall job", "uninstall web"}, w.charts.taken()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if out := w.mustInstall(shop()); !slices.Equal(outcomes(out), []string{"db unchanged", "web done", "job done"}) {
		t.Errorf("installed again: %q", outcomes(out))
	}
}

func TestUninstallFails(t *testing.T) {
	w := newWorld(t)
	w.mustInstall(shop())
	w.charts.fail["web"] = errors.New("finalizer example.com/hold")
	out, err := w.runner.Uninstall(context.Background(), UninstallRequest{Instance: "shop"})
	var partial *PartialError
	if !errors.As(err, &partial) || !strings.Contains(err.Error(), "component web: finalizer example.com/hold") {
		t.Fatalf("error is %v", err)
	}
	if diff := cmp.Diff([]string{"job uninstalled", "web failed", "db skipped"}, outcomes(out)); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
	delete(w.charts.fail, "web")
	w.charts.taken()
	if _, err := w.runner.Uninstall(context.Background(), UninstallRequest{Instance: "shop"}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"uninstall web", "uninstall db"}, w.charts.taken()); diff != "" {
		t.Errorf("calls of the second try (-want +got):\n%s", diff)
	}
}

func TestStatus(t *testing.T) {
	w := newWorld(t)
	w.mustInstall(shop())
	two := shop()
	two.Instance = "shop-2"
	for i := range two.Source.Release.Components {
		two.Source.Release.Components[i].Namespace = "apps-2"
	}
	w.mustInstall(two)
	elsewhere := w.runnerOf("another machine")
	status, err := elsewhere.Status(context.Background(), "shop")
	if err != nil {
		t.Fatal(err)
	}
	if status.Signer != "vendor.pub" || status.Location == "" || status.Version != "1.0.0" || status.Status != StatusDone || !status.Components[0].Ready {
		t.Errorf("status is %+v", status)
	}
	w.charts.histories["apps/db"][0].Status = helmFailed
	if status, _ = elsewhere.Status(context.Background(), "shop"); status.Components[0].Ready || status.Components[0].HelmStatus != helmFailed {
		t.Errorf("component is %+v, and Helm says failed", status.Components[0])
	}
	list, err := elsewhere.List(context.Background())
	if err != nil || len(list) != 2 || list[1].Instance != "shop-2" {
		t.Errorf("list is %+v, %v", list, err)
	}
	text, err := elsewhere.Site(context.Background(), "shop")
	if err != nil || text != string(shop().SiteText) {
		t.Errorf("site file is %q, %v", text, err)
	}
	var missing *NotFoundError
	if _, err := elsewhere.Status(context.Background(), "shopp"); !errors.As(err, &missing) || !slices.Equal(missing.Known, []string{"shop", "shop-2"}) {
		t.Errorf("error is %v", err)
	}
}

func TestNewerRecord(t *testing.T) {
	for name, change := range map[string]func(*corev1.Secret){
		"type": func(s *corev1.Secret) { s.Type = "waybill/record.v2" },
		"content": func(s *corev1.Secret) {
			var buf bytes.Buffer
			zip := gzip.NewWriter(&buf)
			_, _ = zip.Write([]byte(`{"apiVersion":"waybill/v2","kind":"Record","instance":"shop","revision":1}`))
			_ = zip.Close()
			s.Data[recordKey] = buf.Bytes()
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.mustInstall(shop())
			secret, err := w.client.CoreV1().Secrets(DefaultStateNamespace).Get(context.Background(), "waybill.shop.v1", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			change(secret)
			if err := w.client.Tracker().Update(corev1.SchemeGroupVersion.WithResource("secrets"), secret, DefaultStateNamespace); err != nil {
				t.Fatal(err)
			}
			w.writes()
			_, err = w.install(request("2.0.0", part("db")))
			if got := codes(t, err); !slices.Equal(got, []string{"newer-record"}) {
				t.Errorf("refusals are %q", got)
			}
			var newer *NewerRecordError
			if _, err := w.runner.Status(context.Background(), "shop"); !errors.As(err, &newer) {
				t.Errorf("status: error is %v", err)
			}
			if list, err := w.runner.List(context.Background()); err != nil || len(list) != 1 || list[0].Reason == "" {
				t.Errorf("list is %+v, %v", list, err)
			}
			if writes := w.writes(); len(writes) > 0 {
				t.Errorf("writes are %q", writes)
			}
		})
	}
}

func TestDecodeRecord(t *testing.T) {
	zip := func(text string) []byte {
		var buf bytes.Buffer
		w := gzip.NewWriter(&buf)
		_, _ = w.Write([]byte(text))
		_ = w.Close()
		return buf.Bytes()
	}
	tests := map[string][]byte{
		"no gzip": []byte("{}"), "nothing": nil, "no JSON": zip("hello"), "cut off": zip(`{"apiVersion":"waybill/v1"}`)[:20],
		"a bomb": zip(strings.Repeat(" ", recordPlainLimit+1)),
	}
	for name, data := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := decodeRecord("waybill.shop.v1", data)
			var broken *RecordError
			if !errors.As(err, &broken) || broken.Name != "waybill.shop.v1" {
				t.Errorf("error is %v", err)
			}
		})
	}
}

// A holder that cannot renew its lease stops its work by itself and writes
// nothing more, neither record nor a way back.
func TestLostLease(t *testing.T) {
	w := newWorld(t)
	w.runner.times = leaseTimes{duration: 9 * time.Second, renew: 500 * time.Millisecond, lose: 4 * time.Second, confirm: time.Millisecond, poll: time.Millisecond}
	w.charts.onApply = func(ctx context.Context, _ HelmComponent) error {
		w.client.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, context.DeadlineExceeded
		})
		w.writes()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Minute):
			return errors.New("was not told to stop")
		}
	}
	_, err := w.install(request("1.0.0", part("web")))
	if !errors.Is(err, ErrLeaseLost) {
		t.Fatalf("error is %v", err)
	}
	if calls := w.charts.taken(); !slices.Equal(calls, []string{"apply web"}) {
		t.Errorf("calls are %q", calls)
	}
	if writes := slices.DeleteFunc(w.writes(), func(s string) bool { return strings.HasPrefix(s, "update leases") }); len(writes) > 0 {
		t.Errorf("writes after the lease was lost: %q", writes)
	}
}
