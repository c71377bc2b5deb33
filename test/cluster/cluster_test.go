package cluster_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"waybill/test/cluster"
)

func TestMain(m *testing.M) { os.Exit(cluster.ForMain(m)) }

// Outside of tests: a cluster of one's own, here with what is cached.
func ExampleStart() {
	c, err := cluster.Start(context.Background(), cluster.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("export KUBECONFIG=" + c.Kubeconfig())
	if err := c.Stop(); err != nil {
		fmt.Println(err)
	}
}

// connect is the admin's client of the shared cluster and an empty namespace.
func connect(t *testing.T) (*cluster.Cluster, kubernetes.Interface, string) {
	t.Helper()
	c := cluster.ForTest(t)
	client := kubernetes.NewForConfigOrDie(c.Config())
	namespace, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the default service account", func() (bool, error) {
		_, err := client.CoreV1().ServiceAccounts(namespace.Name).Get(t.Context(), "default", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
	return c, client, namespace.Name
}

func waitFor(t *testing.T, what string, done func() (bool, error)) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		ok, err := done()
		if err != nil {
			t.Fatalf("waiting for %s: %v", what, err)
		}
		if ok {
			return
		}
	}
	t.Fatalf("waited a minute for %s", what)
}

// template is a pod with one container and no grace period, for which the namespace controller would wait.
func template(fate string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "test"}, Annotations: map[string]string{cluster.PodAnnotation: fate}},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(int64),
			Containers:                    []corev1.Container{{Name: "main", Image: "registry.example/app:1"}},
		},
	}
}

func deployment(fate string, replicas int32) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "app"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "test"}},
			Template: template(fate),
		},
	}
}

func job(fate string) *batchv1.Job {
	pod := template(fate)
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "job"},
		Spec:       batchv1.JobSpec{Template: pod, BackoffLimit: new(int32)},
	}
}

func TestVersion(t *testing.T) {
	_, client, _ := connect(t)
	version, err := client.Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	if version.Major == "" || version.Minor == "" || version.GitVersion == "v0.0.0-master+$Format:%H$" {
		t.Errorf("the server calls itself %+v", version)
	}
}

func TestDeploymentBecomesAvailable(t *testing.T) {
	_, client, namespace := connect(t)
	if _, err := client.AppsV1().Deployments(namespace).Create(t.Context(), deployment("", 2), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "two available replicas", func() (bool, error) {
		d, err := client.AppsV1().Deployments(namespace).Get(t.Context(), "app", metav1.GetOptions{})
		return err == nil && d.Status.AvailableReplicas == 2, err
	})
	pods, err := client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	addresses := map[string]bool{}
	for _, pod := range pods.Items {
		addresses[pod.Status.PodIP] = true
		if pod.Spec.NodeName != cluster.NodeName {
			t.Errorf("pod %s is on node %q", pod.Name, pod.Spec.NodeName)
		}
		for _, status := range pod.Status.ContainerStatuses {
			if !status.Ready || status.Started == nil || !*status.Started || status.ImageID == "" || status.ContainerID == "" {
				t.Errorf("container status of a running pod: %+v", status)
			}
		}
	}
	if len(addresses) != 2 || addresses[""] {
		t.Errorf("addresses of two pods: %v", addresses)
	}
}

func TestDeploymentWhosePodsDoNotComeUp(t *testing.T) {
	for fate, want := range map[string]struct {
		phase   corev1.PodPhase
		waiting string
		event   string
	}{
		"crash":       {corev1.PodRunning, "CrashLoopBackOff", "BackOff"},
		"hang":        {corev1.PodPending, "ContainerCreating", "FailedCreatePodSandBox"},
		"never-ready": {corev1.PodRunning, "", "Unhealthy"},
		"misspelt":    {corev1.PodPending, "CreateContainerConfigError", "Failed"},
	} {
		t.Run(fate, func(t *testing.T) {
			_, client, namespace := connect(t)
			if _, err := client.AppsV1().Deployments(namespace).Create(t.Context(), deployment(fate, 1), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			waitFor(t, "an event "+want.event, func() (bool, error) {
				events, err := client.CoreV1().Events(namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "reason=" + want.event})
				return err == nil && len(events.Items) > 0, err
			})
			pods, err := client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
			if err != nil || len(pods.Items) != 1 {
				t.Fatalf("%d pods, %v", len(pods.Items), err)
			}
			status := pods.Items[0].Status
			container := status.ContainerStatuses[0]
			waiting := ""
			if container.State.Waiting != nil {
				waiting = container.State.Waiting.Reason
			}
			if status.Phase != want.phase || waiting != want.waiting || container.Ready {
				t.Errorf("phase %s, waiting %q, ready %v; want %s, %q, false", status.Phase, waiting, container.Ready, want.phase, want.waiting)
			}
			if crashed := container.RestartCount > 0; crashed != (fate == "crash") {
				t.Errorf("restart count %d", container.RestartCount)
			}
			d, err := client.AppsV1().Deployments(namespace).Get(t.Context(), "app", metav1.GetOptions{})
			if err != nil || d.Status.AvailableReplicas != 0 {
				t.Errorf("%d available replicas, %v", d.Status.AvailableReplicas, err)
			}
		})
	}
}

