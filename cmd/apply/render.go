package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"waybill/charts"
	"waybill/internal/flags"
	"waybill/internal/ui"
	"waybill/rollout"
)

func renderCommand() *cli.Command {
	return &cli.Command{
		Name: "render", Aliases: []string{"template"},
		Usage:     "print manifests as they would be sent",
		ArgsUsage: "SRC [COMPONENT…]",
		Description: `No cluster is asked unless --cluster is given: then its version, kinds and
objects are used. CRDs come first, then hooks and manifests in one stream.

  apply render oci://registry.example/shop:1.0.0 -f site.yaml
  apply render shop-1.0.0.tar web --kube-version 1.31.0
  apply render release.yaml

Exit codes: 0 done, 1 a chart does not render, 2 usage, 3 refused by the policy,
4 registry says not found or denied, 5 a release file without a lock that agrees
or of another bundle than it names, 6 content corrupt, 7 (--cluster) what
valuesFrom names is absent, 10 not reachable.`,
		Flags: flags.Join(sourceFlags(), []cli.Flag{
			&cli.StringFlag{Name: "kube-version", Usage: "Kubernetes `VERSION` to render for (default: the newest known)"},
			&cli.StringSliceFlag{Name: "api-versions", Usage: "further API `VERSION` the cluster has (repeatable)"},
			&cli.BoolFlag{Name: "cluster", Usage: "ask the cluster for its version, kinds and objects"},
		}, imageFlags(), flags.ClusterOfSite(), flags.Common()),
		Action: runRender,
	}
}

// A renderedComponent is what `render` says of one component in JSON.
type renderedComponent struct {
	Component   string `json:"component"`
	HelmRelease string `json:"helmRelease"`
	Namespace   string `json:"namespace"`
	KubeVersion string `json:"kubeVersion"`
	Manifest    string `json:"manifest"`
}

func runRender(c *cli.Context) error {
	form, err := flags.Output(c)
	if err != nil {
		return err
	}
	if c.Bool("cluster") && (c.IsSet("kube-version") || c.IsSet("api-versions")) {
		return flags.Usagef("--cluster uses the cluster's own version and kinds; leave out --kube-version and --api-versions")
	}
	if err := checkImageFlags(c); err != nil {
		return err
	}
	src, err := readSource(c)
	if err != nil {
		return err
	}
	defer src.Close()
	talk := flags.Talk(c)
	runner, cluster, err := connectIf(c, talk)
	if err != nil {
		return err
	}
	if err := src.open(c, false); err != nil {
		return err
	}
	if err := src.chooseImages(c); err != nil {
		return err
	}
	render := renderer(c, cluster)
	composed, err := compose(c, runner, src.request, talk)
	if err != nil {
		return err
	}
	var all []renderedComponent
	for _, component := range composed {
		rendered, err := renderOne(c.Context, src, component, render)
		if err != nil {
			return err
		}
		all = append(all, rendered)
	}
	if len(all) > 0 {
		talk.Sayf("rendered for Kubernetes %s", all[0].KubeVersion)
	}
	return printRendered(c.App.Writer, all, form)
}

// compose collects the values of the request's components. Without a runner
// nothing is read for valuesFrom, and that is said.
func compose(c *cli.Context, runner *rollout.Runner, request rollout.Request, talk *ui.Talk) ([]rollout.Composed, error) {
	composed, err := rollout.Compose(c.Context, request, runner)
	if err != nil {
		return nil, err
	}
	for _, component := range composed {
		for _, skipped := range component.Skipped {
			talk.Warnf("component %s: values from %s are left out; --cluster reads them", component.Name, skipped)
		}
	}
	return composed, nil
}

// connectIf connects when --cluster asks for it; otherwise both are nil.
func connectIf(c *cli.Context, talk *ui.Talk) (*rollout.Runner, *charts.Cluster, error) {
	if !c.Bool("cluster") {
		return nil, nil, nil
	}
	return connect(c, &narrator{talk: talk})
}

// A renderFunc renders a chart, and says for which Kubernetes version.
type renderFunc func(ctx context.Context, chart *charts.Chart, opts charts.RenderOptions, crds string) (*charts.Rendered, string, error)

