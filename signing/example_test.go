package signing_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content/memory"

	"waybill/signing"
)

// Sign a manifest with a key from a file, then verify it with the public key.
func ExampleVerify() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "keys")
	check(err)
	defer os.RemoveAll(dir)
	private, public, err := signing.GenerateKeyPair([]byte("secret"))
	check(err)
	check(os.WriteFile(filepath.Join(dir, "cosign.key"), private, 0o600))

	place := memory.New() // or a layout, an archive, a remote repository
	manifest := []byte(`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[]}`)
	desc := ocispec.Descriptor{MediaType: ocispec.MediaTypeImageIndex, Digest: digest.FromBytes(manifest), Size: int64(len(manifest))}
	check(place.Push(ctx, desc, bytes.NewReader(manifest)))

	password := func() ([]byte, error) { return []byte("secret"), nil }
	signer, err := signing.LoadSigner(ctx, filepath.Join(dir, "cosign.key"), password)
	check(err)
	_, err = signer.Sign(ctx, place, desc, signing.SignOptions{Repository: "registry.example/shop"})
	check(err)

	key, err := signing.ParseKey("vendor.pub", public)
	check(err)
	result, err := signing.Verify(ctx, place, desc, signing.Policy{Keys: []signing.Key{key}})
	check(err)
	fmt.Println(result.Verified, result.Found)

	_, err = signing.Verify(ctx, memory.New(), desc, signing.Policy{Keys: []signing.Key{key}})
	fmt.Println(err != nil)
	// Output:
	// true 1
	// true
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
