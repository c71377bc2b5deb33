package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"k8s.io/client-go/kubernetes"

	"waybill/charts"
	"waybill/internal/flags"
	"waybill/rollout"
)

// connect returns a runner for the cluster that the flags name, whose work said
// tells. Nothing is dialled yet.
func connect(c *cli.Context, said *narrator) (*rollout.Runner, *charts.Cluster, error) {
	cluster, err := charts.Connect(charts.ClusterOptions{
		Kubeconfig: c.String("kubeconfig"), Context: c.String("context"),
		Warn: func(text string) { said.talk.Warnf("the API server says: %s", text) },
	})
	if err != nil {
		return nil, nil, usageOfConfig(err)
	}
	client, err := kubernetes.NewForConfig(cluster.RESTConfig())
	if err != nil {
		return nil, nil, fmt.Errorf("reading the cluster's configuration: %w", err)
	}
	runner := rollout.NewRunner(rollout.Config{
		Client: client, Charts: helm{cluster}, Now: time.Now, Holder: holder(),
		StateNamespace: c.String("state-namespace"), Events: said.say,
	})
	return runner, cluster, nil
}

// usageOfConfig makes a kubeconfig that cannot be used an error of usage.
func usageOfConfig(err error) error {
	var config *charts.ConfigError
	if !errors.As(err, &config) {
		return err
	}
	return &flags.UsageError{Message: err.Error(), Hint: "name the cluster with --kubeconfig FILE or --context NAME"}
}

// holder names this run in the lease: host, process, and something random.
func holder() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown-host"
	}
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails
	return fmt.Sprintf("%s/%d/%s", host, os.Getpid(), hex.EncodeToString(random[:]))
}

// helm binds the room charts to what the room rollout asks of it.
type helm struct{ cluster *charts.Cluster }

var _ rollout.Charts = helm{}

func (h helm) Capabilities(ctx context.Context, fresh bool) (rollout.Capabilities, error) {
	if fresh {
		h.cluster.Refresh()
	}
	caps, err := h.cluster.Capabilities(ctx)
	return rollout.Capabilities{Version: caps.FullVersion, Digest: caps.Digest}, clusterError(err)
}

func (h helm) Merge(layers []rollout.Layer) (map[string]any, error) {
	return charts.Merge(chartLayers(layers)...)
}

func chartLayers(layers []rollout.Layer) []charts.Layer {
	out := make([]charts.Layer, len(layers))
	for i, l := range layers {
		out[i] = charts.Layer{
			Name: l.Name, Values: l.Values, YAML: l.YAML, Set: l.Set, TargetPath: l.TargetPath, TargetValue: l.Text,
		}
	}
	return out
}

func (h helm) CheckKeys(c rollout.HelmComponent, layers []rollout.Layer) ([]rollout.UnknownKey, error) {
	chart, err := charts.Open(c.Archive)
	if err != nil {
		return nil, err
	}
	found, err := chart.CheckKeys(chartLayers(layers)...)
	if err != nil {
		return nil, err
	}
	out := make([]rollout.UnknownKey, len(found))
	for i, k := range found {
		out[i] = rollout.UnknownKey{Path: k.Path, Nearest: k.Nearest, Layer: k.Layer}
	}
	return out, nil
}

func (h helm) History(ctx context.Context, namespace, helmRelease string) ([]rollout.HelmRevision, error) {
	revisions, err := h.cluster.History(ctx, namespace, helmRelease)
	if err != nil {
		return nil, clusterError(err)
	}
	out := make([]rollout.HelmRevision, len(revisions))
	for i, r := range revisions {
		out[i] = revision(r)
	}
	return out, nil
}

func revision(r charts.Revision) rollout.HelmRevision {
	return rollout.HelmRevision{
		Number: r.Number, Status: r.Status, Chart: r.Chart, Version: r.Version,
		Labels: r.Labels, Updated: r.Updated, Description: r.Description,
	}
}

func (h helm) Preview(ctx context.Context, c rollout.HelmComponent) (*rollout.Preview, error) {
	component, err := h.component(c)
	if err != nil {
		return nil, err
	}
	component.Coming = coming(c.Coming)
	preview, err := h.cluster.Preview(ctx, component)
	if err != nil {
		return nil, clusterError(err)
	}
	return previewed(preview), nil
}

