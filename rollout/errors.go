package rollout

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Refusal is one reason not to begin. Code is a stable word for programs.
type Refusal struct {
	Code      string `json:"code"`
	Component string `json:"component,omitempty"`
	Message   string `json:"message"`
}

// A RefusedError lists every reason that was found not to begin. Nothing was
// changed.
type RefusedError struct{ Reasons []Refusal }

func (e *RefusedError) Error() string {
	lines := make([]string, len(e.Reasons))
	for i, r := range e.Reasons {
		lines[i] = r.Message
		if r.Component != "" {
			lines[i] = "component " + r.Component + ": " + r.Message
		}
	}
	if len(lines) == 1 {
		return "refused: " + lines[0]
	}
	return fmt.Sprintf("refused for %d reasons:\n  %s", len(lines), strings.Join(lines, "\n  "))
}

// A HeldError reports that somebody else works on the instance.
type HeldError struct {
	Instance, Holder        string
	Since, Renewed, Expires time.Time
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("instance %s is held by %s since %s (last renewed %s, free at %s unless renewed)", e.Instance, e.Holder,
		e.Since.UTC().Format(time.RFC3339), e.Renewed.UTC().Format(time.RFC3339), e.Expires.UTC().Format(time.RFC3339))
}

// A PartialError reports that something was changed and something failed. The
// outcome says what stands.
type PartialError struct {
	Outcome *Outcome
	Err     error   // the first cause
	Others  []error // what else failed, in the order of the components
}

func (e *PartialError) Error() string {
	text := fmt.Sprintf("instance %s: attempt %d failed: %v", e.Outcome.Instance, e.Outcome.Revision, e.Err)
	for _, other := range e.Others {
		text += "\n" + other.Error()
	}
	return text
}

func (e *PartialError) Unwrap() error { return e.Err }

// An InterruptedError reports that the caller ended the work. The attempt is
// recorded as interrupted and running it again is right.
type InterruptedError struct{ Outcome *Outcome }

func (e *InterruptedError) Error() string {
	return fmt.Sprintf("instance %s: attempt %d was interrupted", e.Outcome.Instance, e.Outcome.Revision)
}

// Unwrap returns [context.Canceled].
func (e *InterruptedError) Unwrap() error { return context.Canceled }

// A ClusterError reports that the cluster could not be asked.
type ClusterError struct{ Err error }

func (e *ClusterError) Error() string { return e.Err.Error() }

func (e *ClusterError) Unwrap() error { return e.Err }

// A NotFoundError reports an instance, or a component of one, without record.
type NotFoundError struct {
	What  string // "instance", …
	Name  string
	Known []string
}

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("no %s %q is recorded; %s", e.What, e.Name, knownText(e.Known))
}

// A NoSiteError reports that an instance was installed without a site file.
type NoSiteError struct{ Instance string }

func (e *NoSiteError) Error() string {
	return fmt.Sprintf("instance %s was installed without a site file", e.Instance)
}

// A DowngradeError reports that the release is older than what is installed.
type DowngradeError struct{ Instance, Installed, Wanted string }

func (e *DowngradeError) Error() string {
	return fmt.Sprintf("instance %s has version %s, and %s is older", e.Instance, e.Installed, e.Wanted)
}

// An UnknownError reports a name, given by the caller, that the release does
// not have: a component, or a profile of one.
type UnknownError struct {
	What, Name string
	Where      string // who named it: "--set", "site file", …; may be empty
	Nearest    string
	Known      []string
}

func (e *UnknownError) Error() string {
	text := fmt.Sprintf("no %s %q in the release", e.What, e.Name)
	if e.Where != "" {
		text = e.Where + ": " + text
	}
	if e.Nearest != "" {
		text += fmt.Sprintf(" (did you mean %q?)", e.Nearest)
	}
	return text + "; " + knownText(e.Known)
}

// A UsageError reports a request that cannot be meant.
type UsageError struct{ Reason string }

func (e *UsageError) Error() string { return e.Reason }

// A NewerRecordError reports a record in a form this program does not know.
type NewerRecordError struct{ Name, Version string }

func (e *NewerRecordError) Error() string {
	return fmt.Sprintf("record %s has the unknown form %q: made by a newer waybill", e.Name, e.Version)
}

// A RecordError reports a record whose content cannot be read.
type RecordError struct {
	Name string
	Err  error
}

func (e *RecordError) Error() string { return fmt.Sprintf("reading record %s: %v", e.Name, e.Err) }

func (e *RecordError) Unwrap() error { return e.Err }

// ErrLeaseLost reports that the lease could not be renewed in time, or was
// taken by another, so that the work was given up where it stood.
var ErrLeaseLost = errors.New("the lease was lost")

// errForbidden marks answers of the cluster that name a missing right.
var errForbidden = errors.New("not allowed")

func knownText(known []string) string {
	if len(known) == 0 {
		return "none is known"
	}
	return "known: " + strings.Join(known, ", ")
}

// clusterErr gives an error of client-go its place in this room's order: the
// context's own error stays, a missing right wraps errForbidden, what may
// pass by itself becomes a [*ClusterError].
func clusterErr(act string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("%s: %w", act, err)
	}
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		return fmt.Errorf("%s: %w: %w", act, errForbidden, err)
	}
	if transient(err) {
		return &ClusterError{Err: fmt.Errorf("%s: %w", act, err)}
	}
	return fmt.Errorf("%s: %w", act, err)
}

// transient says whether asking again later may be answered.
func transient(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		var netErr net.Error
		return errors.As(err, &netErr) || errors.Is(err, context.DeadlineExceeded)
	}
	return apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsInternalError(err)
}
