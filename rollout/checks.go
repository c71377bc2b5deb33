package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// checkIdentity holds release, site and site file against the record.
func (a *analysis) checkIdentity() {
	src, site, rec := a.req.Source, a.req.Site, a.record()
	if site != nil && site.Release != "" && site.Release != src.Release.Name {
		a.refuse("site-release", "the site file is for release %s, and this is %s", site.Release, src.Release.Name)
	}
	if rec == nil {
		return
	}
	if rec.Release != src.Release.Name {
		a.refuse("other-release", "instance %s is release %s, and this is %s; choose another instance name", a.instance, rec.Release, src.Release.Name)
	}
	switch {
	case site == nil && rec.SiteFile != "" && !a.req.NoSite:
		a.refuse("site-file-forgotten", "the last attempt (revision %d) had a site file and none is given; give it, see it with site %s, or say that there is to be none", rec.Revision, a.instance)
	case site != nil && rec.Site != "" && site.Site != "" && site.Site != rec.Site:
		a.refuse("other-site", "instance %s is at site %s, and the site file is for %s", a.instance, rec.Site, site.Site)
	}
}

// warnUnused says which values of the request are for a component that this
// attempt does not work on.
func (a *analysis) warnUnused() {
	for _, c := range a.components {
		if len(a.req.Values[c.Name]) > 0 && !c.active() {
			a.warn("the values given for component %s are not used: it is disabled or not selected", c.Name)
		}
	}
}

// checkKubernetes holds the cluster's version against the release's range.
// What follows the numbers (-eks-abc, +k3s1) does not count.
func (a *analysis) checkKubernetes() {
	want := a.req.Source.Release.Kubernetes
	if want == "" {
		return
	}
	constraint, err := semver.NewConstraint(want)
	if err != nil {
		a.refuse("kubernetes", "the release asks for Kubernetes %q, which is no range: %v", want, err)
		return
	}
	numbers, _, _ := strings.Cut(strings.TrimPrefix(a.caps.Version, "v"), "-")
	numbers, _, _ = strings.Cut(numbers, "+")
	version, err := semver.NewVersion(numbers)
	if err != nil {
		a.warn("the cluster calls its version %q, which cannot be compared with %s", a.caps.Version, want)
		return
	}
	if !constraint.Check(version) {
		a.refuse("kubernetes", "the release asks for Kubernetes %s, and the cluster is %s", want, a.caps.Version)
	}
}

// checkPlatform holds the nodes' platforms against the release's. Nodes that
// may not be listed, or do not say what they are, do not count.
func (r *Runner) checkPlatform(ctx context.Context, a *analysis) error {
	want := a.req.Source.Release.Platforms
	if len(want) == 0 {
		return nil
	}
	platforms, err := r.nodePlatforms(ctx)
	if errors.Is(err, errForbidden) {
		a.warn("nodes may not be listed with these credentials; their platform was not checked")
		return nil
	} else if err != nil {
		return err
	}
	others := slices.DeleteFunc(slices.Clone(platforms), func(p string) bool { return fitsPlatform(want, p) })
	switch {
	case len(others) > 0 && len(others) == len(platforms):
		a.refuse("platform", "the release is for %s, and the nodes are %s", strings.Join(want, ", "), strings.Join(others, ", "))
	case len(others) > 0:
		a.warn("the release is for %s, and some nodes are %s", strings.Join(want, ", "), strings.Join(others, ", "))
	}
	return nil
}

