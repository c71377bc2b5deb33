//go:build linux

package node

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// loginFile is a login in Docker's form, as people and nodes use it.
func loginFile() string {
	return fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, LoginRegistry, base64.StdEncoding.EncodeToString([]byte(User+":"+Password)))
}

// wantsALogin is sure that the registry of the bundle gives strangers nothing.
func (r *trial) wantsALogin(t *testing.T) {
	t.Helper()
	way, err := r.transport()
	if err != nil {
		t.Fatal(err)
	}
	defer way.CloseIdleConnections()
	reference, err := name.ParseReference(repository + ":1.0.0")
	if err != nil {
		t.Fatal(err)
	}
	_, err = remote.Head(reference, remote.WithContext(t.Context()), remote.WithTransport(way))
	var refused *transport.Error
	if !errors.As(err, &refused) || refused.StatusCode != http.StatusUnauthorized {
		t.Fatalf("without a login the registry answers: %v", err)
	}
}

// makeLogin keeps the login of the site's registry where the site file says.
func (r *trial) makeLogin(t *testing.T) {
	t.Helper()
	if _, err := r.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "vault"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := r.client.CoreV1().Secrets("vault").Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "harbor"}, Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(loginFile())},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// runs is what apply images says of one container.
type runs struct{ Pod, State, Reference, ImageID string }

// images asks apply what really runs.
func (r *trial) images(t *testing.T) []runs {
	t.Helper()
	cmd := r.Command(t.Context(), filepath.Join(r.bin, "apply"), "images", "harbour", "-o", "json")
	out, err := cmd.Output()
	var code *exec.ExitError
	if err != nil && !(errors.As(err, &code) && code.ExitCode() == 5) {
		t.Fatalf("apply images: %v", err)
	}
	var found struct {
		Foreign    int
		Containers []runs
	}
	if jsonErr := json.Unmarshal(out, &found); jsonErr != nil {
		t.Fatalf("apply images: %v: %s", jsonErr, out)
	}
	if (err != nil) != (found.Foreign > 0) {
		t.Errorf("apply images ends with %v and finds %d foreign containers", err, found.Foreign)
	}
	return found.Containers
}

// runsOnly wants all of the release's long-running images to be seen, the one
// that an operator started among them, and nothing else.
func (r *trial) runsOnly(t *testing.T, state string) {
	t.Helper()
	var references []string
	for _, c := range r.images(t) {
		if c.State != state {
			t.Errorf("%s runs %s, which is %s", c.Pod, c.ImageID, c.State)
		}
		references = append(references, c.Reference)
	}
	for _, want := range []string{"docker.io/harbour/web:1.0", "quay.io/harbour/store:1.0", "ghcr.io/harbour/operator:1.0", "ghcr.io/harbour/workload:1.0"} {
		if !slices.Contains(references, want) {
			t.Errorf("apply images does not see %s among %q", want, references)
		}
	}
}

// replaceReport puts a hotfix of the site's in the place of one image, and keeps
// the login up with its source at the same time.
func (r *trial) replaceReport(t *testing.T) {
	t.Helper()
	hotfix := r.image(t, "job", "hotfix")
	digest, err := hotfix.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Push(t.Context(), hotfix, LoginRegistry+"/site/report:2"); err != nil {
		t.Fatal(err)
	}
	site, err := os.ReadFile(r.path("site.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	replaced := strings.Replace(string(site), "images:\n", fmt.Sprintf(
		"images:\n  replace: [{name: 'registry.k8s.io/harbour/report:1.0', newName: %s/site/report, digest: %q, reason: CVE-2026-1234}]\n", LoginRegistry, digest), 1)
	if err := os.WriteFile(r.path("site.yaml"), []byte(replaced), 0o600); err != nil {
		t.Fatal(err)
	}
	source, err := r.client.CoreV1().Secrets("vault").Get(t.Context(), "harbor", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	source.Data[corev1.DockerConfigJsonKey] = append(source.Data[corev1.DockerConfigJsonKey], '\n')
	if _, err := r.client.CoreV1().Secrets("vault").Update(t.Context(), source, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}

	r.must(t, "apply", "install", "oci://"+repository+":1.0.0", "-f", "site.yaml")
	if said := r.must(t, "apply", "status", "harbour"); !strings.Contains(said, "registry.k8s.io/harbour/report:1.0 is replaced by "+LoginRegistry+"/site/report@"+digest.String()) {
		t.Errorf("apply status says:\n%s", said)
	}
	r.runCronJob(t, "report-fixed")
	pods, err := r.client.CoreV1().Pods("harbour").List(t.Context(), metav1.ListOptions{LabelSelector: "job-name=report-fixed"})
	if err != nil || len(pods.Items) != 1 {
		t.Fatalf("pods of the report: %v %v", pods, err)
	}
	if id := pods.Items[0].Status.ContainerStatuses[0].ImageID; id != LoginRegistry+"/site/report@"+digest.String() {
		t.Errorf("the report ran as %s", id)
	}
	kept, err := r.client.CoreV1().Secrets("harbour").Get(t.Context(), "harbor", metav1.GetOptions{})
	if err != nil || string(kept.Data[corev1.DockerConfigJsonKey]) != loginFile()+"\n" {
		t.Errorf("the copy of the login is not as its source: %v", err)
	}
	r.runsOnly(t, "bundle")
}

// findsTheStranger starts a pod beside the release: apply images names it.
func (r *trial) findsTheStranger(t *testing.T) {
	t.Helper()
	image := r.pushed(t, "web")
	_, err := r.client.CoreV1().Pods("harbour").Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "stranger"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "stranger", Image: image}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	foreign := slices.DeleteFunc(r.images(t), func(c runs) bool { return c.State != "foreign" })
	if len(foreign) != 1 || foreign[0].Pod != "stranger" {
		t.Errorf("foreign are %+v, want the stranger alone", foreign)
	}
	if err := r.client.CoreV1().Pods("harbour").Delete(t.Context(), "stranger", *metav1.NewDeleteOptions(0)); err != nil {
		t.Fatal(err)
	}
}

// leavesNothing uninstalls: the login goes with the release, and its source stays.
func (r *trial) leavesNothing(t *testing.T) {
	t.Helper()
	r.must(t, "apply", "uninstall", "harbour", "--yes")
	if _, err := r.client.CoreV1().Secrets("harbour").Get(t.Context(), "harbor", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the copy of the login: %v", err)
	}
	account, err := r.client.CoreV1().ServiceAccounts("harbour").Get(t.Context(), "default", metav1.GetOptions{})
	if err != nil || len(account.ImagePullSecrets) > 0 {
		t.Errorf("the default ServiceAccount has %v: %v", account.ImagePullSecrets, err)
	}
	if _, err := r.client.CoreV1().Secrets("vault").Get(t.Context(), "harbor", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}
