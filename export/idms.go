package export

import (
	"strings"

	"sigs.k8s.io/yaml"

	"waybill/bundle"
)

// IDMS writes an ImageDigestMirrorSet and an ImageTagMirrorSet, which say the
// same of pulls by digest and by tag, for OpenShift 4.13 and later
// (config.openshift.io/v1). release becomes part of their names.
func IDMS(images []bundle.Expanded, release string, m Mirror) (Config, error) {
	var c Config
	upstreams, err := upstreamsOf(images)
	if err != nil {
		return c, err
	}
	policy := "AllowContactingSource"
	if m.Only {
		policy = "NeverContactSource"
	}
	var mirrors []map[string]any
	for _, u := range upstreams {
		for _, r := range u.repositories {
			mirrors = append(mirrors, map[string]any{"source": r.name, "mirrors": []string{r.mirror}, "mirrorSourcePolicy": policy})
		}
	}
	name := "waybill-" + release
	for _, set := range []struct{ file, kind, field string }{
		{"imagedigestmirrorset.yaml", "ImageDigestMirrorSet", "imageDigestMirrors"},
		{"imagetagmirrorset.yaml", "ImageTagMirrorSet", "imageTagMirrors"},
	} {
		err := c.object(set.file, m, map[string]any{
			"apiVersion": "config.openshift.io/v1", "kind": set.kind,
			"metadata": map[string]any{"name": name}, "spec": map[string]any{set.field: mirrors},
		})
		if err != nil {
			return c, err
		}
	}
	switch {
	case m.PlainHTTP || m.Insecure:
		c.note("OpenShift speaks to %s without checked TLS only when spec.registrySources.insecureRegistries of image.config.openshift.io/cluster lists it", m.host())
	case m.hasCA():
		if err := c.authorities(name, m); err != nil {
			return c, err
		}
	}
	c.note("the first sets of a cluster make it restart its nodes one after the other")
	c.note("a login for %s belongs into the cluster's pull secret", m.host())
	return c, nil
}

// authorities adds the ConfigMap that image.config.openshift.io takes a
// registry's authorities from: by its host, with two dots for the colon.
func (c *Config) authorities(name string, m Mirror) error {
	key := strings.Replace(m.host(), ":", "..", 1)
	err := c.object("mirror-ca.yaml", m, map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": name + "-ca", "namespace": "openshift-config"}, "data": map[string]any{key: string(m.CA)},
	})
	c.note("name the ConfigMap %s-ca in spec.additionalTrustedCA of image.config.openshift.io/cluster; when another is named there, add its key %s to that", name, key)
	return err
}

func (c *Config) object(file string, m Mirror, object map[string]any) error {
	data, err := yaml.Marshal(object)
	if err != nil {
		return err
	}
	c.add("idms", file, m, string(data))
	return nil
}
