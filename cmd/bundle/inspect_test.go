package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"

	"waybill/internal/registrytest"
	"waybill/registry"
)

// To look at a bundle takes as many requests for many images as for a few.
func TestInspectAsksAConstantNumberOfTimes(t *testing.T) {
	reg := registrytest.New(t, registrytest.Options{})
	asked := map[int]int{}
	for _, images := range []int{2, 150} {
		at := fmt.Sprintf("oci://%s/shop-%d", reg.Host, images)
		release := manyImages(t, reg.Host, images)
		if code, _, errOut := runBundle(t, "build", "-f", release, "--unsigned", "-t", at); code != 0 {
			t.Fatalf("exit %d: %s", code, errOut)
		}
		reg.Forget()
		code, out, errOut := runBundle(t, "inspect", at+":1.0.0")
		if code != 0 {
			t.Fatalf("exit %d: %s", code, errOut)
		}
		if n := strings.Count(out, reg.Host+"/apps:"); n != images {
			t.Errorf("%d images are listed, want %d", n, images)
		}
		asked[images] = len(reg.Requests())
	}
	if asked[2] != asked[150] || asked[2] > 12 {
		t.Errorf("%d requests for 2 images, %d for 150", asked[2], asked[150])
	}
}

// manyImages pushes small images and writes a release file that lists them.
func manyImages(t *testing.T, host string, n int) string {
	t.Helper()
	client, err := registry.NewClient(registry.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	at, err := registry.ParseLocation("oci://" + host + "/apps")
	if err != nil {
		t.Fatal(err)
	}
	dst, err := client.Create(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	var list strings.Builder
	for i := range n {
		tag := fmt.Sprintf("v%d", i)
		desc := pushTiny(t.Context(), t, dst, tag)
		if err := dst.Tag(t.Context(), desc, tag); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&list, "  - %s/apps:%s\n", host, tag)
	}
	dir := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n")
	write("web/templates/config.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\n")
	write("release.yaml", "apiVersion: waybill/v1\nkind: Release\nname: shop\nversion: 1.0.0\ncomponents:\n  - name: web\n    chart: {path: web}\n    namespace: shop\nimages:\n"+list.String())
	return filepath.Join(dir, "release.yaml")
}

// pushTiny pushes an image of a few bytes, unlike any other.
func pushTiny(ctx context.Context, t *testing.T, dst *registry.Destination, salt string) ocispec.Descriptor {
	t.Helper()
	push := func(mediaType string, data []byte) ocispec.Descriptor {
		desc := content.NewDescriptorFromBytes(mediaType, data)
		if err := dst.Push(ctx, desc, bytes.NewReader(data)); err != nil {
			t.Fatal(err)
		}
		return desc
	}
	config := push(ocispec.MediaTypeImageConfig, []byte(`{"os":"linux","architecture":"amd64"}`))
	layer := push(ocispec.MediaTypeImageLayerGzip, []byte("layer "+salt))
	data, err := json.Marshal(ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, Config: config, Layers: []ocispec.Descriptor{layer}})
	if err != nil {
		t.Fatal(err)
	}
	return push(ocispec.MediaTypeImageManifest, data)
}

// What a manifest names twice weighs once.
func TestAmountOfCountsADigestOnce(t *testing.T) {
	one := content.NewDescriptorFromBytes(ocispec.MediaTypeImageLayerGzip, []byte("one"))
	two := content.NewDescriptorFromBytes(ocispec.MediaTypeImageLayerGzip, []byte("three"))
	if got := *amountOf([]ocispec.Descriptor{one, two, one}); got != (registry.Amount{Objects: 2, Bytes: 8}) {
		t.Errorf("%+v", got)
	}
}
