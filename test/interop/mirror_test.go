package interop_test

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"waybill/internal/registrytest"
)

// mirrorRelease names images of registries that are not there: what the names
// mean is read from a cache, and everything else from the mirror.
const mirrorRelease = `apiVersion: waybill/v1
kind: Release
name: mirrored
version: 1.0.0
images:
  - ref: docker.io/library/web:1.27
  - ref: quay.example:5000/shop/tool:2
components:
  - name: rules
    chart: {manifests: [rules.yaml]}
    namespace: shop
`

// What bundle copy --expand and bundle export make lets a real containerd, and
// the library that CRI-O pulls with (skopeo has it too), pull by upstream's
// names, by tag and by digest, from a mirror: no other host is asked. Podman's
// configuration is CRI-O's.
func (b *bench) testMirror(t *testing.T) {
	b.need(t, "docker-registry")
	upstream := b.registries[0]
	images := b.makeMirrored(t, upstream)
	for _, m := range b.mirrors(t) {
		t.Run(slug(m.name), func(t *testing.T) {
			// Sent are the manifests; two images have a configuration and a layer, as has
			// the chart. The repositories of a folder share what they have.
			if sent, mounted := b.expand(t, m); m.name != servedWithTLS && (sent == 0 || mounted < 2*3) {
				t.Errorf("%d objects were sent and %d taken over", sent, mounted)
			}
			if sent, mounted := b.expand(t, m); sent != 0 || mounted != 0 {
				t.Errorf("a second time %d objects were sent and %d taken over", sent, mounted)
			}
			for _, only := range []bool{false, true} {
				t.Run(fmt.Sprintf("containerd only=%v", only), func(t *testing.T) { b.containerdPulls(t, m, only, images) })
				t.Run(fmt.Sprintf("skopeo only=%v", only), func(t *testing.T) { b.skopeoPulls(t, m, only, images) })
			}
		})
	}
}

// expand copies the bundle to a mirror, and says how many objects went to the
// repositories of their own, in either way.
func (b *bench) expand(t *testing.T, m mirror) (sent, mounted int) {
	t.Helper()
	var result struct {
		Expanded struct {
			Copied, Mounted struct{ Objects int }
		}
	}
	args := []string{"copy", "mirrored.tar", "oci://" + m.host + "/m/shop", "--expand", m.host + "/m", "-o", "json"}
	decode(t, []byte(b.must(t, "bundle", append(args, m.flags...)...)), &result)
	return result.Expanded.Copied.Objects, result.Expanded.Mounted.Objects
}

// A mirror is a registry with the flags that it needs.
type mirror struct {
	registry
	flags []string
}

const servedWithTLS = "served with TLS"

// mirrors are one without TLS and one with.
func (b *bench) mirrors(t *testing.T) []mirror {
	t.Helper()
	authority, err := registrytest.NewAuthority("authority of the mirror")
	if err != nil {
		t.Fatal(err)
	}
	cert, key, err := authority.Issue("the mirror")
	if err != nil {
		t.Fatal(err)
	}
	b.write(t, "mirror/ca.pem", string(authority.PEM()))
	b.write(t, "mirror/cert.pem", string(cert))
	b.write(t, "mirror/key.pem", string(key))
	secure := b.serve(t, servedWithTLS, "./mirror/served", "--cert-file", "mirror/cert.pem", "--key-file", "mirror/key.pem")
	return []mirror{
		{b.registries[0], nil},
		{secure, []string{"--tls-host", "127.0.0.1", "--ca-file", "mirror/ca.pem"}},
	}
}

// makeMirrored builds a bundle with two images, and returns their digests by
// reference.
func (b *bench) makeMirrored(t *testing.T, upstream registry) map[string]string {
	t.Helper()
	images := map[string]string{}
	for reference, at := range map[string]string{"docker.io/library/web:1.27": "hub/library/web:1.27", "quay.example:5000/shop/tool:2": "quay/shop/tool:2"} {
		folder := "upstream/" + slug(at)
		images[reference] = b.writeImage(t, folder, at)
		b.must(t, "bundle", "copy", "./"+folder, "oci://"+upstream.host+"/"+at)
	}
	b.write(t, "rules.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: rules}\n")
	b.write(t, "mirrored.yaml", mirrorRelease)
	caches := []string{"--registry-override", "docker.io=" + upstream.host + "/hub", "--registry-override", "quay.example:5000=" + upstream.host + "/quay"}
	b.must(t, "bundle", append([]string{"lock", "-f", "mirrored.yaml"}, caches...)...)
	b.must(t, "bundle", append([]string{"build", "-f", "mirrored.yaml", "--unsigned", "-t", "mirrored.tar"}, caches...)...)
	return images
}

