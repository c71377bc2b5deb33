package rollout

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// examine finds out what would happen to one component and what speaks
// against it.
func (r *Runner) examine(ctx context.Context, a *analysis, s *subject) error {
	s.planned = PlannedComponent{
		Name: s.Name, Stage: s.Stage, Needs: s.Needs, HelmRelease: s.helmRelease, Namespace: s.namespace, Profile: s.profile,
		Chart: s.chart.Name, ChartVersion: s.chart.Version, ChartDigest: s.chart.Content,
	}
	switch {
	case !s.enabled:
		s.planned.Action = ActionDisabled
		if s.previous.touched() {
			s.planned.Reasons = []string{"disabled by the site, and still installed; it stays until it is uninstalled by name"}
		}
		return nil
	case !s.selected:
		s.planned.Action = ActionNotSelected
		return nil
	}
	s.locate, s.images, s.pullSecret = a.images.locator(), a.images.digest(s.Name), a.pull.attached()
	defer s.findPodNamespaces()
	s.checkMoved()
	found, err := r.readFrom(ctx, s.component)
	if err != nil {
		return err
	}
	s.refusals = append(s.refusals, found.refusals...)
	if err := s.layer(a.req, found); err != nil {
		return err
	}
	if err := r.merge(s.component); err != nil {
		return err
	}
	s.planned.Values = s.valuesDigest
	refusals, err := r.checkParameters(s.component)
	if err != nil {
		return err
	}
	s.refusals = append(s.refusals, refusals...)
	if s.history, err = r.charts.History(ctx, s.namespace, s.helmRelease); err != nil {
		return fmt.Errorf("reading its Helm history: %w", err)
	}
	s.planned.HelmRevision = last(s.history).Number
	if !s.checkOwner(a) {
		s.planned.Action = ActionRefused
		return nil
	}
	s.decide()
	return r.preview(ctx, a, s, nil)
}

// checkMoved refuses a component that stands elsewhere: installed anew, the
// old one would stay unseen.
func (s *subject) checkMoved() {
	old := s.previous
	if !old.touched() || (old.Namespace == s.namespace && old.HelmRelease == s.helmRelease) {
		return
	}
	s.refusals = append(s.refusals, Refusal{Code: "moved", Component: s.Name, Message: fmt.Sprintf(
		"it is installed as Helm release %s in namespace %s and would go to %s in %s; uninstall it by name first",
		old.HelmRelease, old.Namespace, s.helmRelease, s.namespace)})
}

// checkOwner says whether the Helm release is ours to go on with, and refuses
// when it is not, whatever state it is in.
func (s *subject) checkOwner(a *analysis) bool {
	newest := last(s.history)
	if newest.Number == 0 {
		return true
	}
	if reason := ownerRefusal(newest, a.instance, s.Name); reason != "" {
		s.refusals = append(s.refusals, Refusal{Code: "helm-release", Component: s.Name, Message: fmt.Sprintf(
			"Helm release %s in namespace %s %s (revision %d is %s)", s.helmRelease, s.namespace, reason, newest.Number, newest.Status)})
		return false
	}
	if !newest.pending() {
		return true
	}
	if !s.previous.names(newest.Number) {
		s.refusals = append(s.refusals, Refusal{Code: "helm-pending", Component: s.Name, Message: fmt.Sprintf(
			"revision %d of Helm release %s in namespace %s is %s since %s, begun by somebody else",
			newest.Number, s.helmRelease, s.namespace, newest.Status, newest.Updated.UTC().Format("2006-01-02 15:04:05Z"))})
		return false
	}
	s.heal = &Heal{Component: s.Name, HelmRelease: s.helmRelease, Namespace: s.namespace, HelmRevision: newest.Number, Status: newest.Status}
	return true
}

// ownerRefusal says whose the Helm release is when it is not the component's.
func ownerRefusal(newest HelmRevision, instance, component string) string {
	switch {
	case newest.Labels[LabelInstance] == "":
		return "was not installed by waybill"
	case newest.Labels[LabelInstance] != instance:
		return "belongs to instance " + newest.Labels[LabelInstance]
	case newest.Labels[LabelComponent] != component:
		return "belongs to component " + newest.Labels[LabelComponent] + " of this instance"
	}
	return ""
}

// decide sets the action and its reasons. Where only the cluster may be another
// one, the rendering has to tell.
func (s *subject) decide() {
	newest := last(s.history)
	switch {
	case newest.Number == 0 || newest.Status == helmUninstalled:
		s.planned.Action = ActionInstall
		if s.previous.touched() {
			s.planned.Reasons = []string{"its Helm release is gone"}
		}
		return
	case lastGood(s.history, newest.Number) == 0:
		s.planned.Action = ActionReplace
		s.planned.Reasons = []string{fmt.Sprintf("Helm revision %d is %s, and none before it went well", newest.Number, newest.Status)}
		return
	}
	s.planned.Action = ActionUpgrade
	s.planned.Reasons = s.differences(newest)
	if len(s.planned.Reasons) == 0 {
		s.planned.Action, s.same = ActionUnchanged, true
	}
}

