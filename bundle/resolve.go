package bundle

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/Masterminds/semver/v3"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"
	"oras.land/oras-go/v2/content"
)

const defaultConcurrency = 4

// A Chart is a Helm chart manifest and the blobs it names.
type Chart interface {
	content.Fetcher
	// Descriptor returns the descriptor of the chart's manifest.
	Descriptor() ocispec.Descriptor
}

// A Resolver turns a component's chart source into a chart. [MakeLock] calls it
// for several components at the same time.
type Resolver interface {
	// Resolve finds the component's chart. locked is what the lock says so far
	// and must be kept: the version, the commit, the dependencies; of a folder or
	// file only the dependencies, since its content is what is there. Nil is to
	// resolve anew. Of the result's Locked, Component is filled in by the caller.
	Resolve(ctx context.Context, c Component, locked *LockedChart) (Resolved, error)
}

// Resolved is what a [Resolver] found.
type Resolved struct {
	Locked LockedChart
	Chart  Chart
}

// Inputs tells, without a network, the digest of all that resolving a component
// depends on now: what [LockedChart.Inputs] was when it was locked.
type Inputs interface {
	Inputs(ctx context.Context, c Component) (digest.Digest, error)
}

// LockOptions are the options of [MakeLock] and [CompareLock]. The zero value
// keeps nothing and takes the version from the release file.
type LockOptions struct {
	Previous    *Lock    // what is locked so far; nil for nothing
	Update      []string // components resolved anew although they are locked
	UpdateAll   bool     // resolve every component anew
	Version     string   // the release's version instead of the release file's
	Packed      string   // what is locked and packed; PackedCharts when empty
	Concurrency int      // components resolved at the same time; 4 when 0

	// Hooks of [MakeLock] and [ResolveLocked], nil for none, that may run at the same time: before a
	// component's chart is resolved, and when it is.
	OnResolve  func(component string)
	OnResolved func(LockedChart)
}

func (o LockOptions) version(rel *Release) string {
	if o.Version != "" {
		return o.Version
	}
	return rel.Version
}

func (o LockOptions) packed() string {
	if o.Packed == "" {
		return PackedCharts
	}
	return o.Packed
}

// previous returns the lock's entry that a resolver keeps, nil for none.
func (o LockOptions) previous(c Component) *LockedChart {
	if o.UpdateAll || slices.Contains(o.Update, c.Name) {
		return nil
	}
	return o.Previous.Kept(c)
}

// maxVersion bounds a release's version, so that it fits into a registry's tag.
const maxVersion = 128

// CheckVersion returns a [VersionError] for what can't be a release's version.
func CheckVersion(version string) error {
	if _, err := semver.StrictNewVersion(version); err != nil || len(version) > maxVersion {
		return &VersionError{Version: version}
	}
	return nil
}

// MakeLock resolves every component of the release and returns the lock and the
// charts, by component. Entries of opts.Previous that are still allowed stay,
// those of components that are gone are dropped.
//
// It returns a [LintError] for a release that [Release.Check] finds fault with,
// [ErrNoVersion], a [VersionError], an [UnknownComponentError] for a name in
// opts.Update, or the resolver's errors, joined, each a [ComponentError].
func MakeLock(ctx context.Context, rel *Release, r Resolver, opts LockOptions) (*Lock, map[string]Chart, error) {
	if err := rel.lintError(); err != nil {
		return nil, nil, err
	}
	for _, name := range opts.Update {
		if _, err := rel.Component(name); err != nil {
			return nil, nil, err
		}
	}
	if opts.version(rel) == "" {
		return nil, nil, ErrNoVersion
	}
	if err := CheckVersion(opts.version(rel)); err != nil {
		return nil, nil, err
	}
	resolved, err := resolveAll(ctx, rel.Components, r, opts)
	if err != nil {
		return nil, nil, err
	}
	lock := &Lock{
		APIVersion: APIVersion,
		Kind:       KindLock,
		Packed:     opts.packed(),
		Release:    LockedRelease{Name: rel.Name, Version: opts.version(rel)},
	}
	charts := map[string]Chart{}
	for i, c := range rel.Components {
		lock.Charts = append(lock.Charts, resolved[i].Locked)
		charts[c.Name] = resolved[i].Chart
	}
	text, err := lock.Encode()
	if err != nil {
		return nil, nil, err
	}
	lock, err = ParseLock("lock", text)
	return lock, charts, err
}

// ResolveLocked returns the charts of the named components, or of all, exactly
// as the lock says them. Nothing of the lock changes, and nothing newer is
// looked for.
//
// It returns an [UnknownComponentError], a [StaleError] when the lock lacks a
// component or a chart that was found is not the locked one, or the resolver's
// errors, joined, each a [ComponentError].
func ResolveLocked(ctx context.Context, rel *Release, lock *Lock, r Resolver, names []string, opts LockOptions) (map[string]Chart, error) {
	wanted, err := rel.named(names)
	if err != nil {
		return nil, err
	}
	resolved, err := resolveAll(ctx, wanted, r, LockOptions{
		Previous: lock, Concurrency: opts.Concurrency, OnResolve: opts.OnResolve, OnResolved: opts.OnResolved,
	})
	if err != nil {
		return nil, err
	}
	var differences []string
	charts := map[string]Chart{}
	for i, c := range wanted {
		locked, ok := lock.Chart(c.Name)
		if !ok {
			differences = append(differences, fmt.Sprintf("component %s is not in the lock", c.Name))
		} else if d := locked.difference(resolved[i].Locked); d != "" {
			differences = append(differences, fmt.Sprintf("component %s: %s", c.Name, d))
		}
		charts[c.Name] = resolved[i].Chart
	}
	if len(differences) > 0 {
		return nil, &StaleError{Differences: differences}
	}
	return charts, nil
}

