package cluster

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// NodeName is the name of the cluster's one node.
const NodeName = "node-1"

// node stands in for kube-scheduler and kubelet: it binds pods to itself, writes into their status what a kubelet
// would, ends those that are to be deleted, and has a volume for every claim. All else is left to the controllers.
type node struct {
	client kubernetes.Interface
	pods   corelisters.PodLister
	queue  workqueue.TypedRateLimitingInterface[types.NamespacedName]
	lastIP atomic.Uint32
}

// runNode registers the node and runs it until stop is called. The context bounds the start only.
func runNode(ctx context.Context, config *rest.Config) (stop func(), err error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	if err := register(ctx, client); err != nil {
		return nil, err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	n := &node{
		client: client,
		pods:   factory.Core().V1().Pods().Lister(),
		queue:  workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[types.NamespacedName]()),
	}
	v := &volumes{client: client}
	_, podsErr := factory.Core().V1().Pods().Informer().AddEventHandler(each(func(object any) {
		pod := object.(*corev1.Pod)
		n.queue.Add(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
	}))
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	_, claimsErr := factory.Core().V1().PersistentVolumeClaims().Informer().AddEventHandler(each(func(object any) {
		v.provide(life, object.(*corev1.PersistentVolumeClaim))
	}))
	_, volumesErr := factory.Core().V1().PersistentVolumes().Informer().AddEventHandler(each(func(object any) {
		v.reclaim(life, object.(*corev1.PersistentVolume))
	}))
	if err := errors.Join(podsErr, claimsErr, volumesErr); err != nil {
		cancel()
		return nil, err
	}
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() { n.work(life) })
	}
	factory.StartWithContext(life)
	return func() {
		cancel()
		n.queue.ShutDown()
		workers.Wait()
		factory.Shutdown()
	}, nil
}

// each calls f for every object that is there, comes or changes.
func each(f func(object any)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{AddFunc: f, UpdateFunc: func(_, object any) { f(object) }}
}

// nodeLabels are those a kubelet gives its node.
func nodeLabels() labels.Set {
	return labels.Set{
		corev1.LabelHostname:   NodeName,
		corev1.LabelOSStable:   runtime.GOOS,
		corev1.LabelArchStable: runtime.GOARCH,
	}
}

// register creates the node, large and Ready.
func register(ctx context.Context, client kubernetes.Interface) error {
	nodes := client.CoreV1().Nodes()
	object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: NodeName, Labels: nodeLabels()}}
	object, err := nodes.Create(ctx, object, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	object.Status = corev1.NodeStatus{
		Capacity: corev1.ResourceList{
			corev1.ResourceCPU:              resource.MustParse("1000"),
			corev1.ResourceMemory:           resource.MustParse("1000Gi"),
			corev1.ResourceEphemeralStorage: resource.MustParse("1000Gi"),
			corev1.ResourcePods:             resource.MustParse("10000"),
		},
		Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeHostName, Address: NodeName},
			{Type: corev1.NodeInternalIP, Address: nodeIP},
		},
		Conditions: []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady",
			Message: "stand-in for a kubelet", LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now(),
		}},
		NodeInfo: corev1.NodeSystemInfo{OperatingSystem: runtime.GOOS, Architecture: runtime.GOARCH, ContainerRuntimeVersion: "waybill://0"},
	}
	object.Status.Allocatable = object.Status.Capacity
	_, err = nodes.UpdateStatus(ctx, object, metav1.UpdateOptions{})
	return err
}

// work takes pods from the queue until it is shut down. What fails, mostly because the pod has changed meanwhile, is
// tried again.
func (n *node) work(ctx context.Context) {
	for {
		key, shutDown := n.queue.Get()
		if shutDown {
			return
		}
		again, err := n.sync(ctx, key)
		switch {
		case err != nil && ctx.Err() == nil:
			n.queue.AddRateLimited(key)
		default:
			n.queue.Forget(key)
			if again > 0 {
				n.queue.AddAfter(key, again)
			}
		}
		n.queue.Done(key)
	}
}

