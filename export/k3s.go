package export

import (
	"sigs.k8s.io/yaml"

	"waybill/bundle"
)

const k3sBase = "/etc/rancher/k3s"

// k3sRegistries is the registries.yaml of K3s and RKE2, as far as it is needed
// here: K3s documentation, "Private Registry Configuration".
type k3sRegistries struct {
	Mirrors map[string]k3sMirror `json:"mirrors"`
	Configs map[string]k3sConfig `json:"configs,omitempty"`
}

type k3sMirror struct {
	Endpoint []string          `json:"endpoint"`
	Rewrite  map[string]string `json:"rewrite"`
}

type k3sConfig struct {
	TLS k3sTLS `json:"tls"`
}

type k3sTLS struct {
	CAFile             string `json:"ca_file,omitempty"`
	InsecureSkipVerify bool   `json:"insecure_skip_verify,omitempty"`
}

// K3s writes registries.yaml, in which each registry that images come from has
// the mirror as its endpoint, and repositories are rewritten to those below the
// prefix.
func K3s(images []bundle.Expanded, m Mirror) (Config, error) {
	c := Config{Base: k3sBase}
	upstreams, err := upstreamsOf(images)
	if err != nil {
		return c, err
	}
	registries := k3sRegistries{Mirrors: map[string]k3sMirror{}}
	for _, u := range upstreams {
		registries.Mirrors[u.host] = k3sMirror{Endpoint: []string{m.server()}, Rewrite: map[string]string{"^(.*)$": u.path + "/$1"}}
	}
	switch {
	case m.PlainHTTP: // said by the endpoint
	case m.Insecure:
		registries.Configs = map[string]k3sConfig{m.host(): {TLS: k3sTLS{InsecureSkipVerify: true}}}
	case m.hasCA():
		registries.Configs = map[string]k3sConfig{m.host(): {TLS: k3sTLS{CAFile: k3sBase + "/" + caFile}}}
	}
	data, err := yaml.Marshal(registries)
	if err != nil {
		return c, err
	}
	c.add("k3s", "registries.yaml", m, string(data))
	if m.hasCA() {
		c.add("k3s", caFile, m, string(m.CA))
	}
	c.note("a node has one registries.yaml, read when K3s starts: put several together by hand, or name several bundles in one command; RKE2 has it in /etc/rancher/rke2")
	if m.Only {
		c.note("nothing in registries.yaml keeps K3s from asking the registries themselves: start it with --disable-default-registry-endpoint")
	}
	c.note("a login for %s belongs into an image pull secret, or into configs of registries.yaml", m.host())
	return c, nil
}