// differences compares the component with the record and with Helm's newest
// revision.
func (s *subject) differences(newest HelmRevision) []string {
	old := s.previous
	if old == nil || old.HelmAfter == 0 {
		return []string{"not recorded"}
	}
	var reasons []string
	if !old.Ready {
		reasons = append(reasons, "it is not ready since the last attempt at it ("+old.Outcome+")")
	}
	switch {
	case old.ChartDigest == s.chart.Content:
	case old.ChartVersion != s.chart.Version:
		reasons = append(reasons, fmt.Sprintf("chart %s %s, was %s", s.chart.Name, s.chart.Version, old.ChartVersion))
	default:
		reasons = append(reasons, "chart: other content")
	}
	if old.Values != s.valuesDigest {
		reasons = append(reasons, "values")
	}
	if old.Images != s.images {
		reasons = append(reasons, "images")
	}
	if newest.Number != old.HelmAfter {
		reasons = append(reasons, fmt.Sprintf("somebody moved the Helm release from revision %d to %d", old.HelmAfter, newest.Number))
	}
	if newest.Status != helmDeployed {
		reasons = append(reasons, fmt.Sprintf("Helm revision %d is %s", newest.Number, newest.Status))
	}
	return reasons
}

// findings are what speaks against a component, and what is to be said of it.
type findings struct {
	refusals []Refusal
	warnings []string
}

func (f *findings) refuse(component, code, format string, args ...any) {
	f.refusals = append(f.refusals, Refusal{Code: code, Component: component, Message: fmt.Sprintf(format, args...)})
}

func (f *findings) warn(component, format string, args ...any) {
	f.warnings = append(f.warnings, component+": "+fmt.Sprintf(format, args...))
}

// preview renders what would change, with the kinds that are coming, and looks
// for what stands in its way. A chart that does not render is left to a later
// preview, see [Runner.foresee]. A component that is the same is looked at only
// where the cluster is another one, or will be.
func (r *Runner) preview(ctx context.Context, a *analysis, s *subject, coming []Coming) error {
	if s.same && s.previous.Cluster == a.caps.Digest && len(coming) == 0 {
		return nil
	}
	preview, err := r.previewWith(ctx, a, s, coming)
	var away *ClusterError
	if err != nil && !errors.As(err, &away) && ctx.Err() == nil {
		s.broken = err
		return nil
	} else if err != nil {
		return err
	}
	s.preview, s.coming, s.broken, s.previewed = preview, coming, nil, findings{}
	s.planned.Coming = coming
	if s.same && !preview.Changed {
		s.planned.Action, s.planned.Reasons = ActionUnchanged, nil
		return nil
	}
	if s.same {
		s.planned.Action, s.planned.Reasons = ActionUpgrade, []string{kindsReason(preview.Follows)}
	}
	s.planned.Images = preview.Images.Changes
	s.previewed = a.checkImages(s.Name, preview.Images)
	for _, c := range preview.Conflicts {
		s.previewed.refuse(s.Name, "conflict", "%s", c)
	}
	if preview.RecordLimit > 0 && preview.RecordBytes > preview.RecordLimit {
		s.previewed.refuse(s.Name, "helm-record-size", "Helm's record would have %d bytes, and %d fit; the largest in it: %s",
			preview.RecordBytes, preview.RecordLimit, strings.Join(preview.Largest, ", "))
	}
	return r.checkKeys(s)
}

func (r *Runner) previewWith(ctx context.Context, a *analysis, s *subject, coming []Coming) (*Preview, error) {
	if s.archive == nil {
		archive, err := a.req.Source.Charts.Chart(ctx, s.Name)
		if err != nil {
			return nil, fmt.Errorf("reading its chart: %w", err)
		}
		s.archive = archive
	}
	component := s.helm(a.instance, "")
	component.Coming = coming
	preview, err := r.charts.Preview(ctx, component)
	if err != nil {
		return nil, fmt.Errorf("previewing it: %w", err)
	}
	return preview, nil
}

// kindsReason says whose kinds make a component render otherwise.
func kindsReason(follows []string) string {
	if len(follows) == 0 {
		return "the cluster's version or kinds"
	}
	return "the kinds that " + strings.Join(follows, ", ") + " brings"
}

// checkKeys refuses keys in the site's values that the chart does not read.
func (r *Runner) checkKeys(s *subject) error {
	if len(s.siteLayers) == 0 {
		return nil
	}
	unknown, err := r.charts.CheckKeys(s.helm("", ""), s.siteLayers)
	if err != nil {
		return fmt.Errorf("checking the keys of its values: %w", err)
	}
	for _, key := range unknown {
		message := fmt.Sprintf("%s: the chart knows no value %s", key.Layer, key.Path)
		if key.Nearest != "" {
			message += fmt.Sprintf(" (did you mean %s?)", key.Nearest)
		}
		s.previewed.refuse(s.Name, "unknown-value", "%s", message)
	}
	return nil
}
