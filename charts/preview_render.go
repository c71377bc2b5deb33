package charts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"helm.sh/helm/v3/pkg/action"
	kubefake "helm.sh/helm/v3/pkg/kube/fake"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage"
	"helm.sh/helm/v3/pkg/storage/driver"
)

// brings are the API versions that templates see once crds/ is applied, in
// Helm's form: Helm renders after that.
func (c Component) brings() ([]string, error) {
	if c.CRDs == CRDsSkip {
		return nil, nil
	}
	return c.Chart.broughtFirst(c.Values)
}

// A rendering says as what a chart is rendered.
type rendering struct {
	revision int  // .Release.Revision
	upgrade  bool // .Release.IsUpgrade
}

// render has Helm render the chart for this cluster, in a dry run that Helm
// calls "server": lookup reads the cluster. Helm's records are not read; the
// revision comes from as.
func (c *Cluster) render(ctx context.Context, comp Component, as rendering) (*Rendered, error) {
	caps, err := c.capabilities(ctx)
	if err != nil {
		return nil, err
	}
	brought, err := comp.brings()
	if err != nil {
		return nil, err
	}
	caps.APIVersions = slices.Concat(caps.APIVersions, brought, comp.coming())
	last := &lastRequest{}
	records, err := recordsBefore(comp, as)
	if err != nil {
		return nil, comp.failed("rendering", err)
	}
	config := &action.Configuration{
		RESTClientGetter: restGetter{cluster: c, config: bind(ctx, c.config, last)},
		Releases:         records,
		KubeClient:       &kubefake.PrintingKubeClient{Out: io.Discard}, // builds nothing, reaches everything
		Capabilities:     caps,
		Log:              func(string, ...any) {},
	}
	rewriting := comp.rewriting()
	record, files, err := dryRun(config, comp, as, rewriting)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return nil, comp.failed("rendering", context.Cause(ctx))
	case last.failure() != nil:
		return nil, c.explain(who(comp.Name, comp.title())+": rendering", last.failure())
	case errors.As(err, new(*LibraryError)), errors.As(err, new(*DependencyError)), errors.As(err, new(*InvalidError)):
		return nil, err
	default:
		return nil, &RenderError{Chart: comp.Chart.title(), KubeVersion: caps.KubeVersion.Version, Err: err}
	}
	rendered := &Rendered{Manifest: record.Manifest, Notes: record.Info.Notes, CRDs: files, KubeVersion: caps.KubeVersion.Version, record: record, rewritten: rewriting.done}
	rendered.addHooks(record.Hooks)
	if rendered.Objects, err = renderedObjects(record.Manifest); err != nil {
		return nil, &RenderError{Chart: comp.Chart.title(), KubeVersion: caps.KubeVersion.Version, Err: err}
	}
	return rendered, nil
}

// recordsBefore is a storage in memory from which the next revision is the
// wanted one.
func recordsBefore(comp Component, as rendering) (*storage.Storage, error) {
	memory := driver.NewMemory()
	memory.SetNamespace(comp.Namespace)
	records := storage.Init(memory)
	if !as.upgrade {
		return records, nil
	}
	return records, records.Create(&release.Release{
		Name: comp.HelmRelease, Namespace: comp.Namespace, Version: as.revision - 1,
		Info: &release.Info{Status: release.StatusDeployed},
	})
}

func dryRun(config *action.Configuration, comp Component, as rendering, rewriting *rewriting) (record *release.Release, crds []File, err error) {
	loaded, values, err := comp.Chart.prepare(comp.Values)
	if err != nil {
		return nil, nil, err
	}
	defer recoverAs(&err, "executing templates")
	if as.upgrade {
		upgrade := action.NewUpgrade(config)
		upgrade.DryRunOption = "server"
		upgrade.Namespace, upgrade.Labels, upgrade.ResetValues = comp.Namespace, comp.Labels, true
		upgrade.PostRenderer = rewriting
		record, err = upgrade.Run(comp.HelmRelease, loaded, values)
	} else {
		install := action.NewInstall(config)
		install.DryRunOption = "server"
		install.ReleaseName, install.Namespace, install.Labels = comp.HelmRelease, comp.Namespace, comp.Labels
		install.SkipCRDs = true
		install.PostRenderer = rewriting
		record, err = install.Run(loaded, values)
	}
	if err != nil {
		return nil, nil, err
	}
	if record == nil {
		return nil, nil, fmt.Errorf("no record of %s came back from Helm", comp.title())
	}
	if err := rewriting.hooks(record); err != nil {
		return nil, nil, err
	}
	for _, crd := range loaded.CRDObjects() {
		crds = append(crds, File{Name: crd.Filename, Data: crd.File.Data})
	}
	crds, err = rewriting.files(crds)
	return record, crds, err
}
