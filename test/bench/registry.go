//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// A registry is CNCF Distribution on the loopback over a folder of its own.
type registry struct {
	host   string
	folder string
	cmd    *exec.Cmd
	pipe   io.Closer
}

// registryConfig lets the system choose the port: the log tells it.
const registryConfig = `version: 0.1
log: {level: info, accesslog: {disabled: true}}
storage: {filesystem: {rootdirectory: %q}}
http: {addr: "127.0.0.1:0"}
`

// keeper runs a program until its own standard input ends, which happens when
// this process ends, in whatever way. What is meant for the process group of this
// process reaches it too and does not end it.
const keeper = `"$@" &
trap '' HUP INT QUIT TERM
cat >/dev/null
kill -KILL $! || exit 1
wait $! || exit 0`

// startRegistry starts an empty registry.
func (b *bench) startRegistry() (*registry, error) {
	folder, err := os.MkdirTemp(b.dir, "registry-")
	if err != nil {
		return nil, err
	}
	config, logFile := filepath.Join(folder, "config.yaml"), filepath.Join(folder, "log")
	if err := os.WriteFile(config, fmt.Appendf(nil, registryConfig, filepath.Join(folder, "storage")), 0o600); err != nil {
		return nil, err
	}
	log, err := os.Create(logFile)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	r := &registry{folder: folder, cmd: exec.Command("sh", "-c", keeper, "keeper", b.registry, "serve", config)}
	r.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "OTEL_TRACES_EXPORTER=none"}
	r.cmd.Stdout, r.cmd.Stderr = log, log
	if r.pipe, err = r.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := r.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", b.registry, err)
	}
	if r.host, err = listening(logFile); err != nil {
		return nil, errors.Join(err, r.stop())
	}
	return r, nil
}

// listening returns host and port when the registry answers.
func listening(logFile string) (string, error) {
	address := regexp.MustCompile(`listening on (127\.0\.0\.1:\d+)`)
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		log, err := os.ReadFile(logFile)
		if err != nil {
			return "", err
		}
		match := address.FindSubmatch(log)
		if match == nil {
			continue
		}
		resp, err := http.Get("http://" + string(match[1]) + "/v2/")
		if err == nil {
			resp.Body.Close()
			return string(match[1]), nil
		}
	}
	return "", errors.New("the registry does not get ready")
}

// stop ends the registry and removes all it holds.
func (r *registry) stop() error {
	_ = r.pipe.Close()
	err := r.cmd.Wait()
	return errors.Join(err, os.RemoveAll(r.folder))
}

// repository is where tests put things in a registry. It is a [store].
type repository struct {
	registry *registry
	name     string
}

// blob uploads while it hashes, so that nothing is made twice.
func (r repository) blob(data io.Reader, size int64) (digest.Digest, error) {
	at, err := r.ask(http.MethodPost, "http://"+r.registry.host+"/v2/"+r.name+"/blobs/uploads/", nil, 0, "", http.StatusAccepted)
	if err != nil {
		return "", err
	}
	digester := digest.Canonical.Digester()
	at, err = r.ask(http.MethodPatch, at, io.TeeReader(data, digester.Hash()), size, "application/octet-stream", http.StatusAccepted)
	if err != nil {
		return "", err
	}
	whole, err := url.Parse(at)
	if err != nil {
		return "", err
	}
	query := whole.Query()
	query.Set("digest", digester.Digest().String())
	whole.RawQuery = query.Encode()
	_, err = r.ask(http.MethodPut, whole.String(), nil, 0, "", http.StatusCreated)
	return digester.Digest(), err
}

func (r repository) manifest(desc ocispec.Descriptor, data []byte, tag string) error {
	reference := tag
	if reference == "" {
		reference = desc.Digest.String()
	}
	_, err := r.ask(http.MethodPut, "http://"+r.registry.host+"/v2/"+r.name+"/manifests/"+reference, bytes.NewReader(data), desc.Size, desc.MediaType, http.StatusCreated)
	return err
}

// ask makes one request and returns where it says to go on.
func (r repository) ask(method, at string, body io.Reader, size int64, mediaType string, want int) (string, error) {
	req, err := http.NewRequest(method, at, body)
	if err != nil {
		return "", err
	}
	req.ContentLength = size
	if mediaType != "" {
		req.Header.Set("Content-Type", mediaType)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != want {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		return "", fmt.Errorf("%s %s: %s: %s", method, at, resp.Status, strings.TrimSpace(string(text)))
	}
	location := resp.Header.Get("Location")
	if location == "" {
		return "", nil
	}
	next, err := resp.Request.URL.Parse(location)
	if err != nil {
		return "", err
	}
	return next.String(), nil
}

// has says whether a repository holds all of an inventory, and asks for each.
func (r repository) has(all inventory) error {
	for _, list := range []struct {
		kind  string
		descs []ocispec.Descriptor
	}{{"blobs", all.blobs}, {"manifests", all.manifests}} {
		for _, desc := range list.descs {
			req, err := http.NewRequest(http.MethodHead, "http://"+r.registry.host+"/v2/"+r.name+"/"+list.kind+"/"+desc.Digest.String(), nil)
			if err != nil {
				return err
			}
			req.Header.Set("Accept", desc.MediaType)
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				return err
			}
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK || resp.ContentLength != desc.Size {
				return fmt.Errorf("%s/%s has %s %s with %s and %d bytes, want %d", r.registry.host, r.name, list.kind, desc.Digest, resp.Status, resp.ContentLength, desc.Size)
			}
		}
	}
	return nil
}
