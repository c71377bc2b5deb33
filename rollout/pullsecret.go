package rollout

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What happens to the pull secret in a namespace.
const (
	PullSecretCopy      = "copy"      // there is none yet
	PullSecretUpdate    = "update"    // its source has other content by now
	PullSecretAttach    = "attach"    // it is there; the default ServiceAccount does not name it
	PullSecretUnchanged = "unchanged" // nothing
)

// PlannedPullSecret is what would happen to the pull secret in one namespace.
type PlannedPullSecret struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Action    string `json:"action"`
}

// A PullSecretPlace is a namespace in which an attempt may have copied a pull
// secret, or added it to the default ServiceAccount.
type PullSecretPlace struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Copied    bool   `json:"copied,omitempty"` // false: it is the source itself
}

// pulling is the site's pull secret.
type pulling struct {
	name, from string // Secret and namespace of the source
	source     *corev1.Secret
	places     []PullSecretPlace
}

// pullSecret returns what the site file names, nil for none.
func (req *Request) pullSecret() *pulling {
	if req.Site == nil || req.Site.Images == nil || req.Site.Images.PullSecret == nil {
		return nil
	}
	return &pulling{name: req.Site.Images.PullSecret.Name, from: req.Site.Images.PullSecret.Namespace}
}

// attached is the name of the pull secret for what is sent, "" for none.
func (p *pulling) attached() string {
	if p == nil {
		return ""
	}
	return p.name
}

// checkPullSecret compares the source with its copies, and refuses what would
// keep them from being made.
func (r *Runner) checkPullSecret(ctx context.Context, a *analysis) error {
	p := a.pull
	if p == nil {
		return nil
	}
	if err := r.readPullSecret(ctx, a); err != nil || p.source == nil {
		return err
	}
	if a.images == nil {
		a.warn("images are kept as charts write them, so the pull secret %s is added to the default ServiceAccount of each namespace only, and not to pods and ServiceAccounts that are sent", p.name)
	}
	var rights []right
	for _, namespace := range a.podNamespaces() {
		action, err := r.checkPlace(ctx, a, namespace)
		if err != nil {
			return err
		}
		if action == "" {
			continue // refused
		}
		place := PullSecretPlace{Namespace: namespace, Name: p.name, Copied: namespace != p.from}
		p.places = append(p.places, place)
		a.plan.PullSecrets = append(a.plan.PullSecrets, PlannedPullSecret{Namespace: namespace, Name: p.name, Action: action})
		verb := map[string]string{PullSecretCopy: "create", PullSecretUpdate: "update"}[action]
		if verb != "" {
			rights = append(rights, right{verb, "", "secrets", namespace, "to keep the pull secret " + p.name + " there"})
		}
		if action != PullSecretUnchanged {
			rights = append(rights, right{"update", "", "serviceaccounts", namespace, "to attach the pull secret " + p.name + " to the default one"})
		}
	}
	return r.ask(ctx, a, rights)
}

// readPullSecret reads the source. Without one that can be used the analysis
// has a refusal.
func (r *Runner) readPullSecret(ctx context.Context, a *analysis) error {
	p := a.pull
	secret, err := r.client.CoreV1().Secrets(p.from).Get(ctx, p.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		a.refuse("pull-secret", "the site file's images.pullSecret: there is no Secret %s in namespace %s", p.name, p.from)
		return nil
	case err != nil:
		return a.refuseRight(clusterErr(fmt.Sprintf("reading the pull secret %s/%s", p.from, p.name), err), "get secrets", p.from)
	case secret.Type != corev1.SecretTypeDockerConfigJson && secret.Type != corev1.SecretTypeDockercfg:
		a.refuse("pull-secret", "the site file's images.pullSecret: Secret %s/%s is of type %q; nodes pull with %s and %s only",
			p.from, p.name, secret.Type, corev1.SecretTypeDockerConfigJson, corev1.SecretTypeDockercfg)
		return nil
	}
	p.source = secret
	return nil
}

// refuseRight makes a refusal of a missing right, named as verb and resource.
// Other errors are returned.
func (a *analysis) refuseRight(err error, right, namespace string) error {
	if !errors.Is(err, errForbidden) {
		return err
	}
	a.refuse("rights", "these credentials lack the right to %s in namespace %s: %v", right, namespace, err)
	return nil
}

