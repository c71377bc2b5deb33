package charts

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"oras.land/oras-go/v2/errdef"
)

// A need is an entry of Chart.yaml's dependencies that is switched on and not
// in charts/.
type need struct {
	entry  Dependency
	locked *chart.Dependency // what Chart.lock says of it, nil without one
	folder *packing          // what its file:// leads to
}

const fileScheme = "file://"

// findNeeds works out what these sets of values need. Nothing of a dependency
// that is switched off is looked at but its place in the lock.
func (p *packing) findNeeds(trail []string, sets []map[string]any) error {
	for _, key := range unknownDependencyKeys(p.files) {
		p.warnings = append(p.warnings, fmt.Sprintf("chart %s: %s", p.name(), key))
	}
	coalesced, err := p.coalesce(sets)
	if err != nil {
		return err
	}
	p.warnBelow(p.loaded, coalesced)
	absent := p.absent()
	var locked []*chart.Dependency
	for _, i := range absent {
		entry := dependencyOf(p.loaded.Metadata.Dependencies[i])
		if entry.Repository == "" {
			continue // has to be in charts/: checkDependencies says so
		}
		on := slices.DeleteFunc(slices.Clone(coalesced), func(all chartutil.Values) bool { return !enabled(entry, all) })
		if len(on) == 0 {
			continue
		}
		if locked == nil {
			if locked, err = p.lockedDependencies(); err != nil {
				return err
			}
		}
		n := need{entry: entry, locked: locked[i]}
		if below, isFolder := strings.CutPrefix(entry.Repository, fileScheme); isFolder {
			if n.folder, err = p.folderNeed(trail, entry, below, on); err != nil {
				return err
			}
		}
		p.needs = append(p.needs, n)
	}
	return nil
}

// warnBelow tells of charts in charts/ that lack what they need themselves. Helm
// leaves that out without a word, and helm dependency build does not fetch it.
func (p *packing) warnBelow(c *chart.Chart, coalesced []chartutil.Values) {
	for _, sub := range c.Dependencies() {
		var own []chartutil.Values
		for _, all := range coalesced {
			if table, err := all.Table(sub.Name()); err == nil {
				own = append(own, table)
			}
		}
		for _, missing := range missingDependencies(sub) {
			if slices.ContainsFunc(own, func(all chartutil.Values) bool { return enabled(missing, all) }) {
				p.warnings = append(p.warnings, fmt.Sprintf("chart %s: %s in its charts/ needs %s %s, which it lacks; Helm renders it without",
					p.name(), sub.Name(), missing.Name, missing.Version))
			}
		}
		p.warnBelow(sub, own)
	}
}

// coalesce lays each set of values over the chart's own.
func (p *packing) coalesce(sets []map[string]any) ([]chartutil.Values, error) {
	var all []chartutil.Values
	for _, set := range sets {
		values, err := chartutil.CoalesceValues(p.loaded, helmValues(set))
		if err != nil {
			return nil, &InvalidError{Chart: p.from.String(), Err: err}
		}
		all = append(all, values)
	}
	return all, nil
}

// absent are the places of the entries that charts/ has nothing for. A chart of
// the right name that fits no entry counts all the same, as for Helm, with a
// warning: somebody put it there.
func (p *packing) absent() []int {
	entries := p.loaded.Metadata.Dependencies
	var absent []int
	for i, entry := range entries {
		var fits, odd *chart.Chart
		for _, have := range p.loaded.Dependencies() {
			switch {
			case have.Name() != entry.Name:
			case fitsEntry(entry, have):
				fits = have
			case !slices.ContainsFunc(entries, func(other *chart.Dependency) bool { return other.Name == have.Name() && fitsEntry(other, have) }):
				odd = have
			}
		}
		switch {
		case fits != nil:
		case odd != nil:
			p.warnings = append(p.warnings, fmt.Sprintf("chart %s has %s %s in charts/, and its Chart.yaml wants %s; it is packed as it is",
				p.name(), odd.Name(), odd.Metadata.Version, entry.Version))
		default:
			absent = append(absent, i)
		}
	}
	return absent
}

func fitsEntry(entry *chart.Dependency, have *chart.Chart) bool {
	return chartutil.IsCompatibleRange(entry.Version, have.Metadata.Version)
}

