// Package export writes what others need to use a bundle where it is mirrored:
// configuration that makes a node pull images, by the names that charts give
// them, from a mirror that gives each a repository of its own
// ([bundle.Bundle.Expand]).
//
// It knows the files that containerd, CRI-O, K3s and OpenShift read, and asks
// nobody: bundles are opened, and files written, by the commands. Begin with
// [Containerd].
package export

import (
	"fmt"
	"slices"
	"strings"

	"waybill/bundle"
	"waybill/internal/ref"
)

// A Mirror is where nodes pull from, and how they reach it.
type Mirror struct {
	Prefix string // HOST[/PATH], below which everything has its repository
	// PlainHTTP is HTTP without TLS.
	PlainHTTP bool
	// Insecure leaves out the check of the mirror's certificate.
	Insecure bool
	// CA are certificates of authorities in PEM that vouch for the mirror, besides
	// the node's own; nil for none.
	CA []byte
	// Only keeps nodes from asking anybody else for the images: by default what
	// the mirror has not got is asked for where its name says.
	Only bool
}

// host is the mirror's own.
func (m Mirror) host() string {
	host, _, _ := strings.Cut(m.Prefix, "/")
	return host
}

// server is the address of the mirror's registry.
func (m Mirror) server() string {
	if m.PlainHTTP {
		return "http://" + m.host()
	}
	return "https://" + m.host()
}

// hasCA is whether nodes are to be given authorities. Without TLS, or without
// the check, they have no use for any.
func (m Mirror) hasCA() bool { return len(m.CA) > 0 && !m.PlainHTTP && !m.Insecure }

// A Config is what nodes or a cluster get.
type Config struct {
	// Base is the folder on a node that the files belong into; empty: they are
	// objects for a cluster.
	Base  string
	Files []File
	// Notes say what else somebody has to do, or to know.
	Notes []string
}

// A File is one file of a [Config].
type File struct {
	Path    string `json:"path"` // below the base, with slashes
	Content string `json:"content"`
}

// add appends a file that begins with who wrote it, and what for.
func (c *Config) add(format, path string, m Mirror, content string) {
	c.Files = append(c.Files, File{Path: path, Content: fmt.Sprintf("# Written by waybill: bundle export %s --mirror %s\n%s", format, m.Prefix, content)})
}

func (c *Config) note(format string, args ...any) {
	c.Notes = append(c.Notes, fmt.Sprintf(format, args...))
}

// upstream is a registry that images come from.
type upstream struct {
	host         string
	path         string         // of the mirror's repositories for it
	repositories []repositories // sorted
}

// repositories are one at upstream and one in the mirror, both with their hosts.
type repositories struct{ name, mirror string }

// upstreamsOf sorts images by the registries that their names lead to. What is
// no image is left out.
func upstreamsOf(images []bundle.Expanded) ([]upstream, error) {
	byHost := map[string]*upstream{}
	for _, image := range images {
		if image.Role != bundle.RoleImage {
			continue
		}
		of, err := ref.Parse(image.Of)
		if err != nil {
			return nil, err
		}
		u := byHost[of.Host]
		if u == nil {
			u = &upstream{host: of.Host, path: strings.TrimSuffix(image.Reference.Repository, "/"+of.Repository)}
			byHost[of.Host] = u
		}
		u.repositories = append(u.repositories, repositories{of.Name(), image.Reference.Name()})
	}
	var all []upstream
	for _, u := range byHost {
		slices.SortFunc(u.repositories, func(a, b repositories) int { return strings.Compare(a.name, b.name) })
		u.repositories = slices.Compact(u.repositories)
		all = append(all, *u)
	}
	slices.SortFunc(all, func(a, b upstream) int { return strings.Compare(a.host, b.host) })
	return all, nil
}
