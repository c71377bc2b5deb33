package credentials

import (
	"slices"
	"strings"
)

// prefixes gives host/a/b, host/a, host.
func prefixes(name string) []string {
	var all []string
	for {
		all = append(all, name)
		at := strings.LastIndexByte(name, '/')
		if at < 0 {
			return all
		}
		name = name[:at]
	}
}

// hubNames are all one registry; the first is the key that docker login writes.
func hubNames() []string {
	return []string{"https://index.docker.io/v1/", "docker.io", "index.docker.io", "registry-1.docker.io"}
}

// IsHub says whether a host is one of the names of the Hub.
func IsHub(host string) bool { return slices.Contains(hubNames()[1:], host) }

// spellings are the keys a prefix may be stored under.
func spellings(prefix string) []string {
	host, path, hasPath := strings.Cut(prefix, "/")
	if !IsHub(host) {
		return []string{prefix}
	}
	if !hasPath {
		return hubNames()
	}
	var all []string
	for _, name := range hubNames()[1:] {
		all = append(all, name+"/"+path)
	}
	return all
}

// WithoutScheme takes https:// and the API's version off an old key.
func WithoutScheme(key string) (string, bool) {
	rest, ok := strings.CutPrefix(key, "https://")
	if !ok {
		rest, ok = strings.CutPrefix(key, "http://")
	}
	rest = strings.TrimRight(rest, "/")
	for _, version := range []string{"/v1", "/v2"} {
		rest = strings.TrimSuffix(rest, version)
	}
	return rest, ok
}
