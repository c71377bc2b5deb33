package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"waybill/bundle"
)

// defaultValuesKey is the key read from a Secret or ConfigMap when none is
// named, as Flux has it.
const defaultValuesKey = "values.yaml"

// fromCluster are the layers that a component's valuesFrom give.
type fromCluster struct {
	plain, targeted []Layer // without and with a targetPath
	refusals        []Refusal
}

// readFrom reads a component's valuesFrom. What cannot be read is returned as
// refusals.
func (r *Runner) readFrom(ctx context.Context, c *component) (fromCluster, error) {
	var found fromCluster
	for _, from := range c.site.ValuesFrom {
		layer, refusal, err := r.valuesFrom(ctx, c, from)
		switch {
		case err != nil:
			return found, err
		case refusal != nil:
			found.refusals = append(found.refusals, *refusal)
		case layer == nil:
		case from.TargetPath != "":
			found.targeted = append(found.targeted, *layer)
		default:
			found.plain = append(found.plain, *layer)
		}
	}
	return found, nil
}

// layer puts the component's values in their order: the release's
// valuesFiles, values and profile; the site's valuesFiles, valuesFrom, values
// and valuesFrom with a targetPath; the request's.
func (c *component) layer(req *Request, found fromCluster) error {
	layers, err := releaseLayers(req, c)
	if err != nil {
		return err
	}
	site, err := siteFileLayers(req, c)
	if err != nil {
		return err
	}
	site = append(site, found.plain...)
	if len(c.site.Values) > 0 {
		site = append(site, Layer{Name: "site file, values", Values: c.site.Values})
	}
	site = append(site, found.targeted...)
	c.siteLayers = slices.Concat(site, req.Values[c.Name])
	c.layers = slices.Concat(layers, c.siteLayers)
	return nil
}

// Composed is a component with its values, before anything is installed.
type Composed struct {
	Name        string
	HelmRelease string
	Namespace   string
	CRDs        string
	Layers      []Layer // of values, the last wins
	// Locate gives the reference to send in place of a normalised image
	// reference; nil sends what the chart says.
	Locate     func(normalized string) (reference string, ok bool)
	PullSecret string // attached to pods and ServiceAccounts that are sent
	// Skipped are the valuesFrom that were not read, for lack of a cluster.
	Skipped []string
}

// Compose returns the active components of the request in the order of
// installing, with their values. A nil runner reads no valuesFrom. Errors are
// [*UsageError] and [*UnknownError], and with a runner [*RefusedError] and
// [*ClusterError] too.
func Compose(ctx context.Context, req Request, r *Runner) ([]Composed, error) {
	components, err := choose(&req)
	if err != nil {
		return nil, err
	}
	recorded, err := r.recordedReplacements(ctx, &req)
	if err != nil {
		return nil, err
	}
	platform := ""
	if r != nil && !req.Images.keep() {
		if platform, err = r.platformOf(ctx, req.Source.Lock); err != nil {
			return nil, err
		}
	}
	images, err := newImageMap(req.Images, req.Source.Lock, platform, recorded)
	if err != nil {
		return nil, err
	}
	all := []Composed{}
	for _, c := range components {
		if !c.active() {
			continue
		}
		one := Composed{Name: c.Name, HelmRelease: c.helmRelease, Namespace: c.namespace, CRDs: c.CRDPolicy(), Locate: images.locator(), PullSecret: req.pullSecret().attached()}
		var found fromCluster
		if r == nil {
			for _, from := range c.site.ValuesFrom {
				one.Skipped = append(one.Skipped, from.Kind+" "+c.namespaceOf(from)+"/"+from.Name)
			}
		} else if found, err = r.readFrom(ctx, c); err != nil {
			return nil, err
		}
		if len(found.refusals) > 0 {
			return nil, &RefusedError{Reasons: found.refusals}
		}
		if err := c.layer(&req, found); err != nil {
			return nil, err
		}
		one.Layers = c.layers
		all = append(all, one)
	}
	return all, nil
}

// recordedReplacements are those that the instance's record has; a nil runner
// knows of none.
func (r *Runner) recordedReplacements(ctx context.Context, req *Request) ([]Replacement, error) {
	if r == nil || len(req.Images.Replace) == 0 {
		return nil, nil
	}
	instance, err := req.instance()
	if err != nil {
		return nil, err
	}
	latest, err := store{client: r.client, namespace: r.state(req.Site)}.latest(ctx, instance)
	if err != nil || latest == nil {
		return nil, recordRefusal(err)
	}
	return latest.record.Replaced, nil
}