// named returns the components of these names in the order of the release file,
// all of them for none.
func (r *Release) named(names []string) ([]Component, error) {
	if len(names) == 0 {
		return r.Components, nil
	}
	for _, name := range names {
		if _, err := r.Component(name); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(slices.Clone(r.Components), func(c Component) bool { return !slices.Contains(names, c.Name) }), nil
}

// resolveAll resolves components and reports everything that went wrong, in the
// order of the release file. When ctx ends, what failed for that reason alone is
// no finding of its own.
func resolveAll(ctx context.Context, components []Component, r Resolver, opts LockOptions) ([]Resolved, error) {
	resolved := make([]Resolved, len(components))
	failed := make([]error, len(components))
	var group errgroup.Group
	group.SetLimit(orDefault(opts.Concurrency))
	for i, c := range components {
		group.Go(func() error {
			resolved[i], failed[i] = resolve(ctx, c, r, opts)
			return nil
		})
	}
	_ = group.Wait() // the errors are in failed
	if ctx.Err() != nil {
		cancelled := func(err error) bool { return errors.Is(err, ctx.Err()) }
		failed = append(slices.DeleteFunc(failed, cancelled), ctx.Err())
	}
	return resolved, errors.Join(failed...)
}

func resolve(ctx context.Context, c Component, r Resolver, opts LockOptions) (Resolved, error) {
	if err := ctx.Err(); err != nil {
		return Resolved{}, err
	}
	tell(opts.OnResolve, c.Name)
	found, err := r.Resolve(ctx, c, opts.previous(c))
	if err == nil && found.Chart.Descriptor().Digest != found.Locked.Manifest {
		err = fmt.Errorf("its manifest is %s, the lock would say %s", found.Chart.Descriptor().Digest, found.Locked.Manifest)
	}
	if err != nil {
		return Resolved{}, &ComponentError{Component: c.Name, Act: "resolving the chart", Err: err}
	}
	found.Locked.Component = c.Name
	tell(opts.OnResolved, found.Locked)
	return found, nil
}

func orDefault(concurrency int) int {
	if concurrency <= 0 {
		return defaultConcurrency
	}
	return concurrency
}

// CompareLock returns what makes a lock stale, one fact each: another release or
// version, another kind of packing, components that were added or dropped, chart
// sources whose inputs changed. Nil when release file and lock agree. No network
// is asked. opts.Version and opts.Packed are what the caller wants; Previous and
// Update are not looked at.
//
// Errors are those of in, joined, each a [ComponentError].
func CompareLock(ctx context.Context, rel *Release, lock *Lock, in Inputs, opts LockOptions) ([]string, error) {
	var differences []string
	say := func(format string, args ...any) { differences = append(differences, fmt.Sprintf(format, args...)) }
	if lock.Release.Name != rel.Name {
		say("the release is %s, locked is %s", rel.Name, lock.Release.Name)
	}
	if want := opts.version(rel); want != "" && lock.Release.Version != want {
		say("the version is %s, locked is %s", want, lock.Release.Version)
	}
	if lock.Packed != opts.packed() {
		way := ""
		if lock.Packed == PackedCharts {
			way = " (--no-images packs those)"
		}
		say("%s are to be packed, locked are %s%s", packedWords(opts.packed()), packedWords(lock.Packed), way)
	}
	var failed []error
	for _, c := range rel.Components {
		locked, ok := lock.Chart(c.Name)
		if !ok {
			say("component %s is not in the lock", c.Name)
			continue
		}
		now, err := in.Inputs(ctx, c)
		switch {
		case err != nil:
			failed = append(failed, &ComponentError{Component: c.Name, Act: "comparing with the lock", Err: err})
		case now != locked.Inputs:
			say("component %s: %s", c.Name, locked.outdatedBy(c, lock.Packed))
		}
	}
	if len(failed) > 0 {
		return nil, errors.Join(failed...)
	}
	for _, locked := range lock.Charts {
		if _, err := rel.Component(locked.Component); err != nil {
			say("component %s is locked and no longer in the release file", locked.Component)
		}
	}
	return differences, nil
}

// StaleLock is the [*StaleError] of what [CompareLock] found, nil for nothing.
// The lock may be nil.
func StaleLock(lock *Lock, differences []string, opts LockOptions) error {
	if len(differences) == 0 {
		return nil
	}
	other := lock != nil && lock.Packed != opts.packed()
	return &StaleError{
		Differences: differences,
		ChartsOnly:  other && opts.packed() == PackedImages, ImagesToo: other && opts.packed() == PackedCharts,
	}
}

// outdatedBy says what of a component's chart is no longer as it was locked. In a
// lock of images its values count too, since they decide which images there are.
func (l LockedChart) outdatedBy(c Component, packed string) string {
	switch repository := c.Chart.Kind() == SourceRepository; {
	case !l.keeps(c) && repository && l.Source == c.Chart.String():
		return fmt.Sprintf("version %s of chart %s is asked for, locked is %s", c.Chart.Version, l.Name, l.Version)
	case !l.keeps(c):
		return fmt.Sprintf("its chart is %s, locked is %s %s from %s", c.Chart, l.Name, l.Version, l.Source)
	case packed == PackedImages:
		return fmt.Sprintf("its chart %s, its values, or what the release file says of images or clusters changed since %s %s was locked", c.Chart, l.Name, l.Version)
	case repository:
		return fmt.Sprintf("version %s of chart %s is asked for now, which still allows the locked %s", c.Chart.Version, l.Name, l.Version)
	}
	return fmt.Sprintf("its chart %s changed since %s %s was locked", c.Chart, l.Name, l.Version)
}

func packedWords(packed string) string {
	if packed == PackedImages {
		return "charts and images"
	}
	return "charts only"
}
