package cluster

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// volumes makes a volume for every claim that waits for one, whatever its class, and deletes volumes whose claim is
// gone. That the two belong together, the volume controller finds and writes.
type volumes struct{ client kubernetes.Interface }

// provide makes the volume of a pending claim. An error is no harm: the volume is there already, or the claim stays
// Pending for everyone to see.
func (v *volumes) provide(ctx context.Context, claim *corev1.PersistentVolumeClaim) {
	if claim.Status.Phase == corev1.ClaimBound || claim.Spec.VolumeName != "" || claim.DeletionTimestamp != nil {
		return
	}
	class := ""
	if claim.Spec.StorageClassName != nil {
		class = *claim.Spec.StorageClassName
	}
	_, _ = v.client.CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "volume-" + string(claim.UID)},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: claim.Spec.Resources.Requests[corev1.ResourceStorage]},
			AccessModes:                   claim.Spec.AccessModes,
			VolumeMode:                    claim.Spec.VolumeMode,
			StorageClassName:              class,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				// No kubelet will ever look for this folder.
				HostPath: &corev1.HostPathVolumeSource{Path: "/nonexistent/" + string(claim.UID)},
			},
		},
	}, metav1.CreateOptions{})
}

// reclaim deletes a volume that nobody claims any more, as provisioners do.
func (v *volumes) reclaim(ctx context.Context, volume *corev1.PersistentVolume) {
	if volume.Status.Phase == corev1.VolumeReleased && volume.DeletionTimestamp == nil {
		_ = v.client.CoreV1().PersistentVolumes().Delete(ctx, volume.Name, metav1.DeleteOptions{})
	}
}
