package charts

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// An UnreachableError reports that the API server could not be asked: not
// dialled, no TLS, no answer in time, or an answer that says "later".
type UnreachableError struct {
	Server string // its address
	Step   string // what was to be done
	Err    error
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("%s: cluster %s: %v", e.Step, e.Server, e.Err)
}

func (e *UnreachableError) Unwrap() error { return e.Err }

// isUnreachable reports whether err is a failure of the way to the API server
// and not an answer of its own.
func isUnreachable(err error) bool {
	if errors.Is(err, context.Canceled) {
		return false
	}
	var network net.Error
	var address *url.Error
	var record tls.RecordHeaderError
	var authority x509.UnknownAuthorityError
	switch {
	case errors.As(err, &network), errors.As(err, &address), errors.As(err, &record), errors.As(err, &authority):
		return true
	}
	return apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsTooManyRequests(err)
}

// A HelmError reports a step of one component that failed, and what Helm or
// the API server said about it.
type HelmError struct {
	Component   string
	HelmRelease string // namespace/name
	Step        string // "installing", "upgrading", "waiting", "applying crd …"
	Err         error
}

func (e *HelmError) Error() string {
	return fmt.Sprintf("%s: %s: %v", who(e.Component, e.HelmRelease), e.Step, e.Err)
}

func (e *HelmError) Unwrap() error { return e.Err }

// An Unready is an object that is not as it should be.
type Unready struct {
	Kind, Namespace, Name string
	// Reason is what is known of why, from the object or from its pods:
	// `pod web-0: container web (image nginx:1.27): CrashLoopBackOff`.
	Reason string
	// LastEvent is the newest event about the object or its pods, warnings
	// first. It may be empty: events are kept for an hour.
	LastEvent string
}

func (u Unready) String() string {
	text := objectName(u.Kind, u.Namespace, u.Name)
	if u.Reason != "" {
		text += ": " + u.Reason
	}
	if u.LastEvent != "" {
		text += "; last event: " + u.LastEvent
	}
	return text
}

// A NotReadyError reports objects that failed, or did not become ready in
// time.
type NotReadyError struct {
	After   time.Duration // the time-out that passed; zero when something failed for good
	Objects []Unready     // sorted by kind, namespace, name
}

func (e *NotReadyError) Error() string {
	if e.After > 0 {
		return fmt.Sprintf("not ready after %s: %s", e.After, joinUnready(e.Objects))
	}
	return "failed: " + joinUnready(e.Objects)
}

// A NotGoneError reports objects that were deleted and are still there.
type NotGoneError struct {
	After   time.Duration
	Objects []Unready
}

func (e *NotGoneError) Error() string {
	return fmt.Sprintf("still there after %s: %s", e.After, joinUnready(e.Objects))
}

func joinUnready(objects []Unready) string {
	texts := make([]string, len(objects))
	for i, object := range objects {
		texts[i] = object.String()
	}
	return strings.Join(texts, "\n  ")
}

// A Conflict is something in the cluster that this Helm release would change
// and must not.
type Conflict struct {
	Kind, Namespace, Name string
	// Owner says whose it is as far as its marks tell: "Helm release
	// default/other", "managed by kustomize", "made by kubectl", or empty.
	Owner string
	// Reason says more when it is not the owner: a CRD whose new form drops a
	// version the cluster has stored.
	Reason string
}

func (c Conflict) String() string {
	text := objectName(c.Kind, c.Namespace, c.Name)
	switch {
	case c.Reason != "":
		return text + " " + c.Reason
	case c.Owner != "":
		return text + " exists and is not part of this Helm release (" + c.Owner + ")"
	}
	return text + " exists and is not part of this Helm release"
}

// A ConflictError reports objects of others in the way. Nothing was changed.
type ConflictError struct {
	Component   string
	HelmRelease string     // namespace/name
	Conflicts   []Conflict // sorted by kind, namespace, name
}

func (e *ConflictError) Error() string {
	texts := make([]string, len(e.Conflicts))
	for i, conflict := range e.Conflicts {
		texts[i] = conflict.String()
	}
	return who(e.Component, e.HelmRelease) + ": " + strings.Join(texts, "\n  ")
}

// A RecordTooLargeError reports a Helm record that would not fit into a
// Secret. Nothing was changed.
type RecordTooLargeError struct {
	Component   string
	HelmRelease string // namespace/name
	Size        RecordSize
}

func (e *RecordTooLargeError) Error() string {
	return fmt.Sprintf("%s: the record Helm keeps would be %d bytes, and a Secret holds %d",
		who(e.Component, e.HelmRelease), e.Size.Bytes, e.Size.Limit)
}

// A MissingKindsError reports kinds that a chart uses and neither the cluster
// serves nor the chart's crds/ brings. Nothing was changed.
type MissingKindsError struct {
	Component   string
	HelmRelease string // namespace/name
	Kinds       []Kind // sorted
}

func (e *MissingKindsError) Error() string {
	texts := make([]string, len(e.Kinds))
	for i, kind := range e.Kinds {
		texts[i] = kind.APIVersion + " " + kind.Kind
	}
	return who(e.Component, e.HelmRelease) + ": the cluster does not serve " + strings.Join(texts, ", ")
}

// A PendingError reports a Helm release on which somebody seems to be at work:
// its last revision is pending, and the caller did not say that it is dead.
type PendingError struct {
	Component   string
	HelmRelease string // namespace/name
	Revision    Revision
}

func (e *PendingError) Error() string {
	return fmt.Sprintf("%s: revision %d is %s since %s",
		who(e.Component, e.HelmRelease), e.Revision.Number, e.Revision.Status, e.Revision.Updated.UTC().Format(time.RFC3339))
}

func who(component, helmRelease string) string {
	if component == "" {
		return fmt.Sprintf("Helm release %s", helmRelease)
	}
	return fmt.Sprintf("component %q (Helm release %s)", component, helmRelease)
}

func objectName(kind, namespace, name string) string {
	if namespace == "" {
		return kind + " " + name
	}
	return kind + " " + namespace + "/" + name
}
