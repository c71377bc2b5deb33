//go:build linux

package node

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

func TestMain(m *testing.M) {
	Main()
	os.Exit(ableOr(m.Run))
}

// requested skips the test where nobody asked for a real node: make test-node
// does.
func requested(t *testing.T) {
	t.Helper()
	if os.Getenv(modeVariable) != modeRequired {
		t.Skip("a real node is for make test-node, which sets WAYBILL_TEST_NODE=required")
	}
}

// start starts a site that lives as long as the test.
func start(t *testing.T) *Site {
	t.Helper()
	requested(t)
	s, err := Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			s.tell(t)
		}
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// tell shows what was dialled and the ends of the logs that say why a pod does
// not run.
func (s *Site) tell(t *testing.T) {
	packets, err := s.Dialled()
	t.Logf("dialled: %v %v", packets, err)
	for _, log := range []string{"cluster/kubelet.log", "cluster/containerd.log", "cluster/docker-registry.log"} {
		t.Logf("%s ends with:\n%s", log, tail(s.path(log)))
	}
}

func (s *Site) client(t *testing.T) kubernetes.Interface {
	t.Helper()
	config, err := s.Config()
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// until asks until the answer is nil, for two minutes.
func until(t *testing.T, what string, ask func(context.Context) error) {
	t.Helper()
	var err error
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if err = ask(t.Context()); err == nil {
			return
		}
	}
	t.Fatalf("%s: %v", what, err)
}

func TestNodePullsByDigestAndFromNowhereElse(t *testing.T) {
	s := start(t)
	client := s.client(t)
	web, check := s.pushed(t, "web"), s.pushed(t, "check")
	s.run(t, client, "here", web)
	until(t, "the pod runs", func(ctx context.Context) error {
		pod, err := client.CoreV1().Pods("default").Get(ctx, "here", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if pod.Status.Phase != corev1.PodRunning {
			return errors.New(string(pod.Status.Phase))
		}
		if id := pod.Status.ContainerStatuses[0].ImageID; id != web {
			t.Errorf("runs image %s, want %s", id, web)
		}
		return nil
	})
	if pulls, err := s.Pulls(); err != nil || strings.Join(pulls, " ") != web {
		t.Errorf("pulled: %q, %v", pulls, err)
	}
	if packets, err := s.Dialled(); err != nil || len(packets) > 0 {
		t.Errorf("something dialled another host: %v, %v", packets, err)
	}

	// The same watch sees a node that looks elsewhere, and a pod that does.
	s.run(t, client, "elsewhere", "docker.io/library/nginx:1.27")
	s.run(t, client, "dials", check, "198.51.100.7")
	until(t, "the node's question for docker.io is on record", func(context.Context) error {
		return s.sees(func(p Packet) bool { return p.Name == "registry-1.docker.io." })
	})
	until(t, "the pod's packet is on record", func(context.Context) error {
		return s.sees(func(p Packet) bool {
			return p.Protocol == "tcp" && p.To.String() == "198.51.100.7" && netip.MustParsePrefix(podSubnet).Contains(p.From)
		})
	})
}

// pushed builds an image, pushes it to the site's registry, and says where it is.
func (s *Site) pushed(t *testing.T, program string) (reference string) {
	t.Helper()
	image, err := s.BuildImage(t.Context(), program, "by hand")
	if err != nil {
		t.Fatal(err)
	}
	digest, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Push(t.Context(), image, Registry+"/by/hand:"+program); err != nil {
		t.Fatal(err)
	}
	return Registry + "/by/hand@" + digest.String()
}

func (s *Site) run(t *testing.T, client kubernetes.Interface, name, image string, args ...string) {
	t.Helper()
	_, err := client.CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: name, Image: image, Args: args}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// sees looks for a packet on record.
func (s *Site) sees(is func(Packet) bool) error {
	packets, err := s.Dialled()
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(packets, is) {
		return fmt.Errorf("not among %v", packets)
	}
	return nil
}
