package rollout

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"

	"waybill/bundle"
	"waybill/internal/near"
)

// component is one component of a release after the site's and the caller's
// choices.
type component struct {
	*bundle.Component
	enabled, selected bool
	namespace         string // effective
	helmRelease       string
	profile           string
	profileValues     map[string]any
	site              bundle.SiteComponent
	chart             bundle.LockedChart

	layers       []Layer // all, in their order
	siteLayers   []Layer // those that the release did not set
	values       map[string]any
	valuesDigest digest.Digest
	archive      []byte
	locate       func(string) (string, bool) // of image references; nil keeps them
	images       digest.Digest               // of the image map as far as it is used here
	pullSecret   string                      // attached to what is sent; empty for none
	keepHistory  int
}

// active says whether this attempt works on the component.
func (c *component) active() bool { return c.enabled && c.selected }

// helm returns the component as [Charts] wants it.
func (c *component) helm(instance, mark string) HelmComponent {
	timeout := time.Duration(c.Timeout)
	if timeout <= 0 {
		timeout = bundle.DefaultTimeout
	}
	return HelmComponent{
		Name: c.Name, Archive: c.archive, HelmRelease: c.helmRelease, Namespace: c.namespace, Values: c.values, Locate: c.locate, PullSecret: c.pullSecret,
		CRDs: c.CRDPolicy(), Timeout: timeout, Mark: mark, KeepHistory: c.keepHistory,
		Labels: map[string]string{LabelInstance: instance, LabelComponent: c.Name},
	}
}

// choose puts the components in their order and applies the request's and the
// site's choices to them. Errors are [*UnknownError] and [*UsageError].
func choose(req *Request) ([]*component, error) {
	ordered, err := order(req.Source.Release)
	if err != nil {
		return nil, err
	}
	known := req.Source.Release.ComponentNames()
	if err := checkNames(req, known); err != nil {
		return nil, err
	}
	chosen := make([]*component, len(ordered))
	for i, c := range ordered {
		locked, ok := req.Source.Lock.Chart(c.Name)
		if !ok {
			return nil, &UsageError{Reason: "the lock has no chart for component " + c.Name}
		}
		one := &component{Component: c, enabled: true, namespace: c.Namespace, helmRelease: c.HelmRelease(), chart: locked, keepHistory: req.historyMax()}
		one.selected = len(req.Components) == 0 || slices.Contains(req.Components, c.Name)
		if req.Site != nil {
			one.site = req.Site.Components[c.Name]
			if err := one.applySite(); err != nil {
				return nil, err
			}
		}
		if one.selected && !one.enabled && len(req.Components) > 0 {
			return nil, &UsageError{Reason: fmt.Sprintf("component %s is named, and the site file disables it", c.Name)}
		}
		chosen[i] = one
	}
	return chosen, nil
}

func (c *component) applySite() error {
	c.enabled = c.site.IsEnabled()
	if c.site.Namespace != "" {
		c.namespace = c.site.Namespace
	}
	if c.profile = c.site.Profile; c.profile == "" {
		return nil
	}
	var known []string
	for _, p := range c.Profiles {
		if p.Name == c.profile {
			c.profileValues = p.Values
			return nil
		}
		known = append(known, p.Name)
	}
	return &UnknownError{What: "profile", Name: c.profile, Where: "site file, component " + c.Name, Nearest: near.Word(c.profile, known), Known: known}
}

// checkNames holds every component name of the request against the release.
func checkNames(req *Request, known []string) error {
	for _, name := range req.Components {
		if err := checkName("", name, known); err != nil {
			return err
		}
	}
	if req.Site != nil {
		for _, name := range slices.Sorted(maps.Keys(req.Site.Components)) {
			if err := checkName("site file", name, known); err != nil {
				return err
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(req.Values)) {
		if err := checkName("values", name, known); err != nil {
			return err
		}
	}
	return nil
}

func checkName(where, name string, known []string) error {
	if slices.Contains(known, name) {
		return nil
	}
	return &UnknownError{What: "component", Name: name, Where: where, Nearest: near.Word(name, known), Known: known}
}

// order returns the components stage by stage, in each stage so that none
// stands before one it needs, otherwise as in the release file. A circle, or
// a need that is not there, is a [*UsageError]: a release file that was
// checked has neither.
func order(rel *bundle.Release) ([]*bundle.Component, error) {
	pending := make([]*bundle.Component, len(rel.Components))
	for i := range rel.Components {
		pending[i] = &rel.Components[i]
	}
	slices.SortStableFunc(pending, func(a, b *bundle.Component) int {
		return slices.Index(rel.Stages, a.Stage) - slices.Index(rel.Stages, b.Stage)
	})
	var ordered []*bundle.Component
	placed := map[string]bool{}
	for len(pending) > 0 {
		next := slices.IndexFunc(pending, func(c *bundle.Component) bool {
			return !slices.ContainsFunc(c.Needs, func(need string) bool { return !placed[need] })
		})
		if next < 0 {
			return nil, &UsageError{Reason: "components need each other in a circle, or need one that is not there: " + namesOf(pending)}
		}
		placed[pending[next].Name] = true
		ordered = append(ordered, pending[next])
		pending = slices.Delete(pending, next, next+1)
	}
	return ordered, nil
}

func namesOf(components []*bundle.Component) string {
	names := make([]string, len(components))
	for i, c := range components {
		names[i] = c.Name
	}
	return strings.Join(names, ", ")
}

func quote(s string) string { return fmt.Sprintf("%q", s) }
