package charts

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/opencontainers/go-digest"
)

// A finder finds the charts that one [Resolve] call needs: its own and those it
// depends on.
type finder struct {
	net     Network
	cache   *Cache
	again   bool   // ask where a pinned name leads now
	tempDir string // where git repositories are kept, empty for the system's
	onFetch func(what string)
}

// newFinder is the finder of the options, and what ends it.
func newFinder(opts ResolveOptions) (*finder, func() error) {
	f := &finder{net: opts.Network, cache: opts.Cache, again: opts.AskAgain, tempDir: opts.TempDir, onFetch: opts.OnFetch}
	if f.onFetch == nil {
		f.onFetch = func(string) {}
	}
	if f.cache != nil {
		return f, func() error { return nil }
	}
	f.cache = NewCache()
	return f, f.cache.Close
}

// An order is a chart of a repository as a release file or a Chart.yaml asks
// for it.
type order struct {
	repository string // http, https or oci
	want       wanted
	pin        *pin
}

// A pin is the chart that a lock has for an order.
type pin struct {
	version           string
	content, manifest digest.Digest // manifest may be unknown
}

func (o order) name() string { return o.want.chart }

// where is the repository as it is written, without credentials.
func (o order) where() string { return masked(o.repository) }

// source is what a lock says the chart's source is.
func (o order) source() string { return strings.TrimSuffix(o.where(), "/") + "/" + o.name() }

// key tells apart what is fetched.
func (o order) key() string {
	key := fmt.Sprintf("chart %q %q %q", o.repository, o.name(), o.want.text)
	if o.pin != nil {
		key += fmt.Sprintf(" %q %s %s", o.pin.version, o.pin.content, o.pin.manifest)
	}
	return key
}

// keepsPin leaves out a pin that is no longer allowed, and asks for exactly
// what it names when it is.
func (o order) keepsPin() (order, error) {
	if o.pin == nil || !o.want.allows(o.pin.version) {
		o.pin = nil
		return o, nil
	}
	want, err := parseWanted(o.name(), o.pin.version)
	o.want = want
	return o, err
}

// chart finds a chart in a chart repository or a registry. The result is the
// caller's own.
func (f *finder) chart(ctx context.Context, o order) (*Chart, error) {
	if f.net == nil {
		return nil, &OfflineError{Chart: o.name(), Source: o.source()}
	}
	o, err := o.keepsPin()
	if err != nil {
		return nil, err
	}
	found, err := cached(f.cache, o.key(), func() (*Chart, error) {
		if isRegistry(o.repository) {
			return f.fromRegistry(ctx, o)
		}
		return f.fromIndex(ctx, o)
	})
	if err != nil {
		return nil, err
	}
	own := *found
	own.Source = o.source()
	return &own, nil
}

const schemeRegistry = "oci://"

func isRegistry(repository string) bool { return strings.HasPrefix(repository, schemeRegistry) }

// masked is an address without what may be secret in it: a login (of ssh, the
// password) and the values of a query.
func masked(address string) string {
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok {
		return address
	}
	host, _, _ := strings.Cut(rest, "/")
	if at := strings.LastIndex(host, "@"); at >= 0 {
		user, _, _ := strings.Cut(host[:at], ":")
		rest = rest[at+1:]
		if strings.Contains(scheme, "ssh") && user != "" {
			rest = user + "@" + rest
		}
	}
	return maskedQuery(scheme + "://" + rest)
}

// maskedQuery hides the values of a query, which may be tokens.
func maskedQuery(address string) string {
	before, query, ok := strings.Cut(address, "?")
	if !ok {
		return address
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return before
	}
	for key := range values {
		values.Set(key, "masked")
	}
	return before + "?" + values.Encode()
}

// checkName refuses a chart that is called otherwise than it was asked for, as
// it would be installed under that name and version.
func checkName(c *Chart, o order, version string) error {
	if c.Name() == o.name() && sameVersionText(c.Version(), version) {
		return nil
	}
	return &RepositoryError{
		Repository: o.where(), Chart: o.name() + " " + version,
		Reason: fmt.Sprintf("the archive it serves says in Chart.yaml that it is %s %s", c.Name(), c.Version()),
	}
}

// checkPin refuses other content than is locked.
func checkPin(c *Chart, o order) error {
	if o.pin == nil {
		return nil
	}
	moved := &MovedError{Name: o.name(), Version: o.pin.version, Repository: o.where()}
	switch {
	case o.pin.content != "" && o.pin.content != c.Content:
		moved.What, moved.Locked, moved.Served = "archive", o.pin.content, c.Content
	case o.pin.manifest != "" && o.pin.manifest != c.Manifest:
		moved.What, moved.Locked, moved.Served = "manifest", o.pin.manifest, c.Manifest
	default:
		return nil
	}
	return moved
}
