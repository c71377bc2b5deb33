package rollout

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// store keeps the records of one state namespace, one Secret each.
type store struct {
	client    kubernetes.Interface
	namespace string
}

// stored is a record and the Secret it is in.
type stored struct {
	record *Record
	secret *corev1.Secret
}

func secretName(instance string, revision int) string {
	return fmt.Sprintf("waybill.%s.v%d", instance, revision)
}

// revisionOf reads the number at the end of a record's name, 0 when there is
// none.
func revisionOf(secret *corev1.Secret) int {
	prefix := "waybill." + secret.Labels[LabelInstance] + ".v"
	n, err := strconv.Atoi(strings.TrimPrefix(secret.Name, prefix))
	if err != nil || n < 1 || !strings.HasPrefix(secret.Name, prefix) {
		return 0
	}
	return n
}

// secrets returns the Secrets with records of the instance, or of all when
// instance is empty, sorted by instance and revision. A namespace that is not
// there has none.
func (s store) secrets(ctx context.Context, instance string) ([]corev1.Secret, error) {
	selector := LabelInstance
	if instance != "" {
		selector += "=" + instance
	}
	list, err := s.client.CoreV1().Secrets(s.namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, clusterErr("listing the records in namespace "+s.namespace, err)
	}
	found := slices.DeleteFunc(list.Items, func(sec corev1.Secret) bool {
		return !strings.HasPrefix(string(sec.Type), recordTypePrefix) || revisionOf(&sec) == 0
	})
	slices.SortFunc(found, func(a, b corev1.Secret) int {
		if c := strings.Compare(a.Labels[LabelInstance], b.Labels[LabelInstance]); c != 0 {
			return c
		}
		return revisionOf(&a) - revisionOf(&b)
	})
	return found, nil
}

// read decodes the record in a Secret and holds it against the Secret's name.
func read(secret *corev1.Secret) (*Record, error) {
	if secret.Type != recordType {
		return nil, &NewerRecordError{Name: secret.Name, Version: string(secret.Type)}
	}
	rec, err := decodeRecord(secret.Name, secret.Data[recordKey])
	if err != nil {
		return nil, err
	}
	if secretName(rec.Instance, rec.Revision) != secret.Name {
		return nil, &RecordError{Name: secret.Name, Err: fmt.Errorf("it is about instance %s, revision %d", rec.Instance, rec.Revision)}
	}
	return rec, nil
}

// latest returns the newest record of the instance, nil for none. A newer
// form anywhere among them is a [*NewerRecordError].
func (s store) latest(ctx context.Context, instance string) (*stored, error) {
	secrets, err := s.secrets(ctx, instance)
	if err != nil || len(secrets) == 0 {
		return nil, err
	}
	for i := range secrets {
		if secrets[i].Type != recordType {
			return nil, &NewerRecordError{Name: secrets[i].Name, Version: string(secrets[i].Type)}
		}
	}
	newest := &secrets[len(secrets)-1]
	rec, err := read(newest)
	if err != nil {
		return nil, err
	}
	return &stored{record: rec, secret: newest}, nil
}

// names returns the instances with records, sorted.
func (s store) names(ctx context.Context) ([]string, error) {
	secrets, err := s.secrets(ctx, "")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, sec := range secrets {
		names = append(names, sec.Labels[LabelInstance])
	}
	return slices.Compact(names), nil
}

// secretFor returns the Secret that holds data as rec's record.
func (s store) secretFor(rec *Record, data []byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: secretName(rec.Instance, rec.Revision), Namespace: s.namespace,
			Labels: map[string]string{LabelInstance: rec.Instance, LabelRelease: rec.Release, LabelStatus: rec.Status},
		},
		Type: recordType,
		Data: map[string][]byte{recordKey: data},
	}
}

// create writes a record for the first time.
func (s store) create(ctx context.Context, rec *Record) (*writer, error) {
	data, err := rec.encode()
	if err != nil {
		return nil, err
	}
	secret, err := s.client.CoreV1().Secrets(s.namespace).Create(ctx, s.secretFor(rec, data), metav1.CreateOptions{FieldManager: "waybill"})
	if apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("writing record %s: somebody else wrote it: %w", secretName(rec.Instance, rec.Revision), ErrLeaseLost)
	}
	if err != nil {
		return nil, clusterErr("writing record "+secretName(rec.Instance, rec.Revision), err)
	}
	return &writer{store: s, record: rec, secret: secret, pause: 500 * time.Millisecond}, nil
}

// open returns a writer for a record that is there.
func (s store) open(at *stored) *writer {
	return &writer{store: s, record: at.record, secret: at.secret, pause: 500 * time.Millisecond}
}

// prune deletes the oldest records beyond keep.
func (s store) prune(ctx context.Context, instance string, keep int) error {
	secrets, err := s.secrets(ctx, instance)
	if err != nil {
		return err
	}
	for len(secrets) > keep {
		if err := s.delete(ctx, &secrets[0]); err != nil {
			return err
		}
		secrets = secrets[1:]
	}
	return nil
}

func (s store) delete(ctx context.Context, secret *corev1.Secret) error {
	opts := metav1.DeleteOptions{}
	if secret.UID != "" {
		opts.Preconditions = &metav1.Preconditions{UID: &secret.UID}
	}
	err := s.client.CoreV1().Secrets(s.namespace).Delete(ctx, secret.Name, opts)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return clusterErr("deleting record "+secret.Name, err)
}

// writer changes one record, step by step. Every write names the
// resourceVersion it is based on, so that a record which somebody else changed
// is not overwritten.
type writer struct {
	store store
	pause time.Duration // before the first repetition, doubled from there

	mu     sync.Mutex
	record *Record
	secret *corev1.Secret
}

// update changes the record and writes it. [ErrLeaseLost] is returned,
// wrapped, when somebody else has written it; errors that may pass are tried
// again a few times first.
func (w *writer) update(ctx context.Context, change func(*Record)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(w.record)
	data, err := w.record.encode()
	if err != nil {
		return err
	}
	pause := w.pause
	for try := 1; ; try++ {
		err = w.write(ctx, data)
		if err == nil || !transient(err) || try == 5 || ctx.Err() != nil {
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause *= 2
	}
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return fmt.Errorf("writing record %s: %w: %w", w.secret.Name, ErrLeaseLost, err)
	}
	return clusterErr("writing record "+w.secret.Name, err)
}

// write sends the record once. A conflict with a write of our own whose
// answer was lost is none.
func (w *writer) write(ctx context.Context, data []byte) error {
	next := w.store.secretFor(w.record, data)
	next.ResourceVersion = w.secret.ResourceVersion
	next.UID = w.secret.UID
	secrets := w.store.client.CoreV1().Secrets(w.store.namespace)
	secret, err := secrets.Update(ctx, next, metav1.UpdateOptions{FieldManager: "waybill"})
	if apierrors.IsConflict(err) {
		now, getErr := secrets.Get(ctx, next.Name, metav1.GetOptions{})
		if getErr != nil || now.UID != w.secret.UID || !bytes.Equal(now.Data[recordKey], data) {
			return err
		}
		secret, err = now, nil
	}
	if err == nil {
		w.secret = secret
	}
	return err
}

// snapshot returns the record as it is now.
func (w *writer) snapshot() Record {
	w.mu.Lock()
	defer w.mu.Unlock()
	rec := *w.record
	rec.Components = slices.Clone(rec.Components)
	return rec
}
