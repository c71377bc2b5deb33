//go:build linux

package node

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// mirror is what the bundle is expanded below, in the registry without a login.
const mirror = Registry + "/m"

// TestPodsKeepNamesAndPullFromTheMirror runs pods that name images as their
// charts do, by tag and by digest: the node was told where they are, and asks
// nobody else.
func TestPodsKeepNamesAndPullFromTheMirror(t *testing.T) {
	s := start(t)
	r := &trial{Site: s, client: s.client(t), bin: filepath.Join(s.Dir(), "bin")}
	r.buildPrograms(t)
	images := r.carry(t)
	r.must(t, "bundle", "load", "./carried.tar", "oci://"+mirror+"/harbour", "--expand", mirror, "--key", "vendor.pub", "--ca-file", "registry.pem")
	r.must(t, "bundle", "export", "containerd", "./carried.tar", "--mirror", mirror, "--only-mirror", "--key", "vendor.pub", "--ca-file", "registry.pem", "--to", "certs.d")

	var asked []string
	for i, reference := range slices.Sorted(maps.Keys(images)) {
		digest := images[reference]
		if i%2 == 1 { // every other by its digest
			reference, _, _ = strings.Cut(reference, "@")
			reference = reference[:strings.LastIndex(reference, ":")] + "@" + digest
		}
		asked = append(asked, reference)
		r.runs(t, fmt.Sprintf("kept-%d", i), reference, digest)
	}
	pulled, err := s.Pulls()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(asked)
	slices.Sort(pulled)
	if !slices.Equal(asked, slices.Compact(pulled)) {
		t.Errorf("pulled %v, asked for %v", pulled, asked)
	}
	if packets, err := s.Dialled(); err != nil || len(packets) > 0 {
		t.Errorf("something dialled another host: %v, %v", packets, err)
	}

	// What nobody has is asked for at the mirror alone.
	s.run(t, r.client, "absent", "docker.io/library/absent:1")
	until(t, "the node gives up", func(ctx context.Context) error {
		pod, err := r.client.CoreV1().Pods("default").Get(ctx, "absent", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range pod.Status.ContainerStatuses {
			if w := c.State.Waiting; w != nil && (w.Reason == "ErrImagePull" || w.Reason == "ImagePullBackOff") {
				return nil
			}
		}
		return fmt.Errorf("%+v", pod.Status)
	})
	if packets, err := s.Dialled(); err != nil || len(packets) > 0 {
		t.Errorf("something dialled another host: %v, %v", packets, err)
	}
}

// runs starts a pod and waits until it has run an image of that digest.
func (r *trial) runs(t *testing.T, name, image, digest string) {
	t.Helper()
	r.run(t, r.client, name, image)
	until(t, image+" runs", func(ctx context.Context) error {
		pod, err := r.client.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		ran := func(c corev1.ContainerStatus) bool { return strings.HasSuffix(c.ImageID, "@"+digest) }
		if !slices.ContainsFunc(pod.Status.ContainerStatuses, ran) {
			return fmt.Errorf("%+v", pod.Status.ContainerStatuses)
		}
		return nil
	})
}
