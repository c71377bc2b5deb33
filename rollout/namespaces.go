package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// checkNamespaces looks at the state namespace and at those of the active
// components, and returns the names of those that have to be created.
func (r *Runner) checkNamespaces(ctx context.Context, a *analysis, wait time.Duration) ([]string, error) {
	users := map[string][]string{a.store.namespace: nil}
	creatable := map[string]bool{a.store.namespace: true}
	for _, c := range a.components {
		if c.active() {
			users[c.namespace] = append(users[c.namespace], c.Name)
		}
		if c.enabled && c.CreateNamespace {
			creatable[c.namespace] = true
		}
	}
	var absent []string
	for _, name := range sortedKeys(users) {
		ns, err := r.settled(ctx, name, wait)
		switch {
		case errors.Is(err, errForbidden):
			// It may be there and not ours to look at: the objects will tell.
			a.warn("namespace %s may not be read with these credentials; taken to be there", name)
			a.plan.Namespaces = append(a.plan.Namespaces, PlannedNamespace{Name: name})
			continue
		case err != nil:
			return nil, err
		case ns == nil && creatable[name]:
			absent = append(absent, name)
		case ns == nil:
			a.refuse("namespace", "namespace %s does not exist, and no component that uses it (%s) has createNamespace: true; create it, or let the release say so", name, strings.Join(users[name], ", "))
		case terminating(ns):
			a.refuse("namespace-terminating", "%s", goingText(ns, wait))
		}
		a.plan.Namespaces = append(a.plan.Namespaces, PlannedNamespace{Name: name, Create: ns == nil && creatable[name]})
	}
	return absent, nil
}

// settled returns the namespace, nil when it is not there. One that is being
// deleted is waited for.
func (r *Runner) settled(ctx context.Context, name string, wait time.Duration) (*corev1.Namespace, error) {
	deadline, told := time.Now().Add(wait), false
	for {
		ns, err := r.client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, clusterErr("reading namespace "+name, err)
		}
		if !terminating(ns) || !time.Now().Before(deadline) {
			return ns, nil
		}
		if !told {
			r.events(Event{Kind: EventNamespace, Message: fmt.Sprintf("waiting up to %s for namespace %s, which is being deleted", wait, name)})
			told = true
		}
		if err := sleep(ctx, min(r.poll, max(time.Until(deadline), 0))); err != nil {
			return nil, err
		}
	}
}

// goingText says of a namespace that is being deleted what holds it.
func goingText(ns *corev1.Namespace, wait time.Duration) string {
	text := fmt.Sprintf("namespace %s is being deleted", ns.Name)
	if wait > 0 {
		text += fmt.Sprintf(" and was still there after %s", wait)
	}
	var finalizers []string
	finalizers = append(finalizers, ns.Finalizers...)
	for _, f := range ns.Spec.Finalizers {
		finalizers = append(finalizers, string(f))
	}
	if len(finalizers) > 0 {
		text += "; its finalizers: " + strings.Join(finalizers, ", ")
	}
	for _, c := range ns.Status.Conditions {
		held := c.Type == corev1.NamespaceContentRemaining || c.Type == corev1.NamespaceFinalizersRemaining
		if held && c.Status == corev1.ConditionTrue && c.Message != "" {
			text += "; " + strings.TrimSuffix(c.Message, ".")
		}
	}
	return text
}

// createNamespace creates a namespace and says whether it did: one that
// turned up meanwhile is not touched. A nil owner is the state namespace's,
// which belongs to no one instance.
func (r *Runner) createNamespace(ctx context.Context, name, owner string) (bool, error) {
	labels := map[string]string{"app.kubernetes.io/managed-by": "waybill"}
	if owner != "" {
		labels[LabelInstance] = owner
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	_, err := r.client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{FieldManager: "waybill"})
	if apierrors.IsAlreadyExists(err) {
		return false, nil
	}
	if err != nil {
		return false, clusterErr("creating namespace "+name, err)
	}
	r.events(Event{Kind: EventNamespace, Message: "created namespace " + name})
	return true, nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
