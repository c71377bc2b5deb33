//go:build linux

package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// What WAYBILL_TEST_NODE says of these tests.
const (
	modeVariable = "WAYBILL_TEST_NODE"
	modeRequired = "required"  // a machine that cannot run a node is a failure
	modeWhenAble = "when-able" // it is none: one pod is tried, without anything of ours
)

// ableOr runs the tests, unless they are wanted only where a pod runs and none does.
func ableOr(tests func() int) int {
	if os.Getenv(modeVariable) != modeWhenAble {
		return tests()
	}
	if err := probe(context.Background()); err != nil {
		fmt.Printf("test-node: SKIPPED: this machine runs no pod: %v\n", err)
		return 0
	}
	if err := os.Setenv(modeVariable, modeRequired); err != nil {
		fmt.Println(err)
		return 1
	}
	return tests()
}

// probeTime bounds what is tried, the start of a site included.
const probeTime = 4 * time.Minute

// probe runs one pod on a node.
func probe(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	s, err := Start(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w; kubelet's log ends with:\n%s", err, tail(s.path("cluster/kubelet.log")))
		}
		err = errors.Join(err, s.Stop())
	}()
	image, err := s.BuildImage(ctx, "web", "probe")
	if err != nil {
		return err
	}
	if err := s.Push(ctx, image, Registry+"/probe/web:1"); err != nil {
		return err
	}
	config, err := s.Config()
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	return runPod(ctx, client, Registry+"/probe/web:1")
}

// runPod starts a pod and waits until it runs.
func runPod(ctx context.Context, client kubernetes.Interface, image string) error {
	pods := client.CoreV1().Pods("default")
	_, err := pods.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "probe"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "probe", Image: image}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	for {
		pod, err := pods.Get(ctx, "probe", metav1.GetOptions{})
		if err == nil && pod.Status.Phase == corev1.PodRunning {
			return nil
		}
		select {
		case <-ctx.Done():
			if err == nil {
				err = fmt.Errorf("a pod is %s after %s: %+v", pod.Status.Phase, probeTime, pod.Status.ContainerStatuses)
			}
			return err
		case <-time.After(200 * time.Millisecond):
		}
	}
}
