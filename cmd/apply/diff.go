package main

import (
	"context"
	"crypto/rand"
	"slices"

	"waybill/charts"
	"waybill/rollout"
)

// diffs renders the components that a plan would change and compares them
// with what is deployed: by component, a unified diff each.
func diffs(ctx context.Context, runner *rollout.Runner, cluster *charts.Cluster, src *source, plan *rollout.Plan) (map[string]string, error) {
	composed, err := rollout.Compose(ctx, src.request, runner)
	if err != nil {
		return nil, err
	}
	found, salt := map[string]string{}, rand.Text()
	for _, component := range composed {
		at := slices.IndexFunc(plan.Components, func(c rollout.PlannedComponent) bool { return c.Name == component.Name })
		if at < 0 || !slices.Contains([]string{rollout.ActionInstall, rollout.ActionUpgrade, rollout.ActionReplace}, plan.Components[at].Action) {
			continue
		}
		chart, values, err := openChart(ctx, src, component)
		if err != nil {
			return nil, err
		}
		preview, err := cluster.Preview(ctx, charts.Component{
			Name: component.Name, Chart: chart, HelmRelease: component.HelmRelease, Namespace: component.Namespace,
			Values: values, CRDs: component.CRDs, Locate: component.Locate, PullSecret: component.PullSecret, Coming: coming(plan.Components[at].Coming),
		})
		if err != nil {
			return nil, clusterError(err)
		}
		if found[component.Name], err = preview.Diff(salt); err != nil {
			return nil, err
		}
	}
	return found, nil
}
