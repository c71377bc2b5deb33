package rollout

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
)

// defaultAccount is the ServiceAccount of pods that name none, such as those
// that operators start.
const defaultAccount = "default"

// attachedPrefix, with an instance's name, is an annotation on the default
// ServiceAccount: the pull secrets that the instance needs there and nobody but
// waybill added, separated by commas.
const attachedPrefix = "pull-secret.waybill/"

// attachTo adds the pull secret to an account and says whether that changed it.
// A secret that somebody else added is used and stays theirs.
func attachTo(account *corev1.ServiceAccount, instance, name string) bool {
	key := attachedPrefix + instance
	mine := attachedNames(account, key)
	there := slices.ContainsFunc(account.ImagePullSecrets, func(s corev1.LocalObjectReference) bool { return s.Name == name })
	if there && (slices.Contains(mine, name) || len(usersOf(account, name)) == 0) {
		return false
	}
	if !there {
		account.ImagePullSecrets = append(account.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
	}
	setAttached(account, key, append(mine, name))
	return true
}

// detachFrom takes exactly that away again, and says whether it changed the
// account.
func detachFrom(account *corev1.ServiceAccount, instance, name string) bool {
	key := attachedPrefix + instance
	mine := attachedNames(account, key)
	if !slices.Contains(mine, name) {
		return false
	}
	setAttached(account, key, slices.DeleteFunc(mine, func(n string) bool { return n == name }))
	if len(usersOf(account, name)) == 0 {
		account.ImagePullSecrets = slices.DeleteFunc(account.ImagePullSecrets, func(s corev1.LocalObjectReference) bool { return s.Name == name })
	}
	return true
}

// usersOf are the annotations of instances that need the pull secret there.
func usersOf(account *corev1.ServiceAccount, name string) []string {
	var users []string
	for key := range account.Annotations {
		if strings.HasPrefix(key, attachedPrefix) && slices.Contains(attachedNames(account, key), name) {
			users = append(users, key)
		}
	}
	return users
}

func attachedNames(account *corev1.ServiceAccount, key string) []string {
	if account.Annotations[key] == "" {
		return nil
	}
	return strings.Split(account.Annotations[key], ",")
}

func setAttached(account *corev1.ServiceAccount, key string, names []string) {
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) == 0 {
		delete(account.Annotations, key)
		return
	}
	if account.Annotations == nil {
		account.Annotations = map[string]string{}
	}
	account.Annotations[key] = strings.Join(names, ",")
}

// attachToAccount adds the pull secret to the default ServiceAccount, which the
// cluster makes a moment after its namespace.
func (r *Runner) attachToAccount(ctx context.Context, instance string, place PullSecretPlace) error {
	change := func(account *corev1.ServiceAccount) bool { return attachTo(account, instance, place.Name) }
	for deadline := time.Now().Add(r.accountWait); ; {
		err := r.changeAccount(ctx, place.Namespace, change)
		if !apierrors.IsNotFound(err) {
			return clusterErr(fmt.Sprintf("attaching the pull secret %s to the default ServiceAccount of namespace %s", place.Name, place.Namespace), err)
		}
		if !time.Now().Before(deadline) {
			return &absentError{fmt.Sprintf("namespace %s has no default ServiceAccount, so the pull secret %s was not attached to it", place.Namespace, place.Name)}
		}
		if err := sleep(ctx, r.poll); err != nil {
			return err
		}
	}
}

func (r *Runner) detachFromAccount(ctx context.Context, instance string, place PullSecretPlace) error {
	err := r.changeAccount(ctx, place.Namespace, func(account *corev1.ServiceAccount) bool { return detachFrom(account, instance, place.Name) })
	if apierrors.IsNotFound(err) {
		return nil
	}
	return clusterErr(fmt.Sprintf("taking the pull secret %s from the default ServiceAccount of namespace %s", place.Name, place.Namespace), err)
}

// changeAccount writes the default ServiceAccount when change changed it, again
// when somebody else was faster.
func (r *Runner) changeAccount(ctx context.Context, namespace string, change func(*corev1.ServiceAccount) bool) error {
	accounts := r.client.CoreV1().ServiceAccounts(namespace)
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		account, err := accounts.Get(ctx, defaultAccount, metav1.GetOptions{})
		if err != nil || !change(account) {
			return err
		}
		_, err = accounts.Update(ctx, account, metav1.UpdateOptions{FieldManager: "waybill"})
		return err
	})
}