// sync does for one pod what is to be done now, and says after which time to look again.
func (n *node) sync(ctx context.Context, key types.NamespacedName) (again time.Duration, err error) {
	pod, err := n.pods.Pods(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	switch {
	case pod.Spec.NodeName == "" && len(pod.Spec.SchedulingGates) == 0:
		return 0, n.bind(ctx, pod)
	case pod.Spec.NodeName != NodeName:
		return 0, nil
	case pod.DeletionTimestamp != nil:
		return 0, n.end(ctx, pod)
	}
	return n.run(ctx, pod)
}

// bind puts a pod on the node, as kube-scheduler would, unless its node selector wants another.
func (n *node) bind(ctx context.Context, pod *corev1.Pod) error {
	if !labels.SelectorFromSet(pod.Spec.NodeSelector).Matches(nodeLabels()) {
		status := pod.Status.DeepCopy()
		setCondition(status, metav1.Now(), corev1.PodCondition{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
			Message: "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.",
		})
		_, err := n.write(ctx, pod, *status)
		return err
	}
	return n.client.CoreV1().Pods(pod.Namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: NodeName},
	}, metav1.CreateOptions{})
}

// end ends a pod that is to be deleted, without its grace period: there is nothing to wait for. Where finalizers keep
// it (the Job controller's does) it is first said to have failed, as kubelets do, or its Job would wait for it.
func (n *node) end(ctx context.Context, pod *corev1.Pod) error {
	if len(pod.Finalizers) > 0 && !finished(pod) {
		status := failed(pod, n.address(pod), metav1.Now())
		if _, err := n.write(ctx, pod, status); err != nil {
			return err
		}
	}
	options := metav1.DeleteOptions{GracePeriodSeconds: new(int64), Preconditions: metav1.NewUIDPreconditions(string(pod.UID))}
	err := n.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, options)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// run brings a pod's status to what its annotation asks for at this time, and says so in an event where that is trouble.
func (n *node) run(ctx context.Context, pod *corev1.Pod) (again time.Duration, err error) {
	if finished(pod) {
		return 0, nil
	}
	b := parseBehaviour(pod.Annotations[PodAnnotation])
	status, again := b.status(pod, n.address(pod), metav1.Now())
	changed, err := n.write(ctx, pod, status)
	if err != nil || !changed || b.event == nil {
		return again, err
	}
	return again, n.report(ctx, pod, b.event)
}

// write writes a pod's status where it is another than before.
func (n *node) write(ctx context.Context, pod *corev1.Pod, status corev1.PodStatus) (changed bool, err error) {
	if equality.Semantic.DeepEqual(pod.Status, status) {
		return false, nil
	}
	pod = pod.DeepCopy()
	pod.Status = status
	_, err = n.client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return true, err
}

// report records a warning about a pod, as a kubelet does.
func (n *node) report(ctx context.Context, pod *corev1.Pod, e *warning) error {
	now := metav1.Now()
	_, err := n.client.CoreV1().Events(pod.Namespace).Create(ctx, &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, GenerateName: pod.Name + "."},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
		},
		Type: corev1.EventTypeWarning, Reason: e.reason, Message: e.message, Count: 1,
		FirstTimestamp: now, LastTimestamp: now, Source: corev1.EventSource{Component: "kubelet", Host: NodeName},
	}, metav1.CreateOptions{})
	return err
}

// nodeIP and the pods' addresses are answered by nobody.
const nodeIP = "10.78.0.1"

// address is the pod's address: the one it has, or the next.
func (n *node) address(pod *corev1.Pod) string {
	if pod.Spec.HostNetwork {
		return nodeIP
	}
	if pod.Status.PodIP != "" {
		return pod.Status.PodIP
	}
	next := n.lastIP.Add(1) + 1
	return fmt.Sprintf("10.78.%d.%d", next>>8&0xff, next&0xff)
}
