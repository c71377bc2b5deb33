package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"waybill/charts"
	"waybill/charts/images"
	"waybill/internal/ref"
)

// kubeVersion is the one the list was made with.
const kubeVersion = "1.33.0"

// A score counts, of one chart or all.
type score struct {
	plain, plainFound int // in pods, annotations, arguments, environment, custom resources: found as certain or recognised
	all, allFound     int // everywhere: found, candidates included
	claimed, wrong    int // certain or recognised, and of these what is no image of the chart
	candidates        int
	failed            string // why nothing was found at all
	missed, falseOnes []string
	doubtful          []string // the candidates
}

// judge looks for the images of one chart and compares. A chart that does not
// render has found nothing of what the list has.
func (t index) judge(folder string, e entry) *score {
	found, err := t.find(folder, e)
	s := compare(e, found)
	if err != nil && !errors.As(err, new(*charts.LibraryError)) {
		s.failed = err.Error()
	}
	return s
}

func (t index) find(folder string, e entry) ([]charts.FoundImage, error) {
	tgz, err := os.ReadFile(filepath.Join(folder, e.File))
	if err != nil {
		return nil, err
	}
	if e.Render.Defaults == "only with its dependencies" {
		if tgz, err = t.vendored(folder, tgz); err != nil {
			return nil, err
		}
	}
	chart, err := charts.Open(tgz)
	if err != nil {
		return nil, err
	}
	values, err := charts.Merge(charts.Layer{Name: "render.set", Set: sets(e.Render.Set)})
	if err != nil {
		return nil, err
	}
	return chart.FindImages([]charts.RenderOptions{{HelmRelease: "rel", Namespace: "ns", KubeVersion: kubeVersion, Values: values}})
}

// sets are the values the chart needs, as helm's --set has them.
func sets(set any) string {
	var parts []string
	switch set := set.(type) {
	case string:
		return set
	case []any:
		for _, s := range set {
			parts = append(parts, fmt.Sprint(s))
		}
	case map[string]any:
		for key, value := range set {
			parts = append(parts, fmt.Sprintf("%s=%v", key, value))
		}
		slices.Sort(parts)
	}
	return strings.Join(parts, ",")
}

func compare(e entry, found []charts.FoundImage) *score {
	s := &score{}
	have := map[string]images.Confidence{}
	for _, image := range found {
		have[image.Normalized] = image.Confidence
	}
	scopes := map[string]string{}
	for _, image := range e.Images {
		name, err := ref.Normalize(image.Canonical)
		if err != nil {
			continue
		}
		scopes[name] = image.Scope
		if image.Scope == "default" && (image.Discoverable == nil || *image.Discoverable) {
			s.count(e.Name, image, have[name])
		}
	}
	for _, image := range found {
		s.claim(e.Name, image, scopes[image.Normalized])
	}
	return s
}

// count says how one image of the list was found; the empty confidence is not.
func (s *score) count(chart string, image listed, how images.Confidence) {
	s.all++
	if how != "" {
		s.allFound++
	} else {
		s.missed = append(s.missed, chart+": "+image.Canonical)
	}
	if !image.plain() {
		return
	}
	s.plain++
	switch how {
	case images.Certain, images.Recognised:
		s.plainFound++
	case images.Candidate:
		s.missed = append(s.missed, chart+": "+image.Canonical+" is a candidate only")
	}
}

// plain is whether an image stands where convention names it.
func (l listed) plain() bool {
	for _, f := range l.Found {
		if slices.Contains([]string{"pod spec", "annotation", "arg", "env", "custom resource"}, f.Where) {
			return true
		}
	}
	return false
}

// claim counts what was found. What the list has as switched off counts
// neither way.
func (s *score) claim(chart string, image charts.FoundImage, scope string) {
	use := image.Uses[0]
	place := fmt.Sprintf("%s: %s at %s %s (%s)", chart, use.Reference, use.Object, use.Path, use.Reason)
	switch {
	case image.Confidence == images.Candidate:
		s.candidates++
		s.doubtful = append(s.doubtful, place)
	case scope == "disabled":
	case scope == "":
		s.claimed, s.wrong = s.claimed+1, s.wrong+1
		s.falseOnes = append(s.falseOnes, place)
	default:
		s.claimed++
	}
}

func (s *score) add(o *score) {
	s.plain, s.plainFound = s.plain+o.plain, s.plainFound+o.plainFound
	s.all, s.allFound = s.all+o.all, s.allFound+o.allFound
	s.claimed, s.wrong, s.candidates = s.claimed+o.claimed, s.wrong+o.wrong, s.candidates+o.candidates
	s.missed, s.falseOnes = append(s.missed, o.missed...), append(s.falseOnes, o.falseOnes...)
	s.doubtful = append(s.doubtful, o.doubtful...)
}

func (s *score) print(name string) {
	fmt.Printf("%-28s found %3d/%-3d  with candidates %3d/%-3d  wrong %d of %-3d  candidates %d",
		name, s.plainFound, s.plain, s.allFound, s.all, s.wrong, s.claimed, s.candidates)
	if s.failed != "" {
		fmt.Printf("  %s", s.failed)
	}
	fmt.Println()
}

func (s *score) printLists(candidatesToo bool) {
	fmt.Printf("found %.3f (0.97 wanted), with candidates %.3f (0.99), precision %.3f (0.98)\n",
		share(s.plainFound, s.plain), share(s.allFound, s.all), share(s.claimed-s.wrong, s.claimed))
	for _, m := range s.missed {
		fmt.Println("missed:", m)
	}
	for _, f := range s.falseOnes {
		fmt.Println("wrong: ", f)
	}
	if candidatesToo {
		for _, c := range s.doubtful {
			fmt.Println("candidate:", c)
		}
	}
}

func (s *score) good() bool {
	return share(s.plainFound, s.plain) >= 0.97 && share(s.allFound, s.all) >= 0.99 && share(s.claimed-s.wrong, s.claimed) >= 0.98
}

func share(part, of int) float64 {
	if of == 0 {
		return 1
	}
	return float64(part) / float64(of)
}
