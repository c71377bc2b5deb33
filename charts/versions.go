package charts

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	"oras.land/oras-go/v2/errdef"
)

// A wanted is a chart's version as somebody asked for it: exact or a range.
type wanted struct {
	chart string
	text  string // as asked for, with + where a tag has _
	exact *semver.Version
	fits  *semver.Constraints
}

// maxVersionText bounds what is taken for a version at all.
const maxVersionText = 256

// parseWanted reads a version or a range. Nothing means the newest that is no
// pre-release.
func parseWanted(chart, text string) (wanted, error) {
	w := wanted{chart: chart, text: strings.TrimSpace(text)}
	if len(w.text) > maxVersionText {
		return w, &VersionError{Chart: chart, Version: text, Reason: fmt.Sprintf("is longer than %d characters", maxVersionText)}
	}
	if w.text == "" {
		w.text = "*"
	}
	if exact, err := semver.StrictNewVersion(strings.TrimPrefix(plus(w.text), "v")); err == nil {
		w.text, w.exact = plus(w.text), exact
		return w, nil
	}
	fits, err := semver.NewConstraint(w.text)
	if err != nil {
		return w, &VersionError{Chart: chart, Version: text, Reason: "is neither a version (1.2.3) nor a range (~1.2, >=1.2 <2)"}
	}
	w.fits = fits
	return w, nil
}

// plus is a version as Chart.yaml has it, from the spelling of tags, which
// cannot hold a plus sign (https://helm.sh/docs/topics/registries/).
func plus(tag string) string {
	if strings.Contains(tag, "+") {
		return tag
	}
	return strings.ReplaceAll(tag, "_", "+")
}

// tagGrammar is that of tags in the OCI distribution specification.
var tagGrammar = regexp.MustCompile(`^[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}$`)

// tag is the tag under which a registry holds the exact version.
func (w wanted) tag() (string, error) {
	tag := strings.ReplaceAll(w.text, "+", "_")
	if !tagGrammar.MatchString(tag) {
		return "", &VersionError{Chart: w.chart, Version: w.text, Reason: "can be no tag in a registry: at most 128 letters, digits, dots, hyphens and underscores"}
	}
	return tag, nil
}

// allows is whether a version that is known already may stay.
func (w wanted) allows(version string) bool {
	v, err := semver.NewVersion(plus(version))
	if err != nil {
		return version == w.text
	}
	return plus(version) == w.text || w.matches(v)
}

func (w wanted) matches(v *semver.Version) bool {
	if w.exact == nil {
		return w.fits.Check(v)
	}
	if w.exact.Metadata() == "" {
		return w.exact.Equal(v)
	}
	return sameVersion(w.exact, v)
}

// sameVersion is equality with the build metadata, which precedence leaves out.
func sameVersion(a, b *semver.Version) bool { return a.Equal(b) && a.Metadata() == b.Metadata() }

// sameVersionText compares two spellings of one version: with v or without,
// with plus sign or underscore.
func sameVersionText(a, b string) bool {
	if plus(a) == plus(b) {
		return true
	}
	x, err := semver.NewVersion(plus(a))
	if err != nil {
		return false
	}
	y, err := semver.NewVersion(plus(b))
	return err == nil && sameVersion(x, y)
}

// choose picks the best of the versions there are, in their spelling: the one
// that is asked for to the letter, else the newest that fits. where is for
// messages. Errors: [*NotFoundError], [*AmbiguousError].
func (w wanted) choose(where string, versions []string) (string, error) {
	var best []candidate
	for _, text := range versions {
		if plus(text) == w.text {
			return text, nil
		}
		if len(text) > maxVersionText {
			continue
		}
		v, err := semver.NewVersion(plus(text))
		if err != nil || !w.matches(v) {
			continue
		}
		switch c := (candidate{text, v}); {
		case len(best) == 0 || best[0].version.LessThan(v):
			best = []candidate{c}
		case best[0].version.Equal(v):
			best = append(best, c)
		}
	}
	return w.single(where, versions, best)
}

// A candidate is a version that fits, as it is spelled and as it is meant.
type candidate struct {
	text    string
	version *semver.Version
}

// single is the one of equally new candidates that is meant.
func (w wanted) single(where string, versions []string, best []candidate) (string, error) {
	if len(best) == 0 {
		return "", w.notFound(where, versions)
	}
	slices.SortFunc(best, func(a, b candidate) int { // 1.2.3 before v1.2.3: they are one version
		if n := len(a.text) - len(b.text); n != 0 {
			return n
		}
		return strings.Compare(a.text, b.text)
	})
	builds := map[string]bool{}
	for _, c := range best {
		if w.exact != nil && sameVersion(w.exact, c.version) {
			return c.text, nil
		}
		builds[c.version.Metadata()] = true
	}
	if len(builds) == 1 {
		return best[0].text, nil
	}
	e := &AmbiguousError{Name: w.chart, Version: w.text, Repository: where}
	for _, c := range best {
		e.Candidates = append(e.Candidates, plus(c.text))
	}
	slices.Sort(e.Candidates)
	e.Candidates = slices.Compact(e.Candidates)
	return "", e
}

// notFound says which versions there are, the newest first.
func (w wanted) notFound(where string, versions []string) error {
	e := &NotFoundError{What: "chart " + w.chart + " " + w.text, Where: where, Err: errdef.ErrNotFound}
	var all []candidate
	for _, text := range versions {
		if v, err := semver.NewVersion(plus(text)); err == nil && len(text) <= maxVersionText {
			all = append(all, candidate{plus(text), v})
		}
	}
	slices.SortFunc(all, func(a, b candidate) int {
		if n := b.version.Compare(a.version); n != 0 {
			return n
		}
		return strings.Compare(a.text, b.text)
	})
	const most = 5
	for _, c := range all[:min(len(all), most)] {
		e.Known = append(e.Known, c.text)
	}
	if len(all) > most {
		e.Known = append(e.Known, fmt.Sprintf("and %d older", len(all)-most))
	}
	if w.fits != nil && w.fitsPrereleases(all) {
		e.Advice = "only pre-releases fit, and those are taken when the range names one (>=1.2.3-0)"
	}
	return e
}

// fitsPrereleases is whether the range would allow a pre-release if it had
// asked for them.
func (w wanted) fitsPrereleases(all []candidate) bool {
	wider := *w.fits
	wider.IncludePrerelease = true
	return slices.ContainsFunc(all, func(c candidate) bool { return c.version.Prerelease() != "" && wider.Check(c.version) })
}
