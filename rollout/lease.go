package rollout

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// leaseTimes are the periods of a lease.
type leaseTimes struct {
	duration time.Duration // after its last renewal a lease counts for this long
	renew    time.Duration // between two renewals
	lose     time.Duration // a holder that could not renew for this long gives up
	// confirm is how long a lease that has run out by our clock is watched
	// before it is taken: longer than renew, so that a holder whose clock is
	// another is seen to be alive.
	confirm time.Duration
	poll    time.Duration // between two looks at a lease that is waited for
}

var defaultLeaseTimes = leaseTimes{
	duration: 30 * time.Second, renew: 10 * time.Second, lose: 20 * time.Second, confirm: 12 * time.Second, poll: 2 * time.Second,
}

func leaseName(instance string) string { return "waybill." + instance }

// leases takes and looks at the leases of one state namespace.
type leases struct {
	client    kubernetes.Interface
	namespace string
	holder    string
	now       func() time.Time
	times     leaseTimes
	events    func(Event)
}

// look returns the lease of the instance, nil when there is none.
func (l leases) look(ctx context.Context, instance string) (*coordinationv1.Lease, error) {
	lease, err := l.client.CoordinationV1().Leases(l.namespace).Get(ctx, leaseName(instance), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, clusterErr("reading lease "+leaseName(instance), err)
	}
	return lease, nil
}

// held returns who holds the lease by our clock, nil when nobody does.
func (l leases) held(instance string, lease *coordinationv1.Lease) *HeldError {
	by := holderOf(instance, lease)
	if by == nil || !l.now().Before(by.Expires) {
		return nil
	}
	return by
}

// holderOf returns what the lease says of its holder, nil for none.
func holderOf(instance string, lease *coordinationv1.Lease) *HeldError {
	if lease == nil || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		return nil
	}
	by := &HeldError{Instance: instance, Holder: *lease.Spec.HolderIdentity}
	if t := lease.Spec.AcquireTime; t != nil {
		by.Since = t.Time
	}
	if t := lease.Spec.RenewTime; t != nil {
		by.Renewed = t.Time
	}
	duration := defaultLeaseTimes.duration
	if s := lease.Spec.LeaseDurationSeconds; s != nil {
		duration = time.Duration(*s) * time.Second
	}
	by.Expires = by.Renewed.Add(duration)
	return by
}

// acquire takes the lease of the instance, waiting up to wait for a holder
// that is alive. Every step is a compare-and-set, so of two that come at once
// one gets it and the other a [*HeldError]. The holder returned second is a
// dead one that it was taken from.
func (l leases) acquire(ctx context.Context, instance string, wait time.Duration) (*coordinationv1.Lease, *HeldError, error) {
	deadline := l.now().Add(wait)
	told := false
	for {
		lease, err := l.look(ctx, instance)
		if err != nil {
			return nil, nil, err
		}
		if by := l.held(instance, lease); by != nil {
			if !l.now().Before(deadline) {
				return nil, nil, by
			}
			if !told {
				l.events(Event{Kind: EventLease, Message: fmt.Sprintf("waiting for %s to finish, up to %s", by.Holder, wait)})
				told = true
			}
			if err := sleep(ctx, l.times.poll); err != nil {
				return nil, nil, err
			}
			continue
		}
		dead := holderOf(instance, lease)
		if dead != nil {
			alive, err := l.watch(ctx, instance, lease)
			if err != nil {
				return nil, nil, err
			}
			if alive != nil && !l.now().Before(deadline) {
				return nil, nil, alive
			}
			if alive != nil {
				continue
			}
		}
		taken, err := l.take(ctx, instance, lease)
		if err == nil {
			return taken, dead, nil
		}
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err) {
			return nil, nil, clusterErr("taking lease "+leaseName(instance), err)
		}
		if err := sleep(ctx, l.times.poll/10); err != nil {
			return nil, nil, err
		}
	}
}

// watch looks at a lease that has run out a second time, and returns its
// holder when that one has renewed it since.
func (l leases) watch(ctx context.Context, instance string, lease *coordinationv1.Lease) (*HeldError, error) {
	by := holderOf(instance, lease)
	l.events(Event{Kind: EventLease, Message: fmt.Sprintf("the lease of %s has run out; looking for %s whether it is alive", by.Holder, l.times.confirm)})
	if err := sleep(ctx, l.times.confirm); err != nil {
		return nil, err
	}
	again, err := l.look(ctx, instance)
	if err != nil || again == nil || again.ResourceVersion == lease.ResourceVersion {
		return nil, err
	}
	return holderOf(instance, again), nil
}

// take writes our name into the lease as it was seen; nil makes one.
func (l leases) take(ctx context.Context, instance string, seen *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	now := metav1.NewMicroTime(l.now())
	seconds := int32((l.times.duration + time.Second - 1) / time.Second)
	spec := coordinationv1.LeaseSpec{HolderIdentity: &l.holder, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now}
	client := l.client.CoordinationV1().Leases(l.namespace)
	if seen == nil {
		return client.Create(ctx, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: leaseName(instance), Namespace: l.namespace, Labels: map[string]string{LabelInstance: instance}},
			Spec:       spec,
		}, metav1.CreateOptions{FieldManager: "waybill"})
	}
	transitions := int32(1)
	if t := seen.Spec.LeaseTransitions; t != nil {
		transitions = *t + 1
	}
	next := seen.DeepCopy()
	next.Spec = spec
	next.Spec.LeaseTransitions = &transitions
	return client.Update(ctx, next, metav1.UpdateOptions{FieldManager: "waybill"})
}

