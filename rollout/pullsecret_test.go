package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"waybill/bundle"
)

const theLogin = "the-login-of-the-site"

func pullSource(name string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "vault"}, Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(theLogin)},
	}
}

func account(namespace string, secrets ...string) *corev1.ServiceAccount {
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: namespace}}
	for _, name := range secrets {
		sa.ImagePullSecrets = append(sa.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
	}
	return sa
}

// pullRequest is for a bundle with images at a site with a pull secret.
func pullRequest(name string, parts ...bundle.Component) Request {
	site := bundle.Site{Site: "berlin-1"}
	if name != "" {
		site.Images = &bundle.SiteImages{PullSecret: &bundle.PullSecret{Namespace: "vault", Name: name}}
	}
	req := withSite(request("1.0.0", parts...), site)
	req.Source.Lock.Packed, req.Images = bundle.PackedImages, Images{Repository: "site.example/shop"}
	return req
}

func (w *world) secret(namespace, name string) *corev1.Secret {
	w.t.Helper()
	secret, err := w.client.CoreV1().Secrets(namespace).Get(context.Background(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return secret
}

// pullNames are the pull secrets of the default ServiceAccount.
func (w *world) pullNames(namespace string) []string {
	w.t.Helper()
	sa, err := w.client.CoreV1().ServiceAccounts(namespace).Get(context.Background(), "default", metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	var names []string
	for _, s := range sa.ImagePullSecrets {
		names = append(names, s.Name)
	}
	return names
}

func TestPullSecretIsCopiedAttachedAndRemoved(t *testing.T) {
	w := newWorld(t, pullSource("harbor"), account("apps", "theirs"), account("far"), namespace("far"))
	w.charts.previews["web"] = Preview{Changed: true, Images: PreviewedImages{Namespaces: []string{"", "far"}}}
	w.charts.onApply = func(_ context.Context, c HelmComponent) error {
		if w.secret("apps", "harbor") == nil || !slices.Contains(w.pullNames("apps"), "harbor") || w.secret("far", "harbor") == nil {
			t.Errorf("%s began before its namespaces had the pull secret", c.Name)
		}
		return nil
	}
	req := pullRequest("harbor", part("web"), part("db"))
	w.mustInstall(req)
	if w.charts.pull["web"] != "harbor" || w.charts.pull["db"] != "harbor" {
		t.Errorf("attached: %v", w.charts.pull)
	}
	copied := w.secret("apps", "harbor")
	if copied.Labels[LabelInstance] != "shop" || copied.Type != corev1.SecretTypeDockerConfigJson || string(copied.Data[corev1.DockerConfigJsonKey]) != theLogin {
		t.Errorf("the copy is %+v", copied)
	}
	text, err := json.Marshal(w.record("shop"))
	if err != nil || strings.Contains(string(text), theLogin) || strings.Contains(string(text), "dGhlLWxvZ2lu") {
		t.Errorf("the login is in the record (%v)", err)
	}

	w.writes()
	if out := w.mustInstall(req); out.Status != StatusUnchanged || len(w.writes()) > 0 {
		t.Errorf("the second install is %s", out.Status)
	}

	if _, err := w.runner.Uninstall(t.Context(), UninstallRequest{Instance: "shop", Components: []string{"web"}}); err != nil {
		t.Fatal(err)
	}
	if w.secret("far", "harbor") != nil || len(w.pullNames("far")) > 0 {
		t.Error("the pull secret stays where only web had pods")
	}
	if w.secret("apps", "harbor") == nil {
		t.Error("the pull secret is gone where db still is")
	}
	if _, err := w.runner.Uninstall(t.Context(), UninstallRequest{Instance: "shop"}); err != nil {
		t.Fatal(err)
	}
	if w.secret("apps", "harbor") != nil || w.secret("vault", "harbor") == nil {
		t.Error("the copy stays, or the source is gone")
	}
	if diff := cmp.Diff([]string{"theirs"}, w.pullNames("apps")); diff != "" {
		t.Errorf("the ServiceAccount's (-want +got):\n%s", diff)
	}
}

// What makes an install bring the pull secret up to date, and what for.
func TestPullSecretIsKeptUpToDate(t *testing.T) {
	change := func(w *world, s *corev1.Secret) {
		if _, err := w.client.CoreV1().Secrets(s.Namespace).Update(context.Background(), s, metav1.UpdateOptions{}); err != nil {
			w.t.Fatal(err)
		}
	}
	tests := map[string]struct {
		disturb func(w *world)
		action  string
	}{
		"another source": {func(w *world) {
			s := pullSource("harbor")
			s.Data[corev1.DockerConfigJsonKey] = []byte("new")
			change(w, s)
		}, PullSecretUpdate},
		"a source of another type": {func(w *world) {
			s := pullSource("harbor")
			s.Type, s.Data = corev1.SecretTypeDockercfg, map[string][]byte{corev1.DockerConfigKey: []byte("old form")}
			change(w, s)
		}, PullSecretUpdate},
		"a copy that somebody changed": {func(w *world) {
			s := w.secret("apps", "harbor")
			s.Data = nil
			change(w, s)
		}, PullSecretUpdate},
		"a copy that is gone": {func(w *world) {
			if err := w.client.CoreV1().Secrets("apps").Delete(context.Background(), "harbor", metav1.DeleteOptions{}); err != nil {
				w.t.Fatal(err)
			}
		}, PullSecretCopy},
		"a new ServiceAccount": {func(w *world) {
			if _, err := w.client.CoreV1().ServiceAccounts("apps").Update(context.Background(), account("apps"), metav1.UpdateOptions{}); err != nil {
				w.t.Fatal(err)
			}
		}, PullSecretAttach},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, pullSource("harbor"), account("apps"))
			req := pullRequest("harbor", part("web"))
			w.mustInstall(req)
			tt.disturb(w)
			plan, err := w.runner.Plan(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]PlannedPullSecret{{Namespace: "apps", Name: "harbor", Action: tt.action}}, plan.PullSecrets); diff != "" || !plan.Change {
				t.Errorf("change %v (-want +got):\n%s", plan.Change, diff)
			}
			w.charts.taken()
			w.mustInstall(req)
			if calls := w.charts.taken(); len(calls) > 0 {
				t.Errorf("components were touched: %q", calls)
			}
			if !sameSecret(w.secret("apps", "harbor"), w.secret("vault", "harbor")) || !slices.Contains(w.pullNames("apps"), "harbor") {
				t.Error("it is not up to date")
			}
			if out := w.mustInstall(req); out.Status != StatusUnchanged {
				t.Errorf("then it is %s", out.Status)
			}
		})
	}
}

