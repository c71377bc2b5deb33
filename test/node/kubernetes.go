//go:build linux

package node

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"waybill/test/cluster"
)

// startPrograms starts the registries and Kubernetes, and returns when the node is
// Ready. They run as long as the cluster is held on to.
func startPrograms(ctx context.Context, dir string, paths map[string]string) (*cluster.Cluster, error) {
	c, err := cluster.Start(ctx, cluster.Options{
		Programs: paths, Dir: filepath.Join(dir, "cluster"), Listen: kubernetesIP + ":443", NoNode: true,
	})
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		return nil, err
	}
	scheduler, schedulerErr := c.KubeconfigFor(cluster.User{Name: "system:kube-scheduler"})
	kubelet, kubeletErr := c.KubeconfigFor(cluster.User{Name: "system:node:" + Name, Groups: []string{"system:nodes", "system:masters"}})
	if err := errors.Join(schedulerErr, kubeletErr); err != nil {
		return nil, err
	}
	for _, r := range registries {
		if err := c.Run(ctx, r.answers, paths["docker-registry"], "serve", r.configFile(dir)); err != nil {
			return nil, err
		}
	}
	if err := c.Run(ctx, listens(containerdSocket), paths["containerd"], "--config="+filepath.Join(dir, "containerd.toml")); err != nil {
		return nil, err
	}
	if err := c.Run(ctx, started, paths["kube-scheduler"], "--kubeconfig="+scheduler, "--secure-port=0", "--leader-elect=false"); err != nil {
		return nil, err
	}
	return c, c.Run(ctx, nodeReady(client), paths["kubelet"], "--config="+filepath.Join(dir, "kubelet.yaml"), "--kubeconfig="+kubelet,
		"--hostname-override="+Name, "--node-ip="+machineIP)
}

// started is for a program that shows by its work whether it is ready.
func started(context.Context) error { return nil }

func nodeReady(client kubernetes.Interface) func(context.Context) error {
	return func(ctx context.Context) error {
		node, err := client.CoreV1().Nodes().Get(ctx, Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady {
				if condition.Status == corev1.ConditionTrue {
					return nil
				}
				return fmt.Errorf("node %s is not ready: %s", Name, condition.Message)
			}
		}
		return fmt.Errorf("node %s says nothing of itself", Name)
	}
}

// kubeletConfig: https://kubernetes.io/docs/reference/config-api/kubelet-config.v1beta1/
const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow} # nobody else is in this network
address: ` + machineIP + `
readOnlyPort: 0
healthzPort: 0
containerRuntimeEndpoint: unix://` + containerdSocket + `
cgroupDriver: cgroupfs
cgroupsPerQOS: false
enforceNodeAllocatable: []
failCgroupV1: false
failSwapOn: false
makeIPTablesUtilChains: false # there are no services, and iptables need not be there
resolvConf: ""
imageGCHighThresholdPercent: 100
evictionHard: {nodefs.available: "1%", imagefs.available: "1%"}
`