// namespaceOf is the namespace that values are read from: the component's,
// unless one is named.
func (c *component) namespaceOf(from bundle.ValuesFrom) string {
	if from.Namespace != "" {
		return from.Namespace
	}
	return c.namespace
}

func releaseLayers(req *Request, c *component) ([]Layer, error) {
	var layers []Layer
	for _, path := range c.ValuesFiles {
		data, ok := req.Source.ValuesFiles[path]
		if !ok {
			return nil, fmt.Errorf("component %s: the values file %q is not in the bundle", c.Name, path)
		}
		layers = append(layers, Layer{Name: path, YAML: data})
	}
	if len(c.Values) > 0 {
		layers = append(layers, Layer{Name: "release file, values", Values: c.Values})
	}
	if len(c.profileValues) > 0 {
		layers = append(layers, Layer{Name: "profile " + c.profile, Values: c.profileValues})
	}
	return layers, nil
}

func siteFileLayers(req *Request, c *component) ([]Layer, error) {
	var layers []Layer
	for _, path := range c.site.ValuesFiles {
		data, ok := req.SiteFiles[path]
		if !ok {
			return nil, &UsageError{Reason: fmt.Sprintf("site file, component %s: the values file %q was not given", c.Name, path)}
		}
		layers = append(layers, Layer{Name: path, YAML: data})
	}
	return layers, nil
}

// valuesFrom reads one layer from the cluster. A nil layer without refusal is
// one that is absent and may be.
func (r *Runner) valuesFrom(ctx context.Context, c *component, from bundle.ValuesFrom) (*Layer, *Refusal, error) {
	namespace, key := c.namespaceOf(from), from.ValuesKey
	if key == "" {
		key = defaultValuesKey
	}
	name := fmt.Sprintf("%s %s/%s", from.Kind, namespace, from.Name)
	refuse := func(why string) (*Layer, *Refusal, error) {
		return nil, &Refusal{Code: "values-from", Component: c.Name, Message: fmt.Sprintf("valuesFrom %s: %s", name, why)}, nil
	}
	data, err := r.objectData(ctx, from.Kind, namespace, from.Name)
	switch {
	case apierrors.IsNotFound(err) && from.Optional:
		return nil, nil, nil
	case apierrors.IsNotFound(err):
		return refuse("it does not exist")
	case err != nil:
		err = clusterErr("reading "+name, err)
		if errors.Is(err, errForbidden) {
			return refuse("it may not be read with these credentials")
		}
		return nil, nil, err
	}
	text, ok := data[key]
	switch {
	case !ok && from.Optional:
		return nil, nil, nil
	case !ok:
		return refuse(fmt.Sprintf("it has no key %q", key))
	case from.TargetPath != "":
		return &Layer{Name: name + " key " + key, TargetPath: from.TargetPath, Text: string(text)}, nil, nil
	}
	return &Layer{Name: name + " key " + key, YAML: text}, nil, nil
}

// IsSecret says whether a layer of that name was read from a Secret, so that
// its values are not for showing.
func IsSecret(layer string) bool { return strings.HasPrefix(layer, "Secret ") }

// objectData returns the data of a Secret or ConfigMap.
func (r *Runner) objectData(ctx context.Context, kind, namespace, name string) (map[string][]byte, error) {
	if kind == "Secret" {
		secret, err := r.client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return secret.Data, nil
	}
	config, err := r.client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	data := make(map[string][]byte, len(config.Data)+len(config.BinaryData))
	for k, v := range config.BinaryData {
		data[k] = v
	}
	for k, v := range config.Data {
		data[k] = []byte(v)
	}
	return data, nil
}

// merge lays the component's layers over each other and takes their digest.
func (r *Runner) merge(c *component) error {
	values, err := r.charts.Merge(c.layers)
	if err != nil {
		return &UsageError{Reason: fmt.Sprintf("component %s: merging values: %v", c.Name, err)}
	}
	text, err := json.Marshal(values) // keys sorted, numbers as they were written
	if err != nil {
		return fmt.Errorf("component %s: encoding values: %w", c.Name, err)
	}
	c.values, c.valuesDigest = values, digest.FromBytes(text)
	return nil
}
