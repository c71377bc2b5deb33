package export

import (
	"fmt"
	"strings"

	"waybill/bundle"
)

// CRIO writes a drop-in that gives each repository its mirror, for CRI-O,
// Podman and whatever else reads containers-registries.conf(5). The mirror's
// authorities go where containers-certs.d(5) has them. release tells the
// drop-ins of several releases apart.
func CRIO(images []bundle.Expanded, release string, m Mirror) (Config, error) {
	c := Config{Base: "/etc/containers"}
	upstreams, err := upstreamsOf(images)
	if err != nil {
		return c, err
	}
	var b strings.Builder
	for _, u := range upstreams {
		for _, r := range u.repositories {
			fmt.Fprintf(&b, "\n[[registry]]\nprefix = %q\nlocation = %q\n", r.name, r.name)
			if m.Only {
				b.WriteString("blocked = true\n")
			}
			fmt.Fprintf(&b, "\n[[registry.mirror]]\nlocation = %q\n", r.mirror)
			if m.PlainHTTP || m.Insecure {
				b.WriteString("insecure = true\n")
			}
		}
	}
	c.add("crio", "registries.conf.d/50-waybill-"+release+".conf", m, b.String())
	if m.hasCA() {
		c.add("crio", "certs.d/"+m.host()+"/"+caFile, m, string(m.CA))
	}
	c.note("CRI-O reads it when it is reloaded: systemctl reload crio")
	c.note("a login for %s belongs into an image pull secret, or into the auth file that CRI-O is told", m.host())
	return c, nil
}