// Another pull secret takes the place of the one before, and without one in the
// site file all is as it was.
func TestPullSecretOfAnotherName(t *testing.T) {
	w := newWorld(t, pullSource("harbor"), pullSource("quay"), account("apps", "quay"))
	w.mustInstall(pullRequest("harbor", part("web")))
	w.mustInstall(pullRequest("quay", part("web")))
	if w.charts.pull["web"] != "quay" || w.secret("apps", "harbor") != nil || w.secret("apps", "quay") == nil {
		t.Errorf("attached %v", w.charts.pull)
	}
	if diff := cmp.Diff([]string{"quay"}, w.pullNames("apps")); diff != "" {
		t.Errorf("the ServiceAccount's (-want +got):\n%s", diff)
	}
	w.mustInstall(pullRequest("", part("web")))
	if w.charts.pull["web"] != "" || w.secret("apps", "quay") != nil {
		t.Errorf("attached %v", w.charts.pull)
	}
	if diff := cmp.Diff([]string{"quay"}, w.pullNames("apps")); diff != "" {
		t.Errorf("what was there before (-want +got):\n%s", diff)
	}
}

// A source in a namespace of the instance serves as it is, and stays.
func TestPullSecretInTheInstancesNamespace(t *testing.T) {
	w := newWorld(t, pullSource("harbor"), account("vault"), namespace("vault"))
	web := part("web")
	web.Namespace = "vault"
	w.mustInstall(pullRequest("harbor", web))
	if !slices.Contains(w.pullNames("vault"), "harbor") || len(w.secret("vault", "harbor").Labels) > 0 {
		t.Error("it is not attached, or the source was changed")
	}
	if _, err := w.runner.Uninstall(t.Context(), UninstallRequest{Instance: "shop"}); err != nil {
		t.Fatal(err)
	}
	if w.secret("vault", "harbor") == nil || len(w.pullNames("vault")) > 0 {
		t.Error("the source is gone, or still attached")
	}
}

func TestPullSecretIsRefused(t *testing.T) {
	opaque := pullSource("harbor")
	opaque.Type = corev1.SecretTypeOpaque
	theirs := pullSource("harbor")
	theirs.Namespace = "apps"
	other := theirs.DeepCopy()
	other.Labels = map[string]string{LabelInstance: "bank"}
	tests := map[string]struct {
		objects []runtime.Object
		deny    string // verb of secrets
		code    string
		says    string
	}{
		"no source":             {nil, "", "pull-secret", "there is no Secret harbor in namespace vault"},
		"a source of no login":  {[]runtime.Object{opaque}, "", "pull-secret", `of type "Opaque"`},
		"somebody's Secret":     {[]runtime.Object{pullSource("harbor"), theirs}, "", "pull-secret", "was not made by waybill"},
		"another instance's":    {[]runtime.Object{pullSource("harbor"), other}, "", "pull-secret", "belongs to instance bank"},
		"no right to read":      {[]runtime.Object{pullSource("harbor")}, "get", "rights", "lack the right to get secrets in namespace vault"},
		"no right to make them": {[]runtime.Object{pullSource("harbor")}, "create", "rights", "lack the right to create secrets in namespace apps"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, append(tt.objects, account("apps"))...)
			switch tt.deny {
			case "get":
				w.client.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "harbor", errors.New("RBAC"))
				})
			case "create":
				w.allow(false)
			}
			_, err := w.install(pullRequest("harbor", part("web")))
			var refused *RefusedError
			if !errors.As(err, &refused) || !slices.ContainsFunc(refused.Reasons, func(r Refusal) bool { return r.Code == tt.code && strings.Contains(r.Message, tt.says) }) {
				t.Fatalf("error is %v", err)
			}
			if writes := w.writes(); len(writes) > 0 {
				t.Errorf("there were writes: %q", writes)
			}
		})
	}
}

func TestPullSecretOnSharedAccounts(t *testing.T) {
	sa := account("apps")
	for _, instance := range []string{"shop", "bank"} {
		if !attachTo(sa, instance, "harbor") || attachTo(sa, instance, "harbor") {
			t.Errorf("attaching for %s does not change it once", instance)
		}
	}
	if !detachFrom(sa, "shop", "harbor") || len(sa.ImagePullSecrets) != 1 {
		t.Error("it is taken from the other instance")
	}
	if !detachFrom(sa, "bank", "harbor") || len(sa.ImagePullSecrets) != 0 || len(sa.Annotations) != 0 || detachFrom(sa, "bank", "harbor") {
		t.Errorf("something is left: %+v", sa)
	}
}