// writeImage writes a layout with an image that nodes can unpack, in an index, and
// returns the index' digest.
func (b *bench) writeImage(t *testing.T, folder, word string) string {
	t.Helper()
	var plain, packed bytes.Buffer
	w := tar.NewWriter(&plain)
	if err := w.WriteHeader(&tar.Header{Name: "word", Mode: 0o644, Size: int64(len(word))}); err != nil {
		t.Fatal(err)
	}
	_, err := w.Write([]byte(word))
	z := gzip.NewWriter(&packed)
	err = errors.Join(err, w.Close())
	_, zipped := z.Write(plain.Bytes())
	if err := errors.Join(err, zipped, z.Close()); err != nil {
		t.Fatal(err)
	}
	blob := func(mediaType string, data []byte) ocispec.Descriptor {
		d := digest.FromBytes(data)
		b.write(t, folder+"/blobs/sha256/"+d.Encoded(), string(data))
		return ocispec.Descriptor{MediaType: mediaType, Digest: d, Size: int64(len(data))}
	}
	document := func(mediaType string, v any) ocispec.Descriptor {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return blob(mediaType, data)
	}
	platform := ocispec.Platform{OS: "linux", Architecture: "amd64"}
	config := ocispec.Image{Platform: platform, RootFS: ocispec.RootFS{Type: "layers", DiffIDs: []digest.Digest{digest.FromBytes(plain.Bytes())}}}
	image := document(ocispec.MediaTypeImageManifest, ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
		Config: document(ocispec.MediaTypeImageConfig, config),
		Layers: []ocispec.Descriptor{blob(ocispec.MediaTypeImageLayerGzip, packed.Bytes())},
	})
	image.Platform = &platform
	index := document(ocispec.MediaTypeImageIndex, ocispec.Index{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{image},
	})
	top, err := json.Marshal(ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, Manifests: []ocispec.Descriptor{index}})
	if err != nil {
		t.Fatal(err)
	}
	b.write(t, folder+"/index.json", string(top))
	b.write(t, folder+"/oci-layout", `{"imageLayoutVersion":"1.0.0"}`)
	return index.Digest.String()
}

// references are all ways to name an image: by tag, by digest, by both.
func references(reference, digest string) []string {
	name := reference[:strings.LastIndex(reference, ":")]
	return []string{reference, name + "@" + digest, reference + "@" + digest}
}

// containerdPulls pulls into a containerd of its own, with what export writes as
// its hosts folder.
func (b *bench) containerdPulls(t *testing.T, m mirror, only bool, images map[string]string) {
	b.need(t, "ctr")
	folder := fmt.Sprintf("certs-%s-%v", slug(m.name), only)
	b.export(t, m, only, "containerd", folder)
	watch := newWatch(t)
	socket := b.containerd(t, watch)
	pull := func(reference string) (string, error) {
		return b.watched(t, watch, "ctr", "--address", socket, "images", "pull", "--snapshotter", "native", "--hosts-dir", b.path(folder), reference)
	}
	for reference, digest := range images {
		for _, name := range references(reference, digest) {
			if out, err := pull(name); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			out, err := b.watched(t, watch, "ctr", "--address", socket, "images", "ls", "name=="+name)
			if err != nil || !strings.Contains(out, digest) {
				t.Errorf("%s is not %s: %v\n%s", name, digest, err, out)
			}
			if _, err := b.watched(t, watch, "ctr", "--address", socket, "images", "rm", "--sync", name); err != nil {
				t.Error(err)
			}
		}
	}
	if dialled := watch.hosts(); len(dialled) > 0 {
		t.Errorf("other hosts were asked: %v", dialled)
	}
	// What the mirror has not got is asked for where its name says, if that may be.
	if _, err := pull("docker.io/library/absent:1"); err == nil {
		t.Error("what is nowhere was pulled")
	}
	if asked := strings.Contains(strings.Join(watch.hosts(), " "), "registry-1.docker.io:443"); asked == only {
		t.Errorf("with only=%v, asked for what the mirror has not got: %v", only, watch.hosts())
	}
}

func (b *bench) export(t *testing.T, m mirror, only bool, format, folder string) {
	t.Helper()
	args := []string{"export", format, "mirrored.tar", "--mirror", m.host + "/m", "--to", "./" + folder}
	if only {
		args = append(args, "--only-mirror")
	}
	b.must(t, "bundle", append(args, m.flags...)...)
}