func TestSlowPodIsReadyLater(t *testing.T) {
	_, client, namespace := connect(t)
	const slow = 3 * time.Second
	begun := time.Now()
	if _, err := client.AppsV1().Deployments(namespace).Create(t.Context(), deployment("slow=3s", 1), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "an available replica", func() (bool, error) {
		d, err := client.AppsV1().Deployments(namespace).Get(t.Context(), "app", metav1.GetOptions{})
		return err == nil && d.Status.AvailableReplicas == 1, err
	})
	if took := time.Since(begun); took < slow-time.Second { // Kubernetes' times are whole seconds
		t.Errorf("available after %s", took)
	}
}

func TestJob(t *testing.T) {
	for fate, want := range map[string]batchv1.JobConditionType{"": batchv1.JobComplete, "slow=1s": batchv1.JobComplete, "crash": batchv1.JobFailed} {
		t.Run(string(want)+"_"+fate, func(t *testing.T) {
			_, client, namespace := connect(t)
			if _, err := client.BatchV1().Jobs(namespace).Create(t.Context(), job(fate), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			var got batchv1.JobConditionType
			waitFor(t, "the end of the job", func() (bool, error) {
				j, err := client.BatchV1().Jobs(namespace).Get(t.Context(), "job", metav1.GetOptions{})
				if err != nil {
					return false, err
				}
				for _, c := range j.Status.Conditions {
					if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
						got = c.Type
					}
				}
				return got != "", nil
			})
			if got != want {
				t.Errorf("job is %s, want %s", got, want)
			}
		})
	}
}

func TestJobThatHangsCanBeDeleted(t *testing.T) {
	_, client, namespace := connect(t)
	if _, err := client.BatchV1().Jobs(namespace).Create(t.Context(), job("hang"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pods := func() ([]corev1.Pod, error) {
		list, err := client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
		return list.Items, err
	}
	waitFor(t, "a hanging pod", func() (bool, error) {
		items, err := pods()
		return len(items) == 1 && len(items[0].Status.ContainerStatuses) == 1, err
	})
	background := metav1.DeletePropagationBackground
	if err := client.BatchV1().Jobs(namespace).Delete(t.Context(), "job", metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the end of its pod", func() (bool, error) {
		items, err := pods()
		return len(items) == 0, err
	})
}

func TestPodForAnotherNodeIsUnschedulable(t *testing.T) {
	_, client, namespace := connect(t)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "picky"}, Spec: template("").Spec}
	pod.Spec.NodeSelector = map[string]string{"disk": "ssd"}
	if _, err := client.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the condition", func() (bool, error) {
		pod, err := client.CoreV1().Pods(namespace).Get(t.Context(), "picky", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
				return true, nil
			}
		}
		return false, nil
	})
}

func TestClaimIsBoundAndItsVolumeEndsWithIt(t *testing.T) {
	_, client, namespace := connect(t)
	claims := client.CoreV1().PersistentVolumeClaims(namespace)
	class := "any"
	_, err := claims.Create(t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class,
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	volume := ""
	waitFor(t, "a bound claim", func() (bool, error) {
		claim, err := claims.Get(t.Context(), "data", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		volume = claim.Spec.VolumeName
		return claim.Status.Phase == corev1.ClaimBound, nil
	})
	if err := claims.Delete(t.Context(), "data", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the end of the volume", func() (bool, error) {
		_, err := client.CoreV1().PersistentVolumes().Get(t.Context(), volume, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	})
}

func TestNamespaceDeletionFinishes(t *testing.T) {
	_, client, namespace := connect(t)
	if _, err := client.AppsV1().Deployments(namespace).Create(t.Context(), deployment("never-ready", 1), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "a pod", func() (bool, error) {
		pods, err := client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
		return err == nil && len(pods.Items) == 1 && pods.Items[0].Status.Phase == corev1.PodRunning, err
	})
	if err := client.CoreV1().Namespaces().Delete(t.Context(), namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the end of the namespace", func() (bool, error) {
		_, err := client.CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	})
}

func TestAnotherUserHasNoRights(t *testing.T) {
	c, _, namespace := connect(t)
	path, err := c.KubeconfigFor(cluster.User{Name: "mallory", Groups: []string{"ops"}})
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	client := kubernetes.NewForConfigOrDie(config)
	if _, err := client.CoreV1().Secrets(namespace).List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("listing secrets: %v, want forbidden", err)
	}
}

func TestRequestsTellWhoWroteWhat(t *testing.T) {
	c, _, namespace := connect(t)
	since := time.Now()
	config, err := c.ConfigFor(cluster.User{Name: "alice", Groups: []string{"system:masters"}})
	if err != nil {
		t.Fatal(err)
	}
	config.UserAgent = "looking"
	maps := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps(namespace)
	if _, err := maps.List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "one"}}
	if _, err := maps.Create(t.Context(), object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Fatal(err)
	}
	alices := func(requests []cluster.Request, err error) (mine []cluster.Request) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range requests {
			if r.User == "alice" {
				mine = append(mine, r)
			}
		}
		return mine
	}
	if got := alices(c.Writes(t.Context(), since)); len(got) != 0 {
		t.Errorf("a list and a dry run are writes: %+v", got)
	}
	if got := alices(c.Requests(t.Context(), since)); len(got) != 2 || got[0].Verb != "list" || got[0].UserAgent != "looking" {
		t.Errorf("requests: %+v", got)
	}
	if _, err := maps.Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	got := alices(c.Writes(t.Context(), since))
	if len(got) != 1 || got[0].Verb != "create" || got[0].Resource != "configmaps" || got[0].Namespace != namespace || got[0].Code != 201 {
		t.Errorf("writes: %+v", got)
	}
	if later := alices(c.Requests(t.Context(), time.Now())); len(later) != 0 {
		t.Errorf("requests from now on: %+v", later)
	}
}
