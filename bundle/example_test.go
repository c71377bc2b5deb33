package bundle_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/content/memory"

	"waybill/bundle"
)

// oneChart resolves every component to one chart, which it holds in memory. In
// the programs the room charts does this work.
type oneChart struct {
	*memory.Store
	desc ocispec.Descriptor
	tgz  digest.Digest
}

func (c oneChart) Descriptor() ocispec.Descriptor { return c.desc }

func (c oneChart) Resolve(context.Context, bundle.Component, *bundle.LockedChart) (bundle.Resolved, error) {
	return bundle.Resolved{Chart: c, Locked: bundle.LockedChart{
		Name: "hello", Version: "0.1.0", Source: "charts/hello",
		Inputs: c.tgz, Content: c.tgz, Manifest: c.desc.Digest,
	}}, nil
}

func Example() {
	ctx := context.Background()
	file := []byte(`apiVersion: waybill/v1
kind: Release
name: greetings
version: 1.0.0
components:
  - name: hello
    chart: {path: charts/hello}
    namespace: hello
`)
	rel, err := bundle.ParseRelease("release.yaml", file)
	if err != nil {
		log.Fatal(err)
	}
	lock, charts, err := bundle.MakeLock(ctx, rel, newOneChart(ctx), bundle.LockOptions{})
	if err != nil {
		log.Fatal(err)
	}
	place := memory.New()
	spec := bundle.Spec{ReleaseFile: file, Release: rel, Lock: lock, Charts: charts}
	root, err := bundle.Build(ctx, place, spec, bundle.BuildOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(root.Digest)

	opened, err := bundle.Open(ctx, place, root)
	if err != nil {
		log.Fatal(err)
	}
	tgz, err := opened.Chart(ctx, "hello")
	if err != nil {
		log.Fatal(err)
	}
	checked, err := opened.Check(ctx, bundle.CheckOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s %s: %d manifests, %d blobs, a chart of %d bytes\n",
		opened.Name(), opened.Version(), checked.Manifests, checked.Blobs, len(tgz))
	// Output:
	// sha256:587a77c3d357ead8c708c0f4a98dd224879192c357806c30b4367c42074825f1
	// greetings 1.0.0: 3 manifests, 5 blobs, a chart of 23 bytes
}

func newOneChart(ctx context.Context) oneChart {
	store := memory.New()
	push := func(mediaType, text string) ocispec.Descriptor {
		desc := content.NewDescriptorFromBytes(mediaType, []byte(text))
		if err := store.Push(ctx, desc, strings.NewReader(text)); err != nil {
			log.Fatal(err)
		}
		return desc
	}
	config := push(bundle.MediaTypeHelmConfig, `{"name":"hello","version":"0.1.0"}`)
	tgz := push(bundle.MediaTypeHelmChart, "the chart as Helm packs")
	manifest := push(ocispec.MediaTypeImageManifest, fmt.Sprintf(
		`{"schemaVersion":2,"config":{"mediaType":%q,"digest":%q,"size":%d},"layers":[{"mediaType":%q,"digest":%q,"size":%d}]}`,
		config.MediaType, config.Digest, config.Size, tgz.MediaType, tgz.Digest, tgz.Size))
	return oneChart{Store: store, desc: manifest, tgz: tgz.Digest}
}
