//go:build linux

package node

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"runtime"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// An Image is one that [Site.BuildImage] made.
type Image = v1.Image

// BuildImage builds the static Go program in a folder beside this file and makes
// an OCI image of it and nothing else. The label makes two images of one program.
func (s *Site) BuildImage(ctx context.Context, program, label string) (Image, error) {
	binary, err := s.buildStatic(ctx, program)
	if err != nil {
		return nil, err
	}
	layer, err := layerOf(program, binary)
	if err != nil {
		return nil, fmt.Errorf("packing %s: %w", program, err)
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if image, err = mutate.AppendLayers(image, layer); err != nil {
		return nil, fmt.Errorf("packing %s: %w", program, err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("packing %s: %w", program, err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Config.Entrypoint = []string{"/" + program}
	config.Config.User = "65532"
	config.Config.Labels = map[string]string{"waybill.test": label}
	return mutate.ConfigFile(image, config)
}

// buildStatic returns the bytes of a program that needs no library.
func (s *Site) buildStatic(ctx context.Context, program string) ([]byte, error) {
	path := s.path("images/" + program)
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, "./images/"+program)
	cmd.Dir = sourceDir()
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building %s: %w\n%s", program, err, out)
	}
	return os.ReadFile(path)
}

func layerOf(program string, binary []byte) (v1.Layer, error) {
	var data bytes.Buffer
	w := tar.NewWriter(&data)
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: program, Mode: 0o755, Size: int64(len(binary))}); err != nil {
		return nil, err
	}
	if _, err := w.Write(binary); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer))
}

// Push pushes an image to one of the site's registries.
func (s *Site) Push(ctx context.Context, image Image, reference string) error {
	transport, err := s.transport()
	if err != nil {
		return err
	}
	defer transport.CloseIdleConnections()
	ref, err := name.ParseReference(reference, name.StrictValidation)
	if err != nil {
		return err
	}
	options := []remote.Option{remote.WithContext(ctx), remote.WithTransport(transport)}
	if ref.Context().RegistryStr() == LoginRegistry {
		options = append(options, remote.WithAuth(&authn.Basic{Username: User, Password: Password}))
	}
	if err := remote.Write(ref, image, options...); err != nil {
		return fmt.Errorf("pushing %s: %w", reference, err)
	}
	return nil
}

// transport reaches the site's registry from here.
func (s *Site) transport() (*http.Transport, error) {
	ca, err := os.ReadFile(s.RegistryCA())
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("%s holds no certificate", s.RegistryCA())
	}
	return &http.Transport{DialContext: s.Dial, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}, nil
}

// pushPause gives the node the image that every pod begins with.
func (s *Site) pushPause(ctx context.Context) error {
	image, err := s.BuildImage(ctx, "pause", "pause")
	if err != nil {
		return err
	}
	return s.Push(ctx, image, pause)
}