// podNamespaces are the namespaces in which the instance has pods that use the
// pull secret: those of the components of this attempt, and of others that were
// installed with it.
func (a *analysis) podNamespaces() []string {
	found := map[string]bool{}
	for _, s := range a.subjects {
		if s.active() {
			found[s.namespace] = true
			for _, namespace := range s.podNamespaces {
				found[namespace] = true
			}
		}
	}
	if rec := a.record(); rec != nil {
		for i := range rec.Components {
			if c := &rec.Components[i]; c.touched() && c.PullSecret == a.pull.name {
				for _, namespace := range c.namespaces() {
					found[namespace] = true
				}
			}
		}
	}
	return sortedKeys(found)
}

// namespaces are those in which the component has pods.
func (c *ComponentRecord) namespaces() []string {
	return slices.Compact(slices.Sorted(slices.Values(append([]string{c.Namespace}, c.PodNamespaces...))))
}

// findPodNamespaces notes the namespaces of the component's pods.
func (s *subject) findPodNamespaces() {
	if s.preview == nil {
		if s.previous != nil {
			s.podNamespaces = s.previous.PodNamespaces
		}
		return
	}
	found := map[string]bool{}
	for _, namespace := range s.preview.Images.Namespaces {
		if namespace != "" && namespace != s.namespace {
			found[namespace] = true
		}
	}
	if s.podNamespaces = nil; len(found) > 0 {
		s.podNamespaces = sortedKeys(found)
	}
}

// checkPlace says what is to be done in a namespace, "" after a refusal.
func (r *Runner) checkPlace(ctx context.Context, a *analysis, namespace string) (string, error) {
	p := a.pull
	account, err := r.client.CoreV1().ServiceAccounts(namespace).Get(ctx, defaultAccount, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return "", a.refuseRight(clusterErr("reading the default ServiceAccount of namespace "+namespace, err), "get serviceaccounts", namespace)
	}
	attached := err != nil || !attachTo(account, a.instance, p.name) // one that is absent comes with its namespace
	if namespace != p.from {
		secret, err := r.client.CoreV1().Secrets(namespace).Get(ctx, p.name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return PullSecretCopy, nil
		case err != nil:
			return "", a.refuseRight(clusterErr(fmt.Sprintf("reading Secret %s/%s", namespace, p.name), err), "get secrets", namespace)
		case secret.Labels[LabelInstance] != a.instance:
			a.refuse("pull-secret", "namespace %s has a Secret %s that %s; give the pull secret another name", namespace, p.name, ownerOfSecret(secret))
			return "", nil
		case !sameSecret(secret, p.source):
			return PullSecretUpdate, nil
		}
	}
	if !attached {
		return PullSecretAttach, nil
	}
	return PullSecretUnchanged, nil
}

func ownerOfSecret(secret *corev1.Secret) string {
	if other := secret.Labels[LabelInstance]; other != "" {
		return "belongs to instance " + other
	}
	return "was not made by waybill"
}

func sameSecret(a, b *corev1.Secret) bool {
	return a.Type == b.Type && maps.EqualFunc(a.Data, b.Data, slices.Equal[[]byte])
}

// pullReasons says what of the pull secret makes an attempt necessary.
func (a *analysis) pullReasons() []string {
	var reasons []string
	for _, p := range a.plan.PullSecrets {
		switch p.Action {
		case PullSecretCopy:
			reasons = append(reasons, fmt.Sprintf("namespace %s has no copy of the pull secret %s", p.Namespace, p.Name))
		case PullSecretUpdate:
			reasons = append(reasons, fmt.Sprintf("the pull secret %s in namespace %s is another than its source", p.Name, p.Namespace))
		case PullSecretAttach:
			reasons = append(reasons, fmt.Sprintf("the default ServiceAccount of namespace %s does not name the pull secret %s", p.Namespace, p.Name))
		}
	}
	return reasons
}

// pullSecrets makes the copies and attaches them, before the first component.
// Where that may be done is written down first.
func (t *attempt) pullSecrets(ctx context.Context) error {
	p := t.analysis.pull
	if p == nil {
		return nil
	}
	err := t.update(ctx, func(rec *Record) {
		for _, place := range p.places {
			if !slices.Contains(rec.PullSecrets, place) {
				rec.PullSecrets = append(rec.PullSecrets, place)
			}
		}
	})
	if err != nil {
		return err
	}
	for _, place := range p.places {
		if err := t.runner.bringPullSecret(ctx, t.analysis.instance, p.source, place); err != nil {
			var absent *absentError
			if !errors.As(err, &absent) {
				return err
			}
			t.outcome.Warnings = append(t.outcome.Warnings, err.Error())
			t.runner.events(Event{Kind: EventWarning, Message: err.Error()})
		}
	}
	return nil
}