// renderer renders with the cluster's version, objects and kinds, and without a
// cluster for what the flags say; with the kinds too that the chart's crds/ and the
// components before bring.
func renderer(c *cli.Context, cluster *charts.Cluster) renderFunc {
	if cluster != nil {
		var before []charts.Coming // kinds of the components before
		return func(ctx context.Context, chart *charts.Chart, opts charts.RenderOptions, crds string) (*charts.Rendered, string, error) {
			caps, err := cluster.Capabilities(ctx)
			if err != nil {
				return nil, "", clusterError(err)
			}
			preview, err := cluster.Preview(ctx, charts.Component{
				Chart: chart, HelmRelease: opts.HelmRelease, Namespace: opts.Namespace, Values: opts.Values, Locate: opts.Locate, PullSecret: opts.PullSecret,
				CRDs: crds, Coming: before,
			})
			if err != nil {
				return nil, "", clusterError(err)
			}
			if len(preview.Adds) > 0 {
				before = append(before, charts.Coming{From: opts.HelmRelease, Kinds: preview.Adds})
			}
			return preview.Rendered, caps.FullVersion, nil
		}
	}
	version := c.String("kube-version")
	if version == "" {
		version = charts.NewestKubeVersion()
	}
	apiVersions := c.StringSlice("api-versions")
	return func(_ context.Context, chart *charts.Chart, opts charts.RenderOptions, crds string) (*charts.Rendered, string, error) {
		opts.KubeVersion, opts.APIVersions = version, apiVersions
		first, all, err := chart.Brings(opts)
		if err != nil {
			return nil, version, err
		}
		if crds == charts.CRDsSkip {
			first, all = nil, all[len(first):]
		}
		opts.APIVersions = slices.Concat(apiVersions, first)
		rendered, err := chart.Render(opts)
		apiVersions = slices.Concat(apiVersions, all) // for the components behind it
		return rendered, version, err
	}
}

func renderOne(ctx context.Context, src *source, component rollout.Composed, render renderFunc) (renderedComponent, error) {
	chart, values, err := openChart(ctx, src, component)
	if err != nil {
		return renderedComponent{}, err
	}
	rendered, version, err := render(ctx, chart, charts.RenderOptions{
		HelmRelease: component.HelmRelease, Namespace: component.Namespace, Values: values, Locate: component.Locate, PullSecret: component.PullSecret,
	}, component.CRDs)
	if err != nil {
		return renderedComponent{}, fmt.Errorf("component %s: %w", component.Name, err)
	}
	return renderedComponent{
		Component: component.Name, HelmRelease: component.HelmRelease, Namespace: component.Namespace,
		KubeVersion: version, Manifest: manifestText(rendered, component.CRDs != charts.CRDsSkip),
	}, nil
}

func openChart(ctx context.Context, src *source, component rollout.Composed) (*charts.Chart, map[string]any, error) {
	archive, err := src.request.Source.Charts.Chart(ctx, component.Name)
	if err != nil {
		return nil, nil, err
	}
	chart, err := charts.Open(archive)
	if err != nil {
		return nil, nil, fmt.Errorf("component %s: %w", component.Name, err)
	}
	values, err := charts.Merge(chartLayers(component.Layers)...)
	if err != nil {
		return nil, nil, fmt.Errorf("component %s: %w", component.Name, err)
	}
	return chart, values, nil
}

func manifestText(r *charts.Rendered, crds bool) string {
	var text strings.Builder
	document := func(source, body string) {
		fmt.Fprintf(&text, "---\n# Source: %s\n%s\n", source, strings.TrimSpace(strings.TrimPrefix(body, "---")))
	}
	if crds {
		for _, crd := range r.CRDs {
			document(crd.Name, string(crd.Data))
		}
	}
	for _, hook := range r.Hooks {
		document(hook.Path, hook.Manifest)
	}
	text.WriteString(strings.TrimLeft(r.Manifest, "\n"))
	return text.String()
}

func printRendered(out io.Writer, all []renderedComponent, form flags.Form) error {
	if form == flags.JSON {
		return ui.JSON(out, map[string]any{"components": all})
	}
	for _, rendered := range all {
		if _, err := io.WriteString(out, rendered.Manifest); err != nil {
			return err
		}
	}
	return nil
}
