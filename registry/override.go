package registry

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"waybill/internal/credentials"
	"waybill/internal/ref"
)

// An OverrideError reports an override that says nothing that can be done.
type OverrideError struct {
	Upstream, Cache string // as written, without logins
	Reason          string
}

func (e *OverrideError) Error() string {
	return fmt.Sprintf("registry override %q: %s", e.Upstream+"="+e.Cache, e.Reason)
}

// overrides say where bytes are read from in place of where they are named,
// the longest prefix first. What is written goes where it is named.
type overrides []override

// override is one of them: what is below from is read from below to.
type override struct{ from, to prefix }

// prefix is a host with the beginning of a path.
type prefix struct {
	scheme string // oci for registries, http or https for chart repositories; empty for any
	host   string
	path   string // without slashes around it
}

const ociScheme = "oci"

func newOverrides(settings map[string]string) (overrides, error) {
	var all overrides
	for upstream, cache := range settings {
		o, err := parseOverride(upstream, cache)
		if err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b override) int {
		if c := len(b.from.path) - len(a.from.path); c != 0 {
			return c
		}
		if c := len(b.from.scheme) - len(a.from.scheme); c != 0 { // the one that says more
			return c
		}
		return strings.Compare(a.from.String(), b.from.String())
	})
	for i := 1; i < len(all); i++ {
		if all[i].from == all[i-1].from {
			return nil, &OverrideError{Upstream: all[i].from.String(), Cache: all[i].to.String(), Reason: "the same upstream goes to " + all[i-1].to.String() + " too"}
		}
	}
	return all, nil
}

func parseOverride(upstream, cache string) (override, error) {
	o := override{}
	var reasons [2]string
	o.from, reasons[0] = parsePrefix(upstream)
	o.to, reasons[1] = parsePrefix(cache)
	fail := func(reason string) (override, error) {
		return o, &OverrideError{Upstream: withoutLogin(upstream), Cache: withoutLogin(cache), Reason: reason}
	}
	for i, which := range []string{"the upstream", "the cache"} {
		if reasons[i] != "" {
			return fail(which + " " + reasons[i])
		}
	}
	if (o.from.scheme == ociScheme) != (o.to.scheme == ociScheme) && o.from.scheme != "" && o.to.scheme != "" {
		return fail("one is a registry and the other a chart repository")
	}
	o.from.host = sameHost(o.from.host)
	return o, nil
}

func parsePrefix(s string) (prefix, string) {
	var p prefix
	rest := s
	if scheme, after, ok := strings.Cut(s, "://"); ok {
		p.scheme, rest = strings.ToLower(scheme), after
	}
	p.host, p.path, _ = strings.Cut(rest, "/")
	p.path = strings.Trim(p.path, "/")
	u, err := url.Parse("https://" + p.host)
	switch {
	case strings.Contains(p.host, "@"):
		return p, "has a login in it; log in instead"
	case !slices.Contains([]string{"", ociScheme, "http", "https"}, p.scheme):
		return p, "wants HOST or HOST/PATH, with oci://, https://, http:// or nothing before it"
	case p.host == "" || err != nil || u.Host != p.host || u.Hostname() == "" || strings.ContainsAny(p.path, "?#@ ") || strings.Contains(p.path, ".."):
		return p, "wants HOST or HOST/PATH"
	}
	return p, ""
}

func (p prefix) String() string {
	s := strings.TrimSuffix(p.host+"/"+p.path, "/")
	if p.scheme != "" {
		s = p.scheme + "://" + s
	}
	return s
}

// below gives what comes after the prefix in a path, and whether it is below it.
func (p prefix) below(path string) (string, bool) {
	path = strings.TrimLeft(path, "/")
	switch {
	case p.path == "" || path == p.path:
		return strings.TrimPrefix(path, p.path), true
	case strings.HasPrefix(path, p.path+"/"):
		return path[len(p.path)+1:], true
	}
	return "", false
}

// repository is where a repository of a registry is read from.
func (all overrides) repository(r ref.Reference) ref.Reference {
	for _, o := range all {
		if o.from.scheme != "" && o.from.scheme != ociScheme || o.from.host != sameHost(r.Host) {
			continue
		}
		if rest, ok := o.from.below(r.Repository); ok {
			r.Host, r.Repository = o.to.host, strings.Trim(o.to.path+"/"+rest, "/")
			return r
		}
	}
	return r
}

// address is where a file of a chart repository is read from. A cache without a
// scheme is spoken to as its host is.
func (all overrides) address(u *url.URL, hosts *hostRules) *url.URL {
	for _, o := range all {
		if o.from.scheme != "" && o.from.scheme != u.Scheme || o.from.host != sameHost(u.Host) || o.to.scheme == ociScheme {
			continue
		}
		rest, ok := o.from.below(u.EscapedPath())
		if !ok {
			continue
		}
		to := *u
		to.Scheme, to.Host = o.to.scheme, o.to.host
		if to.Scheme == "" {
			to.Scheme = map[bool]string{true: "http", false: "https"}[hosts.plain(to.Host)]
		}
		path := "/" + strings.TrimLeft(o.to.path+"/"+rest, "/")
		if unescaped, err := url.PathUnescape(path); err == nil {
			to.Path, to.RawPath = unescaped, path
			return &to
		}
	}
	return u
}

// sameHost is one spelling of a host: the Hub has several names, and the usual
// port of TLS need not be said.
func sameHost(host string) string {
	host = strings.TrimSuffix(strings.ToLower(host), ":443")
	if credentials.IsHub(host) {
		return "docker.io"
	}
	return host
}

// withoutLogin leaves out what stands before an @.
func withoutLogin(s string) string {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok {
		scheme, rest = "", s
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		rest = "…" + rest[at:]
	}
	if ok {
		return scheme + "://" + rest
	}
	return rest
}
