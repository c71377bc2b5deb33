package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
)

// layeredManifest is a manifest under one of cosign's tags. What is not looked
// at here is kept as it was written.
type layeredManifest struct {
	fields map[string]json.RawMessage
	config ocispec.Descriptor
	layers []json.RawMessage
	keys   []string // what makes a layer another one: the same bytes may be signed by two keys
}

func readLayered(data []byte) (*layeredManifest, error) {
	m := &layeredManifest{fields: map[string]json.RawMessage{}}
	if err := json.Unmarshal(data, &m.fields); err != nil {
		return nil, err
	}
	if json.Unmarshal(m.fields["config"], &m.config) != nil || json.Unmarshal(m.fields["layers"], &m.layers) != nil {
		return nil, errors.New("one of them has no layers")
	}
	for _, raw := range m.layers {
		var layer ocispec.Descriptor
		if err := json.Unmarshal(raw, &layer); err != nil {
			return nil, err
		}
		m.keys = append(m.keys, layer.Digest.String()+" "+layer.Annotations[signatureAnnotation])
	}
	return m, nil
}

// union is a manifest with the layers of another one added.
type union struct {
	base, other *layeredManifest
	added       []int // of other's layers
	lacking     int   // how many of base's layers other has not got
}

// unite finds what to add to base so that it has all layers of other.
func unite(base, other []byte) (*union, error) {
	b, err := readLayered(base)
	if err != nil {
		return nil, err
	}
	o, err := readLayered(other)
	if err != nil {
		return nil, err
	}
	u := &union{base: b, other: o}
	has := func(m *layeredManifest) map[string]bool {
		keys := map[string]bool{}
		for _, key := range m.keys {
			keys[key] = true
		}
		return keys
	}
	inBase, inOther := has(b), has(o)
	for i, key := range o.keys {
		if !inBase[key] {
			u.added = append(u.added, i)
		}
	}
	for _, key := range b.keys {
		if !inOther[key] {
			u.lacking++
		}
	}
	return u, nil
}

// write pushes the united manifest and its config.
func (u *union) write(ctx context.Context, dst *Destination, mediaType string) (ocispec.Descriptor, error) {
	layers := u.base.layers
	for _, i := range u.added {
		layers = append(layers, u.other.layers[i])
	}
	config, err := u.config(ctx, dst)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	for name, value := range map[string]any{"config": config, "layers": layers} {
		if u.base.fields[name], err = marshal(value); err != nil {
			return ocispec.Descriptor{}, err
		}
	}
	data, err := marshal(u.base.fields)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	desc := content.NewDescriptorFromBytes(mediaType, data)
	return desc, dst.target.putManifest(ctx, desc, data)
}

// config is the config for all layers. cosign's is that of an image and counts
// them; any other stays.
func (u *union) config(ctx context.Context, dst *Destination) (ocispec.Descriptor, error) {
	base, ok, err := readImageConfig(ctx, dst, u.base)
	if err != nil || !ok {
		return u.base.config, err
	}
	other, ok, err := readImageConfig(ctx, dst, u.other)
	if err != nil || !ok {
		return u.base.config, err
	}
	for _, i := range u.added {
		base.rootFS.DiffIDs = append(base.rootFS.DiffIDs, other.rootFS.DiffIDs[i])
		if len(other.history) == len(u.other.layers) && base.history != nil {
			base.history = append(base.history, other.history[i])
		}
	}
	data, err := base.encode()
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	desc := content.NewDescriptorFromBytes(u.base.config.MediaType, data)
	there, err := dst.Exists(ctx, desc)
	if err != nil || there {
		return desc, err
	}
	return desc, dst.Push(ctx, desc, bytes.NewReader(data))
}

// layerConfig is the config of an image, of which one thing per layer is looked at.
type layerConfig struct {
	fields  map[string]json.RawMessage
	rootFS  ocispec.RootFS
	history []json.RawMessage
}

// readImageConfig reads a config when it is one that counts layers. Both
// manifests' parts are at the target by now.
func readImageConfig(ctx context.Context, dst *Destination, m *layeredManifest) (*layerConfig, bool, error) {
	if m.config.MediaType != ocispec.MediaTypeImageConfig && m.config.MediaType != dockerImageConfig || m.config.Size > maxManifest {
		return nil, false, nil
	}
	data, err := content.FetchAll(ctx, dst, m.config)
	if err != nil {
		return nil, false, err
	}
	c := &layerConfig{fields: map[string]json.RawMessage{}}
	if json.Unmarshal(data, &c.fields) != nil || json.Unmarshal(c.fields["rootfs"], &c.rootFS) != nil || len(c.rootFS.DiffIDs) != len(m.layers) {
		return nil, false, nil
	}
	if raw, ok := c.fields["history"]; ok && json.Unmarshal(raw, &c.history) != nil {
		return nil, false, nil
	}
	return c, true, nil
}

func (c *layerConfig) encode() ([]byte, error) {
	var err error
	if c.fields["rootfs"], err = marshal(c.rootFS); err != nil {
		return nil, err
	}
	if c.history != nil {
		if c.fields["history"], err = marshal(c.history); err != nil {
			return nil, err
		}
	}
	return marshal(c.fields)
}

// marshal is json.Marshal, which would write < and > another way than whoever
// wrote them.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
