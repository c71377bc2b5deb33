package charts

import (
	"fmt"
	"io"
	"slices"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	kubefake "helm.sh/helm/v3/pkg/kube/fake"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage"
	"helm.sh/helm/v3/pkg/storage/driver"
)

// RenderOptions say for which cluster and under which name a chart is rendered.
type RenderOptions struct {
	// HelmRelease is .Release.Name; empty means the chart's name.
	HelmRelease string
	// Namespace is .Release.Namespace; empty means "default".
	Namespace string
	// Values are the user's, as [Merge] gives them.
	Values map[string]any
	// ValuesName says in messages which set of values that is, such as a
	// profile's name.
	ValuesName string
	// Locate gives the reference to put in place of a normalised image
	// reference, see [Component.Locate]; nil keeps them.
	Locate func(normalized string) (reference string, ok bool)
	// PullSecret is as in [Component].
	PullSecret string
	// KubeVersion is .Capabilities.KubeVersion; empty means [NewestKubeVersion].
	KubeVersion string
	// APIVersions are further group/versions and group/version/kinds of
	// .Capabilities.APIVersions, beside those Helm knows by itself.
	APIVersions []string
	// AlsoWith are API versions that the release itself brings, for
	// [Chart.FindImages]: it looks at a rendering with them too, and one of the two
	// may fail.
	AlsoWith []string
	// OnlyAPIVersions takes APIVersions as the whole list, as a cluster gave it.
	OnlyAPIVersions bool
	// Upgrade renders as for an upgrade: .Release.IsUpgrade.
	Upgrade bool
}

// Rendered is what a chart says to the cluster.
type Rendered struct {
	// Manifest is all that is neither hook nor test nor in crds/, in the order
	// Helm sends it and in the form Helm records it.
	Manifest string
	// Objects are the documents of Manifest, in its order.
	Objects []Object
	// Hooks run beside an installation; Tests only when asked for.
	Hooks []Hook
	Tests []Hook
	// CRDs are the files of crds/, subcharts included, which are no templates.
	CRDs []File
	// Notes is the chart's NOTES.txt for its user.
	Notes string
	// KubeVersion is the Kubernetes version it was rendered for ("v1.33.0").
	KubeVersion string

	record    *release.Release // what Helm would keep
	lists     []imageList      // images that the rendered charts list themselves
	rewritten Rewritten        // of image references
}

// A Hook is a document that Helm applies at its events, not with the rest.
type Hook struct {
	Name, Kind string
	Path       string // the template it comes from
	Events     []string
	Manifest   string
}

// A File is a file of a chart.
type File struct {
	Name string // below the chart, subcharts as chart/charts/name/…
	Data []byte
}

// A RenderError reports a chart that does not render. Helm's words in Err name
// the template and the line.
type RenderError struct {
	Chart       string // name and version
	KubeVersion string
	Err         error
}

func (e *RenderError) Error() string {
	return fmt.Sprintf("rendering chart %s for Kubernetes %s: %v", e.Chart, e.KubeVersion, e.Err)
}

func (e *RenderError) Unwrap() error { return e.Err }

// Render executes the chart's templates as helm template does: nothing is
// asked of a cluster, lookup finds nothing. It may be called from several
// goroutines. Errors: [*RenderError], and those of Helm's checks before it,
// [*LibraryError] and [*DependencyError].
func (c *Chart) Render(opts RenderOptions) (*Rendered, error) {
	caps, err := opts.capabilities()
	if err != nil {
		return nil, err
	}
	loaded, values, err := c.prepare(opts.Values)
	if err != nil {
		return nil, err
	}
	install := action.NewInstall(&action.Configuration{
		Releases:     storage.Init(driver.NewMemory()),
		KubeClient:   &kubefake.PrintingKubeClient{Out: io.Discard},
		Capabilities: caps,
		Log:          func(string, ...any) {},
	})
	install.DryRun, install.DryRunOption = true, "client"
	install.ReleaseName, install.Namespace = opts.HelmRelease, opts.Namespace
	if install.ReleaseName == "" {
		install.ReleaseName = c.Name()
	}
	if install.Namespace == "" {
		install.Namespace = "default"
	}
	install.IsUpgrade = opts.Upgrade
	rewriting := &rewriting{locate: opts.Locate, pullSecret: opts.PullSecret}
	install.PostRenderer = rewriting

	record, err := runInstall(install, loaded, values)
	if err != nil {
		return nil, &RenderError{Chart: c.title(), KubeVersion: caps.KubeVersion.Version, Err: err}
	}
	rendered := &Rendered{
		Manifest:    record.Manifest,
		Notes:       record.Info.Notes,
		KubeVersion: caps.KubeVersion.Version,
		record:      record,
	}
	for _, crd := range loaded.CRDObjects() {
		rendered.CRDs = append(rendered.CRDs, File{Name: crd.Filename, Data: crd.File.Data})
	}
	if err := rewriting.hooks(record); err != nil {
		return nil, &RenderError{Chart: c.title(), KubeVersion: caps.KubeVersion.Version, Err: err}
	}
	if rendered.CRDs, err = rewriting.files(rendered.CRDs); err != nil {
		return nil, &RenderError{Chart: c.title(), KubeVersion: caps.KubeVersion.Version, Err: err}
	}
	rendered.rewritten = rewriting.done
	rendered.lists = imageLists(loaded, "")
	rendered.addHooks(record.Hooks)
	if rendered.Objects, err = renderedObjects(record.Manifest); err != nil {
		return nil, &RenderError{Chart: c.title(), KubeVersion: caps.KubeVersion.Version, Err: err}
	}
	return rendered, nil
}

func runInstall(install *action.Install, loaded *chart.Chart, values map[string]any) (record *release.Release, err error) {
	defer recoverAs(&err, "executing templates")
	return install.Run(loaded, values)
}

func (r *Rendered) addHooks(hooks []*release.Hook) {
	for _, h := range hooks {
		hook := Hook{Name: h.Name, Kind: h.Kind, Path: h.Path, Manifest: h.Manifest}
		for _, event := range h.Events {
			hook.Events = append(hook.Events, event.String())
		}
		onlyTests := !slices.ContainsFunc(h.Events, func(e release.HookEvent) bool { return e != release.HookTest })
		if onlyTests {
			r.Tests = append(r.Tests, hook)
		} else {
			r.Hooks = append(r.Hooks, hook)
		}
	}
}
