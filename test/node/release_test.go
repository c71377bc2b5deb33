//go:build linux

package node

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// repository is where the site keeps the bundle, for which a login is needed; all
// of it, images included, is in this one.
const repository = LoginRegistry + "/mirror/harbour"

// TestReleaseRunsBehindTheGap takes the release of testdata the whole way: built
// from the registries its charts name, carried by file, installed where none of
// them can be reached.
func TestReleaseRunsBehindTheGap(t *testing.T) {
	s := start(t)
	r := &trial{Site: s, client: s.client(t), bin: filepath.Join(s.Dir(), "bin")}
	r.buildPrograms(t)
	images := r.carry(t)
	r.makeVolume(t)
	r.wantsALogin(t)
	r.makeLogin(t)

	r.must(t, "apply", "install", "oci://"+repository+":1.0.0", "-f", "site.yaml")
	r.runCronJob(t, "report-now")
	r.must(t, "helm", "test", "web", "--namespace", "harbour")
	r.usesAll(t, images)
	r.runsOnly(t, "bundle")

	// What Helm recorded is what was sent: its own commands keep to the bundle too.
	r.must(t, "apply", "install", "oci://"+repository+":1.0.0", "-f", "site.yaml", "--set", "web.replicas=1")
	r.must(t, "helm", "rollback", "web", "1", "--namespace", "harbour", "--wait")
	r.must(t, "helm", "test", "web", "--namespace", "harbour")
	r.usesAll(t, images)

	r.replaceReport(t)
	r.findsTheStranger(t)
	r.leavesNothing(t)
	if packets, err := s.Dialled(); err != nil || len(packets) > 0 {
		t.Errorf("something dialled another host: %v, %v", packets, err)
	}
}

// A trial is one way of the release to its site.
type trial struct {
	*Site
	client kubernetes.Interface
	bin    string // our programs and Helm
}

// buildPrograms builds what the people at both ends use.
func (r *trial) buildPrograms(t *testing.T) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", r.bin+"/", "waybill/cmd/bundle", "waybill/cmd/apply", "helm.sh/helm/v3/cmd/helm")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building programs: %v\n%s", err, out)
	}
}

// carry builds the bundle where the upstream registries are, and carries it by
// file to the site's registry. It returns the digests of the images by their
// references.
func (r *trial) carry(t *testing.T) map[string]string {
	t.Helper()
	upstream := newUpstream(t, r.Site)
	defer upstream.Close()
	if err := os.CopyFS(r.path("release"), os.DirFS("testdata/release")); err != nil {
		t.Fatal(err)
	}
	built := "oci://" + upstream.Host + "/vendor/harbour"
	r.outside(t, "bundle", "keygen", "--prefix", "vendor")
	r.outside(t, "bundle", append([]string{"lock", "-f", "release/release.yaml"}, upstream.overrides()...)...)
	r.outside(t, "bundle", append([]string{"build", "-f", "release/release.yaml", "--locked", "-t", built, "--signing-key", "vendor.key"}, upstream.overrides()...)...)
	r.outside(t, "bundle", "copy", built+":1.0.0", "carried.tar", "--key", "vendor.pub")

	if err := os.Rename(r.path("release/site.yaml"), r.path("site.yaml")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(r.path("login.json"), []byte(loginFile()), 0o600); err != nil {
		t.Fatal(err)
	}
	r.must(t, "bundle", "copy", "./carried.tar", "oci://"+repository, "--key", "vendor.pub", "--ca-file", "registry.pem", "--registry-config", "login.json")
	return r.locked(t)
}

// locked reads the lock: the digest of each image by its reference.
func (r *trial) locked(t *testing.T) map[string]string {
	t.Helper()
	data, err := os.ReadFile(r.path("release/release.lock.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var lock struct {
		Images []struct {
			Digest     string
			References []string
		}
	}
	if err := yaml.Unmarshal(data, &lock); err != nil {
		t.Fatal(err)
	}
	digests := map[string]string{}
	for _, image := range lock.Images {
		for _, reference := range image.References {
			digests[reference] = image.Digest
		}
	}
	if len(digests) != 7 {
		t.Fatalf("the lock has %d images, want all 7 that the charts name:\n%s", len(digests), data)
	}
	return digests
}

// outside runs a program on the release engineer's machine. Its HTTPS leads
// nowhere: what is not upstream is not there.
func (r *trial) outside(t *testing.T, program string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(r.bin, program), args...)
	cmd.Dir = r.Dir()
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + r.path("home"), "COSIGN_PASSWORD=carried",
		"HTTPS_PROXY=http://127.0.0.1:1", "NO_PROXY=127.0.0.1",
	}
	r.finish(t, cmd, program+" "+strings.Join(args, " "))
}

