package rollout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/opencontainers/go-digest"
)

// StatusDead is the status of an instance whose last attempt was cut short
// and not put in order yet.
const StatusDead = "cut short"

// InstanceStatus is what is recorded of an instance, and what Helm says of it
// now.
type InstanceStatus struct {
	Instance     string            `json:"instance"`
	Release      string            `json:"release"`
	Version      string            `json:"version"`          // of the last attempt
	Bundle       digest.Digest     `json:"bundle,omitempty"` // empty when it is from a release file
	ReleaseFile  digest.Digest     `json:"releaseFile,omitempty"`
	Lock         digest.Digest     `json:"lock,omitempty"`
	Location     string            `json:"reference,omitempty"`
	Signer       string            `json:"signer,omitempty"`
	Verification string            `json:"verification,omitempty"`
	Site         string            `json:"site,omitempty"`
	Revision     int               `json:"revision"`
	Action       string            `json:"action"`
	Status       string            `json:"status"` // of the last attempt: running, done, failed, interrupted, cut short
	Reason       string            `json:"reason,omitempty"`
	Started      time.Time         `json:"started"`
	Ended        *time.Time        `json:"ended,omitempty"`
	Holder       *LeaseHolder      `json:"holder,omitempty"` // who works on it now
	Cluster      string            `json:"cluster,omitempty"`
	Namespaces   []string          `json:"namespaces,omitempty"` // created for it
	Replaced     []Replacement     `json:"replaced,omitempty"`   // by images of the site
	Components   []ComponentStatus `json:"components"`
	Warnings     []string          `json:"warnings,omitempty"`
}

// LeaseHolder is who holds the lease.
type LeaseHolder struct {
	Holder  string    `json:"holder"`
	Since   time.Time `json:"since"`
	Renewed time.Time `json:"renewed"`
	Expires time.Time `json:"expires"`
}

// ComponentStatus is what is known of one component.
type ComponentStatus struct {
	Name         string        `json:"name"`
	Stage        string        `json:"stage,omitempty"`
	Outcome      string        `json:"outcome"`
	Reason       string        `json:"reason,omitempty"`
	Ready        bool          `json:"ready"`             // it stands as recorded, by the record and by Helm
	Version      string        `json:"version,omitempty"` // of the release it stands from
	Bundle       digest.Digest `json:"bundle,omitempty"`
	Chart        string        `json:"chart,omitempty"`
	ChartVersion string        `json:"chartVersion,omitempty"`
	HelmRelease  string        `json:"helmRelease"`
	Namespace    string        `json:"namespace"`
	HelmRevision int           `json:"helmRevision,omitempty"` // recorded
	HelmNow      int           `json:"helmNow,omitempty"`      // newest one there is
	HelmStatus   string        `json:"helmStatus,omitempty"`   // of the newest one
}

// Attempt is one line of an instance's history.
type Attempt struct {
	Revision     int           `json:"revision"`
	Action       string        `json:"action"`
	Status       string        `json:"status"`
	Reason       string        `json:"reason,omitempty"`
	Version      string        `json:"version"`
	Bundle       digest.Digest `json:"bundle,omitempty"` // empty when it is from a release file
	ReleaseFile  digest.Digest `json:"releaseFile,omitempty"`
	Lock         digest.Digest `json:"lock,omitempty"`
	Location     string        `json:"reference,omitempty"`
	Signer       string        `json:"signer,omitempty"`
	Verification string        `json:"verification,omitempty"`
	Selected     []string      `json:"selected,omitempty"`
	Holder       string        `json:"holder"`
	Started      time.Time     `json:"started"`
	Ended        *time.Time    `json:"ended,omitempty"`
	Components   []string      `json:"components"` // "name: outcome"
}

// find returns the newest record of an instance. Errors are [*NotFoundError],
// which names the known instances, [*NewerRecordError], [*RecordError] and
// [*ClusterError].
func (r *Runner) find(ctx context.Context, s store, name string) (*stored, error) {
	if err := checkInstance(name); err != nil {
		return nil, err
	}
	latest, err := s.latest(ctx, name)
	if err != nil || latest != nil {
		return latest, err
	}
	known, err := s.names(ctx)
	if err != nil {
		return nil, err
	}
	return nil, &NotFoundError{What: "instance", Name: name, Known: known}
}

// Status returns what is recorded of an instance and what Helm says of it. It
// needs nothing but the cluster. Errors are those of [Runner.History].
func (r *Runner) Status(ctx context.Context, name string) (*InstanceStatus, error) {
	s := store{client: r.client, namespace: r.state(nil)}
	latest, err := r.find(ctx, s, name)
	if err != nil {
		return nil, err
	}
	status := statusOf(latest.record)
	if err := r.addHolder(ctx, s, status); err != nil {
		return nil, err
	}
	for i := range status.Components {
		if latest.record.Components[i].touched() {
			if err := r.addHelm(ctx, status, &status.Components[i]); err != nil {
				return nil, err
			}
		}
	}
	return status, nil
}