// checkKinds looks at the kinds the cluster does not serve. One that an
// earlier component brings makes the later one wait for it.
func (a *analysis) checkKinds() {
	for i, s := range a.subjects {
		if s.preview == nil {
			continue
		}
		for _, name := range s.preview.Follows {
			if !slices.Contains(s.Needs, name) {
				s.planned.After = append(s.planned.After, name)
			}
		}
		for _, kind := range s.preview.Missing {
			brings := func(o *subject) bool { return o.preview != nil && slices.Contains(o.preview.Brings, kind) }
			if at := slices.IndexFunc(a.subjects[:i], brings); at >= 0 {
				name := a.subjects[at].Name
				if !slices.Contains(s.Needs, name) && !slices.Contains(s.planned.After, name) {
					s.planned.After = append(s.planned.After, name)
				}
				continue
			}
			message := "the cluster does not know the kind " + kind
			if brings(s) {
				message += ", whose CRD is among the chart's templates and not in its crds/: Helm does not create both in one go"
			}
			if at := slices.IndexFunc(a.subjects[i:], brings); at > 0 {
				message += ", and component " + a.subjects[i+at].Name + ", which brings it, comes later: let this one need it"
			}
			s.refusals = append(s.refusals, Refusal{Code: "unknown-kind", Component: s.Name, Message: message})
		}
		slices.Sort(s.planned.After)
	}
}

// checkSpaces looks at the namespaces that objects are in beside the
// components' own. One that is absent may be made by another component's
// chart, so it is a warning.
func (a *analysis) checkSpaces() {
	planned := map[string]bool{}
	for _, n := range a.plan.Namespaces {
		planned[n.Name] = true
	}
	for _, s := range a.subjects {
		if s.preview == nil {
			continue
		}
		for _, name := range s.preview.MissingNamespaces {
			if !planned[name] && name != s.namespace {
				a.warn("component %s has objects in namespace %s, which does not exist", s.Name, name)
			}
		}
		for _, name := range s.preview.EndingNamespaces {
			if !planned[name] && name != s.namespace {
				s.refusals = append(s.refusals, Refusal{Code: "namespace-terminating", Component: s.Name, Message: "it has objects in namespace " + name + ", which is being deleted"})
			}
		}
	}
}

// checkNeeds refuses a named component whose needs are neither named nor
// ready.
func (a *analysis) checkNeeds() {
	byName := map[string]*subject{}
	for _, s := range a.subjects {
		byName[s.Name] = s
	}
	for _, s := range a.subjects {
		if !s.active() {
			continue
		}
		for _, need := range s.Needs {
			n := byName[need]
			if n.active() || !n.enabled || (n.previous != nil && n.previous.Ready) {
				continue
			}
			s.refusals = append(s.refusals, Refusal{
				Code: "needs", Component: s.Name, Message: fmt.Sprintf("it needs %s, which is not installed; name it too", need),
			})
		}
	}
}

// checkRights asks for the rights that only this attempt's first steps need:
// to write records and lease, and to create the namespaces that are absent.
func (r *Runner) checkRights(ctx context.Context, a *analysis, absent []string) error {
	if !a.plan.Change {
		return nil
	}
	rights := []right{
		{"create", "", "secrets", a.store.namespace, "to keep the record"},
		{"create", "coordination.k8s.io", "leases", a.store.namespace, "to hold the lease"},
	}
	if len(absent) > 0 {
		rights = append(rights, right{"create", "", "namespaces", "", "and absent: " + strings.Join(absent, ", ")})
	}
	return r.ask(ctx, a, rights)
}

// A right is one that an attempt needs, and what for.
type right struct{ verb, group, resource, namespace, purpose string }

// ask refuses what these credentials may not do.
func (r *Runner) ask(ctx context.Context, a *analysis, rights []right) error {
	for _, want := range rights {
		ask := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: want.verb, Group: want.group, Resource: want.resource, Namespace: want.namespace},
		}}
		answer, err := r.client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, ask, metav1.CreateOptions{})
		if err = clusterErr("asking for the right to "+want.verb+" "+want.resource, err); errors.Is(err, errForbidden) {
			a.warn("%v; found out when it is needed", err)
			continue
		} else if err != nil {
			return err
		}
		if answer.Status.Allowed {
			continue
		}
		where := ""
		if want.namespace != "" {
			where = " in namespace " + want.namespace
		}
		a.refuse("rights", "these credentials lack the right to %s %s%s (%s)", want.verb, want.resource, where, want.purpose)
	}
	return nil
}
