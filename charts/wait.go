package charts

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
)

const (
	pollFirst = 200 * time.Millisecond // grows by half up to
	pollMost  = 2 * time.Second

	// settle is how long a failure that may be left from before (a Deployment
	// that passed its deadline, then got a new template) must stand.
	settle = 5 * time.Second

	// diagnose bounds the looking for reasons after a wait has failed.
	diagnose = 5 * time.Second
)

// A waiter waits for objects to be ready by the rules of [readiness].
type waiter struct {
	client dynamic.Interface
	hook   bool // by the rules for hooks: what runs must have finished, what is gone has
}

// waiting is one object of a wait and what was last seen of it.
type waiting struct {
	target
	seen        bool
	last        state
	failedSince time.Time
}

// wait returns once all are ready in one and the same look. An object that
// failed for good, or a time-out, is a [*NotReadyError]; a cancelled ctx ends
// the wait at once with its cause.
func (w *waiter) wait(ctx context.Context, targets []target, timeout time.Duration) error {
	all := make([]*waiting, len(targets))
	for i, t := range targets {
		all[i] = &waiting{target: t, last: notYet("could not be looked at in time")}
	}
	limit, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	pending, pause := all, pollFirst
	for {
		open, err := w.look(limit, pending)
		switch failed := failedOf(pending); {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case len(failed) > 0:
			return &NotReadyError{Objects: w.reasons(ctx, failed)}
		case limit.Err() != nil:
			return &NotReadyError{After: timeout, Objects: w.reasons(ctx, open)}
		case err != nil:
			return err
		case len(open) == 0 && len(pending) == len(all):
			return nil
		case len(open) == 0:
			pending = all // what was ready first may not be any more
			continue
		}
		pending = open
		select {
		case <-limit.Done():
		case <-time.After(pause):
		}
		pause = min(pause*3/2, pollMost)
	}
}

// look reads the objects and returns those that are not ready.
func (w *waiter) look(ctx context.Context, objects []*waiting) ([]*waiting, error) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	var mu sync.Mutex
	var open []*waiting
	for _, object := range objects {
		group.Go(func() error {
			if err := w.lookAt(ctx, object); err != nil {
				return err
			}
			if !object.last.ready {
				mu.Lock()
				defer mu.Unlock()
				open = append(open, object)
			}
			return nil
		})
	}
	err := group.Wait()
	if err != nil {
		open = objects
	}
	return open, err
}

// lookAt brings what is known of one object up to date. A network failure is
// no reason to end a wait.
func (w *waiter) lookAt(ctx context.Context, object *waiting) error {
	live, err := object.in(w.client).Get(ctx, object.name(), metav1.GetOptions{})
	switch {
	case err != nil && ctx.Err() != nil:
		return nil // the wait is over, what was seen last stands
	case isGone(err):
		object.last = w.gone(object)
		return nil
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return fmt.Errorf("reading %s: %w", object.ref(), err)
	case err != nil:
		object.last = state{reason: "could not be read: " + err.Error()}
		return nil
	}
	object.seen = true
	object.last, err = w.judge(ctx, live)
	if err != nil {
		return fmt.Errorf("judging %s: %w", object.ref(), err)
	}
	if !object.last.failed {
		object.failedSince = time.Time{}
	} else if object.failedSince.IsZero() {
		object.failedSince = time.Now()
	}
	return nil
}

// gone is the state of an object that is not there. A finished Job may remove
// itself, and hooks may be removed by whoever waits for that.
func (w *waiter) gone(object *waiting) state {
	_, vanishes, _ := unstructured.NestedInt64(object.object.Object, "spec", "ttlSecondsAfterFinished")
	if object.seen && (vanishes || w.hook) || w.hook && vanishes {
		return state{ready: true}
	}
	return state{reason: "does not exist"}
}

func (w *waiter) judge(ctx context.Context, live *unstructured.Unstructured) (state, error) {
	if w.hook {
		return hookReadiness(live), nil
	}
	found, err := readiness(live)
	if err == nil && found.claim && w.waitsForPod(ctx, live) {
		return state{ready: true}, nil
	}
	return found, err
}

// waitsForPod reports whether nothing binds a pending claim before a pod
// mounts it: its storage class says so, or there is none. The pods that mount
// it are waited for themselves.
func (w *waiter) waitsForPod(ctx context.Context, claim *unstructured.Unstructured) bool {
	class, _, _ := unstructured.NestedString(claim.Object, "spec", "storageClassName")
	if class == "" {
		return true // the API server fills in the default class, where there is one
	}
	live, err := w.client.Resource(storageClasses).Get(ctx, class, metav1.GetOptions{})
	if err != nil {
		return isGone(err)
	}
	mode, _, _ := unstructured.NestedString(live.Object, "volumeBindingMode")
	return mode == "WaitForFirstConsumer"
}

// failedOf are the objects that failed for good.
func failedOf(objects []*waiting) []*waiting {
	var failed []*waiting
	for _, object := range objects {
		if object.last.failed && (object.last.final || time.Since(object.failedSince) >= settle) {
			failed = append(failed, object)
		}
	}
	return failed
}

// waitGone waits until the objects are no longer there, or are others of the
// same name. A time-out is a [*NotGoneError].
func waitGone(ctx context.Context, client dynamic.Interface, objects []deleted, timeout time.Duration) error {
	limit, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	pause := pollFirst
	for {
		var left []deleted
		var there []Unready
		for _, object := range objects {
			live, err := object.in(client).Get(ctx, object.name(), metav1.GetOptions{})
			if isGone(err) || err == nil && object.uid != "" && live.GetUID() != object.uid {
				continue
			}
			left = append(left, object)
			there = append(there, lingering(object.target, live, err))
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case len(left) == 0:
			return nil
		case limit.Err() != nil:
			return &NotGoneError{After: timeout, Objects: there}
		}
		objects = left
		select {
		case <-limit.Done():
		case <-time.After(pause):
		}
		pause = min(pause*3/2, pollMost)
	}
}

func lingering(t target, live *unstructured.Unstructured, err error) Unready {
	object := Unready{Kind: t.kind(), Namespace: t.namespace(), Name: t.name()}
	switch {
	case err != nil:
		object.Reason = "could not be read: " + err.Error()
	case live != nil && live.GetDeletionTimestamp() == nil:
		object.Reason = "is not being deleted"
	case live != nil && len(live.GetFinalizers()) > 0:
		object.Reason = "waits for its finalizers " + strings.Join(live.GetFinalizers(), ", ")
	}
	return object
}

func isGone(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsGone(err) }
