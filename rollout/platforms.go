package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"waybill/bundle"
)

// pageOfNodes is how many nodes are asked for at a time.
const pageOfNodes = 500

// nodePlatforms are the platforms of the cluster's nodes, sorted. A node that does
// not say what it is does not count.
func (r *Runner) nodePlatforms(ctx context.Context) ([]string, error) {
	var platforms []string
	opts := metav1.ListOptions{Limit: pageOfNodes}
	for {
		nodes, err := r.client.CoreV1().Nodes().List(ctx, opts)
		if err = clusterErr("listing nodes", err); err != nil {
			return nil, err
		}
		for _, node := range nodes.Items {
			if info := node.Status.NodeInfo; info.OperatingSystem != "" && info.Architecture != "" {
				platforms = append(platforms, info.OperatingSystem+"/"+info.Architecture)
			}
		}
		if opts.Continue = nodes.Continue; opts.Continue == "" {
			slices.Sort(platforms)
			return slices.Compact(platforms), nil
		}
	}
}

// fitsPlatform is whether one of the platforms of an image, or of a release, is
// that of a node, which names no variant: arm64 is arm64/v8.
func fitsPlatform(platforms []string, node string) bool {
	return slices.ContainsFunc(platforms, func(p string) bool { return p == node || strings.HasPrefix(p, node+"/") })
}

// platformOf is the one platform of all nodes where the lock has its images one
// by platform, and "" where it does not. A [*RefusedError] says why it cannot be
// told.
func (r *Runner) platformOf(ctx context.Context, lock *bundle.Lock) (string, error) {
	if !isFlat(lock) {
		return "", nil
	}
	platforms, err := r.nodePlatforms(ctx)
	switch {
	case errors.Is(err, errForbidden):
		return "", refused("platform", "the bundle has its images one by platform, and these credentials may not list nodes to choose")
	case err != nil:
		return "", err
	case len(platforms) == 0:
		return "", refused("platform", "the bundle has its images one by platform, and no node says what its platform is")
	case len(platforms) > 1:
		return "", refused("platform", fmt.Sprintf("the bundle has its images one by platform, and the nodes are %s; a bundle of shape nested serves several", strings.Join(platforms, ", ")))
	}
	return platforms[0], nil
}

// isFlat is whether a reference leads to several images, one a platform.
func isFlat(lock *bundle.Lock) bool {
	seen := map[string]bool{}
	for _, image := range lock.Images {
		for _, reference := range image.References {
			if seen[reference] {
				return true
			}
			seen[reference] = true
		}
	}
	return false
}
