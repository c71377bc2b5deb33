package rollout

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"waybill/test/cluster"
)

func TestMain(m *testing.M) { os.Exit(cluster.ForMain(m)) }

// onCluster returns a client for the test cluster, as an administrator or as
// the user of that name.
func onCluster(t *testing.T, user string) *kubernetes.Clientset {
	t.Helper()
	running := cluster.ForTest(t)
	config, err := running.Config(), error(nil)
	if user != "" {
		config, err = running.ConfigFor(cluster.User{Name: user})
	}
	if err != nil {
		t.Fatal(err)
	}
	config.QPS, config.Burst = 100, 200
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func makeNamespace(t *testing.T, client kubernetes.Interface, name string) string {
	t.Helper()
	if _, err := client.CoreV1().Namespaces().Create(context.Background(), namespace(name), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return name
}

func clusterLeases(client kubernetes.Interface, namespace, holder string) leases {
	l := leases{client: client, namespace: namespace, holder: holder, now: time.Now, times: defaultLeaseTimes, events: func(Event) {}}
	l.times.confirm, l.times.poll = 300*time.Millisecond, 20*time.Millisecond
	return l
}

// Of many that come at once exactly one gets the lease: a free one, one that
// was given back, and one whose holder is dead.
func TestLeaseRace(t *testing.T) {
	client := onCluster(t, "")
	space := makeNamespace(t, client, "rollout-lease-race")
	dead := time.Duration(0)
	for _, state := range []string{"absent", "given back", "dead holder"} {
		var mu sync.Mutex
		var winners []*keeper
		var group sync.WaitGroup
		for i := range 8 {
			group.Go(func() {
				l := clusterLeases(client, space, fmt.Sprintf("%s/%d", state, i))
				l.now = func() time.Time { return time.Now().Add(dead) }
				lease, _, err := l.acquire(context.Background(), "shop", 0)
				var held *HeldError
				if err != nil && !errors.As(err, &held) {
					t.Errorf("%s: %v", state, err)
				}
				if err == nil {
					mu.Lock()
					defer mu.Unlock()
					winners = append(winners, l.keep(lease, func(error) {}))
				}
			})
		}
		group.Wait()
		if len(winners) != 1 {
			t.Fatalf("%s: %d hold the lease", state, len(winners))
		}
		if state == "absent" {
			if err := winners[0].release(context.Background()); err != nil {
				t.Error(err)
			}
			continue
		}
		winners[0].stop()
		dead += time.Minute
	}
}

// A lease that has run out by our clock, and is renewed all the same, belongs
// to somebody with another clock: it is not taken.
func TestLeaseOfAnotherClock(t *testing.T) {
	client := onCluster(t, "")
	space := makeNamespace(t, client, "rollout-lease-clock")
	behind := clusterLeases(client, space, "behind")
	behind.now = func() time.Time { return time.Now().Add(-time.Hour) }
	behind.times.renew = 50 * time.Millisecond
	lease, _, err := behind.acquire(context.Background(), "shop", 0)
	if err != nil {
		t.Fatal(err)
	}
	lost := make(chan error, 1)
	k := behind.keep(lease, func(err error) { lost <- err })
	ours := clusterLeases(client, space, "ours")
	ours.times.confirm = 3 * time.Second
	_, _, err = ours.acquire(context.Background(), "shop", 0)
	var held *HeldError
	if !errors.As(err, &held) || held.Holder != "behind" {
		t.Errorf("error is %v", err)
	}
	if err := k.release(context.Background()); err != nil {
		t.Error(err)
	}
	select {
	case err := <-lost:
		t.Errorf("the holder lost it: %v", err)
	default:
	}
}

// A lease that somebody took is lost to the one who thought to hold it; one
// that was only labelled is not.
func TestLeaseTaken(t *testing.T) {
	client := onCluster(t, "")
	space := makeNamespace(t, client, "rollout-lease-taken")
	first := clusterLeases(client, space, "first")
	first.times.renew = 50 * time.Millisecond
	lease, _, err := first.acquire(context.Background(), "shop", 0)
	if err != nil {
		t.Fatal(err)
	}
	lost := make(chan error, 1)
	k := first.keep(lease, func(err error) { lost <- err })
	defer k.stop()
	patch := []byte(`{"metadata":{"labels":{"touched":"yes"}}}`)
	_, err = client.CoordinationV1().Leases(space).Patch(context.Background(), "waybill.shop", "application/merge-patch+json", patch, metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-lost:
		t.Fatalf("lost after a label: %v", err)
	case <-time.After(500 * time.Millisecond):
	}
	patch = []byte(`{"spec":{"holderIdentity":"second"}}`)
	_, err = client.CoordinationV1().Leases(space).Patch(context.Background(), "waybill.shop", "application/merge-patch+json", patch, metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-lost:
		if !errors.Is(err, ErrLeaseLost) {
			t.Errorf("error is %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Error("the first holder goes on")
	}
}

// A record that somebody else has written is not overwritten.
func TestRecordConflict(t *testing.T) {
	client := onCluster(t, "")
	s := store{client: client, namespace: makeNamespace(t, client, "rollout-record")}
	rec := Record{APIVersion: recordAPIVersion, Kind: recordKind, Instance: "shop", Release: "shop", Revision: 1, Status: StatusRunning}
	ours, err := s.create(context.Background(), &rec)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.create(context.Background(), &rec); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("a second record of the number: %v", err)
	}
	latest, err := s.latest(context.Background(), "shop")
	if err != nil {
		t.Fatal(err)
	}
	theirs := s.open(latest)
	if err := theirs.update(context.Background(), func(r *Record) { r.Status = StatusInterrupted }); err != nil {
		t.Fatal(err)
	}
	if err := ours.update(context.Background(), func(r *Record) { r.Status = StatusDone }); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("error is %v", err)
	}
	if latest, _ = s.latest(context.Background(), "shop"); latest.record.Status != StatusInterrupted {
		t.Errorf("the record is %s", latest.record.Status)
	}
}

// on returns a runner on the test cluster with Helm in memory.
func on(client kubernetes.Interface, charts *fakeCharts, space string) *Runner {
	r := NewRunner(Config{Client: client, Charts: charts, Holder: "tester", StateNamespace: space})
	r.poll = 100 * time.Millisecond
	return r
}

func inNamespace(name string, create bool) Request {
	c := part("web")
	c.Namespace, c.CreateNamespace = name, create
	return request("1.0.0", c)
}

// A namespace that is being deleted is waited for, and what holds it is named
// when it does not go.
func TestNamespaceTerminating(t *testing.T) {
	client := onCluster(t, "")
	ctx := context.Background()
	makeNamespace(t, client, "rollout-going")
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "held", Finalizers: []string{"example.com/hold"}}}
	if _, err := client.CoreV1().ConfigMaps("rollout-going").Create(ctx, config, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := client.CoreV1().Namespaces().Delete(ctx, "rollout-going", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	charts := newFakeCharts()
	r := on(client, charts, "rollout-going-state")
	req := inNamespace("rollout-going", true)
	req.NamespaceWait = 10 * time.Second
	_, err := r.Install(ctx, req)
	if got := codes(t, err); !slices.Equal(got, []string{"namespace-terminating"}) || !strings.Contains(err.Error(), "example.com/hold") {
		t.Fatalf("refusals are %q: %v", got, err)
	}
	if _, err := client.CoreV1().Namespaces().Get(ctx, "rollout-going-state", metav1.GetOptions{}); err == nil {
		t.Error("the refused install made its state namespace")
	}
	patch := []byte(`{"metadata":{"finalizers":null}}`)
	if _, err := client.CoreV1().ConfigMaps("rollout-going").Patch(ctx, "held", "application/merge-patch+json", patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	req.NamespaceWait = 2 * time.Minute
	if out, err := r.Install(ctx, req); err != nil || !slices.Equal(out.Namespaces, []string{"rollout-going"}) {
		t.Errorf("after the finalizer is gone: %+v, %v", out, err)
	}
}

// With a namespace that is there nobody needs the right to create one; without
// it, the missing right is found before anything is touched.
func TestNamespaceForbidden(t *testing.T) {
	admin := onCluster(t, "")
	ctx := context.Background()
	makeNamespace(t, admin, "rollout-given")
	space := makeNamespace(t, admin, "rollout-given-state")
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "state"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"*"}},
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"*"}},
	}}
	if _, err := admin.RbacV1().Roles(space).Create(ctx, role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "state"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "state"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "operator"}},
	}
	if _, err := admin.RbacV1().RoleBindings(space).Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	charts := newFakeCharts()
	r := on(onCluster(t, "operator"), charts, space)
	if out, err := r.Install(ctx, inNamespace("rollout-given", true)); err != nil || out.Status != StatusDone {
		t.Errorf("with namespaces that are there: %+v, %v", out, err)
	}

	reader := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "rollout-namespaces"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get"}},
	}}
	if _, err := admin.RbacV1().ClusterRoles().Create(ctx, reader, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	all := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "rollout-namespaces"}, Subjects: binding.Subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "rollout-namespaces"}}
	if _, err := admin.RbacV1().ClusterRoleBindings().Create(ctx, all, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	charts.taken()
	req := inNamespace("rollout-absent", true)
	req.Instance = "shop-2"
	var err error
	for range 50 { // the authorizer learns of a binding a moment later
		if _, err = r.Install(ctx, req); strings.Contains(fmt.Sprint(err), "create namespaces") {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if got := codes(t, err); !slices.Equal(got, []string{"rights"}) || !strings.Contains(err.Error(), "absent: rollout-absent") {
		t.Errorf("refusals are %q: %v", got, err)
	}
	if calls := charts.taken(); len(calls) > 0 {
		t.Errorf("calls are %q", calls)
	}
}