// List returns what is recorded of every instance in the state namespace,
// sorted by name, without asking Helm. A record that cannot be read is an
// entry with a reason.
func (r *Runner) List(ctx context.Context) ([]InstanceStatus, error) {
	s := store{client: r.client, namespace: r.state(nil)}
	names, err := s.names(ctx)
	if err != nil {
		return nil, err
	}
	list := []InstanceStatus{}
	for _, name := range names {
		latest, err := s.latest(ctx, name)
		var newer *NewerRecordError
		var broken *RecordError
		if errors.As(err, &newer) || errors.As(err, &broken) {
			list = append(list, InstanceStatus{Instance: name, Status: "unknown", Reason: err.Error(), Components: []ComponentStatus{}})
			continue
		}
		if err != nil {
			return nil, err
		}
		if latest == nil { // uninstalled as we looked
			continue
		}
		status := statusOf(latest.record)
		if err := r.addHolder(ctx, s, status); err != nil {
			return nil, err
		}
		list = append(list, *status)
	}
	return list, nil
}

func statusOf(rec *Record) *InstanceStatus {
	status := &InstanceStatus{
		Instance: rec.Instance, Release: rec.Release, Version: rec.Version, Bundle: rec.Bundle, Location: rec.Location, Signer: rec.Signer,
		ReleaseFile: rec.ReleaseFile, Lock: rec.Lock,
		Verification: rec.Verification, Site: rec.Site, Revision: rec.Revision, Action: rec.Action, Status: rec.Status, Reason: rec.Reason,
		Started: rec.Started, Ended: rec.Ended, Cluster: rec.ClusterVersion, Namespaces: rec.Namespaces, Replaced: rec.Replaced, Components: []ComponentStatus{},
	}
	for _, c := range rec.Components {
		status.Components = append(status.Components, ComponentStatus{
			Name: c.Name, Stage: c.Stage, Outcome: c.Outcome, Reason: c.Reason, Ready: c.Ready, Version: c.Version, Bundle: c.Bundle,
			Chart: c.Chart, ChartVersion: c.ChartVersion, HelmRelease: c.HelmRelease, Namespace: c.Namespace, HelmRevision: c.HelmAfter,
		})
	}
	return status
}

// addHolder says who holds the lease; a running attempt without a holder was
// cut short.
func (r *Runner) addHolder(ctx context.Context, s store, status *InstanceStatus) error {
	l := r.leases(s.namespace)
	lease, err := l.look(ctx, status.Instance)
	if errors.Is(err, errForbidden) {
		status.Warnings = append(status.Warnings, err.Error())
		return nil
	}
	if err != nil {
		return err
	}
	by := l.held(status.Instance, lease)
	if by != nil {
		status.Holder = &LeaseHolder{Holder: by.Holder, Since: by.Since, Renewed: by.Renewed, Expires: by.Expires}
	} else if status.Status == StatusRunning {
		status.Status = StatusDead
		status.Reason = "nobody works on it any more; install goes on from here"
	}
	return nil
}

// addHelm says what Helm's newest revision is. One that may not be read is a
// warning.
func (r *Runner) addHelm(ctx context.Context, status *InstanceStatus, c *ComponentStatus) error {
	history, err := r.charts.History(ctx, c.Namespace, c.HelmRelease)
	var away *ClusterError
	switch {
	case errors.As(err, &away) || ctx.Err() != nil:
		return err
	case err != nil:
		status.Warnings = append(status.Warnings, fmt.Sprintf("component %s: reading its Helm history: %v", c.Name, err))
		return nil
	}
	newest := last(history)
	c.HelmNow, c.HelmStatus = newest.Number, newest.Status
	c.Ready = c.Ready && newest.Number == c.HelmRevision && newest.Status == helmDeployed
	return nil
}

// History returns the recorded attempts of an instance, oldest first. Errors
// are [*NotFoundError], [*NewerRecordError], [*RecordError], [*UsageError] and
// [*ClusterError].
func (r *Runner) History(ctx context.Context, name string) ([]Attempt, error) {
	s := store{client: r.client, namespace: r.state(nil)}
	if _, err := r.find(ctx, s, name); err != nil {
		return nil, err
	}
	secrets, err := s.secrets(ctx, name)
	if err != nil {
		return nil, err
	}
	attempts := []Attempt{}
	for i := range secrets {
		rec, err := read(&secrets[i])
		if err != nil {
			return nil, err
		}
		a := Attempt{
			Revision: rec.Revision, Action: rec.Action, Status: rec.Status, Reason: rec.Reason, Version: rec.Version, Bundle: rec.Bundle, ReleaseFile: rec.ReleaseFile, Lock: rec.Lock,
			Location: rec.Location, Signer: rec.Signer, Verification: rec.Verification, Selected: rec.Selected, Holder: rec.Holder,
			Started: rec.Started, Ended: rec.Ended, Components: []string{},
		}
		for _, c := range rec.Components {
			a.Components = append(a.Components, c.Name+": "+c.Outcome)
		}
		attempts = append(attempts, a)
	}
	return attempts, nil
}

// Site returns the text of the site file that the last attempt was made with.
// Errors are those of [Runner.History]; without a site file also
// [*NoSiteError].
func (r *Runner) Site(ctx context.Context, name string) (string, error) {
	latest, err := r.find(ctx, store{client: r.client, namespace: r.state(nil)}, name)
	if err != nil {
		return "", err
	}
	if latest.record.SiteFile == "" {
		return "", &NoSiteError{Instance: name}
	}
	return latest.record.SiteFile, nil
}