// keeper renews a lease until it is released or lost.
type keeper struct {
	leases leases
	stop   context.CancelFunc // ends the renewing
	done   chan struct{}

	mu    sync.Mutex
	lease *coordinationv1.Lease
}

// keep renews the lease in the background. When that fails for too long, or
// somebody else has it, it calls lost with [ErrLeaseLost] and ends.
func (l leases) keep(lease *coordinationv1.Lease, lost func(error)) *keeper {
	ctx, cancel := context.WithCancel(context.Background())
	k := &keeper{leases: l, stop: cancel, done: make(chan struct{}), lease: lease}
	go k.run(ctx, lost)
	return k
}

func (k *keeper) run(ctx context.Context, lost func(error)) {
	defer close(k.done)
	renewed := time.Now()
	pause := k.leases.times.renew
	for {
		if k.leases.pause(ctx, pause) != nil {
			return
		}
		begun := time.Now()
		left := k.leases.times.lose - begun.Sub(renewed)
		err := errors.New("no renewal in time")
		if left > 0 {
			err = k.renew(ctx, left)
		}
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			renewed, pause = begun, k.leases.times.renew
		case errors.Is(err, ErrLeaseLost):
			lost(err)
			return
		case time.Since(renewed) >= k.leases.times.lose:
			lost(fmt.Errorf("%w: not renewed for %s: %w", ErrLeaseLost, k.leases.times.lose, err))
			return
		default: // try again soon, and once more at the very end
			pause = min(k.leases.times.renew/5, max(k.leases.times.lose-time.Since(renewed), 0))
		}
	}
}

// renew writes the time into the lease, within limit.
func (k *keeper) renew(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	k.mu.Lock()
	defer k.mu.Unlock()
	now := metav1.NewMicroTime(k.leases.now())
	next := k.lease.DeepCopy()
	next.Spec.RenewTime = &now
	client := k.leases.client.CoordinationV1().Leases(k.leases.namespace)
	lease, err := client.Update(ctx, next, metav1.UpdateOptions{FieldManager: "waybill"})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%w: it was deleted", ErrLeaseLost)
	}
	if apierrors.IsConflict(err) {
		return k.adopt(ctx)
	}
	if err == nil {
		k.lease = lease
	}
	return err
}

// adopt goes on with the lease as it is in the cluster when it is still ours:
// somebody touched it (a label, an annotation), or an answer to us was lost.
func (k *keeper) adopt(ctx context.Context) error {
	lease, err := k.leases.client.CoordinationV1().Leases(k.leases.namespace).Get(ctx, k.lease.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%w: it was deleted", ErrLeaseLost)
	}
	if err != nil {
		return err
	}
	if by := holderOf("", lease); by == nil || by.Holder != k.leases.holder || !lease.Spec.AcquireTime.Equal(k.lease.Spec.AcquireTime) {
		return fmt.Errorf("%w: somebody else took it", ErrLeaseLost)
	}
	k.lease = lease
	return errors.New("the lease was changed in between")
}

// release ends the renewing and gives the lease back, so that the next one
// need not wait for it to run out. A lease that is no longer ours is let be.
func (k *keeper) release(ctx context.Context) error {
	k.stop()
	<-k.done
	k.mu.Lock()
	defer k.mu.Unlock()
	nobody := ""
	next := k.lease.DeepCopy()
	next.Spec.HolderIdentity = &nobody
	_, err := k.leases.client.CoordinationV1().Leases(k.leases.namespace).Update(ctx, next, metav1.UpdateOptions{FieldManager: "waybill"})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return clusterErr("releasing lease "+k.lease.Name, err)
}

// remove ends the renewing and deletes the lease: nothing is left to hold.
func (k *keeper) remove(ctx context.Context) error {
	k.stop()
	<-k.done
	k.mu.Lock()
	defer k.mu.Unlock()
	opts := metav1.DeleteOptions{}
	if k.lease.UID != "" {
		opts.Preconditions = &metav1.Preconditions{UID: &k.lease.UID, ResourceVersion: &k.lease.ResourceVersion}
	}
	err := k.leases.client.CoordinationV1().Leases(k.leases.namespace).Delete(ctx, k.lease.Name, opts)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return clusterErr("deleting lease "+k.lease.Name, err)
}

// pause sleeps for d by the clock on the wall: after a machine was asleep
// itself, the lease is looked at at once and not after the rest of the pause.
func (l leases) pause(ctx context.Context, d time.Duration) error {
	until := l.now().Round(0).Add(d)
	for left := d; left > 0; left = min(left-time.Second, until.Sub(l.now().Round(0))) {
		if err := sleep(ctx, min(left, time.Second)); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// sleep waits, or returns the context's error when that ends first.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