// previewed is what the plan wants to know of a preview. Objects of kinds that
// the cluster dropped stand in the way as conflicts do: Helm cannot upgrade
// from a revision that has them.
func previewed(p *charts.Preview) *rollout.Preview {
	out := &rollout.Preview{
		Changed: p.Changed, Missing: kinds(p.Missing), Brings: kinds(p.Provides), Adds: kinds(p.Adds), Follows: p.Follows,
		MissingNamespaces: p.MissingNamespaces, EndingNamespaces: p.EndingNamespaces,
		RecordBytes: p.Size.Bytes, RecordLimit: p.Size.Limit,
	}
	out.Images = previewedImages(p.Images)
	for _, part := range p.Size.Largest {
		out.Largest = append(out.Largest, fmt.Sprintf("%s (%d KiB)", part.Name, (part.Bytes+1023)/1024))
	}
	for _, c := range p.Conflicts {
		object := charts.ObjectRef{Kind: c.Kind, Namespace: c.Namespace, Name: c.Name}
		out.Conflicts = append(out.Conflicts, rollout.Conflict{Object: object.String(), Owner: c.Owner, Reason: c.Reason})
	}
	for _, object := range p.Dropped {
		out.Conflicts = append(out.Conflicts, rollout.Conflict{Object: object.String(), Reason: fmt.Sprintf(
			"is in Helm revision %d, and the cluster no longer serves %s: Helm cannot upgrade from it", p.PreviousRevision, object.APIVersion)})
	}
	return out
}

func kinds(of []charts.Kind) []string {
	out := make([]string, len(of))
	for i, k := range of {
		out[i] = k.APIVersion + " " + k.Kind
	}
	return out
}

func coming(of []rollout.Coming) []charts.Coming {
	var out []charts.Coming
	for _, one := range of {
		out = append(out, charts.Coming{From: one.Component, Kinds: kindsFrom(one.Kinds)})
	}
	return out
}

// kindsFrom reads what kinds wrote.
func kindsFrom(texts []string) []charts.Kind {
	out := make([]charts.Kind, len(texts))
	for i, text := range texts {
		out[i].APIVersion, out[i].Kind, _ = strings.Cut(text, " ")
	}
	return out
}

func (h helm) Apply(ctx context.Context, c rollout.HelmComponent) (rollout.HelmRevision, error) {
	component, err := h.component(c)
	if err != nil {
		return rollout.HelmRevision{}, err
	}
	rev, err := h.cluster.Apply(ctx, component, charts.ApplyOptions{})
	return revision(rev), clusterError(err)
}

func (h helm) Fail(ctx context.Context, namespace, helmRelease string, number int, why string) error {
	return clusterError(h.cluster.Fail(ctx, namespace, helmRelease, number, why))
}

func (h helm) Rollback(ctx context.Context, c rollout.HelmComponent, number int) (rollout.HelmRevision, error) {
	component, err := h.component(c)
	if err != nil {
		return rollout.HelmRevision{}, err
	}
	rev, err := h.cluster.Rollback(ctx, component, number)
	return revision(rev), clusterError(err)
}

func (h helm) TakeBack(ctx context.Context, c rollout.HelmComponent) error {
	component, err := h.component(c)
	if err != nil {
		return err
	}
	return clusterError(h.cluster.TakeBack(ctx, component))
}

func (h helm) Uninstall(ctx context.Context, c rollout.HelmComponent) error {
	component, err := h.component(c)
	if err != nil {
		return err
	}
	return clusterError(h.cluster.Uninstall(ctx, component))
}

func (h helm) Origin(ctx context.Context, object rollout.ObjectName) (*rollout.ObjectOrigin, error) {
	origin, err := h.cluster.Origin(ctx, charts.ObjectRef(object))
	if err != nil || origin == nil {
		return nil, clusterError(err)
	}
	return &rollout.ObjectOrigin{
		HelmRelease: origin.HelmRelease, HelmNamespace: origin.HelmNamespace, Mark: origin.Mark, Owner: (*rollout.ObjectName)(origin.Owner),
	}, nil
}

func (h helm) component(c rollout.HelmComponent) (charts.Component, error) {
	component := charts.Component{ // without the component's name: rollout says it
		HelmRelease: c.HelmRelease, Namespace: c.Namespace, Values: c.Values, Locate: c.Locate, PullSecret: c.PullSecret,
		CRDs: c.CRDs, Timeout: c.Timeout, Labels: c.Labels, Mark: c.Mark, HistoryMax: c.KeepHistory,
	}
	if c.Archive == nil {
		return component, nil
	}
	chart, err := charts.Open(c.Archive)
	component.Chart = chart
	return component, err
}

// clusterError gives a cluster that cannot be asked the name rollout has for it.
func clusterError(err error) error {
	var unreachable *charts.UnreachableError
	if errors.As(err, &unreachable) {
		return &rollout.ClusterError{Err: err}
	}
	return err
}