// containerd starts one that ends with the test and returns its socket.
func (b *bench) containerd(t *testing.T, watch *watch) string {
	t.Helper()
	b.need(t, "containerd")
	if os.Geteuid() != 0 {
		t.Skip("containerd needs the rights of root")
	}
	dir, err := os.MkdirTemp("", "containerd") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	config := fmt.Sprintf("version = 2\nroot = %q\nstate = %q\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n[grpc]\n  address = %q\n",
		filepath.Join(dir, "root"), filepath.Join(dir, "state"), filepath.Join(dir, "socket"))
	if err := os.WriteFile(filepath.Join(dir, "config.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	path, err := b.find("containerd")
	if err != nil {
		t.Skip(err)
	}
	var log bytes.Buffer
	cmd := exec.Command("sh", "-c", keeper, "keeper", path, "--config", filepath.Join(dir, "config.toml"))
	cmd.Env = append(watch.env(), "PATH="+os.Getenv("PATH"))
	cmd.Stdout, cmd.Stderr = &log, &log
	pipe, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = pipe.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("ending containerd: %v\n%s", err, &log)
		}
	})
	socket := filepath.Join(dir, "socket")
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if _, err := b.watched(t, watch, "ctr", "--address", socket, "version"); err == nil {
			return socket
		}
	}
	t.Fatal("containerd does not get ready")
	return ""
}

// skopeoPulls reads images with the drop-in of CRI-O.
func (b *bench) skopeoPulls(t *testing.T, m mirror, only bool, images map[string]string) {
	b.need(t, "skopeo")
	folder := fmt.Sprintf("containers-%s-%v", slug(m.name), only)
	b.export(t, m, only, "crio", folder)
	watch := newWatch(t)
	skopeo := func(reference string) (string, error) {
		args := []string{"--insecure-policy", "--registries-conf", b.path(folder, "registries.conf.d", "50-waybill-mirrored.conf"), "inspect", "--raw", "docker://" + reference}
		if len(m.flags) > 0 {
			args = append(args, "--cert-dir", b.path(folder, "certs.d", m.host))
		}
		return b.watched(t, watch, "skopeo", args...)
	}
	for reference, digest := range images {
		for _, name := range references(reference, digest)[:2] { // the library takes no tag beside a digest
			out, err := skopeo(name)
			if got := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(out))); err != nil || got != digest {
				t.Errorf("%s is %s, want %s: %v", name, got, digest, err)
			}
		}
	}
	if dialled := watch.hosts(); len(dialled) > 0 {
		t.Errorf("other hosts were asked: %v", dialled)
	}
	if _, err := skopeo("docker.io/library/web:absent"); err == nil {
		t.Error("what is nowhere was pulled")
	}
	if asked := strings.Contains(strings.Join(watch.hosts(), " "), "docker.io:443"); asked == only {
		t.Errorf("with only=%v, asked for what the mirror has not got: %v", only, watch.hosts())
	}
}

// watch is a proxy for all that is not on the loopback. It lets nothing through
// and keeps what was asked for.
type watch struct {
	listener net.Listener

	mu    sync.Mutex
	asked []string
}

func newWatch(t *testing.T) *watch {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &watch{listener: listener}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go w.refuse(conn)
		}
	}()
	t.Cleanup(func() { _ = listener.Close() })
	return w
}

func (w *watch) refuse(conn net.Conn) {
	defer conn.Close()
	line, _ := bufio.NewReader(conn).ReadString('\n') // CONNECT HOST:PORT HTTP/1.1, or GET http://…
	w.mu.Lock()
	w.asked = append(w.asked, strings.TrimSpace(line))
	w.mu.Unlock()
	_, _ = conn.Write([]byte("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n"))
}

func (w *watch) hosts() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.asked...)
}

func (w *watch) env() []string {
	proxy := "http://" + w.listener.Addr().String()
	return []string{"HTTPS_PROXY=" + proxy, "HTTP_PROXY=" + proxy, "NO_PROXY=127.0.0.1"}
}

// watched runs a program whose way to other hosts is the watch.
func (b *bench) watched(t *testing.T, w *watch, name string, args ...string) (string, error) {
	t.Helper()
	path, err := b.find(name)
	if err != nil {
		t.Skip(err)
	}
	var out, talk bytes.Buffer
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = b.dir, &out, &talk
	cmd.Env = append(w.env(), "HOME="+b.path("home"), "PATH="+os.Getenv("PATH"))
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, &talk)
	}
	return out.String(), nil
}
