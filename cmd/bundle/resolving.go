package main

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"waybill/bundle"
	"waybill/internal/flags"
	"waybill/internal/releasefile"
	"waybill/internal/ui"
	"waybill/registry"
)

// sourceClient is the client that brings the charts and images of a release
// file, as the flags want it. The switches for the hosts named in a command count for the
// hosts that the file names.
func sourceClient(c *cli.Context, file *releasefile.File) (*registry.Client, error) {
	settings, err := flags.RegistrySettings(c)
	if err != nil {
		return nil, err
	}
	if c.Bool("plain-http") {
		settings.PlainHTTPHosts = append(settings.PlainHTTPHosts, file.Hosts()...)
	}
	if c.Bool("insecure-skip-tls-verify") {
		settings.InsecureHosts = append(settings.InsecureHosts, file.Hosts()...)
	}
	return registry.NewClient(settings)
}

// A resolving resolves the charts of a release file and shows how far it is.
type resolving struct {
	*releasefile.Resolver
	progress *ui.Progress
}

// startResolving begins the step. Close it in any case; end it when it is done.
func startResolving(file *releasefile.File, opts releasefile.ResolveOptions, talk *ui.Talk, doing, did string) *resolving {
	n := len(file.Release.Components)
	p := talk.Progress(ui.Step{
		Doing: fmt.Sprintf("%s the charts of %s", doing, file.Release.Name), Did: fmt.Sprintf("%s the charts of %s", did, file.Release.Name),
		Unit: "chart", Items: n,
	})
	opts.OnFetch = func(component, what string) { p.Waiting(component + ": " + what) }
	opts.OnWarning = func(component, warning string) { talk.Warnf("component %s: %s", component, warning) }
	return &resolving{Resolver: file.Resolver(opts), progress: p}
}

// shown adds the hooks that show each chart.
func (r *resolving) shown(opts bundle.LockOptions) bundle.LockOptions {
	opts.OnResolve = r.begun
	opts.OnResolved = func(chart bundle.LockedChart) { r.found(chart.Component) }
	return opts
}

func (r *resolving) begun(component string) { r.progress.Start("the chart of " + component) }

func (r *resolving) found(component string) { r.progress.Finish("the chart of " + component) }

func (r *resolving) end() { r.progress.End() }

// Close ends the showing and removes what was kept for this run.
func (r *resolving) Close() error {
	r.progress.Close()
	return r.Resolver.Close()
}

// problem is what went wrong with one component, in JSON.
type problem struct {
	Component string `json:"component,omitempty"`
	Message   string `json:"message"`
}

// problemsOf takes joined errors apart, each with its component.
func problemsOf(err error) []problem {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []problem
		for _, one := range joined.Unwrap() {
			all = append(all, problemsOf(one)...)
		}
		return all
	}
	var one *bundle.ComponentError
	if errors.As(err, &one) {
		return []problem{{Component: one.Component, Message: one.Act + ": " + one.Err.Error()}}
	}
	return []problem{{Message: err.Error()}}
}
