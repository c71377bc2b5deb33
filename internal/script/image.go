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
// several an index. -foreign is a layer that may not be given on and that the
// registry hasn't got, with its address and content; -sbom hangs an SBOM under a
// tag on the image, and another on each platform as a referrer.
func pushImage(ts *testscript.TestScript, neg bool, args []string) {
	var foreign string
	var sbom bool
	var words []string
	for _, word := range args {
		switch value, is := strings.CutPrefix(word, "-foreign="); {
		case is:
			foreign = value
		case word == "-sbom":
			sbom = true
		default:
			words = append(words, word)
		}
	}
	if args = words; neg || len(args) < 2 {
		ts.Fatalf("usage: image [-foreign=URL,CONTENT] [-sbom] HOST/PATH:TAG PLATFORM…")
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
		m := p.image(loc.Ref.Tag, platform, foreign)
		entries = append(entries, m)
		if sbom {
			p.sbom(m.Digest.String(), &m)
		}
	}
	root := entries[0]
	if len(entries) > 1 {
		root = p.json(ocispec.MediaTypeImageIndex, map[string]any{"schemaVersion": 2, "mediaType": ocispec.MediaTypeImageIndex, "manifests": entries})
	}
	if sbom {
		tag := strings.Replace(root.Digest.String(), ":", "-", 1) + ".sbom"
		ts.Check(dst.Tag(context.Background(), p.sbom(tag, nil), tag))
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

func (p pusher) image(word, platform, foreign string) ocispec.Descriptor {
	part := append(strings.Split(platform, "/"), "")
	at := ocispec.Platform{OS: part[0], Architecture: part[1], Variant: part[2]}
	layers := []ocispec.Descriptor{p.push(ocispec.MediaTypeImageLayer, []byte("layer of "+word+" for "+platform))}
	if address, bytes, is := strings.Cut(foreign, ","); is {
		layer := content.NewDescriptorFromBytes("application/vnd.docker.image.rootfs.foreign.diff.tar.gzip", []byte(bytes))
		layer.URLs = []string{address}
		layers = append(layers, layer)
	}
	desc := p.json(ocispec.MediaTypeImageManifest, map[string]any{
		"schemaVersion": 2, "mediaType": ocispec.MediaTypeImageManifest,
		"config": p.json(ocispec.MediaTypeImageConfig, ocispec.Image{Platform: at, Author: word}), "layers": layers,
	})
	desc.Platform = &at
	return desc
}

// sbom is a manifest that hangs on another by its subject, or by a tag.
func (p pusher) sbom(word string, subject *ocispec.Descriptor) ocispec.Descriptor {
	manifest := ocispec.Manifest{
		MediaType: ocispec.MediaTypeImageManifest, ArtifactType: "text/spdx+json",
		Config: p.push(ocispec.MediaTypeEmptyJSON, []byte("{}")),
		Layers: []ocispec.Descriptor{p.push("text/spdx+json", []byte("what "+word+" is made of"))},
	}
	if manifest.SchemaVersion = 2; subject != nil {
		manifest.Subject = &ocispec.Descriptor{MediaType: subject.MediaType, Digest: subject.Digest, Size: subject.Size}
	}
	return p.json(ocispec.MediaTypeImageManifest, manifest)
}