// An absentError says what is not there yet, without harm to the attempt.
type absentError struct{ text string }

func (e *absentError) Error() string { return e.text }

// bringPullSecret brings one place up to date. An [*absentError] tells of a
// namespace or ServiceAccount that is not there.
func (r *Runner) bringPullSecret(ctx context.Context, instance string, source *corev1.Secret, place PullSecretPlace) error {
	if place.Copied {
		if err := r.copySecret(ctx, instance, source, place.Namespace); err != nil {
			return err
		}
	}
	return r.attachToAccount(ctx, instance, place)
}

func (r *Runner) copySecret(ctx context.Context, instance string, source *corev1.Secret, namespace string) error {
	secrets := r.client.CoreV1().Secrets(namespace)
	act := fmt.Sprintf("copying the pull secret %s to namespace %s", source.Name, namespace)
	copied := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: source.Name, Namespace: namespace, Labels: map[string]string{
			LabelInstance: instance, "app.kubernetes.io/managed-by": "waybill",
		}},
		Type: source.Type, Data: source.Data,
	}
	have, err := secrets.Get(ctx, source.Name, metav1.GetOptions{})
	switch {
	case err == nil && have.Labels[LabelInstance] != instance:
		return fmt.Errorf("%s: there is a Secret of that name that %s", act, ownerOfSecret(have))
	case err == nil && sameSecret(have, source):
		return nil
	case err == nil && have.Type == source.Type && (have.Immutable == nil || !*have.Immutable):
		have.Data = source.Data
		_, err = secrets.Update(ctx, have, metav1.UpdateOptions{FieldManager: "waybill"})
		return clusterErr(act, err)
	case err == nil: // a Secret's type never changes
		if err := deleteSecret(ctx, r, have); err != nil {
			return clusterErr(act, err)
		}
	case !apierrors.IsNotFound(err):
		return clusterErr(act, err)
	}
	_, err = secrets.Create(ctx, copied, metav1.CreateOptions{FieldManager: "waybill"})
	if apierrors.IsNotFound(err) {
		return &absentError{fmt.Sprintf("%s: the namespace does not exist yet; pods there pull without it until the next install", act)}
	}
	return clusterErr(act, err)
}

func deleteSecret(ctx context.Context, r *Runner, secret *corev1.Secret) error {
	opts := metav1.DeleteOptions{}
	if secret.UID != "" {
		opts.Preconditions = &metav1.Preconditions{UID: &secret.UID}
	}
	err := r.client.CoreV1().Secrets(secret.Namespace).Delete(ctx, secret.Name, opts)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// idle are the places that no component which stands in the cluster uses.
func (r *Record) idle() []PullSecretPlace {
	var idle []PullSecretPlace
	for _, place := range r.PullSecrets {
		used := slices.ContainsFunc(r.Components, func(c ComponentRecord) bool {
			return c.touched() && c.PullSecret == place.Name && slices.Contains(c.namespaces(), place.Namespace)
		})
		if !used {
			idle = append(idle, place)
		}
	}
	return idle
}

// dropPullSecrets takes away what is idle, and writes that down.
func (r *Runner) dropPullSecrets(ctx context.Context, record *writer, update func(context.Context, func(*Record)) error) error {
	rec := record.snapshot()
	idle := rec.idle()
	if len(idle) == 0 {
		return nil
	}
	for _, place := range idle {
		if err := r.dropPullSecret(ctx, rec.Instance, place); err != nil {
			return err
		}
	}
	return update(ctx, func(rec *Record) {
		rec.PullSecrets = slices.DeleteFunc(slices.Clone(rec.PullSecrets), func(p PullSecretPlace) bool { return slices.Contains(idle, p) })
	})
}

// dropPullSecret takes away what an attempt may have brought to one place.
func (r *Runner) dropPullSecret(ctx context.Context, instance string, place PullSecretPlace) error {
	if err := r.detachFromAccount(ctx, instance, place); err != nil || !place.Copied {
		return err
	}
	act := fmt.Sprintf("removing the pull secret %s from namespace %s", place.Name, place.Namespace)
	secret, err := r.client.CoreV1().Secrets(place.Namespace).Get(ctx, place.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return clusterErr(act, err)
	case secret.Labels[LabelInstance] != instance || strings.HasPrefix(string(secret.Type), recordTypePrefix):
		return nil // somebody else's by now
	}
	return clusterErr(act, deleteSecret(ctx, r, secret))
}
