//go:build linux

package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// A workload is an index of images whose every byte follows from a seed.
type workload struct {
	name, title string
	images      []imageSpec
}

// imageSpec is an image by what its bytes follow from.
type imageSpec struct {
	config uint64
	layers []layerSpec
}

// layerSpec is a layer: bytes that no program can make smaller.
type layerSpec struct {
	seed uint64
	size int64
}

const (
	seed       = 20260101
	configSize = 4 << 10
)

// many is workload (a): 200 images of 1,500 blobs from 4 KiB to 4 MiB, as many of
// one magnitude as of another.
func many() workload {
	const images, layers = 200, 1300
	random := rand.New(rand.NewPCG(seed, 'a'))
	w := workload{name: "many", title: "200 images of 1,500 blobs, 4 KiB to 4 MiB"}
	for i := range images {
		w.images = append(w.images, imageSpec{config: uint64(i)})
	}
	for i := range layers {
		size := int64(math.Exp(random.Float64()*math.Log(1024)) * (4 << 10))
		at := &w.images[i%images]
		at.layers = append(at.layers, layerSpec{random.Uint64(), size})
	}
	return w
}

// large is workload (b): 8 GiB in blobs up to 2 GiB, or a part of that.
func large(scale float64) workload {
	random := rand.New(rand.NewPCG(seed, 'b'))
	w := workload{name: "large", title: fmt.Sprintf("%s in blobs up to %s", size(8<<30*scale), size(2<<30*scale))}
	for i, shares := range [][]float64{{1, 0.5, 0.125}, {0.75, 0.25, 0.0625}, {0.5, 0.25, 0.0625}, {0.375, 0.125}} {
		image := imageSpec{config: 1000 + uint64(i)}
		for _, share := range shares {
			image.layers = append(image.layers, layerSpec{random.Uint64(), int64(share * scale * (2 << 30))})
		}
		w.images = append(w.images, image)
	}
	return w
}

// changed is workload (d): the first 100 images of another one, of which one has
// a new config and one new layer in each later version.
func changed(of workload, version int) workload {
	w := workload{name: fmt.Sprintf("changed-%d", version), title: "one image of 100 changed"}
	w.images = append(w.images, of.images[:100]...)
	if version > 0 {
		old := w.images[42]
		layers := append([]layerSpec(nil), old.layers...)
		layers[0].seed += uint64(version)
		w.images[42] = imageSpec{config: old.config + 10_000*uint64(version), layers: layers}
	}
	return w
}

func (w workload) bytes() int64 {
	var n int64
	for _, image := range w.images {
		n += configSize
		for _, layer := range image.layers {
			n += layer.size
		}
	}
	return n
}

// objects is how many blobs and manifests there are, the index among them.
func (w workload) objects() int {
	n := 1
	for _, image := range w.images {
		n += 2 + len(image.layers)
	}
	return n
}

// open gives a layer's bytes. They begin as gzip does, or skopeo would compress
// them.
func (l layerSpec) open() io.Reader {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], l.seed)
	magic := "\x1f\x8b\x08\x00"
	return io.MultiReader(strings.NewReader(magic), io.LimitReader(rand.NewChaCha8(key), l.size-int64(len(magic))))
}

// configData is an image's config, made as large as it should be.
func (i imageSpec) configData() []byte {
	config := ocispec.Image{
		Platform: ocispec.Platform{OS: "linux", Architecture: "amd64"},
		RootFS:   ocispec.RootFS{Type: "layers"},
	}
	for _, layer := range i.layers {
		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, digest.FromString(fmt.Sprint(layer.seed)))
	}
	config.Author = fmt.Sprintf("image %d ", i.config)
	data, _ := json.Marshal(config) // plain fields
	config.Author += strings.Repeat(".", max(configSize-len(data), 0))
	data, _ = json.Marshal(config)
	return data
}

// A store takes what a workload consists of.
type store interface {
	blob(data io.Reader, size int64) (digest.Digest, error)
	manifest(desc ocispec.Descriptor, data []byte, tag string) error
}

// An inventory is what a workload consists of, by digest.
type inventory struct {
	root      ocispec.Descriptor
	manifests []ocispec.Descriptor // the root is the last
	blobs     []ocispec.Descriptor
}

// put makes a workload in a store, under its name as the tag.
func (w workload) put(to store) (inventory, error) {
	var all inventory
	index := ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex}
	for _, image := range w.images {
		desc, blobs, err := image.put(to)
		if err != nil {
			return all, err
		}
		all.blobs, all.manifests = append(all.blobs, blobs...), append(all.manifests, desc)
		desc.Platform = &ocispec.Platform{OS: "linux", Architecture: "amd64"}
		index.Manifests = append(index.Manifests, desc)
	}
	var err error
	all.root, err = putManifest(to, index.MediaType, index, w.name)
	all.manifests = append(all.manifests, all.root)
	return all, err
}

func (i imageSpec) put(to store) (ocispec.Descriptor, []ocispec.Descriptor, error) {
	manifest := ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest}
	blob := func(mediaType string, data io.Reader, size int64) (ocispec.Descriptor, error) {
		d, err := to.blob(data, size)
		return ocispec.Descriptor{MediaType: mediaType, Digest: d, Size: size}, err
	}
	data := i.configData()
	var err error
	if manifest.Config, err = blob(ocispec.MediaTypeImageConfig, strings.NewReader(string(data)), int64(len(data))); err != nil {
		return manifest.Config, nil, err
	}
	for _, layer := range i.layers {
		desc, err := blob(ocispec.MediaTypeImageLayerGzip, layer.open(), layer.size)
		if err != nil {
			return desc, nil, err
		}
		manifest.Layers = append(manifest.Layers, desc)
	}
	desc, err := putManifest(to, manifest.MediaType, manifest, "")
	return desc, append(manifest.Layers, manifest.Config), err
}

func putManifest(to store, mediaType string, manifest any, tag string) (ocispec.Descriptor, error) {
	data, err := json.Marshal(manifest)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	desc := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
	return desc, to.manifest(desc, data, tag)
}

// size is a number of bytes for people.
func size(n float64) string {
	for _, unit := range []string{"KiB", "MiB"} {
		if n /= 1024; n < 1000 {
			return fmt.Sprintf("%.3g %s", n, unit)
		}
	}
	return fmt.Sprintf("%.3g GiB", n/1024)
}