// must runs a program in the site and returns what it said.
func (r *trial) must(t *testing.T, program string, args ...string) string {
	t.Helper()
	return r.finish(t, r.Command(t.Context(), filepath.Join(r.bin, program), args...), program+" "+strings.Join(args, " "))
}

func (r *trial) finish(t *testing.T, cmd *exec.Cmd, what string) (out string) {
	t.Helper()
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	begun := time.Now()
	if err := cmd.Run(); err != nil {
		r.tellPods(t)
		t.Fatalf("%s: %v\n%s", what, err, &said)
	}
	t.Logf("%s took %s", what, time.Since(begun).Round(100*time.Millisecond))
	return said.String()
}

// makeVolume provides the volume that the release claims, as a site's operator
// does.
func (r *trial) makeVolume(t *testing.T) {
	t.Helper()
	folder := r.path("volume")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(folder, 0o777); err != nil { // containers run as somebody
		t.Fatal(err)
	}
	_, err := r.client.CoreV1().PersistentVolumes().Create(t.Context(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "local"},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName:       "local",
			AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: folder}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// runCronJob does not wait for the new year: it starts a Job of the CronJob's
// template, as kubectl create job --from does.
func (r *trial) runCronJob(t *testing.T, name string) {
	t.Helper()
	cron, err := r.client.BatchV1().CronJobs("harbour").Get(t.Context(), "report", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	jobs := r.client.BatchV1().Jobs("harbour")
	if _, err := jobs.Create(t.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: cron.Spec.JobTemplate.Spec,
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	until(t, "the CronJob's Job is done", func(ctx context.Context) error {
		job, err := jobs.Get(ctx, name, metav1.GetOptions{})
		if err == nil && job.Status.Succeeded == 0 {
			err = fmt.Errorf("%+v", job.Status)
		}
		return err
	})
}

// usesAll compares what runs, and ran, with the lock: all of its images and no
// others, each by its digest from the bundle's repository.
func (r *trial) usesAll(t *testing.T, locked map[string]string) {
	t.Helper()
	var want []string
	for _, digest := range locked {
		want = append(want, repository+"@"+digest)
	}
	slices.Sort(want)
	var asked, ran []string
	for _, pod := range r.pods(t) {
		for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
			asked = append(asked, c.Image)
		}
		for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			ran = append(ran, c.ImageID)
		}
	}
	pulled, err := r.Pulls()
	if err != nil {
		t.Fatal(err)
	}
	for what, got := range map[string][]string{"pods ask for": asked, "pods ran": ran, "the node pulled": pulled} {
		slices.Sort(got)
		if diff := cmp.Diff(want, slices.Compact(got)); diff != "" {
			t.Errorf("%s other images than the lock has (-want +got):\n%s", what, diff)
		}
	}
}

func (r *trial) pods(t *testing.T) []corev1.Pod {
	t.Helper()
	pods, err := r.client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pods.Items
}

// tellPods shows the state of all pods.
func (r *trial) tellPods(t *testing.T) {
	t.Helper()
	for _, pod := range r.pods(t) {
		t.Logf("pod %s/%s: %s", pod.Namespace, pod.Name, pod.Status.Phase)
		for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			t.Logf("  %s %s: %+v", c.Name, c.Image, c.State)
		}
	}
}
