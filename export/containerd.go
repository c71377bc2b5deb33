package export

import (
	"fmt"
	"strings"

	"waybill/bundle"
)

// containerdBase is where containerd is told, by config_path, to look for hosts
// in most distributions.
const containerdBase = "/etc/containerd/certs.d"

// caFile is the file of a mirror's authorities.
const caFile = "waybill-mirror-ca.crt"

// Containerd writes a hosts.toml for each registry that images come from:
// containerd, docs/hosts.md. The address of a mirror with a path needs
// override_path, since what is below /v2/ is then not the whole name.
func Containerd(images []bundle.Expanded, m Mirror) (Config, error) {
	c := Config{Base: containerdBase}
	upstreams, err := upstreamsOf(images)
	if err != nil {
		return c, err
	}
	for _, u := range upstreams {
		c.add("containerd", hostFolder(u.host)+"/hosts.toml", m, hostsTOML(u, m))
		if m.hasCA() {
			c.add("containerd", hostFolder(u.host)+"/"+caFile, m, string(m.CA))
		}
	}
	c.note("containerd reads %s when its config.toml says config_path = %q in the registry part of its CRI plugin; the files need no restart", containerdBase, containerdBase)
	c.note("a login for %s belongs into an image pull secret: containerd keeps none here", m.host())
	return c, nil
}

// hostFolder is the name of a registry's folder: with a port in the form that
// every system has.
func hostFolder(host string) string {
	name, port, ok := strings.Cut(host, ":")
	if !ok {
		return host
	}
	return name + "_" + port + "_"
}

func hostsTOML(u upstream, m Mirror) string {
	address := m.server() + "/v2/" + u.path
	var b strings.Builder
	indent := ""
	if m.Only {
		fmt.Fprintf(&b, "server = %q\n", address)
	} else {
		if server := serverOf(u.host); server != "" {
			fmt.Fprintf(&b, "server = %q\n", server)
		}
		fmt.Fprintf(&b, "\n[host.%q]\n", address)
		indent = "  "
	}
	line := func(format string, args ...any) { fmt.Fprintf(&b, indent+format+"\n", args...) }
	line(`capabilities = ["pull", "resolve"]`)
	line("override_path = true")
	if m.hasCA() {
		line("ca = %q", caFile) // beside this file
	}
	if m.Insecure {
		line("skip_verify = true")
	}
	if m.Only {
		b.WriteString("\n[host] # containerd 1.6 reads no file without it\n")
	}
	return b.String()
}

// serverOf is the address of a registry itself; empty for one of this machine,
// which containerd speaks to without TLS by itself.
func serverOf(host string) string {
	name, _, _ := strings.Cut(host, ":")
	switch {
	case host == "docker.io":
		return "https://registry-1.docker.io"
	case name == "localhost" || strings.HasPrefix(name, "127."):
		return ""
	}
	return "https://" + host
}
