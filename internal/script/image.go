package script

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/rogpeppe/go-internal/testscript"
	"oras.land/oras-go/v2/content"

	"waybill/registry"
)

// pushImage puts a small image into a registry: of one platform a manifest, of
// several an index, with an attestation beside them.
func pushImage(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: image HOST/PATH:TAG PLATFORM…")
	}
	loc, err := registry.ParseLocation("oci://" + args[0])
	ts.Check(err)
	client, err := registry.NewClient(registry.Settings{})
	ts.Check(err)
	dst, err := client.Create(context.Background(), loc)
	ts.Check(err)
	p := pusher{ts, dst}
	var entries []ocispec.Descriptor
	for _, platform := range args[1:] {
		entries = append(entries, p.image(loc.Ref.Tag, platform))
	}
	root := entries[0]
	if len(entries) > 1 {
		root = p.json(ocispec.MediaTypeImageIndex, map[string]any{"schemaVersion": 2, "mediaType": ocispec.MediaTypeImageIndex, "manifests": entries})
	}
	ts.Check(dst.Tag(context.Background(), root, loc.Ref.Tag))
	ts.Check(dst.Commit(context.Background()))
}

// A pusher puts content into a registry.
type pusher struct {
	ts  *testscript.TestScript
	dst *registry.Destination
}

func (p pusher) push(mediaType string, data []byte) ocispec.Descriptor {
	desc := content.NewDescriptorFromBytes(mediaType, data)
	there, err := p.dst.Exists(context.Background(), desc)
	p.ts.Check(err)
	if !there {
		p.ts.Check(p.dst.Push(context.Background(), desc, bytes.NewReader(data)))
	}
	return desc
}

func (p pusher) json(mediaType string, v any) ocispec.Descriptor {
	data, err := json.Marshal(v)
	p.ts.Check(err)
	return p.push(mediaType, data)
}

func (p pusher) image(word, platform string) ocispec.Descriptor {
	part := append(strings.Split(platform, "/"), "")
	at := ocispec.Platform{OS: part[0], Architecture: part[1], Variant: part[2]}
	desc := p.json(ocispec.MediaTypeImageManifest, map[string]any{
		"schemaVersion": 2, "mediaType": ocispec.MediaTypeImageManifest,
		"config": p.json(ocispec.MediaTypeImageConfig, ocispec.Image{Platform: at, Author: word}),
		"layers": []ocispec.Descriptor{p.push(ocispec.MediaTypeImageLayer, []byte("layer of "+word+" for "+platform))},
	})
	desc.Platform = &at
	return desc
}