// folderNeed is the packing of a chart that a file:// leads to, with the values
// that the parent's hand down to it.
func (p *packing) folderNeed(trail []string, entry Dependency, below string, on []chartutil.Values) (*packing, error) {
	from, err := p.from.sibling(below)
	if err != nil {
		return nil, err
	}
	var sets []map[string]any
	for _, all := range on {
		set := map[string]any{}
		if own, err := all.Table(entry.Key()); err == nil {
			maps.Copy(set, own)
		}
		if tags, ok := all["tags"]; ok { // tags are of the whole tree
			set["tags"] = tags
		}
		sets = append(sets, set)
	}
	return packingBelow(trail, from, sets)
}

// fetchNeed fetches one dependency.
func (f *finder) fetchNeed(ctx context.Context, p *packing, n need, pins []PinnedDependency) (*Chart, error) {
	c, err := f.dependency(ctx, n, pins)
	if err != nil {
		return nil, &NeedError{Chart: p.name(), Dependency: n.entry.Name, Keys: unknownDependencyKeys(p.files), Err: err}
	}
	return c, nil
}

// A NeedError reports a dependency that could not be fetched.
type NeedError struct {
	Chart      string // that needs it
	Dependency string
	Keys       []UnknownDependencyKey // keys of the entries that Helm does not know
	Err        error
}

func (e *NeedError) Error() string {
	text := fmt.Sprintf("dependency %s of chart %s: %v", e.Dependency, e.Chart, e.Err)
	for _, key := range e.Keys {
		text += "; " + key.String()
	}
	return text
}

func (e *NeedError) Unwrap() error { return e.Err }

func (f *finder) dependency(ctx context.Context, n need, pins []PinnedDependency) (*Chart, error) {
	version := n.entry.Version
	if n.locked != nil {
		version = n.locked.Version
	}
	want, err := parseWanted(n.entry.Name, version)
	if err != nil {
		return nil, err
	}
	if n.folder != nil {
		return f.packedFolder(ctx, n, want, pins)
	}
	repository, err := f.repositoryOf(ctx, n)
	if err != nil {
		return nil, err
	}
	o := order{repository: repository, want: want}
	for _, have := range pins {
		if have.Name == n.entry.Name && have.Repository == masked(n.entry.Repository) && want.allows(have.Version) {
			o.pin = &pin{version: have.Version, content: have.Content}
			break
		}
	}
	return f.chart(ctx, o)
}

// packedFolder packs a dependency that is a folder.
func (f *finder) packedFolder(ctx context.Context, n need, want wanted, pins []PinnedDependency) (*Chart, error) {
	meta := n.folder.loaded.Metadata
	switch {
	case meta.Name != n.entry.Name:
		return nil, fmt.Errorf("%s holds a chart called %s", n.entry.Repository, meta.Name)
	case !want.allows(meta.Version) && n.locked != nil:
		return nil, fmt.Errorf("%s holds version %s, and the lock says %s; helm dependency update makes a new lock", n.entry.Repository, meta.Version, n.locked.Version)
	case !want.allows(meta.Version):
		return nil, fmt.Errorf("%s holds version %s, and %s is wanted", n.entry.Repository, meta.Version, n.entry.Version)
	}
	return f.pack(ctx, n.folder, pins)
}

// repositoryOf is the URL of a dependency's repository. A name that only Helm's
// configuration knows is looked up in the chart's lock first, which has the URL
// it stood for.
func (f *finder) repositoryOf(ctx context.Context, n need) (string, error) {
	repository := n.entry.Repository
	name, isAlias := repositoryAlias(repository)
	switch {
	case isAlias && n.locked != nil && isURL(n.locked.Repository):
		return n.locked.Repository, nil
	case isAlias && f.net == nil:
		return "", &OfflineError{Chart: n.entry.Name, Source: repository}
	case isAlias:
		url, err := f.net.RepositoryURL(ctx, name)
		if errors.Is(err, errdef.ErrNotFound) {
			return "", fmt.Errorf("repository %q is not in Helm's repositories.yaml; `helm repo add %s URL` puts it there: %w", repository, name, err)
		}
		return url, err
	case !isURL(repository):
		return "", fmt.Errorf("repository %q is neither https://, http://, oci://, file:// nor @NAME", masked(repository))
	}
	return repository, nil
}

// repositoryAlias is the name in "@name" and "alias:name".
func repositoryAlias(repository string) (string, bool) {
	if name, ok := strings.CutPrefix(repository, "@"); ok {
		return name, true
	}
	return strings.CutPrefix(repository, "alias:")
}

func isURL(repository string) bool {
	return isRegistry(repository) || strings.HasPrefix(repository, "https://") || strings.HasPrefix(repository, "http://")
}
