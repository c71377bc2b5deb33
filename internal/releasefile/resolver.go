package releasefile

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/opencontainers/go-digest"

	"waybill/bundle"
	"waybill/charts"
)

// ResolveOptions are the options of [File.Resolver]. The zero value finds what is
// on disk and asks no network.
type ResolveOptions struct {
	// Values are the values files of the release file ([File.ValuesFiles]); they
	// switch dependencies on and off.
	Values map[string][]byte
	// Network brings charts from other hosts; nil: none is asked.
	Network charts.Network
	// Images counts what the search for images depends on among the inputs.
	Images bool
	// AskAgain asks also where name and version of a locked chart lead now, so
	// that one that moved is found.
	AskAgain bool
	// Outputs are what will be written besides the lock, and can be in no chart.
	Outputs []string
	// OnFetch is told of each request or clone before it is made: for which
	// component, of what, from where. It may be called at the same time.
	OnFetch func(component, what string)
	// OnWarning is told of what somebody should know of how a component's chart
	// was found. It may be called at the same time.
	OnWarning func(component, warning string)
}

// A Resolver resolves charts for the lock: the room charts in the words of
// the room bundle. All that it resolves is seen in one state: an index, a tag or
// a ref is asked for once. Close it.
type Resolver struct {
	release *bundle.Release
	dir     string // where relative paths begin
	outputs []string
	opts    ResolveOptions
	cache   *charts.Cache
}

var _ bundle.Resolver = (*Resolver)(nil)

// Resolver returns what resolves the charts of this file.
func (f *File) Resolver(opts ResolveOptions) *Resolver {
	return &Resolver{
		release: f.Release,
		dir:     filepath.Dir(f.Path), outputs: append([]string{f.LockPath()}, opts.Outputs...),
		opts: opts, cache: charts.NewCache(),
	}
}

// Close removes what was kept on disk for this run.
func (r *Resolver) Close() error { return r.cache.Close() }

// Resolve finds the component's chart, as [bundle.Resolver] wants it.
func (r *Resolver) Resolve(ctx context.Context, c bundle.Component, locked *bundle.LockedChart) (bundle.Resolved, error) {
	chart, err := r.Chart(ctx, c, locked)
	if err != nil {
		return bundle.Resolved{}, err
	}
	found := lockedChart(c, chart)
	if found.Inputs, err = r.withImages(c, found.Inputs); err != nil {
		return bundle.Resolved{}, err
	}
	return bundle.Resolved{Locked: found, Chart: chart}, nil
}

// LockedArchives returns the archives of the named components exactly as the lock
// says them, with the options and hooks of [bundle.ResolveLocked].
func (f *File) LockedArchives(ctx context.Context, lock *bundle.Lock, names []string, sources ResolveOptions, opts bundle.LockOptions) (map[string][]byte, error) {
	r := f.Resolver(sources)
	defer r.Close()
	found, err := bundle.ResolveLocked(ctx, f.Release, lock, r, names, opts)
	if err != nil {
		return nil, err
	}
	archives := make(map[string][]byte, len(found))
	for name, chart := range found {
		archives[name] = chart.(*charts.Chart).Archive() // as Resolve made it
	}
	return archives, nil
}

// Inputs returns the digest of what resolving depends on; it asks no network.
func (r *Resolver) Inputs(ctx context.Context, c bundle.Component) (digest.Digest, error) {
	source, err := r.source(c)
	if err != nil {
		return "", err
	}
	inputs, err := charts.Inputs(ctx, r.dir, source)
	if err != nil {
		return "", onDisk(c, err)
	}
	return r.withImages(c, inputs)
}

// Chart finds the component's chart; locked as in [bundle.Resolver]. Errors are
// those of [charts.Resolve] and of the network.
func (r *Resolver) Chart(ctx context.Context, c bundle.Component, locked *bundle.LockedChart) (*charts.Chart, error) {
	source, err := r.source(c)
	if err != nil {
		return nil, err
	}
	opts := charts.ResolveOptions{Network: r.opts.Network, AskAgain: r.opts.AskAgain, Cache: r.cache, Pinned: pinned(locked)}
	if r.opts.OnFetch != nil {
		opts.OnFetch = func(what string) { r.opts.OnFetch(c.Name, what) }
	}
	chart, err := charts.Resolve(ctx, r.dir, source, opts)
	if err != nil {
		return nil, onDisk(c, err)
	}
	if r.opts.OnWarning != nil {
		for _, warning := range chart.Warnings {
			r.opts.OnWarning(c.Name, warning)
		}
	}
	return chart, nil
}

// source is the component's chart source in the words of the room charts.
func (r *Resolver) source(c bundle.Component) (charts.Source, error) {
	values, err := valueSets(c, r.opts.Values)
	if err != nil {
		return charts.Source{}, err
	}
	source := charts.Source{
		Path: c.Chart.Path, Repository: c.Chart.Repository, Name: c.Chart.Name, Version: c.Chart.Version,
		Git: c.Chart.Git, Ref: c.Chart.Ref, Manifests: c.Chart.Manifests, Values: values, Outputs: r.outputs,
	}
	if c.Chart.Kind() == bundle.SourceManifests {
		source.Name = c.Name
	}
	return source, nil
}

func lockedChart(c bundle.Component, chart *charts.Chart) bundle.LockedChart {
	locked := bundle.LockedChart{
		Component: c.Name, Name: chart.Name(), Version: chart.Version(), Source: chart.Source,
		Inputs: chart.Inputs, Content: chart.Content, Manifest: chart.Manifest, Files: chart.Files,
	}
	for _, d := range chart.Dependencies {
		locked.Dependencies = append(locked.Dependencies, bundle.LockedDependency(d))
	}
	return locked
}

func pinned(locked *bundle.LockedChart) *charts.Pinned {
	if locked == nil {
		return nil
	}
	p := &charts.Pinned{Version: locked.Version, Source: locked.Source, Content: locked.Content, Manifest: locked.Manifest}
	for _, d := range locked.Dependencies {
		p.Dependencies = append(p.Dependencies, charts.PinnedDependency(d))
	}
	return p
}

// onDisk tells a chart on disk that is none, which its author mends, from
// content that was damaged on its way.
func onDisk(c bundle.Component, err error) error {
	var fetched *charts.NeedError // a dependency, which came from elsewhere
	var invalid *charts.InvalidError
	if errors.As(err, &fetched) {
		return err
	}
	if kind := c.Chart.Kind(); errors.As(err, &invalid) && (kind == bundle.SourcePath || kind == bundle.SourceManifests) {
		return &ChartFileError{Err: err}
	}
	return err
}

// A ChartFileError reports a chart on disk that is none: a file that does not
// parse, and not content that was damaged on its way.
type ChartFileError struct{ Err error }

func (e *ChartFileError) Error() string { return e.Err.Error() }

func (e *ChartFileError) Unwrap() error { return e.Err }

// UsageHint returns "": the message says which chart it is.
func (e *ChartFileError) UsageHint() string { return "" }
