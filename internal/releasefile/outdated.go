package releasefile

import (
	"context"
	"errors"
	"fmt"

	"github.com/Masterminds/semver/v3"
	"golang.org/x/sync/errgroup"

	"waybill/bundle"
	"waybill/charts"
)

// An Outdated chart is a locked one that its source has something newer for, or
// serves otherwise.
type Outdated struct {
	Component string `json:"component"`
	Chart     string `json:"chart"`
	Locked    string `json:"locked"` // version
	// Allowed is the newest version that the release file allows, empty when
	// that is the locked one.
	Allowed string `json:"allowed,omitempty"`
	// Newest is the newest version there is, empty when the release file allows
	// it or the source does not number its versions.
	Newest string `json:"newest,omitempty"`
	// Gone says that the locked version, or of git the ref, is no longer there.
	Gone bool `json:"gone,omitempty"`
	// Moved says that the locked version is served with other content, or the
	// ref leads to another commit.
	Moved *Moved `json:"moved,omitempty"`
}

// Moved is what a name meant when it was locked, and what it means now.
type Moved struct {
	Ref  string `json:"ref,omitempty"` // of git; else it is the locked version that moved
	From string `json:"from"`
	To   string `json:"to"`
}

// Behind says whether the lock would change when it is updated.
func (o Outdated) Behind() bool { return o.Allowed != "" || o.Moved != nil || o.Gone }

// Outdated asks the sources of all locked charts what they have now, and returns
// those that have anything else, in the order of the release file. Folders, files
// and manifests have no newer version than what is there. r needs a network.
//
// Errors are those of r, joined, each a [bundle.ComponentError].
func (f *File) Outdated(ctx context.Context, lock *bundle.Lock, r *Resolver) ([]Outdated, error) {
	found := make([]*Outdated, len(f.Release.Components))
	failed := make([]error, len(f.Release.Components))
	var group errgroup.Group
	group.SetLimit(4)
	for i, c := range f.Release.Components {
		locked, ok := lock.Chart(c.Name)
		if kind := c.Chart.Kind(); !ok || kind != bundle.SourceRepository && kind != bundle.SourceGit {
			continue
		}
		group.Go(func() error {
			var err error
			if found[i], err = r.outdated(ctx, c, locked); err != nil {
				failed[i] = &bundle.ComponentError{Component: c.Name, Act: "looking for newer charts", Err: err}
			}
			return nil
		})
	}
	_ = group.Wait() // the errors are in failed
	var all []Outdated
	for _, o := range found {
		if o != nil {
			all = append(all, *o)
		}
	}
	return all, errors.Join(failed...)
}

// outdated compares one locked chart with what its source has now; nil when
// there is nothing to say.
func (r *Resolver) outdated(ctx context.Context, c bundle.Component, locked bundle.LockedChart) (*Outdated, error) {
	o := &Outdated{Component: c.Name, Chart: locked.Name, Locked: locked.Version}
	if c.Chart.Kind() == bundle.SourceGit {
		now, err := r.Chart(ctx, c, nil)
		switch {
		case absent(err):
			o.Gone = true
		case err != nil:
			return nil, err
		case now.Source != locked.Source:
			o.Moved = &Moved{Ref: c.Chart.Ref, From: locked.Source, To: now.Source}
		}
		return o.orNil(), nil
	}
	for _, look := range []func(context.Context, bundle.Component, bundle.LockedChart, *Outdated) error{
		r.lookAtLocked, r.lookForAllowed, r.lookForNewest,
	} {
		if err := look(ctx, c, locked, o); err != nil {
			return nil, err
		}
	}
	return o.orNil(), nil
}

// lookAtLocked asks what the locked version is now.
func (r *Resolver) lookAtLocked(ctx context.Context, c bundle.Component, locked bundle.LockedChart, o *Outdated) error {
	c.Chart.Version = locked.Version
	now, err := r.Chart(ctx, c, nil)
	switch {
	case absent(err):
		o.Gone = true
	case err != nil:
		return err
	case now.Manifest != locked.Manifest:
		o.Moved = &Moved{From: locked.Manifest.String(), To: now.Manifest.String()}
	}
	return nil
}

// lookForAllowed asks for the newest version that the release file allows.
func (r *Resolver) lookForAllowed(ctx context.Context, c bundle.Component, locked bundle.LockedChart, o *Outdated) error {
	now, err := r.Chart(ctx, c, nil)
	switch {
	case absent(err) && o.Gone:
	case err != nil:
		return err
	case now.Version() != locked.Version:
		o.Allowed = now.Version()
	}
	return nil
}

// lookForNewest asks for the newest version there is. That there is none, such as
// where all are pre-releases, is nothing to say.
func (r *Resolver) lookForNewest(ctx context.Context, c bundle.Component, locked bundle.LockedChart, o *Outdated) error {
	c.Chart.Version = "*"
	newest, err := r.Chart(ctx, c, nil)
	var several *charts.AmbiguousError
	switch {
	case absent(err), errors.As(err, &several):
	case err != nil:
		return err
	case newer(newest.Version(), locked.Version) && newer(newest.Version(), o.Allowed):
		o.Newest = newest.Version()
	}
	return nil
}

// newer says whether a version comes after another one. After none every one
// does.
func newer(version, other string) bool {
	a, errA := semver.NewVersion(version)
	b, errB := semver.NewVersion(other)
	return errA == nil && (errB != nil || b.LessThan(a))
}

// absent says whether a source that answered has no such chart.
func absent(err error) bool {
	var notFound *charts.NotFoundError
	return errors.As(err, &notFound)
}

func (o *Outdated) orNil() *Outdated {
	if o.Behind() || o.Newest != "" {
		return o
	}
	return nil
}

// String says in one line what is newer or moved, without the component.
func (o Outdated) String() string {
	text := fmt.Sprintf("%s %s", o.Chart, o.Locked)
	switch m := o.Moved; {
	case m != nil && m.Ref != "":
		text += fmt.Sprintf(", ref %s moved from %s to %s", m.Ref, m.From, m.To)
	case m != nil:
		text += fmt.Sprintf(" moved from %s to %s", m.From, m.To)
	}
	if o.Gone {
		text += " is no longer there"
	}
	if o.Allowed != "" {
		text += fmt.Sprintf(", newest allowed %s", o.Allowed)
	}
	if o.Newest != "" {
		text += fmt.Sprintf(", newest %s (the release file does not allow it)", o.Newest)
	}
	return text
}
