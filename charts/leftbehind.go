package charts

import (
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/release"
	"k8s.io/cli-runtime/pkg/resource"
)

// Helm merges what it sends with the revision that was deployed last. What a
// failed revision after it put into the cluster, and nobody took back, it does
// not know: fields would stay that neither the deployed revision nor the new
// one has, and so would whole objects. They are removed here.

// leftBehind reads what failed revisions may have left, the newest first, since
// the one that Helm merges with; nil when it merges with none. One with a kind that is not served any more left nothing that
// can be found.
func (s *session) leftBehind(releases []*release.Release, from *release.Release) []kube.ResourceList {
	var left []kube.ResourceList
	for _, rel := range slices.Backward(releases) {
		if rel == from || rel.Info.Status == release.StatusUninstalled {
			break
		}
		if rel.Info.Status != release.StatusFailed {
			continue
		}
		if list, err := s.kube.Build(strings.NewReader(rel.Manifest), false); err == nil {
			left = append(left, list)
		}
	}
	return left
}

// mergeLeft takes off an object what failed revisions put on it and the new
// one does not have.
func (k *kubeClient) mergeLeft(info *resource.Info, force bool) error {
	for _, list := range k.left {
		was := onlyOf(list, info)
		if was == nil {
			continue
		}
		wanted := *info // Helm puts the live object in its place
		wanted.Object = info.Object.DeepCopyObject()
		if _, err := k.Client.UpdateThreeWayMerge(was, kube.ResourceList{&wanted}, force); err != nil {
			return err
		}
	}
	return nil
}

// dropLeft deletes the objects that only failed revisions have. What holds
// data stays.
func (s *session) dropLeft() error {
	if len(s.kube.left) == 0 {
		return nil
	}
	sent, err := s.kube.Build(strings.NewReader(s.records.sent().Manifest), false)
	if err != nil {
		return err
	}
	for _, list := range s.kube.left {
		for _, info := range s.kube.withoutHome(list.Difference(sent)) {
			if neverRemoved(info.Mapping.GroupVersionKind.GroupKind()) {
				continue
			}
			if _, err := s.kube.drop(info); err != nil {
				return s.kube.keep(err)
			}
		}
	}
	return nil
}
