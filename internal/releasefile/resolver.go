package releasefile

import (
	"context"
	"errors"
	"fmt"

	"github.com/opencontainers/go-digest"

	"waybill/bundle"
	"waybill/charts"
)

// A Resolver resolves charts for the lock: the room charts in the words of
// the room bundle.
type Resolver struct {
	dir     string   // where relative paths begin
	outputs []string // what is written from the charts and so can't be in them
}

var (
	_ bundle.Resolver = Resolver{}
	_ bundle.Inputs   = Resolver{}
)

// Resolve packs the chart; what is locked is of no use to a folder or file,
// whose content alone decides.
func (r Resolver) Resolve(ctx context.Context, c bundle.Component, _ *bundle.LockedChart) (bundle.Resolved, error) {
	chart, err := r.Chart(ctx, c)
	if err != nil {
		return bundle.Resolved{}, err
	}
	locked := bundle.LockedChart{
		Component: c.Name, Name: chart.Name(), Version: chart.Version(), Source: chart.Source,
		Inputs: chart.Inputs, Content: chart.Content, Manifest: chart.Manifest, Files: chart.Files,
	}
	return bundle.Resolved{Locked: locked, Chart: chart}, nil
}

// Inputs returns the digest of what resolving depends on; it asks no network.
func (r Resolver) Inputs(ctx context.Context, c bundle.Component) (digest.Digest, error) {
	chart, err := r.Chart(ctx, c)
	if err != nil {
		return "", err
	}
	return chart.Inputs, nil
}

// Chart resolves the component's chart.
func (r Resolver) Chart(ctx context.Context, c bundle.Component) (*charts.Chart, error) {
	if err := supported(c); err != nil {
		return nil, err
	}
	chart, err := charts.Resolve(ctx, r.dir, charts.Source{Path: c.Chart.Path, Outputs: r.outputs}, charts.ResolveOptions{})
	var invalid *charts.InvalidError
	if errors.As(err, &invalid) {
		return nil, &ChartFileError{Err: err}
	}
	return chart, err
}

// A ChartFileError reports a chart on disk that is none: a file that does not
// parse, and not content that was damaged on its way.
type ChartFileError struct{ Err error }

func (e *ChartFileError) Error() string { return e.Err.Error() }

func (e *ChartFileError) Unwrap() error { return e.Err }

// UsageHint returns "": the message says which chart it is.
func (e *ChartFileError) UsageHint() string { return "" }

// A SourceError reports a kind of chart source that the release file may name
// and this version does not fetch.
type SourceError struct{ Kind string }

var kindWords = map[string]string{
	bundle.SourceRepository: "a repository", bundle.SourceGit: "git", bundle.SourceManifests: "manifests",
}

func (e *SourceError) Error() string {
	return fmt.Sprintf("charts from %s come with a later version of waybill; this one packs a folder or a .tgz file", kindWords[e.Kind])
}

// UsageHint says how to do without.
func (e *SourceError) UsageHint() string {
	return "fetch the chart once (`helm pull`) and name it with chart: {path: …}"
}

func supported(c bundle.Component) error {
	if kind := c.Chart.Kind(); kind != bundle.SourcePath {
		return &SourceError{Kind: kind}
	}
	return nil
}
