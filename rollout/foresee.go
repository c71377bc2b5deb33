package rollout

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"golang.org/x/sync/errgroup"
)

// foresee previews again, as it will be at its turn, what comes after components
// that bring kinds: charts ask which kinds the cluster serves. What then brings
// kinds itself makes for another round. A chart that did not render for lack of
// them may now.
func (r *Runner) foresee(ctx context.Context, a *analysis) error {
	for range kindRounds {
		var again []*subject
		var coming [][]Coming
		for i, s := range a.subjects {
			if next := comingFrom(a.subjects[:i]); s.foreseeable() && len(next) > 0 && !reflect.DeepEqual(next, s.coming) {
				again, coming = append(again, s), append(coming, next)
			}
		}
		if len(again) == 0 {
			break
		}
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(a.req.concurrency())
		for i, s := range again {
			group.Go(func() error {
				defer s.findPodNamespaces()
				s.coming = coming[i]
				return named(s, r.preview(ctx, a, s, coming[i]))
			})
		}
		if err := group.Wait(); err != nil {
			return err
		}
	}
	for _, s := range a.subjects {
		if s.broken != nil {
			return named(s, s.broken)
		}
	}
	return r.foreseeLater(ctx, a)
}

// foreseeLater holds the images of what is rendered once more at the end, with
// the kinds of components behind it, against the map too.
func (r *Runner) foreseeLater(ctx context.Context, a *analysis) error {
	for i, s := range a.subjects {
		later := comingFrom(a.subjects[i+1:])
		if !s.foreseeable() || len(later) == 0 {
			continue
		}
		preview, err := r.previewWith(ctx, a, s, slices.Concat(comingFrom(a.subjects[:i]), later))
		if err != nil {
			return named(s, err)
		}
		follows := slices.DeleteFunc(slices.Clone(preview.Follows), func(name string) bool {
			return !slices.ContainsFunc(later, func(c Coming) bool { return c.Component == name })
		})
		if len(follows) == 0 {
			continue
		}
		s.planned.Reasons = append(s.planned.Reasons, "rendered once more after "+kindsReason(follows))
		s.previewed.add(a.checkImages(s.Name, preview.Images))
		for _, change := range preview.Images.Changes {
			if !slices.Contains(s.planned.Images, change) {
				s.planned.Images = append(s.planned.Images, change)
			}
		}
	}
	return nil
}

// add adds what is not there yet.
func (f *findings) add(more findings) {
	for _, refusal := range more.refusals {
		if !slices.Contains(f.refusals, refusal) {
			f.refusals = append(f.refusals, refusal)
		}
	}
	for _, warning := range more.warnings {
		if !slices.Contains(f.warnings, warning) {
			f.warnings = append(f.warnings, warning)
		}
	}
}

// foreseeable says whether the kinds of others may change what is done with it.
func (s *subject) foreseeable() bool {
	return s.active() && (changes(s.planned.Action) || s.planned.Action == ActionUnchanged)
}

// comingFrom are the kinds that these components bring to the cluster.
func comingFrom(subjects []*subject) []Coming {
	var coming []Coming
	for _, s := range subjects {
		if s.preview != nil && len(s.preview.Adds) > 0 && s.foreseeable() {
			coming = append(coming, Coming{Component: s.Name, Kinds: s.preview.Adds})
		}
	}
	return coming
}

func named(s *subject, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("component %s: %w", s.Name, err)
}
